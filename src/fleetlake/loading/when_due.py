"""Skips polls that pushes make unnecessary; a load by hand reads everything.

A spared poll counts as one call, which is what the cheapest poll costs.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from uuid import uuid4

from fleetlake.endpoints import PUSHED
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.locks import commit_lock
from fleetlake.lake.push_evidence import push_evidence
from fleetlake.lake.run_log import Calls, record_calls
from fleetlake.loading.outcome import Outcome
from fleetlake.planning.poll_pace import reason_to_poll

logger = logging.getLogger(__name__)

CALLS_OF_A_POLL = 1


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
