"""Ctrl-C while DuckDB works.

Python's own handler runs between two of DuckDB's tasks. A query may be one task of hours, or wait
for a pipe, so a thread hears of Ctrl-C instead.
"""

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

STOPPED = 130


@contextmanager
def on_ctrl_c(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` from a thread of its own at each Ctrl-C, at once; nothing else happens then.

    Where Ctrl-C is ignored, as in a background job, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    heard, told = os.pipe()
    os.set_blocking(told, False)
    listener = threading.Thread(target=_listen, args=(heard, act), daemon=True)
    listener.start()
    signal.signal(signal.SIGINT, lambda *_: None)
    before = signal.set_wakeup_fd(told)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(told)
        listener.join()
        os.close(heard)


def _listen(heard: int, act: Callable[[], object]) -> None:
    """Act on each SIGINT that is told through a pipe, until it is closed."""
    while number := os.read(heard, 1):
        if number[0] == signal.SIGINT:
            act()


def leave(spill: Path | None = None) -> None:
    """End the process, whatever its other threads are doing; for commands that only read.

    `spill` is a folder of temporary files that nobody else would remove.
    """
    if spill:
        shutil.rmtree(spill, ignore_errors=True)
    sys.stderr.write("Stopped.\n")
    sys.stderr.flush()
    os._exit(STOPPED)
