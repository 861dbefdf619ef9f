"""The status of pushed alerts: how they compare with the polled ones, and what is still waiting."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from fleetlake.account import DEFAULT_PROFILE
from fleetlake.alerting.poll_pace import PUSHED_WITHIN, RECENT
from fleetlake.alerting.push_destinations import PushDestination, PushState, remedy_of
from fleetlake.endpoints import POLLED, PUSH_DESTINATIONS, PUSHED
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.catalog import has_lake
from fleetlake.receiving.journal_positions import read_positions
from fleetlake.receiving.journal_table import (
    JournalDamaged,
    Position,
    Waiting,
    read_waiting,
    require_whole,
)
from fleetlake.service.clock import machine_now
from fleetlake.settings import Settings
from fleetlake.text.quoting import quoted
from fleetlake.text.wording import counted


@dataclass(frozen=True, kw_only=True)
class PushDestinationStatus:
    """One push destination. Its URL is left out: it may hold a key of the receiver's.

    `remedy` is the command that helps; "" if none is needed. Times are UTC.
    """

    account_profile: str
    destination_id: str
    name: str
    state: PushState
    last_error_at: datetime | None
    last_error_text: str | None
    remedy: str


def push_statuses(lake: Lake, *, now: datetime) -> list[PushDestinationStatus]:
    """Return all push destinations in a lake, by account and age; `now` is UTC."""
    rows = lake.named_rows(
        f"select * from raw.{PUSH_DESTINATIONS.name} where valid_to is null "
        "order by account_profile, destination_config_id"
    )
    return [_status(row["account_profile"], PushDestination.of_row(row), now) for row in rows]


def _status(profile: str, destination: PushDestination, now: datetime) -> PushDestinationStatus:
    state = destination.state(now)
    remedy = remedy_of(state, destination.destination_id)
    return PushDestinationStatus(
        account_profile=profile,
        destination_id=destination.destination_id,
        name=destination.name,
        state=state,
        last_error_at=destination.last_error_at,
        last_error_text=destination.last_error_text,
        remedy=f"{remedy} --profile {profile}" if remedy and profile != DEFAULT_PROFILE else remedy,
    )


def push_faults(found: Iterable[PushDestinationStatus]) -> Iterator[str]:
    """Yield a sentence for each destination whose pushes fail, with the command that helps."""
    for one in found:
        if one.state is PushState.SUSPENDED:
            yield f"Pushes to {one.name} are suspended{_since(one)}: run `{one.remedy}`."
        elif one.state is PushState.UNREACHABLE:
            yield (
                f"Pushes to {one.name} fail{_since(one)}: check that `fleetlake receive` runs, "
                f"then run `{one.remedy}`."
            )


def push_notes(found: Iterable[PushDestinationStatus]) -> Iterator[str]:
    """Yield a sentence for each destination that a user has disabled."""
    for one in found:
        if one.state is PushState.DISABLED:
            yield f"Pushes to {one.name} are disabled: `{one.remedy}` enables them."


def push_counts(found: Iterable[PushDestinationStatus]) -> dict[tuple[str, str], int]:
    """Return how many destinations each account has in each state, zeros included."""
    found = list(found)
    counts = Counter((one.account_profile, str(one.state)) for one in found)
    profiles = dict.fromkeys(one.account_profile for one in found)
    return {(p, str(state)): counts[p, str(state)] for p in profiles for state in PushState}


def _since(one: PushDestinationStatus) -> str:
    if one.last_error_at is None:
        return ""
    text = f": {one.last_error_text}" if one.last_error_text else ""
    return f" (last error {one.last_error_at:%Y-%m-%d %H:%M} UTC{text})"


CONFIRMED_WITHIN = timedelta(hours=1)
"""Polls read an alert sooner than this after it was pushed."""

WAITS_LONG = timedelta(minutes=10)
"""A message that has waited for the lake this long was left behind: a drain takes seconds."""


@dataclass(frozen=True, kw_only=True)
class PushStatus:
    """Pushed alerts in the lake, and pushed messages that are not in it yet. Times are UTC.

    `unconfirmed` alerts were pushed over an hour ago, and no poll has read them. `unpushed` ones
    were polled and created in the last day, after the first push, and no push brought them.
    `spared_calls` of the last day were not made because pushes bring the alerts.
    `dead_letters` could not be read and wait in quarantine. `waiting_messages` and `waiting_bytes`
    are in the journal of this machine; None if that cannot be read. `waiting_since` is when the
    oldest of them was received. `journal_fault` says what is damaged or lost of the journal.
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
    journal_fault: str | None = None


