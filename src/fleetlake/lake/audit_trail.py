"""The lake's audit trail: what was found, repaired or removed on purpose, when and by whom.

An event is written in the transaction of what it tells of, so that neither exists without the
other. No device's name, address or location, no person's data and no secret belongs in an event:
it outlives retention and erasure.
"""

import getpass
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fleetlake.lake.connection import Lake
from fleetlake.lake.meta_tables import has_meta


class EventKind(StrEnum):
    """What happened."""

    CHECK = "check"  # a check found damage
    REPAIR = "repair"  # lost rows were forgotten, to be read again, or a catalog was rebuilt
    RETENTION = "retention"  # rows older than their table's days were deleted
    ERASURE = "erasure"  # a device, a person or an account was removed everywhere
    CLOCK = "clock"  # a wrong clock was refused, or its claims were corrected
    SHRUNK_LIST = "shrunk_list"  # a list lost too many records, or a person accepted the loss


@dataclass(frozen=True, kw_only=True)
class Event:
    """One row of `meta.events`, in UTC; `rows` is None where rows do not apply.

    `kind` may be one that only a later release knows.
    """

    happened_at: datetime
    kind: str
    actor: str
    account_profile: str | None
    endpoint: str | None
    rows: int | None
    summary: str
    details: Mapping[str, object]


def record_event(
    lake: Lake,
    kind: EventKind,
    summary: str,
    *,
    profile: str | None = None,
    endpoint: str | None = None,
    rows: int | None = None,
    details: Mapping[str, object] | None = None,
) -> None:
    """Add one event in the open transaction. `summary` is one plain sentence."""
    lake.execute(
        "insert into meta.events (happened_at, kind, actor, account_profile, endpoint, rows, "
        "summary, details) values (now(), ?, ?, ?, ?, ?, ?, ?)",
        [kind, _actor(), profile, endpoint, rows, summary, json.dumps(details or {}, default=str)],
    )


def read_events(lake: Lake, *, since: datetime | None = None) -> list[Event]:
    """Return the events at or after `since`, oldest first."""
    found = lake.rows(
        "select happened_at, kind, actor, account_profile, endpoint, rows, summary, details "
        "from meta.events where happened_at >= coalesce(?, happened_at) order by happened_at",
        [since],
    )
    names = Event.__dataclass_fields__
    return [
        Event(**dict(zip(names, (*row, json.loads(text)), strict=True))) for *row, text in found
    ]


def rows_were_removed(lake: Lake, after: int | None) -> bool:
    """Return whether rows were removed on purpose after a snapshot; None means at any time."""
    removing = [EventKind.REPAIR, EventKind.RETENTION, EventKind.ERASURE]
    return has_meta(lake, "events") and bool(
        lake.rows(
            "select 1 from meta.events where kind in (select unnest(?::varchar[])) "
            "and snapshot_id > coalesce(?, -1) limit 1",
            [[str(kind) for kind in removing], after],
        )
    )


def _actor() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may run under a user id without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
