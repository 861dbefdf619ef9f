"""The one owner of retries: how often, how long, and what is worth one.

No other module sleeps and tries again, so patience never multiplies. Tests switch the waits
off with `stamina.set_testing`.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import stamina
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from fleetlake.errors import PageUnreadable, Throttled, Unreachable

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LONGEST_WAIT = timedelta(seconds=60)
"""A `Retry-After` beyond this is cut: the call limit is counted by the minute."""


WORTH_A_WARNING = 3
"""Tries of one page after which people want to know; before that it is the usual weather."""


def _tell(details: RetryDetails) -> None:
    level = logging.WARNING if details.retry_num >= WORTH_A_WARNING else logging.INFO
    logger.log(level, "%s Trying again in %.1f s.", details.caused_by, details.wait_for)


set_on_retry_hooks([_tell])


def wait_before_retry(error: Exception) -> bool | timedelta:
    """Return whether an error is worth a retry, or the wait that the service asked for."""
    if isinstance(error, Throttled) and error.wait is not None:
        return min(error.wait, LONGEST_WAIT)
    return isinstance(error, (Unreachable, PageUnreadable))


async def with_retries(
    attempt: Callable[[], Awaitable[Answer]], *, attempts: int, patience: timedelta
) -> Answer:
    """Return what `attempt` gives, trying again while that is worth it.

    Waits grow from a quarter second to twenty, with jitter; a wait that the service asks for
    goes first. Raises: the last error, once `attempts` or `patience` is used up.
    """
    async for trial in stamina.retry_context(
        on=wait_before_retry,
        attempts=attempts,
        timeout=patience,
        wait_initial=0.25,
        wait_max=20.0,
        wait_jitter=1.0,
    ):
        with trial:
            return await attempt()
    raise AssertionError("stamina leaves its loop by a result or an error")
