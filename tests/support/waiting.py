"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(found: Callable[[], T], seconds: float = 300, *, between: float = 0.5) -> T:
    """Return the result of `found` once it is true. It is called every `between` seconds."""
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < deadline, f"waited {seconds:g} seconds in vain"
        time.sleep(between)
    return result
