"""The status of a lake: that of each stream, lost ranges, pushes, events and stale marts."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from fleetlake.lake import Lake
from fleetlake.lake.audit_trail import Event, read_events
from fleetlake.lake.gaps import Gap, gaps
from fleetlake.lake.run_log import StaleMart, stale_marts
from fleetlake.lake.tables import not_described
from fleetlake.monitoring.push_status import (
    PushDestinationStatus,
    PushStatus,
    push_status,
    push_statuses,
)
from fleetlake.monitoring.streams import StreamStatus, stream_statuses
from fleetlake.service.clock import machine_now

RECENT = timedelta(days=1)
"""How far back a status mentions the events of the audit trail."""


@dataclass(frozen=True, kw_only=True)
class LakeStatus:
    """All streams, the lost ranges that are not acknowledged, pushes, and the last day's events.

    `push_destinations` are as the last load of them found them. `stale_marts` could not be built.
    `not_described` are raw tables whose lists are described nowhere any more.
    """

    streams: list[StreamStatus]
    open_gaps: list[Gap]
    events: list[Event] = field(default_factory=list)
    pushes: PushStatus = field(default_factory=PushStatus)
    push_destinations: list[PushDestinationStatus] = field(default_factory=list)
    stale_marts: list[StaleMart] = field(default_factory=list)
    not_described: list[str] = field(default_factory=list)


def lake_status(
    lake: Lake, *, now: datetime, calls_per_minute: int, journal: Path | None = None
) -> LakeStatus:
    """Return the status of all accounts in a lake; `now` is UTC.

    `journal` is the folder of pushed messages that may wait for the lake.
    """
    with lake.single_snapshot():
        return LakeStatus(
            streams=stream_statuses(lake, now=now, calls_per_minute=calls_per_minute),
            open_gaps=gaps(lake, only_open=True),
            events=read_events(lake, since=machine_now() - RECENT),
            pushes=push_status(lake, now=now, journal=journal),
            push_destinations=push_statuses(lake, now=now),
            stale_marts=stale_marts(lake),
            not_described=not_described(lake),
        )
