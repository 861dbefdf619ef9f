"""A small published snapshot, written by hand: every mart with rows, hostile names included.

The rows of a mart follow from its columns in the catalogue, so a new mart or column is covered by
existing. Ids refer to the same few routers everywhere, and times lie in the last days.
"""

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fleetlake.dashboard.column_sources import column_types
from fleetlake.marts.catalogue import marts
from fleetlake.text.quoting import literal, quoted

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NAMES = (
    "V700-Denver-00001",
    "<script>alert('x')</script>",
    '=HYPERLINK("http://x.example";"y")',
    "\u202eevil\u2066 \u05e9\u05dc\u05d5\u05dd",
    "n" * 10_000,
    "quote ' and \" and \\ and &lt;",
    "V700-Boise-00007",
    None,
)
ROUTERS = {1_000_001 + place: name for place, name in enumerate(NAMES)}
ACCOUNTS = (10, 20)
GROUPS = (100, 101, 200, 201)
CARRIERS = ("Northcell", "Telmira", None)
DAYS = 10
ROWS = 60

COMPLETENESS = [
    {
        "account_profile": "default",
        "endpoint": stream,
        "complete_date": f"2026-11-{10 + day}",
        "state": state,
        "proven_pct": 50.0,
        "hole_s": 0.0,
        "lost_s": 1.5,
    }
    for stream in ("first", "second")
    for day, state in enumerate(("proven", "hole", "lost", "in part"))
]
CALLS = [
    {
        "account_profile": "default",
        "endpoint": stream,
        "call_date": f"2026-11-{10 + day}",
        "calls": 7 + day,
        "refusals": day,
        "retries": 0,
    }
    for stream in ("first", "second")
    for day in range(3)
]
BUDGETS = [{"account_profile": "default", "calls_per_day": 40}]
WORDS: Mapping[str, tuple[Any, ...]] = {
    "risk": ("high", "medium", "low"),
    "severity": ("urgent", "soon", "watch"),
    "reason": ("offline", "on_backup", "battery_to_change"),
    "quality": ("good", "good", "good", "jump"),
    "cause_reason": ("carrier lost", "cable unplugged", None),
    "cause_type": ("modem_wan_disconnected", None),
    "alert_type": ("connection_state", "reboot", "login_success"),
    "object_type": ("router", "group"),
    "verdict": ("confirmed", "no reading near"),
}


def account_of(router: int) -> int:
    """Return the account of a router."""
    return ACCOUNTS[router % 2]