_UNCONFIRMED = f"""
select count(*) from raw.{PUSHED.name} anti join meta.confirmations using (push_id)
where received_at < ?
"""
_UNPUSHED = f"""
select count(*) from raw.{POLLED.name} a where created_at >= ? and created_at < ? and not exists (
    select 1 from meta.confirmations c where c.alert_id = a.{quoted(POLLED.key[0])}
)
"""
_SPARED_CALLS = "select coalesce(sum(spared), 0)::bigint from meta.calls where started_at >= ?"
_DEAD_LETTERS = "select count(*) from meta.quarantine where endpoint = ? and resolved_at is null"


def push_status(lake: Lake, *, now: datetime, journal: Path | None) -> PushStatus:
    """Return the status of pushed alerts in an open lake; `journal` is the journal's folder."""
    [(alerts, first, last)] = lake.rows(
        f"select count(*), min(received_at), max(received_at) from raw.{PUSHED.name}"
    )
    found = replace(
        _of_journal(journal, read_positions(lake)),
        dead_letters=lake.number(_DEAD_LETTERS, [PUSHED.name]),
    )
    if not alerts:
        return found
    created = [max(first, now - RECENT), now - PUSHED_WITHIN]
    calls_since = machine_now() - RECENT  # calls have the time of this machine's clock
    return replace(
        found,
        alerts=alerts,
        received_at=last,
        unconfirmed=lake.number(_UNCONFIRMED, [now - CONFIRMED_WITHIN]),
        unpushed=lake.number(_UNPUSHED, created),
        spared_calls=lake.number(_SPARED_CALLS, [calls_since]),
    )


def waiting_line(pushes: PushStatus) -> Iterator[str]:
    """Yield sentences about a faulty journal, and about the messages that wait in it."""
    if pushes.journal_fault:
        yield pushes.journal_fault
    if pushes.waiting_bytes:
        messages = counted(pushes.waiting_messages or 0, "pushed message")
        since = pushes.waiting_since
        when = f", since {since:%Y-%m-%d %H:%M} UTC" if since else ""
        size = f"{pushes.waiting_bytes:,} bytes"
        yield f"{messages} in the journal, {size}, not in the lake yet{when}."


def _of_journal(folder: Path | None, positions: Mapping[str, Position]) -> PushStatus:
    """Return what is known about the journal; None for its numbers if it cannot be read."""
    waiting, fault = None, None
    try:
        if folder is not None:
            waiting = read_waiting(folder, positions)
            require_whole(folder, positions, is_full=False)
    except JournalDamaged as damaged:
        fault = str(damaged)
    except (OSError, LakeError) as error:
        waiting = None
        fault = f"The journal of pushed messages in {folder} cannot be read: {error}"
    if waiting is None:
        return PushStatus(waiting_messages=None, waiting_bytes=None, journal_fault=fault)
    return PushStatus(
        waiting_messages=waiting.messages,
        waiting_bytes=waiting.bytes,
        waiting_since=waiting.since,
        journal_fault=fault,
    )


def require_whole_journal(settings: Settings) -> Waiting:
    """Return what waits in the journal, whose every message was read. Raises: JournalDamaged."""
    positions: dict[str, Position] = {}
    if has_lake(settings.lake):
        with open_lake(settings.lake, read_only=True) as lake:
            positions = read_positions(lake)
    require_whole(settings.push_journal, positions, is_full=True)
    return read_waiting(settings.push_journal, positions)
