"""Time checks of a large lake: `python -m tests.bench.lake_check --rows 20000000`.

Prints seconds of wall and CPU time of a quick check, of a full one that decodes all files, of
adding their checksums, and of a full check that compares these.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from fleetlake.lake import open_lake
from fleetlake.lake.integrity.check import check_lake
from fleetlake.lake.integrity.checksums import add_checksums
from fleetlake.lake.integrity.damage import DamageKind
from tests.bench.lake_fill import fill_days
from tests.marts.mart_bench import DAYS

DAY_S = 86_400


def timed(what: str, step: Callable[[], object]) -> None:
    """Run a step and print what it took."""
    wall, used = time.monotonic(), time.process_time()
    step()
    wall, used = time.monotonic() - wall, time.process_time() - used
    sys.stdout.write(f"{what}: {wall:.1f} s ({used:.1f} s of CPU)\n")
    sys.stdout.flush()


def checked(lake: Path, *, is_full: bool) -> None:
    """Check a lake whose rows no load has written, so that meta knows nothing of them."""
    report = check_lake(lake, is_full=is_full)
    assert {damage.kind for damage in report.damages} <= {DamageKind.INDEX}


def add_all(lake: Path) -> None:
    """Add the checksum of each file."""
    with open_lake(lake) as opened, opened.transaction():
        add_checksums(opened)


def main() -> None:
    """Fill a lake, check it, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    rows = parser.parse_args().rows
    with TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        fill_days(lake, rows, 0, DAYS * DAY_S)
        report = check_lake(lake)
        sys.stdout.write(f"{rows:,} rows, {report.files:,} files, {report.size / 1e6:,.0f} MB\n")
        timed("check --quick", lambda: checked(lake, is_full=False))
        timed("check --full, without checksums", lambda: checked(lake, is_full=True))
        timed("adding checksums", lambda: add_all(lake))
        timed("check --full", lambda: checked(lake, is_full=True))


if __name__ == "__main__":
    main()
