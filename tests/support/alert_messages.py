"""Messages as a service pushes them, and what the lake then shows as alerts."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa

from fleetlake.decoding.arrow import read_page
from fleetlake.decoding.timeuuid import smallest_at
from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import Lake
from fleetlake.lake.loads import Committed
from fleetlake.lake.watermarks import WHOLE_STREAM
from fleetlake.machine.project import package_files
from fleetlake.planning.intervals import Interval
from tests.support.journals import write
from tests.support.loads import commit, load_of_rows

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
POLLED, PUSHED = ENDPOINTS["alerts"], ENDPOINTS["pushed_alerts"]

_SOURCE = re.compile(r"{{ source\('(\w+)', '(\w+)'\) }}")
_WORD = re.compile(r"{{ neutral_word\('([\w.]+)'\) }}")
_MOMENT = re.compile(r"{{ (detected|is_odd_detection)\('([\w.]+)', '([\w.]+)'\) }}")
_REF = re.compile(r"{{ ref\('(\w+)'\) }}")


def an_alert(
    number: int = 1, *, seconds: float = 0, router: int | None = 7, **members: Any
) -> dict[str, Any]:
    """Return an alert as the service lists it; `seconds` after noon it was detected."""
    detected = NOON + timedelta(seconds=seconds)
    created = detected + timedelta(seconds=30, microseconds=number)
    fields = UUID(smallest_at(created)).fields
    return {
        "account": None if router else "https://sim/api/v2/accounts/1/",
        "router": f"https://sim/api/v2/routers/{router}/" if router else None,
        "type": "failover_event",
        "friendly_info": "The router failed over.",
        "info": {"uid": "mdm-1", "reason": "lost"},
        "created_at": created.isoformat(),
        "created_at_timeuuid": str(UUID(fields=(*fields[:5], number))),
        "detected_at": detected.isoformat(),
        **members,
    }


def with_id(alert: dict[str, Any]) -> dict[str, Any]:
    """Return an alert as it is pushed: the device and the account are integers."""
    ids = {name: alert[name] and int(alert[name].split("/")[-2]) for name in ("router", "account")}
    return alert | ids


def without_id(alert: dict[str, Any]) -> dict[str, Any]:
    """Return an alert as a vendor's sample shows it: objects, and nothing that identifies it."""
    pushed = with_id(alert)
    del pushed["created_at_timeuuid"], pushed["created_at"]
    for name in ("router", "account"):
        if pushed[name]:
            url = f"https://sim/api/v2/{name}s/{pushed[name]}/"
            pushed[name] = {"id": str(pushed[name]), "resource_url": url}
    pushed["info"] = dict(reversed(pushed["info"].items()))
    return pushed


def live(alert: dict[str, Any]) -> dict[str, Any]:
    """Return an alert as the live service pushes it: without an id, a text or a time."""
    about = {
        name: {"id": alert[name].split("/")[-2], "name": name} if alert[name] else {}
        for name in ("router", "account")
    }
    return {"type": alert["type"], "info": alert["info"] or {}, **about}


def relayed(alert: dict[str, Any]) -> dict[str, Any]:
    """Return an alert as a relay sends it: other names, seconds since 1970, and no id."""
    sent = with_id(alert)
    del sent["created_at_timeuuid"]
    sent["alert_type"] = sent.pop("type")
    for name in ("created_at", "detected_at"):
        sent[name] = datetime.fromisoformat(sent[name]).timestamp()
    device = sent.pop("router")
    return sent | ({"device_id": device, "router_details": {"id": device}} if device else {})


def push(folder: Path, *bodies: Any, at: datetime = NOON) -> None:
    """Store messages in a journal, as a receiver does before it answers 200."""
    contents = [body if isinstance(body, bytes) else msgspec.json.encode(body) for body in bodies]
    write(folder, *contents, at=at)


def poll(
    lake: Lake, alerts: Iterable[dict[str, Any]], *, proven: Interval | None = None
) -> Committed:
    """Commit alerts as a load does that has read them, and perhaps everything of some time."""
    body = msgspec.json.encode({"data": [*alerts], "meta": {"limit": 500, "next": None}})
    page = read_page(POLLED, body)
    rows = pa.Table.from_batches([page.rows])
    ranges = {WHOLE_STREAM: [proven]} if proven else {}
    return commit(lake, load_of_rows(POLLED, rows, seen_at=NOON, proven=ranges))


def staged(lake: Lake, columns: str) -> list[tuple[Any, ...]]:
    """Return columns of the staging view that every mart reads, from its SQL."""
    return lake.rows(f"select {columns} from ({_sql('stg_alerts')}) order by all")


def _sql(model: str) -> str:
    text = (package_files() / "sql/models/staging" / f"{model}.sql").read_text("utf-8")
    text = _MOMENT.sub(_moment, _WORD.sub(r"\1", _SOURCE.sub(r"\1.\2", text)))
    return _REF.sub(lambda found: f"({_sql(found[1])}) as {found[1]}", text)


def _moment(found: re.Match[str]) -> str:
    """Return the SQL of the macros on times of alerts, in `sql/macros/alerts.sql`."""
    macro, detected, created = found.groups()
    is_odd = (
        f"coalesce({detected} > {created} + interval 1 day "
        f"or {detected} < {created} - interval 366 day, false)"
    )
    if macro == "is_odd_detection":
        return is_odd
    return f"case when {is_odd} then {created} else coalesce({detected}, {created}) end"
