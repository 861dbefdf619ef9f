"""Events about single endpoints: what the lake shows and nobody was told of yet."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from re import sub
from typing import Any, cast

from prefect.events import emit_event
from prefect.variables import Variable

from fleetlake.account import stream_name
from fleetlake.lake import open_lake
from fleetlake.lake.gaps import Gap
from fleetlake.monitoring.status import LakeStatus, StreamStatus, lake_now, lake_status
from fleetlake.planning.retention import RetentionState
from fleetlake.settings import Settings

QUARANTINE_GREW = "fleetlake.quarantine.grew"
SCHEMA_DRIFTED = "fleetlake.schema.drifted"
GAP_RECORDED = "fleetlake.gap.recorded"
RETENTION_AT_RISK = "fleetlake.retention.at_risk"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What was told of a stream: how much was refused or unknown, and the newest lost range."""

    quarantined: int = 0
    drifted: int = 0
    gap_recorded_at: str = ""


@dataclass(frozen=True, kw_only=True)
class Look:
    """How the lake stands, and the moment its streams are measured against."""

    now: datetime
    status: LakeStatus

    def stream(self, endpoint: str, profile: str) -> StreamStatus | None:
        """Return one stream's status; None for an account that has loaded nothing yet."""
        for stream in self.status.streams:
            if (stream.endpoint, stream.account_profile) == (endpoint, profile):
                return stream
        return None


def look_at_lake(settings: Settings) -> Look:
    """Return how the lake stands now; an empty lake is made where there is none."""
    with open_lake(settings.lake) as lake:
        now = lake_now(lake, settings.clock)
        status = lake_status(lake, now=now, calls_per_minute=settings.calls_per_minute)
    return Look(now=now, status=status)


def announce_news(look: Look, endpoints: Collection[str] | None = None) -> list[str]:
    """Send an event for each thing that nobody was told of yet; return what was said.

    Whoever brought it to light, and however that ended: a run, one that was killed, a command.
    What was told is kept in a Variable of the server for each account, written after the events,
    so that a thing may be told twice and never not at all. `endpoints` are all when left out.
    """
    said = []
    by_account = groupby(look.status.streams, key=lambda stream: stream.account_profile)
    for profile, streams in by_account:
        name = f"fleetlake_told_{sub('[^a-z0-9_]', '_', profile.lower())}"
        before = cast("dict[str, dict[str, Any]]", Variable.get(name, default={}))
        after = dict(before)
        for stream in streams:
            if endpoints is None or stream.endpoint in endpoints:
                gaps = [gap for gap in look.status.open_gaps if _is_of(gap, stream)]
                told = Told(**before.get(stream.endpoint, {}))
                said += _announce_growth(stream, gaps, told)
                after[stream.endpoint] = asdict(_told(stream, gaps, told))
        after = {endpoint: told for endpoint, told in after.items() if any(told.values())}
        if after != before:
            Variable.set(name, after, overwrite=True)
    return said


def _told(stream: StreamStatus, gaps: Sequence[Gap], told: Told) -> Told:
    recorded = [_recorded_at(gap) for gap in gaps]
    return Told(
        quarantined=stream.quarantined,
        drifted=stream.drifted,
        gap_recorded_at=max([told.gap_recorded_at, *recorded]),
    )


def _recorded_at(gap: Gap) -> str:
    return gap.recorded_at.astimezone(UTC).isoformat(timespec="microseconds")


def _announce_growth(stream: StreamStatus, gaps: Sequence[Gap], told: Told) -> list[str]:
    """Announce what a stream has more of than was told."""
    said: list[str] = []
    whose = stream_name(stream.endpoint, stream.account_profile)
    if (refused := stream.quarantined - told.quarantined) > 0:
        said += _announce(
            QUARANTINE_GREW,
            stream.endpoint,
            f"{refused:,} records of {whose} could not be kept in its table. "
            "`fleetlake quarantine show` says why.",
        )
    if (unknown := stream.drifted - told.drifted) > 0:
        said += _announce(
            SCHEMA_DRIFTED,
            stream.endpoint,
            f"{whose} has {unknown:,} members that the endpoint table does not know. "
            "They are kept in `_extra`; give them columns.",
        )
    for gap in gaps:
        if _recorded_at(gap) > told.gap_recorded_at:
            said += _announce(
                GAP_RECORDED,
                gap.endpoint,
                f"{whose} from {gap.start_at:%Y-%m-%d %H:%M} "
                f"to {gap.end_at:%Y-%m-%d %H:%M} UTC is lost: {gap.reason}. "
                "`fleetlake gaps --acknowledge` once it is dealt with.",
            )
    return said


def announce_risks(look: Look) -> list[str]:
    """Send an event for each stream that may lose records; return what was said."""
    said = []
    for stream in look.status.streams:
        forecast = stream.retention
        if forecast is None or forecast.state is RetentionState.OK:
            continue
        hours = forecast.expires_in.total_seconds() / 3600
        when = f"is forgotten by the service in {hours:,.1f} h"
        if forecast.state is RetentionState.LOST:
            when = f"was forgotten by the service {-hours:,.1f} h ago"
        said += _announce(
            RETENTION_AT_RISK,
            stream.endpoint,
            f"{stream_name(stream.endpoint, stream.account_profile)} is {forecast.state}: its "
            f"oldest unread record {when}, and catching up takes about {forecast.calls:,} calls. "
            f"Run `fleetlake ingest {stream.endpoint}`.",
        )
    return said


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
