"""Events about single endpoints: each problem in the lake is announced once."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from re import sub
from typing import Any, cast

from prefect.events import emit_event
from prefect.variables import Variable

from fleetlake.account import stream_name
from fleetlake.endpoints import PUSH_DESTINATIONS, PUSHED
from fleetlake.lake import open_lake
from fleetlake.lake.audit_trail import Event, read_events
from fleetlake.lake.gaps import Gap
from fleetlake.monitoring.push_status import WAITS_LONG, push_faults, push_notes, waiting_line
from fleetlake.monitoring.status import RECENT, LakeStatus, lake_status
from fleetlake.monitoring.streams import StreamStatus, lake_now
from fleetlake.planning.retention import RetentionState
from fleetlake.service.clock import machine_now
from fleetlake.settings import Settings
from fleetlake.text.wording import counted

LAST_EVENT = "fleetlake_told_events"
"""Name of the Prefect Variable with the number of the last event that was announced."""

QUARANTINE_GREW = "fleetlake.quarantine.grew"
SCHEMA_DRIFTED = "fleetlake.schema.drifted"
GAP_RECORDED = "fleetlake.gap.recorded"
RETENTION_AT_RISK = "fleetlake.retention.at_risk"
LAKE_CHANGED = "fleetlake.lake.event"
PUSH_FAILING = "fleetlake.push.failing"

PUSH_STATES = "fleetlake_push_states"
"""Name of the Prefect Variable with the states of push destinations at the last watch."""

JOURNAL_WAITS = "fleetlake_journal_waits"
"""Name of the Prefect Variable that says whether a waiting journal was announced."""


@dataclass(frozen=True, kw_only=True)
class Announced:
    """What was announced about a stream: quarantined records, unknown members, the newest gap."""

    quarantined: int = 0
    drifted: int = 0
    gap_recorded_at: str = ""


@dataclass(frozen=True, kw_only=True)
class LakeState:
    """The status of the lake, and the instant (UTC) that its streams are measured against."""

    now: datetime
    status: LakeStatus

    def stream(self, endpoint: str, profile: str) -> StreamStatus | None:
        """Return one stream's status; None for an account that has loaded nothing yet."""
        for stream in self.status.streams:
            if (stream.endpoint, stream.account_profile) == (endpoint, profile):
                return stream
        return None


def read_lake_state(settings: Settings) -> LakeState:
    """Return the lake's status now. Creates an empty lake if there is none."""
    with open_lake(settings.lake) as lake:
        now = lake_now(lake, settings.clock)
        status = lake_status(
            lake, now=now, calls_per_minute=settings.calls_per_minute, journal=settings.push_journal
        )
        return LakeState(now=now, status=status)


def announce_findings(state: LakeState, endpoints: Collection[str] | None = None) -> list[str]:
    """Send an event for each finding that was not announced before; return the messages.

    The source does not matter: a finding may come from a run, a killed run or a CLI command.
    A Prefect Variable per account records what was announced. It is written after the events
    are sent, so a finding may be announced twice but is never missed. `endpoints` defaults to
    all.
    """
    messages: list[str] = []
    by_account = groupby(state.status.streams, key=lambda stream: stream.account_profile)
    for profile, streams in by_account:
        # The name is stored on servers: another one would announce everything again.
        name = f"fleetlake_told_{sub('[^a-z0-9_]', '_', profile.lower())}"
        before = cast("dict[str, dict[str, Any]]", Variable.get(name, default={}))
        after = dict(before)
        for stream in streams:
            if endpoints is None or stream.endpoint in endpoints:
                gaps = [gap for gap in state.status.open_gaps if _is_of(gap, stream)]
                announced = Announced(**before.get(stream.endpoint, {}))
                messages += _announce_growth(stream, gaps, announced)
                after[stream.endpoint] = asdict(_announced(stream, gaps, announced))
        after = {endpoint: counts for endpoint, counts in after.items() if any(counts.values())}
        if after != before:
            Variable.set(name, after, overwrite=True)
    return messages


def _announced(stream: StreamStatus, gaps: Sequence[Gap], announced: Announced) -> Announced:
    recorded = [_recorded_at(gap) for gap in gaps]
    return Announced(
        quarantined=stream.quarantined,
        drifted=stream.drifted,
        gap_recorded_at=max([announced.gap_recorded_at, *recorded]),
    )


def _recorded_at(gap: Gap) -> str:
    return gap.recorded_at.astimezone(UTC).isoformat(timespec="microseconds")


