"""Chores of the SQL layer: `python -m fleetlake.marts sources | table | docs LAKE`."""

import argparse
import sys
from pathlib import Path

from fleetlake.marts.build import write_docs
from fleetlake.marts.catalogue import mart_table, sources_file, sources_yaml


def main() -> None:
    """Render the source file anew, print the table of marts, or write the docs site."""
    parser = argparse.ArgumentParser(prog="python -m fleetlake.marts", description=__doc__)
    parser.add_argument("chore", choices=["sources", "table", "docs"])
    parser.add_argument("lake", nargs="?", type=Path, default=Path("data/lake"))
    options = parser.parse_args()
    if options.chore == "sources":
        sources_file().write_text(sources_yaml(), encoding="utf-8")
    elif options.chore == "table":
        sys.stdout.write(mart_table())
    else:
        sys.stdout.write(f"{write_docs(options.lake)}\n")


if __name__ == "__main__":
    main()
