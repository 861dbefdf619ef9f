"""A lean start and end of the command line: a run with nothing new costs little but its imports."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

GARBAGE_THRESHOLDS = (200_000, 5, 20)
"""Objects between two collections, and collections between two of the older generations.

Imports and pages make many objects and few cycles. With Python's own 700, collections take 10 % of
the CPU time of a start, which makes about as many objects as this, and 3 % of a load's.
"""


def prepare_start() -> None:
    """Make the imports of this process cheap. Call it before the first of them."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    # numpy comes with pyarrow and would start threads for linear algebra.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's own allocator keeps what one thread allocates and another frees: pages are read by one
    # thread and committed by another, so an ingest took 6 % more memory, and no less CPU time.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # httpx would import its own command line, and Rich, Pygments and Click with it, only to offer
    # `httpx.main`. It does without if the module has none.
    sys.modules.setdefault("httpx._main", ModuleType("httpx._main"))


@contextmanager
def without_plugins() -> Iterator[None]:
    """Let pydantic define models within the block without reading all packages for plugins."""
    with _variable("PYDANTIC_DISABLE_PLUGINS", "1"):
        yield


@contextmanager
def plain_help() -> Iterator[None]:
    """Let Typer, imported within the block, format help and errors with Rich on a terminal only."""
    with _variable("TYPER_USE_RICH", "1" if is_for_people() else "0"):
        yield


def is_for_people() -> bool:
    """Return whether output goes to a terminal, or is to be formatted as if it did."""
    is_terminal = all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))
    return is_terminal or "FORCE_COLOR" in os.environ


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable within the block, unless the user has set it."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