def _announce_growth(stream: StreamStatus, gaps: Sequence[Gap], announced: Announced) -> list[str]:
    """Announce what has grown since the last announcement about a stream."""
    messages: list[str] = []
    whose = stream_name(stream.endpoint, stream.account_profile)
    if (refused := stream.quarantined - announced.quarantined) > 0:
        messages += _announce(
            QUARANTINE_GREW,
            stream.endpoint,
            f"{counted(refused, 'record')} of {whose} could not be stored in its table. "
            "`fleetlake records quarantine show` says why.",
        )
    if (unknown := stream.drifted - announced.drifted) > 0:
        messages += _announce(
            SCHEMA_DRIFTED,
            stream.endpoint,
            f"{whose} has {counted(unknown, 'member')} without a column in the endpoint table. "
            "`_extra` keeps the values; `fleetlake records columns promote` makes columns of them.",
        )
    for gap in gaps:
        if _recorded_at(gap) > announced.gap_recorded_at:
            messages += _announce(
                GAP_RECORDED,
                gap.endpoint,
                f"{whose} from {gap.start_at:%Y-%m-%d %H:%M} "
                f"to {gap.end_at:%Y-%m-%d %H:%M} UTC is lost: {gap.reason}. "
                "Run `fleetlake records gaps acknowledge` once it is dealt with.",
            )
    return messages


def announce_events(settings: Settings) -> list[str]:
    """Send an event for each new entry of the lake's audit trail; return the messages.

    A Prefect Variable holds the number of the last one. A lake that was never watched, or that was
    restored from a backup, is announced from the last day on.
    """
    with open_lake(settings.lake) as lake:
        trail = read_events(lake)
    last = Variable.get(LAST_EVENT, default=-1)
    newest = trail[-1].number if trail else -1
    if last < 0 or newest < last:
        recent = [event for event in trail if event.happened_at >= machine_now() - RECENT]
    else:
        recent = [event for event in trail if event.number > last]
    messages = [m for event in recent for m in _announce(LAKE_CHANGED, *_told(event))]
    if newest != last:
        Variable.set(LAST_EVENT, newest, overwrite=True)
    return messages


def _told(event: Event) -> tuple[str, str]:
    """Return what an event is about, and the message."""
    rows = "" if event.rows is None else f" Rows: {event.rows:,}."
    when = f"{event.happened_at:%Y-%m-%d %H:%M} UTC"
    return event.endpoint or "lake", f"{when}, {event.actor}, {event.kind}: {event.summary}{rows}"


def announce_destinations(state: LakeState) -> list[str]:
    """Send an event for each push destination whose state got worse; return the messages.

    A Prefect Variable holds the states seen. A destination that was disabled before it was first
    seen is not announced: it was done on purpose.
    """
    before = cast("dict[str, str]", Variable.get(PUSH_STATES, default={}))
    found = state.status.push_destinations
    after = {f"{one.account_profile}/{one.destination_id}": str(one.state) for one in found}
    changed = [one for one, key in zip(found, after, strict=True) if before.get(key) != after[key]]
    seen = [o for o in changed if f"{o.account_profile}/{o.destination_id}" in before]
    sentences = [*push_faults(changed), *push_notes(seen)]
    messages = [m for s in sentences for m in _announce(PUSH_FAILING, PUSH_DESTINATIONS.name, s)]
    if after != before:
        Variable.set(PUSH_STATES, after, overwrite=True)
    return messages


def announce_journal(state: LakeState) -> list[str]:
    """Send an event if messages have waited long, or the journal is faulty; return the message.

    Once: a Prefect Variable says that it was sent, until neither is so any more.
    """
    pushes = state.status.pushes
    since = pushes.waiting_since
    is_late = since is not None and machine_now() - since > WAITS_LONG
    waits = is_late or pushes.journal_fault is not None
    was_sent = Variable.get(JOURNAL_WAITS, default=False)
    messages: list[str] = []
    if waits and not was_sent:
        sentence = " ".join(waiting_line(pushes))
        if pushes.journal_fault is None:
            sentence += " Is the drain process running?"
        messages = _announce(PUSH_FAILING, PUSHED.name, sentence)
    if waits != was_sent:
        Variable.set(JOURNAL_WAITS, waits, overwrite=True)
    return messages


def announce_risks(state: LakeState) -> list[str]:
    """Send an event for each stream that may lose records; return the messages."""
    messages: list[str] = []
    for stream in state.status.streams:
        forecast = stream.retention
        if forecast is None or forecast.state is RetentionState.OK:
            continue
        hours = forecast.expires_in.total_seconds() / 3600
        when = f"expires at the service in {hours:,.1f} h"
        if forecast.state is RetentionState.LOST:
            when = f"expired at the service {-hours:,.1f} h ago"
        messages += _announce(
            RETENTION_AT_RISK,
            stream.endpoint,
            f"{stream_name(stream.endpoint, stream.account_profile)} is {forecast.state}: its "
            f"oldest unread record {when}, and catching up takes about "
            f"{counted(forecast.calls, 'call')}. Run `fleetlake ingest {stream.endpoint}`.",
        )
    return messages


def _is_of(gap: Gap, stream: StreamStatus) -> bool:
    return (gap.account_profile, gap.endpoint) == (stream.account_profile, stream.endpoint)


def _announce(event: str, endpoint: str, what: str) -> list[str]:
    emit_event(
        event,
        resource={
            "prefect.resource.id": f"fleetlake.endpoint.{endpoint}",
            "prefect.resource.name": endpoint,
        },
        payload={"endpoint": endpoint, "what": what},
    )
    return [what]
