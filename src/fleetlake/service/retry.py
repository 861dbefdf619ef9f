"""Retries of one request: how often, for how long, and after which errors.

No other module waits and retries, so timeouts never multiply. Tests turn the waits off with
`stamina.set_testing`. stamina is imported when a request has failed: most loads need none.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from fleetlake.errors import ServiceError, Throttled

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LONGEST_WAIT = timedelta(seconds=60)
"""A longer `Retry-After` is shortened to this: the service counts calls per minute."""

WORTH_A_WARNING = 3
"""Retries of one page from which they are logged as WARNING; fewer are normal."""


def _log_retry(details: "RetryDetails") -> None:
    level = logging.WARNING if details.retry_num >= WORTH_A_WARNING else logging.INFO
    logger.log(level, "%s Retrying in %.1f s.", details.caused_by, details.wait_for)


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
    began = time.monotonic()
    try:
        return await attempt()
    except Exception as error:
        if wait_before_retry(error) is False:
            raise
        failed = error
    left = within - timedelta(seconds=time.monotonic() - began)
    return await _retried(failed, attempt, attempts=attempts, within=left)


async def _retried(
    failed: Exception, attempt: Callable[[], Awaitable[Answer]], *, attempts: int, within: timedelta
) -> Answer:
    """Return the result of another attempt; the first of all `attempts` has failed."""
    import stamina  # noqa: PLC0415 - see the head of this module
    from stamina.instrumentation import set_on_retry_hooks  # noqa: PLC0415 - likewise

    set_on_retry_hooks([_log_retry])
    async for trial in stamina.retry_context(
        on=wait_before_retry,
        attempts=attempts,
        timeout=max(within, timedelta.resolution),  # stamina warns of 0
        wait_initial=0.25,
        wait_max=20.0,
        wait_jitter=1.0,
    ):
        with trial:
            if trial.num == 1:
                raise failed
            return await attempt()
    raise AssertionError("stamina leaves its loop only with a result or an error")
