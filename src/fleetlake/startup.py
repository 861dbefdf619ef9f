"""A lean start and end of the command line.

A start with nothing new to load costs little more than its imports. Some libraries import others
only to answer a question that no command asks. Here each such question gets its answer, and nothing
is hidden from anybody else: any other `import pandas` in this process works.
"""

import atexit
import gc
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

GARBAGE_THRESHOLDS = (200_000, 5, 20)
"""Objects between two collections, and collections between two of the older generations.

Imports and pages make many objects and few cycles. With Python's own 700, collections take 10 % of
the CPU time of a start, which makes about as many objects as this, and 3 % of a load's.
"""

_HTTPX_COMMAND = "httpx._main"
_MAY_USE_PANDAS = "fleetlake.analysis"


class _NeedlessImports:
    """A module finder that answers no to two questions of libraries.

    httpx imports its own command line, if Rich, Pygments and Click are installed. Without it, httpx
    only lacks the function `httpx.main`.

    pyarrow and DuckDB ask before they convert the first value whether pandas is installed, to
    recognise its objects. Importing pandas, where it is installed, takes a quarter of the CPU time
    of an ingest with nothing new. Both are compiled, so their question comes from the module of
    ours that calls them, which imports no pandas itself, or from a module of pyarrow that is being
    imported.
    """

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _HTTPX_COMMAND:
            raise ModuleNotFoundError("fleetlake has its own command line", name=name)
        if name == "pandas" and _is_needless(sys._getframe(1)):  # noqa: SLF001 - see above
            raise ModuleNotFoundError("fleetlake passes no pandas objects", name=name)
        return None


def prepare_start() -> None:
    """Make the imports of this process cheap. Call it before the first of them."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    # numpy comes with pyarrow and would start threads for linear algebra.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Arrow's own allocator keeps what one thread allocates and another frees: pages are read by one
    # thread and committed by another, so an ingest took 6 % more memory, and no less CPU time.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    sys.meta_path.insert(0, _NeedlessImports)


def end_at_once(code: int) -> None:
    """End this process with an exit code, without taking its memory apart.

    The kernel frees it anyway. Python's own end takes a seventh of the CPU time of an ingest with
    nothing new. What was registered to run at the end runs. Returns if the process must end in the
    usual way, because a thread still works or output cannot be written.
    """
    if any(not t.daemon for t in threading.enumerate() if t is not threading.main_thread()):
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - as Python's own end, and `multiprocessing`, do
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


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


def _is_needless(frame: FrameType | None) -> bool:
    """Return whether a frame of the import system works for a question about pandas objects."""
    while frame and _module_of(frame).startswith("importlib"):
        frame = frame.f_back
    asking = _module_of(frame) if frame else ""
    if asking.startswith("pyarrow."):
        return frame is not None and frame.f_code.co_name == "<module>"
    return asking.startswith("fleetlake.") and not asking.startswith(_MAY_USE_PANDAS)


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
