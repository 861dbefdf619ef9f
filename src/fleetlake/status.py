"""What is known about each stream: how far it is read, what is missing, what was refused."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetlake.endpoint import Endpoint
from fleetlake.endpoints import ENDPOINTS
from fleetlake.intervals import BEGINNING, Interval, subtract
from fleetlake.lake import Lake
from fleetlake.lake.watermarks import proven_intervals
from fleetlake.load import DEFAULT_PROFILE


@dataclass(frozen=True, kw_only=True)
class StreamStatus:
    """One stream: rows held, newest event, when it was last loaded, and what is not there.

    `holes` are ranges between the oldest and the newest proven instant that are not proven;
    over a fan-out they are counted for each id.
    """

    endpoint: str
    rows: int
    watermark_at: datetime | None
    loaded_at: datetime | None
    complete_from: datetime | None
    holes: int
    quarantined: int


def stream_statuses(lake: Lake, profile: str = DEFAULT_PROFILE) -> list[StreamStatus]:
    """Return the status of every stream, in the endpoint table's order."""
    marks = {
        name: (moment, at)
        for name, moment, at in lake.rows(
            "select endpoint, watermark_at, updated_at from meta.watermarks "
            "where account_profile = ?",
            [profile],
        )
    }
    refused = dict(
        lake.rows(
            "select endpoint, count(*) from meta.quarantine where account_profile = ? group by 1",
            [profile],
        )
    )
    return [
        _status(lake, profile, endpoint, marks, refused.get(endpoint.name, 0))
        for endpoint in ENDPOINTS.values()
    ]


def _status(
    lake: Lake,
    profile: str,
    endpoint: Endpoint,
    marks: dict[str, tuple[datetime, datetime]],
    quarantined: int,
) -> StreamStatus:
    [(rows,)] = lake.rows(f"select count(*) from raw.{endpoint.name}")
    moment, at = marks.get(endpoint.name, (None, None))
    proven = proven_intervals(lake, profile, endpoint)
    starts = [intervals[0].start for intervals in proven.values()]
    return StreamStatus(
        endpoint=endpoint.name,
        rows=rows,
        watermark_at=moment,
        loaded_at=at,
        complete_from=max(starts, default=None),
        holes=sum(len(_holes(intervals)) for intervals in proven.values()),
        quarantined=quarantined,
    )


def _holes(proven: list[Interval]) -> list[Interval]:
    """Return what is not proven between the oldest and the newest proven instant."""
    return subtract(Interval(proven[0].start, max(i.end for i in proven)), proven)


def spoken_age(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, in one unit.

    >>> from datetime import UTC
    >>> spoken_age(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 3, tzinfo=UTC))
    '3 h ago'
    """
    if moment is None:
        return "never"
    age = max(now - moment, timedelta(0))
    for unit, size in (
        ("d", timedelta(days=2)),
        ("h", timedelta(hours=2)),
        ("min", timedelta(minutes=2)),
    ):
        if age >= size:
            return f"{age // (size / 2)} {unit} ago"
    return f"{age // timedelta(seconds=1)} s ago"


def spoken_start(start: datetime | None) -> str:
    """Return from when a stream is complete, in words."""
    if start is None:
        return ""
    return "its beginning" if start == BEGINNING else f"{start:%Y-%m-%d %H:%M}"
