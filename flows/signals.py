"""Events about single endpoints, told from how the lake stood before and after a load."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from prefect.events import emit_event

from fleetlake.lake import open_lake
from fleetlake.lake.gaps import Gap
from fleetlake.retention import State
from fleetlake.settings import Settings
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

    def stream(self, endpoint: str) -> StreamStatus:
        """Return one stream's status."""
        return next(s for s in self.status.streams if s.endpoint == endpoint)


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
    for name in endpoints:
        old, new = before.stream(name), after.stream(name)
        if new.quarantined > old.quarantined:
            said += _announce(
                QUARANTINE_GREW,
                name,
                f"{new.quarantined - old.quarantined:,} records of {name} could not be kept in its "
                "table. `fleetlake quarantine show` says why.",
            )
        if new.drifted > old.drifted:
            said += _announce(
                SCHEMA_DRIFTED,
                name,
                f"{name} has {new.drifted - old.drifted:,} members that the endpoint table does "
                "not know. They are kept in `_extra`; give them columns.",
            )
    known = {_identity(gap) for gap in before.status.open_gaps}
    for gap in after.status.open_gaps:
        if gap.endpoint in endpoints and _identity(gap) not in known:
            said += _announce(
                GAP_RECORDED,
                gap.endpoint,
                f"{gap.endpoint} from {gap.start_at:%Y-%m-%d %H:%M} to {gap.end_at:%Y-%m-%d %H:%M} "
                f"UTC is lost: {gap.reason}. `fleetlake gaps --acknowledge` once it is dealt with.",
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
            f"{stream.endpoint} is {forecast.state}: its oldest unread record is forgotten by the "
            f"service in {hours:,.1f} h, and catching up takes about {forecast.calls:,} calls. "
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
