"""Times the dashboard over a fleet of 10,000 routers, 35 days and 10 million fixes.

`python -m tools.bench.dashboard` (`make bench-dashboard`) writes a snapshot of generated rows, runs
the command over it, and measures each page as a browser asks for it (all panels at once) and each
panel with each filter, and the server's memory.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import httpx

from fleetlake.dashboard.column_sources import column_types
from fleetlake.dashboard.panels import dashboard_pages
from fleetlake.marts.catalogue import mart_dates, mart_keys, marts
from fleetlake.text.quoting import literal, quoted
from tests.support.processes import environment

DAYS = 35
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)

# Rows per router of each mart; those that are not named have one.
PER_ROUTER = {
    "location_track_points": 1000,
    "alert_volume": 100,
    "alert_log": 200,
    "wan_availability_daily": DAYS,
    "device_availability_daily": DAYS,
    "data_usage_daily": 3 * DAYS,
    "data_usage_month": 6,
    "failover_episodes": 20,
    "failover_daily": 20,
    "battery_readings": 100,
    "battery_daily": 10,
    "battery_discharges": 3,
    "trips": 60,
    "stops": 60,
    "coverage_grid": 5,
    "change_log": 10,
    "security_events": 30,
    "device_history": 5,
    "signal_daily": 2 * DAYS,
}
ONCE = {"pipeline_freshness": 40, "failover_cost_monthly": 8}
WORDS = {
    "connection_state": "['online','online','online','offline'][1 + h % 4]",
    "quality": "'good'",
    "risk": "['high','medium','low','low','low','low','low','low'][1 + h % 8]",
    "severity": "['high','medium','low'][1 + h % 3]",
    "cause_reason": "['carrier lost','cable unplugged','ip verify failed'][1 + h % 3]",
    "object_type": "'router'",
    "account_name": "'Account ' || (h % 50)",
    "month_date": "date '2026-11-01'",
}


def expression(name: str, kind: str, share: int) -> str:
    """Return the SQL of a generated column; `h` is a number that differs from row to row."""
    at = f"(timestamptz '{NOW.isoformat()}' - to_seconds(h % {DAYS * 86_400}))"
    known = {
        "router_id": f"1000000 + (i // {share})",
        "router_name": f"'router-' || (i // {share})",
        "object_id": f"(1000000 + (i // {share}))::varchar",
        "episode_id": "'episode ' || i",
        "battery_id": f"(700000 + (i // {share}))::varchar",
        "net_device_id": f"5000000 + (i // {share}) * 3 + i % 3",
        "account_id": f"(i // {share}) % 50",
        "group_id": f"(i // {share}) % 400",
        "latitude_deg": "30 + (h % 150000) / 10000.0",
        "longitude_deg": "-120 + (h % 400000) / 10000.0",
    }
    if name in known:
        return known[name]
    if name in WORDS:
        return WORDS[name]
    if "carrier" in name and kind == "varchar":
        return "['Northcell','Telmira','Bluewave'][1 + h % 3]"
    of_type = {
        "date": f"{at}::date",
        "timestamp with time zone": at,
        "boolean": "h % 50 = 0",
        "bigint": "h % 1000",
        "double": "(h % 10000) / 100.0",
        "varchar": f"'{name} ' || (h % 40)",
    }
    return of_type[kind]


def write_mart(folder: Path, name: str, columns: Mapping[str, str], routers: int) -> dict[str, Any]:
    """Write one mart's generated rows in the layout of `publish`; return its description."""
    share = PER_ROUTER.get(name, 1)
    rows = ONCE.get(name, routers * share)
    date = mart_dates().get(name)
    cut = date if date and rows > DAYS * 100_000 else None
    listed = ", ".join(
        f"({expression(column, kind, share)})::{kind} AS {quoted(column)}"
        for column, kind in columns.items()
    )
    keys = [key for key in mart_keys().get(name, ()) if key in columns]
    order = ", ".join(map(quoted, [*([cut] if cut else []), *keys])) or "1"
    how = (
        f"PARTITION_BY ({cut}), WRITE_PARTITION_COLUMNS true" if cut else "FILE_SIZE_BYTES '256MB'"
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            f"COPY (SELECT {listed} FROM (SELECT i, (hash(i, '{name}') % 1000000007)::bigint AS h "
            f"FROM range({rows}) t(i)) ORDER BY {order}) TO {literal(folder / name)} "
            f"(FORMAT parquet, COMPRESSION zstd, {how})"
        )
    listing = [{"name": column, "type": kind} for column, kind in columns.items()]
    return {"rows": rows, "columns": listing, "partitioned_by": cut}


def write_snapshot(published: Path, routers: int) -> int:
    """Write a snapshot of all marts; return its rows."""
    published.mkdir(parents=True)
    wanted = {mart["name"]: column_types(mart["name"]) for mart in marts()}
    tables = {name: write_mart(published, name, of, routers) for name, of in wanted.items() if of}
    description = {
        "snapshot": "bench",
        "published_at": NOW.isoformat(),
        "tables": tables,
        "watermarks": [{"watermark_at": (NOW - timedelta(minutes=1)).isoformat()}],
    }
    (published / "snapshot.json").write_text(json.dumps(description))
    return sum(table["rows"] for table in tables.values())


