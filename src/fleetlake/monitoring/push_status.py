"""The status of pushed alerts: how they compare with the polled ones, and what is still waiting."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fleetlake.endpoints import PUSHED
from fleetlake.lake import Lake
from fleetlake.lake.confirmation import polled_endpoint
from fleetlake.lake.meta_tables import has_meta
from fleetlake.receiving.drain import read_positions
from fleetlake.receiving.journal_reader import START, Position, bytes_after, journals, read_batch
from fleetlake.text.quoting import quoted

CONFIRMED_WITHIN = timedelta(hours=1)
"""Polls read an alert sooner than this after it was pushed."""

PUSHED_WITHIN = timedelta(minutes=5)
"""A push arrives sooner than this after its alert was created."""

RECENT_ALERTS = timedelta(days=1)
MOST_COUNTED = 100_000
"""Up to this many waiting messages are counted."""

_PART_BYTES = 8_000_000


@dataclass(frozen=True, kw_only=True)
class PushStatus:
    """Pushed alerts in the lake, and pushed messages that are not in it yet. Times are UTC.

    `unconfirmed` alerts were pushed over an hour ago, and no poll has read them. `unpushed` ones
    were polled and created in the last day, after the first push, and no push brought them.
    `dead_letters` could not be read and wait in quarantine. `waiting_messages` and `waiting_bytes`
    are in the journals of this machine; None if those cannot be read.
    """

    alerts: int = 0
    received_at: datetime | None = None
    unconfirmed: int = 0
    unpushed: int = 0
    dead_letters: int = 0
    waiting_messages: int | None = 0
    waiting_bytes: int | None = 0


def push_status(lake: Lake, *, now: datetime, journal: Path | None) -> PushStatus:
    """Return the status of pushed alerts in an open lake; `journal` is the folder of journals."""
    if not has_meta(lake, "confirmations"):  # only earlier releases have written the lake
        messages, size = _waiting(journal, {})
        return PushStatus(waiting_messages=messages, waiting_bytes=size)
    [(alerts, first, last)] = lake.rows(
        f"select count(*), min(received_at), max(received_at) from raw.{PUSHED.name}"
    )
    messages, size = _waiting(journal, read_positions(lake))
    return PushStatus(
        alerts=alerts,
        received_at=last,
        unconfirmed=_unconfirmed(lake, now) if alerts else 0,
        unpushed=_unpushed(lake, first, now) if alerts else 0,
        dead_letters=_dead_letters(lake),
        waiting_messages=messages,
        waiting_bytes=size,
    )


def _unconfirmed(lake: Lake, now: datetime) -> int:
    [(count,)] = lake.rows(
        f"select count(*) from raw.{PUSHED.name} anti join meta.confirmations using (push_id) "
        "where received_at < ?",
        [now - CONFIRMED_WITHIN],
    )
    return int(count)


def _unpushed(lake: Lake, first: datetime, now: datetime) -> int:
    polled = polled_endpoint()
    [(count,)] = lake.rows(
        f"select count(*) from raw.{polled.name} a where created_at >= ? and created_at < ? "
        "and not exists (select 1 from meta.confirmations c "
        f"where c.alert_id = a.{quoted(polled.key[0])})",
        [max(first, now - RECENT_ALERTS), now - PUSHED_WITHIN],
    )
    return int(count)


def _dead_letters(lake: Lake) -> int:
    [(count,)] = lake.rows(
        "select count(*) from meta.quarantine where endpoint = ? and resolved_at is null",
        [PUSHED.name],
    )
    return int(count)


def _waiting(
    folder: Path | None, positions: Mapping[str, Position]
) -> tuple[int | None, int | None]:
    """Return the messages and bytes that no lake has yet, None if the journals are unreadable."""
    if folder is None:
        return None, None
    messages = size = 0
    try:
        for journal_id, path in journals(folder).items():
            after = positions.get(journal_id, START)
            size += bytes_after(path, after)
            messages += _count_after(path, after, MOST_COUNTED - messages)
    except OSError:
        return None, None
    return messages, size


def _count_after(journal: Path, after: Position, most: int) -> int:
    found = 0
    while found < most:
        batch = read_batch(journal, after, limit=most - found, max_bytes=_PART_BYTES)
        if not batch.messages:
            break
        found += len(batch.messages)
        after = batch.until
    return found
