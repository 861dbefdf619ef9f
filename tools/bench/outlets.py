"""The speed of exports: two million rows, then changes of a thousand rows. `make bench-outlets`.

python -m tools.bench.outlets [ROWS]
"""

import os
import sys
import tempfile
from pathlib import Path

from pydantic import SecretStr

from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import Exported, export
from fleetlake.lake import Lake, open_lake

TABLE = "location_track_points"
CHANGES = (
    f"update marts.{TABLE} set speed_kmh = speed_kmh + 1 where router_id = 7 and fix_id < 9800",
    f"delete from marts.{TABLE} where router_id = 8 and fix_id < 7800",
    f"insert into marts.{TABLE} (router_id, fix_id) select 9000, -i from range(300) r(i)",
)


def fill(lake: Lake, rows: int) -> None:
    """Create a mart with this many fixes of a thousand routers."""
    lake.execute(
        f"create table marts.{TABLE} as select i % 1000 as router_id, i as fix_id, "
        "timestamptz '2026-01-01 00:00:00Z' + to_seconds(i) as fixed_at, "
        "48 + random() as latitude, 11 + random() as longitude, random() * 120 as speed_kmh, "
        """'carrier ' || i % 7 as carrier, '{"satellites": 9}'::json as extra """
        f"from range({rows}) r(i)"
    )


def main(rows: int) -> None:
    """Print rows and seconds of a first export and of one of changes, target by target."""
    with tempfile.TemporaryDirectory() as folder, open_lake(Path(folder) / "lake") as lake:
        fill(lake, rows)
        addresses = {
            name: SecretStr(f"{folder}/{name}") for name, row in TARGETS.items() if row.address
        }
        if server := os.environ.get("FLEETLAKE_TEST_POSTGRES"):
            addresses["postgres"] = SecretStr(server)
        for name, address in addresses.items():
            _print(name, *export(lake, TARGETS[name], address, [TABLE]))
        for change in CHANGES:
            lake.execute(change)
        for name, address in addresses.items():
            _print(name, *export(lake, TARGETS[name], address, [TABLE]))


def _print(name: str, done: Exported) -> None:
    rate = "" if done.full_reason is None else f", {done.sent / done.seconds:,.0f} rows/s"
    sys.stdout.write(
        f"{name:<10}{done.sent:>10,} rows sent, {done.removed:>6,} removed, "
        f"{done.seconds:6.2f} s{rate}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
