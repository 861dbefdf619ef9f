"""What commands print when they call the service, or repair and shrink a lake, in three sessions.

Their output is recorded in the file of `tools.recorded.printed`. The simulated service answers in
this process. A step is a command line, or a function that damages the lake or changes the service.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import httpx

from fleetlake.care.maintenance import maintain
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG, FILES
from fleetlake.lake.tables import META
from tests.support.alert_messages import an_alert, push, with_id
from tests.support.sim import Sim

Step = tuple[str, ...] | Callable[[Sim], None]

RECEIVER = "http://127.0.0.1:9/push"
"""Nothing listens there."""


def damaged(table: str, change: Callable[[Path], object]) -> Callable[[Sim], None]:
    """Return a step that damages the first file of a table; few rows become one by maintenance."""

    def step(sim: Sim) -> None:
        folder = sim.folder.joinpath("lake", FILES, table)
        if not any(folder.rglob("*.parquet")):
            with open_lake(sim.settings().lake) as lake:
                maintain(lake)
        change(min(folder.rglob("*.parquet")))

    step.__name__ = f"damage {table}: {change.__name__}"
    return step


def truncated(file: Path) -> None:
    """Leave the first half of a file."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flipped(file: Path) -> None:
    """Flip one bit in the first quarter of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 4] ^= 4
    file.write_bytes(content)


def catalog_lost(sim: Sim) -> None:
    """Delete the catalog."""
    (sim.folder / "lake" / CATALOG).unlink()


def scenario(name: str | None) -> Callable[[Sim], None]:
    """Return a step after which the service serves a scenario."""
    return lambda sim: sim.faults(scenario=name)


def pushes_arrive(sim: Sim) -> None:
    """Write messages to the journal: a polled alert, a new one twice, a test and no JSON."""
    polled = sim.truth("alerts")[-1]
    test = {"type": "test", "friendly_info": "Test of the push destination."}
    new = with_id(an_alert(1))
    push(sim.folder / "push-journal", with_id(polled), new, [new], test, b"no JSON")


def days_pass(sim: Sim) -> None:
    """Move the service's clock."""
    sim.advance(2 * 86_400)


ALERTS: tuple[Step, ...] = (
    ("alerts", "destinations", "list"), ("alerts", "rules", "list"),
    ("alerts", "setup", "--url", RECEIVER, "--no-test", "--dry-run"),
    ("alerts", "setup", "--url", RECEIVER, "--no-test", "--type", "failover"),
    ("alerts", "setup", "--url", RECEIVER, "--no-test", "--type", "wan", "--dry-run"),
    ("alerts", "setup", "--url", RECEIVER, "--no-test", "--type", "wan"),
    ("alerts", "setup", "--url", RECEIVER, "--no-test"),
    ("alerts", "setup", "--url", "receiver.test", "--no-test"),
    ("alerts", "setup", "--url", RECEIVER, "--no-test", "--type", "nonsense"),
    *((*words, "--format", form)
      for words in (("alerts", "destinations", "list"), ("alerts", "rules", "list"),
                    ("alerts", "destinations", "show", "fleetlake"))
      for form in ("table", "json", "csv")),
    ("alerts", "destinations", "add", "--url", f"{RECEIVER}/b", "--name", "b", "--dry-run"),
    ("alerts", "destinations", "add", "--url", f"{RECEIVER}/b", "--name", "b", "--disabled"),
    ("alerts", "destinations", "add", "--url", RECEIVER),
    ("alerts", "destinations", "show", "b"), ("alerts", "destinations", "show", "nonsense"),
    ("alerts", "destinations", "change", "b", "--enable", "--name", "c"),
    ("alerts", "destinations", "change", "c", "--new-secret"),
    ("alerts", "destinations", "change", "c", "--url", f"{RECEIVER}/c", "--dry-run"),
    ("alerts", "destinations", "change", "c"),
    ("alerts", "destinations", "change", "c", "--disable"),
    ("alerts", "destinations", "resume", "c"), ("alerts", "destinations", "test", "fleetlake"),
    ("alerts", "rules", "add", "--type", "battery", "--destination", "fleetlake"),
    ("alerts", "rules", "add", "--type", "battery", "--account", "10157",
     "--destination", "fleetlake", "--schedule", "daily", "--dry-run"),
    ("alerts", "rules", "add", "--type", "battery", "--account", "10157",
     "--destination", "fleetlake", "--schedule", "hourly"),
    ("alerts", "rules", "add", "--type", "pdp_router_overage", "--account", "10157",
     "--settings", "{}"),
    ("alerts", "rules", "list", "--format", "json"), ("alerts", "rules", "show", "nonsense"),
    ("alerts", "rules", "show", "3ce42000"), ("alerts", "rules", "show", "3ce"),
    ("alerts", "rules", "change", "3ce42000", "--schedule", "daily", "--type", "security"),
    ("alerts", "rules", "change", "3ce42000", "--destination", "c", "--dry-run"),
    ("alerts", "rules", "change", "3ce42000", "--group", "20003", "--email", "30011"),
    ("alerts", "rules", "change", "3ce42000"), ("alerts", "rules", "list"),
    ("alerts", "rules", "remove", "3ce42000", "--dry-run"),
    ("alerts", "rules", "remove", "3ce42000", "--yes"),
    ("alerts", "rules", "remove", "nonsense", "--yes"),
    ("alerts", "destinations", "remove", "c", "--dry-run"),
    ("alerts", "destinations", "remove", "fleetlake", "--yes"),
    ("alerts", "destinations", "remove", "c", "--yes"),
    ("alerts", "watch", "--no-follow"), ("alerts", "drain"),
)  # fmt: skip

