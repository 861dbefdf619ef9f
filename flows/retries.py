"""What a task may try again, and how a run that is stopped ends.

Retries are the tasks', not the flows': a flow's retry meets its own deployment limit.
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
    """Return whether Prefect's server gave no answer for now; the core's errors are its own.

    >>> is_of_server(httpx.ConnectError("it is being started again"))
    True
    """
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.is_server_error
    return isinstance(error, httpx.TransportError)


# Half a minute, one, two, each with jitter: the client has been patient with every page before.
RETRIES: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": exponential_backoff(backoff_factor=30),
    "retry_jitter_factor": 0.5,
    "retry_condition_fn": is_worth_retrying,
}


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """Hand SIGTERM to Prefect once the core has ended its commit.

    The core takes the signal while it loads and gives Prefect's handler up for it; put back
    and signalled, Prefect marks the run as cancelled or crashed, as it would have.
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
