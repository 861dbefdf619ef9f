"""Retries of one request: how often, for how long, and after which errors.

No other module waits and retries, so timeouts never multiply. Tests turn the waits off with
`stamina.set_testing`.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import stamina
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from fleetlake.errors import ServiceError, Throttled

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LONGEST_WAIT = timedelta(seconds=60)
"""A longer `Retry-After` is shortened to this: the service counts calls per minute."""

WORTH_A_WARNING = 3
"""Retries of one page from which they are logged as WARNING; fewer are normal."""


def _log_retry(details: RetryDetails) -> None:
    level = logging.WARNING if details.retry_num >= WORTH_A_WARNING else logging.INFO
    logger.log(level, "%s Retrying in %.1f s.", details.caused_by, details.wait_for)


set_on_retry_hooks([_log_retry])


def wait_before_retry(error: Exception) -> bool | timedelta:
    """Return whether to send the request again, or the wait that the service asks for.

    Only transient errors of the service are retried. Other transient errors, such as a full disk
    for the call limit, do not go away with another request.
    """
    if isinstance(error, Throttled) and error.wait is not None:
        return min(error.wait, LONGEST_WAIT)
    return isinstance(error, ServiceError) and error.is_transient


async def with_retries(
    attempt: Callable[[], Awaitable[Answer]], *, attempts: int, within: timedelta
) -> Answer:
    """Return the result of `attempt`, retrying it after transient errors of the service.

    Waits grow from 0.25 to 20 seconds, with jitter. A wait that the service asks for takes
    precedence. Raises: the last error, once `attempts` or the time `within` is used up.
    """
    async for trial in stamina.retry_context(
        on=wait_before_retry,
        attempts=attempts,
        timeout=within,
        wait_initial=0.25,
        wait_max=20.0,
        wait_jitter=1.0,
    ):
        with trial:
            return await attempt()
    raise AssertionError("stamina leaves its loop only with a result or an error")
