"""Events about single endpoints, told from how the lake stood before and after a load."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from prefect.events import emit_event

from fleetlake.lake import open_lake
from fleetlake.lake.gaps import Gap
from fleetlake.retention import State
from fleetlake.settings import Settings
from fleetlake.spoken import named
from fleetlake.status import LakeStatus, StreamStatus, lake_status

QUARANTINE_GREW = "fleetlake.quarantine.grew"
SCHEMA_DRIFTED = "fleetlake.schema.drifted"
GAP_RECORDED = "fleetlake.gap.recorded"
RETENTION_AT_RISK = "fleetlake.retention.at_risk"


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
        [(newest,)] = lake.rows("select max(watermark_at) from meta.watermarks")
        # A simulated service may run ahead of this machine: its newest instant counts as now.
        now = max(datetime.now(UTC), newest) if newest else datetime.now(UTC)
        status = lake_status(lake, now=now, calls_per_minute=settings.calls_per_minute)
    return Look(now=now, status=status)


def announce_changes(before: Look, after: Look, endpoints: Collection[str]) -> list[str]:
    """Send an event for each thing that a load brought to light; return what was said."""
    said = []
    for new in (stream for stream in after.status.streams if stream.endpoint in endpoints):
        name, whose = new.endpoint, named(new.endpoint, new.account_profile)
        old = before.stream(name, new.account_profile)
        refused = new.quarantined - (old.quarantined if old else 0)
        drifted = new.drifted - (old.drifted if old else 0)
        if refused > 0:
            said += _announce(
                QUARANTINE_GREW,
                name,
                f"{refused:,} records of {whose} could not be kept in its table. "
                "`fleetlake quarantine show` says why.",
            )
        if drifted > 0:
            said += _announce(
                SCHEMA_DRIFTED,
                name,
                f"{whose} has {drifted:,} members that the endpoint table does not know. "
                "They are kept in `_extra`; give them columns.",
            )
    known = {_identity(gap) for gap in before.status.open_gaps}
    for gap in after.status.open_gaps:
        if gap.endpoint in endpoints and _identity(gap) not in known:
            said += _announce(
                GAP_RECORDED,
                gap.endpoint,
                f"{named(gap.endpoint, gap.account_profile)} from {gap.start_at:%Y-%m-%d %H:%M} "
                f"to {gap.end_at:%Y-%m-%d %H:%M} UTC is lost: {gap.reason}. "
                "`fleetlake gaps --acknowledge` once it is dealt with.",
            )
    return said


def announce_risks(look: Look) -> list[str]:
    """Send an event for each stream that may lose records; return what was said."""
    said = []
    for stream in look.status.streams:
        forecast = stream.retention
        if forecast is None or forecast.state is State.OK:
            continue
        hours = forecast.expires_in.total_seconds() / 3600
        said += _announce(
            RETENTION_AT_RISK,
            stream.endpoint,
            f"{named(stream.endpoint, stream.account_profile)} is {forecast.state}: its oldest "
            f"unread record is forgotten by the service in {hours:,.1f} h, and catching up takes "
            f"about {forecast.calls:,} calls. "
            f"Run `fleetlake ingest {stream.endpoint}`.",
        )
    return said


def _identity(gap: Gap) -> tuple[object, ...]:
    return gap.account_profile, gap.endpoint, gap.partition, gap.start_at, gap.end_at


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
