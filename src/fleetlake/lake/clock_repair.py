"""Repairing a lake after a load that used a clock ahead of time.

Such a load marks hours as proven before their records exist. Later loads would skip those hours,
and the records would be lost. So what the lake claims about the future is reduced to what records
confirm: a proven range then ends one lookback before the newest record read from it, and is read
again from there. Versions of lists that begin or end in the future get the time of the commit that
wrote them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.connection import Lake
from fleetlake.lake.locks import commit_lock
from fleetlake.lake.run_state import RunState
from fleetlake.lake.watermarks import all_proven_intervals, replace_intervals
from fleetlake.planning.coverage import LOOKBACK, SETTLE, SWEEP, TOLERANCE
from fleetlake.planning.intervals import Interval
from fleetlake.text.quoting import quoted


@dataclass(frozen=True, kw_only=True)
class ClockRepair:
    """A stream that the lake claimed to have read beyond the present.

    `claimed_until` is the latest such instant. The stream is read again from `sure_until`, which
    is None if only its versions or load times were wrong.
    """

    endpoint: str
    claimed_until: datetime
    sure_until: datetime | None


def repair_clock_claims(
    state: RunState, endpoints: Sequence[Endpoint], *, now: datetime, is_checked: bool
) -> list[ClockRepair]:
    """Correct what the lake claims about times after `now`; return the streams concerned.

    With `is_checked`, claims after the stream's last commit are wrong too: this machine's clock
    dates commits, and loads never trust a later clock. Everything is one transaction; without a
    wrong claim, nothing is written.
    """
    lake, profile = state.lake, state.profile
    claims = _claims(state, now=now, is_checked=is_checked)
    found = [endpoint for endpoint in endpoints if endpoint.name in claims]
    if not found:
        return []
    with commit_lock(lake.path), lake.transaction():
        _delete_future_lateness(lake, profile, now + TOLERANCE)
        repairs = []
        for endpoint in found:
            claimed, latest = claims[endpoint.name]
            sure_until = _correct_stream(lake, profile, endpoint, now=now, latest=latest)
            repairs.append(
                ClockRepair(endpoint=endpoint.name, claimed_until=claimed, sure_until=sure_until)
            )
        _record_repairs(lake, profile, repairs)
    return repairs


def note_clock(state: RunState, refusal: str | None) -> None:
    """Record that the clock was refused, or trusted again (None), if that is a change.

    Loads that are refused one after the other leave one event.
    """
    now = _REFUSED if refusal else _TRUSTED
    with state.single_snapshot():
        last = state.clock_state or _TRUSTED
    if last == now:
        return
    with commit_lock(state.lake.path), state.lake.transaction():
        record_event(
            state.lake,
            EventKind.CLOCK,
            refusal or "The clocks of the service and this machine agree again.",
            profile=state.profile,
            details={"state": now},
        )


_REFUSED, _TRUSTED = "refused", "trusted"


def _record_repairs(lake: Lake, profile: str, repairs: Sequence[ClockRepair]) -> None:
    streams = ", ".join(one.endpoint for one in repairs)
    record_event(
        lake,
        EventKind.CLOCK,
        f"An earlier load used a fast clock; its proven ranges were corrected: {streams}.",
        profile=profile,
        details={
            "streams": {
                one.endpoint: {"claimed_until": one.claimed_until, "sure_until": one.sure_until}
                for one in repairs
            }
        },
    )


def _claims(
    state: RunState, *, now: datetime, is_checked: bool
) -> dict[str, tuple[datetime, datetime]]:
    """Return the latest claimed and the latest allowed instant of each endpoint with wrong claims.

    With `is_checked`, a proven range may not end after the last commit of its stream either.
    """
    with state.single_snapshot():
        marks, reads, ends = state.marks, state.reads, state.proven_ends
    here = datetime.now(UTC)
    claims = [
        *((name, end, min(now, marks[name].updated_at)) for name, end in ends if name in marks),
        *((name, mark.newest, now) for name, mark in marks.items()),
        # Only this machine's clock dates loads, even if loads trust the service's clock.
        *((name, now + (mark.updated_at - here), now) for name, mark in marks.items()),
        *(
            (read.endpoint, moment, now)
            for read in reads
            for moment in (read.swept_at, read.read_until)
        ),
    ]
    if not is_checked:
        claims = [(name, claimed, now) for name, claimed, _ in claims]
    wrong: dict[str, tuple[datetime, datetime]] = {}
    for name, claimed, latest in claims:
        if claimed and claimed > latest + TOLERANCE:
            known = wrong.get(name, (claimed, latest + TOLERANCE))
            wrong[name] = max(known[0], claimed), min(known[1], latest + TOLERANCE)
    return wrong


def _correct_stream(
    lake: Lake, profile: str, endpoint: Endpoint, *, now: datetime, latest: datetime
) -> datetime | None:
    """Correct the lake's claims about one stream; return the start of what must be read again."""
    if endpoint.mode is Mode.HISTORY:
        _date_versions_by_their_commits(lake, profile, endpoint, now=now, latest=latest)
    sure_until = None if endpoint.is_snapshot else _unprove(lake, profile, endpoint, latest)
    newest = None if endpoint.is_snapshot else _newest(lake, profile, endpoint, latest)
    known = {"latest": latest, "long_ago": now - SWEEP}
    stream = {"profile": profile, "endpoint": endpoint.name}
    lake.execute(
        "update meta.watermarks set updated_at = least(updated_at, now()), "
        "watermark_at = if(watermark_at > $latest, coalesce($newest, $long_ago), watermark_at) "
        "where account_profile = $profile and endpoint = $endpoint",
        {"newest": newest, **known, **stream},
    )
    # The next load sweeps, so it finds what the loads since then have skipped.
    lake.execute(
        "update meta.reads set swept_at = if(swept_at > $latest, $long_ago, swept_at), "
        "final_until = null, read_until = null "
        "where account_profile = $profile and endpoint = $endpoint "
        "and greatest(swept_at, read_until) > $latest",
        {**known, **stream},
    )
    return sure_until


