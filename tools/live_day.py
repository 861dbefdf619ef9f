"""How a lake grows under live builds: hours of pushes and switches, with the clock moved ahead.

    python -m tools.live_day 600 1      # ten hours of a push and a build a minute
    python -m tools.live_day 150 10     # a day of one every ten minutes

Each build writes what changes in the marts of a thousand routers. dbt's part is left out: it writes
nothing in the lake. Prints files, bytes and rows of the catalog, and the time of the switch.
"""

# ruff: noqa: T201 - it is run for what it prints

import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import duckdb

from fleetlake.care.thinning import thin_snapshots
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.ducklake import FILES_ONLY, FILES_OR_CATALOG, METADATA
from fleetlake.lake.locks import commit_lock
from fleetlake.marts.dbt import NodeResult
from fleetlake.marts.plan import build_time
from fleetlake.marts.switch import Switcher
from fleetlake.text.quoting import literal

LINES = 10
ROUTERS = 1000
MARTS = {
    "failover_now": f"select i, {{n}} as so_far_s from range({ROUTERS} // 50) r (i)",
    "attention": f"select i, {{n}} as since_s from range({ROUTERS} // 5) r (i)",
    "location_latest": f"select i, hash(i) as place, {{n}} as age_s from range({ROUTERS}) r (i)",
    "failover_episodes": f"select i, hash(i) as cause from range({ROUTERS} * 30 + {{n}}) r (i)",
}
"""The live marts of that fleet after a month that are computed whole, at build n."""

VOLUME = f"""
create table if not exists marts.alert_volume as
select i, 1 as alerts, hash(i) as router, now() as built_at from range({ROUTERS} * 120) r (i);
update marts.alert_volume set alerts = {{n}}, built_at = now() where i % 1000 = 7;
insert into marts.alert_volume select {ROUTERS} * 120 + {{n}}, 1, hash({{n}}), now()
"""
"""The incremental one: build n computes some days again and adds one. A unit is a value of `i`."""

PASS = f"""
update {METADATA}.ducklake_snapshot
set snapshot_time = (snapshot_time::timestamptz - to_seconds(?))::varchar
"""


def node(name: str, *unit: str) -> NodeResult:
    """Return what dbt reports of a mart; of an incremental one with its unit."""
    kind = "incremental" if unit else "table"
    parts = {"kind": kind, "status": "success", "message": "", "sql": ""}
    return NodeResult(name=name, schema="marts", seconds=0, unit=unit, **parts)


def build(lake: Lake, scratch: Path, number: int) -> float:
    """Push an alert, compute the marts, switch them; return the seconds of the switch."""
    lake.execute(f"insert into raw.pushed_alerts (push_id) values ('{number}')")
    with closing(duckdb.connect(scratch)) as connection:
        connection.execute("create schema if not exists marts")
        for name, query in MARTS.items():
            sql = query.format(n=number)
            connection.execute(f"create or replace table marts.{name} as {sql}")
        connection.execute(VOLUME.format(n=number))
    began = time.perf_counter()
    lake.execute(f"attach {literal(scratch)} as build (read_only)")
    with commit_lock(lake.path):
        with lake.transaction():
            lake.execute(FILES_ONLY)
            for mart in [*map(node, MARTS), node("alert_volume", "i")]:
                Switcher(lake.connection, build_time()).update_table(mart)
            lake.execute(FILES_OR_CATALOG)
            lake.execute("insert into meta.builds (models) values (17)")
        thin_snapshots(lake)
    lake.execute("detach build")
    return time.perf_counter() - began


def sizes(lake: Lake) -> tuple[int, float, int, float]:
    """Return files, their MB, rows of the catalog about snapshots and files, and its MB."""
    files = [file.stat().st_size for file in Path(lake.path).rglob("*.parquet")]
    tables = ("snapshot", "snapshot_changes", "data_file", "delete_file", "file_column_stats")
    counts = (f"(select count(*) from {METADATA}.ducklake_{t})" for t in tables)
    [(rows,)] = lake.rows("select " + " + ".join(counts))
    return len(files), sum(files) / 1e6, rows, (Path(lake.path) / CATALOG).stat().st_size / 1e6


def main() -> None:
    """Build as often as asked, with so many minutes in between, and print the lake's size."""
    builds, minutes = map(int, sys.argv[1:] or (600, 1))
    every, spent = max(1, builds // LINES), 0.0
    print("builds    files  MB files  catalog rows  MB catalog  seconds a switch")
    with tempfile.TemporaryDirectory() as folder, open_lake(Path(folder) / "lake") as lake:
        for number in range(1, builds + 1):
            lake.execute(PASS, [minutes * 60])
            spent += build(lake, Path(folder) / "build.duckdb", number)
            if number % every == 0:
                files, mb, rows, catalog = sizes(lake)
                line = f"{number:6} {files:8} {mb:9.1f} {rows:13} {catalog:11.1f}"
                print(f"{line} {spent / every:17.2f}", flush=True)
                spent = 0.0


if __name__ == "__main__":
    main()
