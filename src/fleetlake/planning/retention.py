"""The retention watch: will records be read before the service deletes them? Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from fleetlake.endpoints.model import MAX_RECORDS_PER_PAGE
from fleetlake.planning.intervals import Interval

WARN_BEFORE = timedelta(hours=24)
"""Warn at least a day ahead, however fast the backlog could be read."""

MARGIN = 3.0
"""Safety factor: reading the backlog may take this many times as long as forecast."""


class RetentionState(StrEnum):
    """Whether a stream will be read before the service deletes its records."""

    OK = "ok"
    AT_RISK = "at risk"
    LOST = "lost"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """When the oldest unread record expires, and what reading the backlog costs.

    `calls` and `catch_up` follow from the stream's record rate and the call limit.
    """

    state: RetentionState
    expires_in: timedelta
    calls: int
    catch_up: timedelta


def forecast(
    *,
    unread: Sequence[Interval],
    now: datetime,
    retention: timedelta,
    records_per_second: float,
    calls_per_minute: int,
) -> Forecast:
    """Return the forecast at `now`, in UTC, for a stream with one or more unread ranges.

    >>> from datetime import UTC
    >>> now = datetime(2026, 1, 31, tzinfo=UTC)
    >>> day = timedelta(days=1)
    >>> forecast(unread=[Interval(now - 29.5 * day, now)], now=now, retention=30 * day,
    ...          records_per_second=1, calls_per_minute=450).state
    <RetentionState.AT_RISK: 'at risk'>
    """
    expires_in = min(interval.start for interval in unread) + retention - now
    records = records_per_second * sum((i.end - i.start).total_seconds() for i in unread)
    calls = max(1, math.ceil(records / MAX_RECORDS_PER_PAGE))
    catch_up = timedelta(minutes=calls / calls_per_minute if calls_per_minute else 0)
    state = RetentionState.OK
    if expires_in <= timedelta(0):
        state = RetentionState.LOST
    elif expires_in < max(WARN_BEFORE, MARGIN * catch_up):
        state = RetentionState.AT_RISK
    return Forecast(state=state, expires_in=expires_in, calls=calls, catch_up=catch_up)
