"""The lake's audit trail: what was found, repaired or removed on purpose, when and by whom.

An event is written in the transaction of what it records, so that neither exists without the
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


class EventKind(StrEnum):
    """What happened."""

    CHECK = "check"  # a check found damage
    REPAIR = "repair"  # lost rows were forgotten, to be read again, or a catalog was rebuilt
    RETENTION = "retention"  # rows older than their table's days were deleted
    ERASURE = "erasure"  # a device, a person or an account was removed everywhere
    CLOCK = "clock"  # a wrong clock was refused, or its claims were corrected
    JOURNAL = "journal"  # a journal of pushed messages was damaged or replaced
    SHRUNK_LIST = "shrunk_list"  # a list lost too many records, or a person accepted the loss


@dataclass(frozen=True, kw_only=True)
class Event:
    """One row of `meta.events`, in UTC; `rows` is None where rows do not apply.

    `kind` may be one that only a later release knows. `number` rises with each event.
    """

    number: int
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
    text = json.dumps(details or {}, default=str)
    lake.execute(
        "insert into meta.events (happened_at, kind, actor, account_profile, endpoint, rows, "
        "summary, details) values (now(), ?, ?, ?, ?, ?, ?, ?)",
        [kind, this_user(), profile, endpoint, rows, summary, text],
    )


def read_events(lake: Lake, *, since: datetime | None = None) -> list[Event]:
    """Return the events at or after `since`, oldest first."""
    found = lake.named_rows(
        "select rowid as number, happened_at, kind, actor, account_profile, endpoint, rows, "
        "summary, details from meta.events where happened_at >= coalesce(?, happened_at) "
        "order by rowid",
        [since],
    )
    return [Event(**row | {"details": json.loads(row["details"])}) for row in found]


def this_user() -> str:
    """Return `user@machine`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may run under a user id without a name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def count_removals(lake: Lake) -> int:
    """Return how many events record removed rows: results computed from those rows are outdated."""
    kinds = [EventKind.REPAIR, EventKind.RETENTION, EventKind.ERASURE]
    return lake.number(
        "SELECT count(*) FROM meta.events WHERE kind IN (SELECT unnest(?::varchar[]))",
        [[str(kind) for kind in kinds]],
    )
