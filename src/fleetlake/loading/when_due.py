"""Skips polls that pushes make unnecessary; a load by hand reads everything.

A spared poll counts as one call, which is what the cheapest poll costs.

Alerts have times of the service's clock. How far the last poll has read tells that clock, and
this machine's clock tells how long ago that was.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from fleetlake.alerting.poll_pace import PUSHED_WITHIN, RECENT, PushEvidence, reason_to_poll
from fleetlake.alerting.push_destinations import FAILURE_ALERTS, PushDestination, PushState
from fleetlake.endpoints import POLLED, PUSH_DESTINATIONS, PUSHED
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.locks import commit_lock
from fleetlake.lake.run_log import Calls, record_calls
from fleetlake.loading.outcome import Outcome
from fleetlake.planning.coverage import SETTLE
from fleetlake.planning.shards import WHOLE
from fleetlake.settings import load_settings
from fleetlake.text.quoting import quoted
from fleetlake.text.tables_beside import statements_beside

logger = logging.getLogger(__name__)

CALLS_OF_A_POLL = 1
_NEVER = [(None, None)]

_NAMES = {"pushed": PUSHED.name, "polled": POLLED.name, "key": quoted(POLLED.key[0])}
_NAMES["destinations"] = PUSH_DESTINATIONS.name
_WRITTEN = statements_beside(__file__, "when_due.sql")
_SQL = {name: sql.format(**_NAMES) for name, sql in _WRITTEN.items()}

_DELIVERS = (PushState.ACTIVE, PushState.DISABLED)
"""States that are not a fault: a user may disable one destination and keep another."""


def push_evidence(lake: Lake, profile: str, *, now: datetime) -> PushEvidence:
    """Return what the lake knows about one account's pushes; `now` is this machine's clock, UTC."""
    with lake.single_snapshot():
        return _evidence(lake, profile, now)


def _evidence(lake: Lake, profile: str, now: datetime) -> PushEvidence:
    [(polled_at, read_until)] = lake.rows(_SQL["last_poll"], [profile, str(WHOLE)]) or _NEVER
    [(pushes, first, pushed_at)] = lake.rows(_SQL["pushes"], [profile])
    if not pushes or polled_at is None or read_until is None:
        return PushEvidence(polled_at=polled_at, pushed_at=pushed_at)
    service_now = read_until + SETTLE + max(now - polled_at, timedelta(0))
    recent = service_now - RECENT
    [(confirmed, unconfirmed)] = lake.rows(
        _SQL["confirmed"], [profile, recent, read_until, polled_at]
    )
    window = [profile, max(first, recent), service_now - PUSHED_WITHIN]
    return PushEvidence(
        polled_at=polled_at,
        pushed_at=pushed_at,
        confirmed=confirmed,
        unconfirmed=unconfirmed,
        unpushed=lake.number(_SQL["unpushed"], window),
        failing=_failing(lake, profile, recent, service_now),
    )


def _failing(lake: Lake, profile: str, recent: datetime, service_now: datetime) -> int:
    """Return how many destinations, and recent alerts about them, say that pushes fail."""
    failures = load_settings().words.either(FAILURE_ALERTS)
    alerts = lake.number(_SQL["failing"], {"who": profile, "recent": recent, "types": failures})
    rows = lake.named_rows(_SQL["destinations"], [profile])
    states = [PushDestination.of_row(row).state(service_now) for row in rows]
    is_none_active = bool(states) and PushState.ACTIVE not in states
    return alerts + sum(state not in _DELIVERS for state in states) + is_none_active


def spare_polls(
    lake: Lake, profile: str, endpoints: Sequence[Endpoint], *, now: datetime
) -> list[Outcome]:
    """Return the outcomes of the endpoints that need no poll now, and record the calls spared.

    `now` is this machine's clock, UTC.
    """
    spared = [
        e for e in endpoints if e.name == PUSHED.confirmed_by and _may_wait(lake, profile, now)
    ]
    if spared:
        calls = {endpoint.name: Calls(0, spared=CALLS_OF_A_POLL) for endpoint in spared}
        with commit_lock(lake.path), lake.transaction():
            record_calls(lake, calls, run_id=str(uuid4()), profile=profile, started_at=now)
    return [
        Outcome(endpoint=endpoint.name, profile=profile, spared=CALLS_OF_A_POLL)
        for endpoint in spared
    ]


def _may_wait(lake: Lake, profile: str, now: datetime) -> bool:
    reason = reason_to_poll(push_evidence(lake, profile, now=now), now=now)
    if reason:
        logger.debug("%s is polled: %s", PUSHED.confirmed_by, reason)
    return reason is None