def _unprove(lake: Lake, profile: str, endpoint: Endpoint, latest: datetime) -> datetime | None:
    """Cut proven ranges that end too late; return the earliest new end, or None."""
    proven = all_proven_intervals(lake, profile).get(endpoint.name, {})
    wrong = {p for p, ranges in proven.items() if any(r.end > latest for r in ranges)}
    if not wrong:
        return None
    shown = _newest_by_partition(lake, profile, endpoint)
    cut = {
        partition: [_cut(one, shown.get(partition), latest) for one in proven[partition]]
        for partition in wrong
    }
    replace_intervals(lake, profile, endpoint, cut)
    return min(
        new.end
        for partition in wrong
        for old, new in zip(proven[partition], cut[partition], strict=True)
        if new != old
    )


def _cut(proven: Interval, newest: datetime | None, latest: datetime) -> Interval:
    """Return a proven range; if it ends too late, cut it to what records confirm."""
    if proven.end <= latest:
        return proven
    confirmed_until = (
        newest - SETTLE - LOOKBACK if newest and newest > proven.start else proven.start
    )
    return Interval(proven.start, max(proven.start, min(confirmed_until, latest)))


def _newest_by_partition(lake: Lake, profile: str, endpoint: Endpoint) -> dict[str, datetime]:
    event = quoted(endpoint.event_time or "")
    partition = f"{quoted(endpoint.fan_out.partition)}::varchar" if endpoint.fan_out else "''"
    return dict(
        lake.rows(
            f"select {partition}, max({event}) from raw.{quoted(endpoint.name)} "
            "where account_profile = ? group by all",
            [profile],
        )
    )


def _newest(lake: Lake, profile: str, endpoint: Endpoint, latest: datetime) -> datetime | None:
    event = quoted(endpoint.event_time or "")
    return lake.instant(
        f"select max({event}) from raw.{quoted(endpoint.name)} "
        f"where account_profile = ? and {event} <= ?",
        [profile, latest],
    )


def _date_versions_by_their_commits(
    lake: Lake, profile: str, endpoint: Endpoint, *, now: datetime, latest: datetime
) -> None:
    """Give versions from the future the time of the commit that wrote them.

    The version before such a version ends at the same instant, so it gets the same time.
    """
    table = f"raw.{quoted(endpoint.name)}"
    moments = lake.values(
        f"select distinct unnest([valid_from, valid_to]) as moment from {table} "
        "where account_profile = $profile and greatest(valid_from, valid_to) > $latest "
        "order by moment",
        {"profile": profile, "latest": latest},
    )
    for moment in moments:
        if moment is None or moment <= latest:
            continue
        committed = lake.instant(
            f"select min(_loaded_at) from {table} where account_profile = ? and valid_from = ?",
            [profile, moment],
        )
        corrected = min(committed or now, now)
        for column in ("valid_from", "valid_to"):
            lake.execute(
                f"update {table} set {column} = ? where account_profile = ? and {column} = ?",
                [corrected, profile, moment],
            )


def _delete_future_lateness(lake: Lake, profile: str, latest: datetime) -> None:
    """Delete measurements dated in the future, which would outlive all correct ones."""
    lake.execute(
        "delete from meta.lateness where account_profile = ? and measured_at > ?", [profile, latest]
    )
