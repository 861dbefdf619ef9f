"""`make bench-erase`: erase one router from a lake of N rows, then search every file for it.

The rows are created directly in the lake, in the ratio of `tools.bench.lake_fill`; each day's files
hold rows of the router that is erased. Its marts are built and published before. Prints the seconds
of each step, and what the search read and found; exits with 1 if it found anything, or if a row of
another device is gone.
"""

# ruff: noqa: T201 - it is run for what it prints

import argparse
import sys
import tempfile
import time
from pathlib import Path

from fleetlake.endpoints.relations import Thing
from fleetlake.lake import Lake, open_lake
from fleetlake.marts import build_marts
from fleetlake.privacy.erase import erase
from fleetlake.publishing.publish import publish
from fleetlake.settings import Settings
from tests.support.leaks import scan
from tools.bench.marts import (
    COMMON,
    DAYS,
    FIX_S,
    FIXES,
    PERIOD_S,
    SAMPLES,
    SIGNAL,
    START,
    USAGE,
)

DAY_S = 86_400
FIRST_ROUTER, FIRST_INTERFACE = 77_000_000, 78_000_000
"""Ids that no other number in the lake equals, so that a search for them finds nothing else."""

VICTIM = 3
NAME, SERIAL, MAC, IMEI = "Bus-Osprey-0003", "SNOSPREY0003", "02:00:0A:5E:00:03", "356083826430003"

LISTS = f"""
insert into raw.routers by name
select d + {FIRST_ROUTER} as id, 1 as account_id,
       concat('Bus-Osprey-', lpad(d::varchar, 4, '0')) as name,
       concat('SNOSPREY', lpad(d::varchar, 4, '0')) as serial_number,
       printf('02:00:0A:5E:%02X:%02X', d // 256, d % 256) as mac, 'online' as state,
       {START} as valid_from, {COMMON.format(load="lists")}
from range($routers) as device (d);
insert into raw.net_devices by name
select d + {FIRST_INTERFACE} as id, d % $routers + {FIRST_ROUTER} as router_id,
       concat('35608382643', lpad(d::varchar, 4, '0')) as imei, 'mdm' as type,
       {START} as valid_from, {COMMON.format(load="lists")}
from range($interfaces) as device (d);
insert into raw.router_logs by name
select n % $routers + {FIRST_ROUTER} as router_id, {START} + to_seconds(n) as created_at,
       concat('log-', n) as created_at_timeuuid, 'INFO' as level,
       if(n % 50 = 0, concat('Peer Bus-Osprey-', lpad((n // 50 % $routers)::varchar, 4, '0'),
          ' is near'), 'All is well') as message, {COMMON.format(load="logs")}
from range($logs) as entry (n)
"""


def fill(path: Path, rows: int) -> tuple[int, int]:
    """Create the lake; return how many routers and interfaces it has."""
    logs = rows // 10
    interfaces = max(8, round((rows - logs) * 5 / 12 / (DAYS * DAY_S / PERIOD_S)))
    routers = max(6, round((rows - logs) / 6 / (DAYS * DAY_S / FIX_S)))
    with open_lake(path) as lake:
        given = {"routers": routers, "interfaces": interfaces, "logs": logs}
        for statement in LISTS.split(";"):
            used = {name: value for name, value in given.items() if f"${name}" in statement}
            lake.execute(statement, used)
        for day in range(DAYS):
            _fill_day(lake, day * DAY_S, interfaces, routers)
    return routers, interfaces


def _fill_day(lake: Lake, first_s: int, interfaces: int, routers: int) -> None:
    common = COMMON.format(load=f"second {first_s}")
    spans = {"first": first_s, "last": first_s + DAY_S}
    for kind, values in (("usage", USAGE), ("signal", SIGNAL)):
        periods = {name: second // PERIOD_S for name, second in spans.items()}
        sql = SAMPLES.format(
            kind=kind,
            values=values,
            common=common,
            start=START,
            period=PERIOD_S,
            devices=interfaces,
            **periods,
        )
        lake.execute(sql.replace("d as net_device_id", f"d + {FIRST_INTERFACE} as net_device_id"))
    periods = {name: second // FIX_S for name, second in spans.items()}
    sql = FIXES.format(common=common, start=START, period=FIX_S, devices=routers, **periods)
    lake.execute(sql.replace("d as router_id", f"d + {FIRST_ROUTER} as router_id"))


def count(path: Path) -> dict[str, int]:
    """Return the rows of each large table that belong to other devices."""
    others = {
        "historical_locations": f"router_id <> {FIRST_ROUTER + VICTIM}",
        "router_logs": f"router_id <> {FIRST_ROUTER + VICTIM}",
        "net_device_usage_samples": "net_device_id not in (select unnest($ids))",
        "net_device_signal_samples": "net_device_id not in (select unnest($ids))",
    }
    with open_lake(path, read_only=True) as lake:
        return {
            table: lake.rows(
                f"select count(*) from raw.{table} where {where}",
                {"ids": INTERFACES} if "$ids" in where else None,
            )[0][0]
            for table, where in others.items()
        }


INTERFACES: list[int] = []


def main() -> int:
    """Fill, build, publish, erase and search."""
    parser = argparse.ArgumentParser(prog="make bench-erase", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="fleetlake-erase-") as folder:
        settings = Settings(lake=Path(folder) / "lake", published=Path(folder) / "published")
        began = time.monotonic()
        routers, interfaces = fill(Path(folder) / "lake", rows)
        INTERFACES.extend(FIRST_INTERFACE + d for d in range(VICTIM, interfaces, routers))
        print(f"{rows:,} rows filled: {time.monotonic() - began:.1f} s", flush=True)
        began = time.monotonic()
        built = build_marts(settings.lake)
        publish(settings.lake, settings.published)
        print(f"first build and publish: {time.monotonic() - began:.1f} s", flush=True)
        before = count(Path(folder) / "lake")
        ids = [FIRST_ROUTER + VICTIM, *INTERFACES]
        texts = [NAME, SERIAL, MAC, IMEI]
        there = scan([Path(folder)], texts=texts, ids=ids)
        began = time.monotonic()

        def report(step: str) -> None:
            print(f"  {time.monotonic() - began:6.1f} s: {step}", flush=True)

        receipt = erase(settings, [(Thing.ROUTER, FIRST_ROUTER + VICTIM)], on_step=report)
        deleted = sum(one.deleted for one in receipt.tables)
        redacted = sum(one.redacted for one in receipt.tables)
        files = sum(one.files_rewritten for one in receipt.tables)
        print(
            f"erased in {receipt.seconds:.1f} s (the first build took {built.seconds:.1f} s): "
            f"{deleted:,} rows deleted, {redacted:,} redacted, {files} files rewritten",
            flush=True,
        )
        found = scan([Path(folder)], texts=texts, ids=ids)
        print(
            f"searched {found.bytes:,} bytes in {found.files:,} files: {len(found.leaks)} hits "
            f"({len(there.leaks):,} before)"
        )
        for leak in found.leaks[:20]:
            print(f"  {leak.file}: {leak.found}")
        is_whole = count(Path(folder) / "lake") == before
        print(f"rows of other devices unchanged: {is_whole}")
        return int(bool(found.leaks) or not there.leaks or not is_whole)


if __name__ == "__main__":
    sys.exit(main())
