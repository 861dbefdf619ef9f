"""Which errors a task retries, and how a stopped run ends.

Tasks retry, flows do not: the retry of a flow is blocked by its own deployment's limit.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task, exponential_backoff

from fleetlake.errors import FleetlakeError, Interrupted


def is_worth_retrying(_task: Task[..., Any], _run: TaskRun, state: State[Any]) -> bool:
    """Return whether the error that ended a task is transient."""
    if isinstance(state.data, FleetlakeError):
        return state.data.is_transient
    return is_of_server(state.data)


def is_of_server(error: object) -> bool:
    """Return whether Prefect's server did not answer; fleetlake wraps its own HTTP errors.

    >>> is_of_server(httpx.ConnectError("the server restarts"))
    True
    """
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.is_server_error
    return isinstance(error, httpx.TransportError)


# 30, 60 and 120 s, each with jitter. They are this long because the client has already retried
# every page.
RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": exponential_backoff(backoff_factor=30),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": is_worth_retrying,
}


@contextmanager
def stopping_cleanly() -> Iterator[None]:
    """Pass SIGTERM on to Prefect once the current commit has ended.

    A load replaces Prefect's signal handler with its own. After the load has stopped, this puts
    Prefect's handler back and raises the signal again, so that Prefect marks the run as
    cancelled or crashed as usual.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except Interrupted:
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
