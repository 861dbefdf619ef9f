"""Write dbt's page about the SQL project without a lake: `make docs`."""

import shutil
import sys
import tempfile
from pathlib import Path

from fleetlake.lake import open_lake
from fleetlake.marts.build import build_marts, write_docs

SITE = Path("data/docs/index.html")


def main() -> None:
    """Build the marts of an empty lake, and copy the page about them."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        with open_lake(lake):  # creates it
            build_marts(lake)
        SITE.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(write_docs(lake), SITE)
    sys.stdout.write(f"{SITE}\n")


if __name__ == "__main__":
    main()
