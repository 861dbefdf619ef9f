"""Retries: which errors are retried, how often, and for how long at most."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
import stamina

from fleetlake.errors import (
    PageUnreadable,
    RequestRejected,
    Throttled,
    Unreachable,
)
from fleetlake.service.retry import LONGEST_WAIT, wait_before_retry, with_retries


@pytest.fixture(autouse=True)
def as_many_tries_as_asked() -> Iterator[None]:
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


@pytest.mark.parametrize(("asked", "waited"), [(0, 0), (7, 7), (60, 60), (86_400, 60)])
def test_the_requested_wait_is_respected_up_to_a_minute(asked, waited):
    error = Throttled("x", wait=timedelta(seconds=asked))

    assert wait_before_retry(error) == timedelta(seconds=waited)
    assert timedelta(seconds=60) == LONGEST_WAIT


class Flaky:
    """Fails a few times, then succeeds."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures, self.error, self.tries = failures, error, 0

    async def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.failures:
            raise self.error
        return "answer"


def attempt(flaky: Flaky, attempts: int) -> str:
    within = timedelta(minutes=5)
    return asyncio.run(with_retries(flaky, attempts=attempts, within=within))


def test_an_immediate_success_takes_one_attempt():
    flaky = Flaky(0, Unreachable("x"))

    assert attempt(flaky, 5) == "answer"
    assert flaky.tries == 1


def test_a_transient_error_ends_with_the_result():
    flaky = Flaky(4, Unreachable("x"))

    assert attempt(flaky, 5) == "answer"
    assert flaky.tries == 5


def test_a_persistent_error_is_raised_itself():
    flaky = Flaky(100, PageUnreadable("the very error"))

    with pytest.raises(PageUnreadable, match="the very error"):
        attempt(flaky, 5)

    assert flaky.tries == 5


@pytest.mark.parametrize("error", [RequestRejected("x"), ValueError("a bug")])
def test_a_permanent_error_is_raised_at_once(error):
    flaky = Flaky(100, error)

    with pytest.raises(type(error)):
        attempt(flaky, 5)

    assert flaky.tries == 1


def test_a_cancelled_attempt_is_not_retried():
    flaky = Flaky(100, asyncio.CancelledError())

    with pytest.raises(asyncio.CancelledError):
        attempt(flaky, 5)

    assert flaky.tries == 1
