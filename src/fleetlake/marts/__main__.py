"""Commands for developers of the SQL layer: `python -m fleetlake.marts sources | table | docs`."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from fleetlake.errors import FleetlakeError
from fleetlake.lake import open_lake
from fleetlake.marts.build import build_marts, write_docs
from fleetlake.marts.catalogue import mart_table, sources_file, sources_yaml

SITE = Path("data/docs/index.html")


def main() -> int:
    """Render the source file, print the table of marts, or write the docs site."""
    parser = argparse.ArgumentParser(prog="python -m fleetlake.marts", description=__doc__)
    parser.add_argument("chore", choices=["sources", "table", "docs"])
    parser.add_argument("lake", nargs="?", type=Path, help="for docs; an empty lake without it")
    options = parser.parse_args()
    try:
        if options.chore == "sources":
            sources_file().write_text(sources_yaml(), encoding="utf-8")
        elif options.chore == "table":
            sys.stdout.write(mart_table())
        else:
            sys.stdout.write(f"{_docs(options.lake)}\n")
    except FleetlakeError as error:
        sys.stderr.write(f"Error: {error}\n")
        return error.exit_code
    return 0


def _docs(lake: Path | None) -> Path:
    """Write the docs site to the file that `make docs` announces; return its path."""
    with tempfile.TemporaryDirectory() as folder:
        if lake is None:
            lake = Path(folder) / "lake"
            with open_lake(lake):  # creates it
                build_marts(lake)
        SITE.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(write_docs(lake), SITE)
    return SITE


if __name__ == "__main__":
    sys.exit(main())
