"""Create a large lake, or add an hour: `python -m tools.bench.lake_fill LAKE ROWS FIRST LAST`.

ROWS is the number of rows in all 35 days; FIRST and LAST are seconds since their start.
"""

import sys
from pathlib import Path

from fleetlake.lake import open_lake
from tools.bench.marts import DAYS, FIX_S, PERIOD_S, fill

DAY_S = 86_400


def fill_days(path: Path, rows: int, first_s: int, last_s: int) -> None:
    """Commit samples and fixes in the ratio five to one, day by day."""
    devices = round(rows * 5 / 12 / (DAYS * DAY_S / PERIOD_S))
    vehicles = round(rows / 6 / (DAYS * DAY_S / FIX_S))
    with open_lake(path) as lake:
        for start in range(first_s, last_s, DAY_S):
            fill(
                lake,
                load=f"second {start}",
                first_s=start,
                last_s=min(start + DAY_S, last_s),
                devices=devices,
                vehicles=vehicles,
            )


if __name__ == "__main__":
    fill_days(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