_RANDOM = {"load_id", "run_id", "journal_id", "folder", "list_digest", "list_snapshot"}
_META = "; ".join(
    f"select {', '.join(column for column in columns if column not in _RANDOM)} "
    f"from meta.{table} order by all"
    for table, columns in META.items()
    if table not in {"columns", "files", "tombstone_key", "tombstones"}  # many, or random
).replace("offset", '"offset"')

RECORDS: tuple[Step, ...] = (
    scenario("schema-drift"), ("ingest", "users", "groups", "routers", "activity_logs"),
    *(("records", "columns", "list", "--format", form) for form in ("table", "json", "csv")),
    ("records", "columns", "promote", "groups", "service_tier"), ("records", "columns", "list"),
    ("query", "select id, service_tier from raw.groups order by id limit 5", "--format", "csv"),
    ("ingest", "groups"), ("records", "columns", "demote", "groups", "service_tier"),
    ("records", "columns", "list"),
    scenario("poison"), ("ingest", "accounts", "net_devices", "alerts"),
    ("records", "quarantine", "list"),
    *(("records", "quarantine", "show", "alerts", "--format", form)
      for form in ("table", "json", "csv")),
    ("records", "quarantine", "retry"), ("records", "quarantine", "retry", "users"), ("status",),
    scenario(None), ("ingest", "accounts", "net_devices", "alerts"),
    ("records", "quarantine", "retry"),
    ("records", "quarantine", "acknowledge", "nonsense"), ("records", "quarantine", "acknowledge"),
    ("records", "verify", "net_devices"),
    pushes_arrive, ("status",), ("doctor", "--format", "csv"), ("alerts", "drain"),
    ("alerts", "drain"), pushes_arrive, ("alerts", "drain"),
    ("alerts", "watch", "--no-follow", "--since", "2026-06-15", "--format", "json"),
    ("alerts", "watch", "--no-follow", "--group", "nonsense"),
    ("query", "select * exclude (_loaded_at, _load_id) from raw.pushed_alerts order by push_id",
     "--format", "csv"),
    ("init", "{folder}/project"), ("init", "{folder}/project"),
    ("report", "--from", "{folder}/nowhere"),
    ("docs", "--to", "{folder}/docs.html"), ("export", "csv", "--to", "{folder}/csv"),
    ("publish", "--raw", "nonsense"), ("publish", "--raw", "users"),
    ("status",), ("metrics",), ("query", _META, "--format", "csv"),
)  # fmt: skip

UPKEEP: tuple[Step, ...] = (
    ("doctor", "--format", "csv"), ("ingest", "--plan", "users", "alerts"),
    ("ingest", "users", "routers", "alerts", "activity_logs", "failovers", "batteries"),
    ("ingest", "routers", "router_state_samples"), ("ingest", "users", "--format", "json"),
    ("records", "verify", "users"), ("records", "verify", "alerts", "--format", "json"),
    days_pass,
    ("ingest", "alerts", "failovers"),
    ("backfill", "alerts", "--from", "2026-06-13", "--to", "2026-06-14"),
    *(("alerts", "watch", "--no-follow", "--since", "2026-06-15", "--type", "failover",
       "--format", form) for form in ("table", "json", "csv")),
    ("alerts", "watch", "--no-follow", "--since", "2026-06-12", "--type", "failover",
     "--device", "1000020"),
    ("export", "csv", "--table", "raw.users", "--to", "{folder}/csv"),
    ("export", "csv", "--table", "raw.users", "--to", "{folder}/csv"),
    ("export", "parquet", "--table", "marts.nonsense", "--to", "{folder}/parquet"),
    ("check", "--full", "--format", "json"),
    damaged("raw/users", Path.unlink),
    ("check",), ("query", "select * from raw.users"),
    ("repair", "--dry-run", "--format", "json"), ("repair", "--no-ingest"), ("status",),
    damaged("raw/alerts", truncated), damaged("raw/router_state_samples", flipped),
    ("check",), ("check", "--full", "--format", "csv"), ("repair",), ("check", "--full"),
    ("records", "gaps", "list"), ("records", "events", "list", "--format", "json"),
    ("query", _META, "--format", "csv"),
    catalog_lost,
    ("check",), ("repair",), ("repair", "--rebuild-catalog"), ("ingest", "users", "alerts"),
    ("backup", "{folder}/copy"), ("backup", "{folder}/copy"),
    ("erase", "--router", "1000006", "--user", "30011", "--backup", "{folder}/copy", "--yes"),
    ("erase", "--account", "10418", "--dry-run"), ("ingest", "users", "routers"),
    ("FLEETLAKE_RETENTION__ACTIVITY_LOGS=9", "maintain", "--no-copies"),
    ("FLEETLAKE_RETENTION__ACTIVITY_LOGS=9", "maintain", "--trust-clock",
     "--no-copies", "--backup", "{folder}/copy"),
    ("backup", "{folder}/copy"), ("records", "events", "list", "--format", "json"), ("metrics",),
    ("status", "--format", "csv"), ("query", _META, "--format", "csv"),
)  # fmt: skip


def served(sim: Sim) -> ExitStack:
    """Have the commands of this process ask the simulated service, until the stack is closed."""
    stack = ExitStack()
    answer = sim.transport.handle_async_request
    network = patch.object(
        httpx.AsyncHTTPTransport, "handle_async_request", lambda _, request: answer(request)
    )
    stack.enter_context(network)
    return stack