def group_of(router: int) -> int:
    """Return the group of a router."""
    return GROUPS[router % 2 * 2 + router // 2 % 2]


class World:
    """A folder in which snapshots are published, as `publish` does it, one after another."""

    def __init__(self, folder: Path) -> None:
        self.published = folder / "published"
        self.snapshots = 0

    def publish(
        self,
        *,
        seed: int = 1,
        only: tuple[str, ...] = (),
        rows: int = ROWS,
        findings: Sequence[Mapping[str, str]] = (),
    ) -> Path:
        """Write a snapshot of all marts, or of some, and point the link to it.

        `findings` are steps that people took about findings.
        """
        self.snapshots += 1
        store = self.published.parent / ".published"
        folder = store / f"202611{self.snapshots:02}T000000.000000Z"
        folder.mkdir(parents=True)
        wanted = {mart["name"]: column_types(mart["name"]) for mart in marts()}
        tables = {
            name: write_table(folder / name, name, columns, random.Random(f"{seed} {name}"), rows)
            for name, columns in wanted.items()
            if not only or name in only
        }
        description = {
            "snapshot": folder.name,
            "published_at": NOW.isoformat(),
            "is_coarse": False,
            "tables": tables,
            "earlier_names": {},
            "watermarks": [{"watermark_at": (NOW - timedelta(minutes=5)).isoformat()}],
            "gaps": [],
            "completeness": COMPLETENESS,
            "calls": CALLS,
            "budgets": BUDGETS,
            "findings": [*findings],
        }
        (folder / "snapshot.json").write_text(json.dumps(description))
        link = store / "next"
        link.symlink_to(folder.relative_to(self.published.parent))
        link.replace(self.published)
        return folder

    def sql(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return what plain DuckDB reads from the files of the newest snapshot."""
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for table in self.published.iterdir():
                if table.is_dir():
                    files = literal(f"{table}/**/*.parquet")
                    connection.execute(
                        f"CREATE VIEW {quoted(table.name)} AS "
                        f"FROM read_parquet({files}, hive_partitioning = false)"
                    )
            return connection.execute(query, list(parameters)).fetchall()


TYPES = {
    "varchar": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
}


def write_table(
    folder: Path, name: str, columns: Mapping[str, str], chance: random.Random, count: int
) -> dict[str, Any]:
    """Write a mart's rows as Parquet; return its entry in the description."""
    count = len(NAMES) + 7 if name in ONE_PER_ROUTER else count
    rows = [row_of(name, columns, chance, place) for place in range(count)]
    values = {column: [row[i] for row in rows] for i, column in enumerate(columns)}
    table = pa.table({c: pa.array(values[c], TYPES[kind]) for c, kind in columns.items()})
    cut = "fix_date" if name == "location_track_points" else None
    for day in sorted({*values[cut]}) if cut else [None]:
        part = folder / f"{cut}={day}" if cut else folder
        part.mkdir(parents=True)
        kept = table.filter(pc.equal(table[cut], pa.scalar(day))) if cut else table
        pq.write_table(kept, part / "data.parquet")
    return {
        "rows": len(rows),
        "columns": [{"name": column, "type": kind} for column, kind in columns.items()],
        "sorted_by": [],
        "partitioned_by": cut,
        "version": "",
        "is_reused": False,
    }


ONE_PER_ROUTER = {"device_inventory", "location_latest", "failover_now", "battery_risk"}
ONE_PER_ROUTER |= {"battery_health", "data_usage_month"}


def row_of(
    mart: str, columns: Mapping[str, str], chance: random.Random, place: int
) -> list[object]:
    """Return one row of a mart."""
    routers = list(ROUTERS)
    router = routers[place % len(routers)] if mart in ONE_PER_ROUTER else chance.choice(routers)
    if mart in ONE_PER_ROUTER and place >= len(routers):
        router = 2_000_000 + place
    at = NOW - timedelta(seconds=chance.randrange(300, DAYS * 86_400))
    at = at.replace(microsecond=chance.randrange(1_000_000))
    given: dict[str, Any] = {"chance": chance, "router": router, "at": at, "place": place}
    return [value_of(name, kind, **given) for name, kind in columns.items()]


def value_of(
    name: str, kind: str, *, chance: random.Random, router: int, at: datetime, place: int
) -> object:
    """Return a value of a column, by its name and type."""
    known: dict[str, object] = {
        "router_id": router,
        "connection_state": "online" if router % 3 else "offline",
        "router_name": ROUTERS.get(router, f"router-{router}"),
        "account_id": account_of(router),
        "account_name": f"Account {account_of(router)}",
        "group_id": group_of(router),
        "group_name": f"Group {group_of(router)}",
        "object_id": str(router),
        "battery_id": str(700_000 + router),
        "net_device_id": 4_000_000 + router,
        "ended_at": None if chance.random() < 0.1 else at + timedelta(minutes=40),
        "unknown_since_at": at if place % 3 == 0 else None,
        "is_open": False,
        "month_date": date(2026, 11, 1),
        "cell_id": str(place),
        "so_far_s": 1234.5,
        "known_s": 86_400.0,
    }
    of_type: dict[str, object] = {
        "date": at.date(),
        "timestamp with time zone": at,
        "boolean": chance.random() < 0.4,
        "bigint": chance.randrange(100),
        "double": round(chance.uniform(20, 45), 2),
        "varchar": chance.choice(CARRIERS) if "carrier" in name else f"{name} {place}",
    }
    chosen = chance.choice(WORDS[name]) if name in WORDS else of_type[kind]
    return known.get(name, chosen)