def memory_mb(pid: int) -> tuple[int, int]:
    """Return the resident memory of a process in MB: now, and at its highest."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return int(found["VmRSS"]) // 1000, int(found["VmHWM"]) // 1000


def asked(client: httpx.Client, path: str, given: Mapping[str, str]) -> float:
    """Return the seconds until an answer was complete."""
    began = time.monotonic()
    client.get(path, params=given).raise_for_status()
    return time.monotonic() - began


EXPORTS = {
    "/api/alerts/single.csv": "24h",  # a week of it is more than the server's memory can sort
    "/api/changes/events.parquet": "all",
    "/api/failover/episodes.csv": "all",
}
"""The largest exports, and the time that each is asked for."""


def export(client: httpx.Client, path: str, last: str) -> tuple[int, float]:
    """Return the size and the seconds of the largest export of a panel."""
    began = time.monotonic()
    answer = client.get(path, params={"last": last}).raise_for_status()
    return len(answer.content), time.monotonic() - began


def measured(client: httpx.Client, routers: int) -> Iterator[tuple[str, str, float]]:
    """Yield page or panel, filters and seconds."""
    chosen = {"router": str(1_000_000 + routers // 2), "day": "2026-11-15", "zoom": "8"}
    chosen |= {"at": "2026-11-15T12:00:00Z", "table": "failover_episodes"}
    every = {"account": "7", "group": "7", "carrier": "Telmira", "router": chosen["router"]}
    episodes = client.get("/api/failover/episodes", params={"last": "all"}).raise_for_status()
    chosen["episode"] = episodes.json()["values"]["episode_id"][0]
    held = {mart["name"] for mart in marts() if column_types(mart["name"])}
    for page in dashboard_pages().values():
        shown = [panel for panel in page.panels.values() if {*panel.marts} <= held]
        if page.is_listed:
            began = time.monotonic()
            with ThreadPoolExecutor(6) as pool:  # as many as a browser opens to one host
                asks = [p for p in shown if not p.needs and not p.is_for_report]
                [*pool.map(lambda panel: asked(client, panel.path, {"last": "7d"}), asks)]
            yield f"page {page.slug}", "all panels at once, cold", time.monotonic() - began
        for panel in shown:
            base = {name: chosen[name] for name in panel.needs}
            ranges: list[dict[str, str]] = [{"last": last} for last in ("24h", "7d", "30d", "all")]
            narrowed = every if panel.metrics else panel.filters
            filters = [{"last": "7d", name: every[name]} for name in narrowed if name in every]
            for given in [*ranges, *filters]:
                text = " ".join(f"{k}={v}" for k, v in given.items())
                yield panel.path, text, asked(client, panel.path, {**base, **given})


def main() -> None:
    """Write the snapshot, measure, and print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--routers", type=int, default=10_000)
    routers = parser.parse_args().routers
    say = sys.stdout.write
    with tempfile.TemporaryDirectory() as folder:
        published = Path(folder) / "published"
        began = time.monotonic()
        rows = write_snapshot(published, routers)
        say(f"{routers:,} routers, {rows:,} rows, written in {time.monotonic() - began:.0f} s\n")
        command = [sys.executable, "-m", "fleetlake", "dashboard", "--port", "0"]
        settings = environment(Path(folder), published=published)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings) as process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().removeprefix("ready ").strip()
                say(f"memory at the start: {memory_mb(process.pid)[0]} MB\n")
                with httpx.Client(base_url=url, timeout=120) as client:
                    found = [*measured(client, routers)]
                    now, highest = memory_mb(process.pid)
                    exports = [
                        (path, *export(client, path, last)) for path, last in EXPORTS.items()
                    ]
                    with_exports = memory_mb(process.pid)[1]
            finally:
                process.terminate()
    pages = [one for one in found if one[0].startswith("page ")]
    panels = [one for one in found if not one[0].startswith("page ")]
    for what, given, seconds in [*pages, *sorted(panels, key=lambda one: -one[2])[:25]]:
        say(f"{seconds:7.3f} s  {what}  {given}\n")
    waits = [one[2] for one in panels]
    say(f"{len(waits)} filtered panels: median {statistics.median(waits):.3f} s, ")
    say(f"95% {statistics.quantiles(waits, n=20)[-1]:.3f} s, longest {max(waits):.3f} s\n")
    for path, size, seconds in exports:
        say(f"{seconds:7.3f} s  {path}: {size / 1e6:.1f} MB\n")
    say(f"memory of the server: {now} MB at the end of the panels, {highest} MB at its highest, ")
    say(f"{with_exports} MB with the exports\n")


if __name__ == "__main__":
    main()
