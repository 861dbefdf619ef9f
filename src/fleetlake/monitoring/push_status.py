"""The status of pushed alerts: how they compare with the polled ones, and what is still waiting."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fleetlake.endpoints import PUSHED
from fleetlake.lake import Lake
from fleetlake.lake.confirmation import polled_endpoint
from fleetlake.lake.meta_tables import has_meta
from fleetlake.planning.poll_pace import PUSHED_WITHIN, RECENT
from fleetlake.receiving.drain import read_positions
from fleetlake.receiving.journal_reader import START, Position, bytes_after, journals, read_batch
from fleetlake.service.clock import machine_now
from fleetlake.text.quoting import quoted
from fleetlake.text.wording import counted

CONFIRMED_WITHIN = timedelta(hours=1)
"""Polls read an alert sooner than this after it was pushed."""

MOST_COUNTED = 100_000
"""Up to this many waiting messages are counted."""

WAITS_LONG = timedelta(minutes=10)
"""A message that has waited for the lake this long was left behind: a drain takes seconds."""

_PART_BYTES = 8_000_000


@dataclass(frozen=True, kw_only=True)
class PushStatus:
    """Pushed alerts in the lake, and pushed messages that are not in it yet. Times are UTC.

    `unconfirmed` alerts were pushed over an hour ago, and no poll has read them. `unpushed` ones
    were polled and created in the last day, after the first push, and no push brought them.
    `spared_calls` of the last day were not made because pushes bring the alerts.
    `dead_letters` could not be read and wait in quarantine. `waiting_messages` and `waiting_bytes`
    are in the journals of this machine; None if those cannot be read. `waiting_since` is when the
    oldest of them was received.
    """

    alerts: int = 0
    received_at: datetime | None = None
    unconfirmed: int = 0
    unpushed: int = 0
    spared_calls: int = 0
    dead_letters: int = 0
    waiting_messages: int | None = 0
    waiting_bytes: int | None = 0
    waiting_since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    """Messages that no lake has yet, in all journals of a folder."""

    messages: int | None = 0
    bytes: int | None = 0
    since: datetime | None = None


def push_status(lake: Lake, *, now: datetime, journal: Path | None) -> PushStatus:
    """Return the status of pushed alerts in an open lake; `journal` is the folder of journals."""
    if not has_meta(lake, "confirmations"):  # only earlier releases have written the lake
        waiting = _waiting(journal, {})
        return PushStatus(
            waiting_messages=waiting.messages,
            waiting_bytes=waiting.bytes,
            waiting_since=waiting.since,
        )
    [(alerts, first, last)] = lake.rows(
        f"select count(*), min(received_at), max(received_at) from raw.{PUSHED.name}"
    )
    waiting = _waiting(journal, read_positions(lake))
    return PushStatus(
        alerts=alerts,
        received_at=last,
        unconfirmed=_unconfirmed(lake, now) if alerts else 0,
        unpushed=_unpushed(lake, first, now) if alerts else 0,
        spared_calls=_spared_calls(lake) if alerts else 0,
        dead_letters=_dead_letters(lake),
        waiting_messages=waiting.messages,
        waiting_bytes=waiting.bytes,
        waiting_since=waiting.since,
    )


def waiting_line(pushes: PushStatus) -> Iterator[str]:
    """Yield a sentence about the messages that wait in the journals, if there are any."""
    if pushes.waiting_bytes:
        messages = counted(pushes.waiting_messages or 0, "pushed message")
        since = pushes.waiting_since
        when = f", since {since:%Y-%m-%d %H:%M} UTC" if since else ""
        size = f"{pushes.waiting_bytes:,} bytes"
        yield f"{messages} in the journal, {size}, not in the lake yet{when}."


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
        [max(first, now - RECENT), now - PUSHED_WITHIN],
    )
    return int(count)


def _spared_calls(lake: Lake) -> int:
    """Return the calls spared in the last day of this machine's clock."""
    if not has_meta(lake, "calls", "spared"):
        return 0
    [(count,)] = lake.rows(
        "select coalesce(sum(spared), 0)::bigint from meta.calls where started_at >= ?",
        [machine_now() - RECENT],
    )
    return int(count)


def _dead_letters(lake: Lake) -> int:
    [(count,)] = lake.rows(
        "select count(*) from meta.quarantine where endpoint = ? and resolved_at is null",
        [PUSHED.name],
    )
    return int(count)


def _waiting(folder: Path | None, positions: Mapping[str, Position]) -> _Waiting:
    """Return what no lake has yet; None for its numbers if the journals are unreadable."""
    unknown = _Waiting(messages=None, bytes=None)
    if folder is None:
        return unknown
    messages, size = 0, 0
    received: list[datetime] = []
    try:
        for journal_id, path in journals(folder).items():
            after = positions.get(journal_id, START)
            size += bytes_after(path, after)
            first = read_batch(path, after, limit=1, max_bytes=_PART_BYTES).messages
            received += [message.received_at for message in first]
            messages += _count_after(path, after, MOST_COUNTED - messages)
    except OSError:
        return unknown
    return _Waiting(messages=messages, bytes=size, since=min(received, default=None))


def _count_after(journal: Path, after: Position, most: int) -> int:
    found = 0
    while found < most:
        batch = read_batch(journal, after, limit=most - found, max_bytes=_PART_BYTES)
        if not batch.messages:
            break
        found += len(batch.messages)
        after = batch.until
    return found
