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

logger = logging.getLogger(__name__)

CALLS_OF_A_POLL = 1

_DELIVERS = (PushState.ACTIVE, PushState.DISABLED)
"""States that are not a fault: a user may disable one destination and keep another."""


def push_evidence(lake: Lake, profile: str, *, now: datetime) -> PushEvidence:
    """Return what the lake knows about one account's pushes; `now` is this machine's clock, UTC."""
    with lake.single_snapshot():
        return _evidence(lake, profile, now)


def _evidence(lake: Lake, profile: str, now: datetime) -> PushEvidence:
    polled_at, read_until = _last_poll(lake, profile)
    [(pushes, first, pushed_at)] = lake.rows(
        "select count(*), min(alerted_at), max(received_at) "
        f"from raw.{PUSHED.name} where account_profile = ?",
        [profile],
    )
    if not pushes or polled_at is None or read_until is None:
        return PushEvidence(
            polled_at=polled_at,
            pushed_at=pushed_at,
            confirmed=0,
            unconfirmed=0,
            unpushed=0,
            failing=0,
        )
    service_now = read_until + SETTLE + max(now - polled_at, timedelta(0))
    recent = service_now - RECENT
    confirmed, unconfirmed = _confirmed(lake, profile, recent, read_until, polled_at)
    return PushEvidence(
        polled_at=polled_at,
        pushed_at=pushed_at,
        confirmed=confirmed,
        unconfirmed=unconfirmed,
        unpushed=_unpushed(lake, profile, max(first, recent), service_now - PUSHED_WITHIN),
        failing=_failing(lake, profile, recent, service_now),
    )


def _last_poll(lake: Lake, profile: str) -> tuple[datetime | None, datetime | None]:
    """Return when the list was last read to its end, and up to which time of the service."""
    found = lake.rows(
        "select finished_at, read_until from meta.reads "
        "where account_profile = ? and endpoint = ? and shard = ?",
        [profile, POLLED.name, str(WHOLE)],
    )
    return found[0] if found else (None, None)


def _confirmed(
    lake: Lake, profile: str, recent: datetime, read_until: datetime, polled_at: datetime
) -> tuple[int, int]:
    """Return how many recent pushes polls have read, and how many they should have read."""
    [(confirmed, unconfirmed)] = lake.rows(
        "select count(c.push_id), count(*) filter (c.push_id is null) "
        f"from raw.{PUSHED.name} p left join meta.confirmations c using (push_id) "
        "where p.account_profile = ? and p.alerted_at >= ? and p.alerted_at < ? "
        "and p.received_at < ?",
        [profile, recent, read_until, polled_at],
    )
    return confirmed, unconfirmed


def _unpushed(lake: Lake, profile: str, since: datetime, until: datetime) -> int:
    [(count,)] = lake.rows(
        f"select count(*) from raw.{POLLED.name} a where account_profile = ? "
        "and created_at >= ? and created_at < ? and not exists (select 1 "
        f"from meta.confirmations c where c.alert_id = a.{quoted(POLLED.key[0])})",
        [profile, since, until],
    )
    return int(count)


def _failing(lake: Lake, profile: str, recent: datetime, service_now: datetime) -> int:
    """Return how many destinations, and recent alerts about them, say that pushes fail."""
    failures = load_settings().words.either(FAILURE_ALERTS)
    [(alerts,)] = lake.rows(
        f"select (select count(*) from raw.{POLLED.name} where account_profile = $who "
        "and created_at >= $recent and type in (select unnest($types))) "
        f"+ (select count(*) from raw.{PUSHED.name} where account_profile = $who "
        "and alerted_at >= $recent and type in (select unnest($types)))",
        {"who": profile, "recent": recent, "types": failures},
    )
    states = [one.state(service_now) for one in _destinations(lake, profile)]
    is_none_active = bool(states) and PushState.ACTIVE not in states
    return int(alerts) + sum(state not in _DELIVERS for state in states) + is_none_active


def _destinations(lake: Lake, profile: str) -> list[PushDestination]:
    cursor = lake.execute(
        f"select * from raw.{PUSH_DESTINATIONS.name} where valid_to is null "
        "and account_profile = ?",
        [profile],
    )
    names = [column[0] for column in cursor.description or ()]
    return [PushDestination.of_row(dict(zip(names, r, strict=True))) for r in cursor.fetchall()]


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
