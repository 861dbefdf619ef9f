"""Ctrl-C while DuckDB is working.

Python runs signal handlers only between two of DuckDB's tasks. One task may take hours or wait for
a pipe, so a thread listens for Ctrl-C instead.
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
    """Call `act` from a separate thread at each Ctrl-C, instead of raising KeyboardInterrupt.

    If Ctrl-C is ignored, as in a background job, it stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    listener = threading.Thread(target=_listen, args=(read_end, act), daemon=True)
    listener.start()
    signal.signal(signal.SIGINT, lambda *_: None)
    before = signal.set_wakeup_fd(write_end)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(write_end)
        listener.join()
        os.close(read_end)


def _listen(read_end: int, act: Callable[[], object]) -> None:
    """Call `act` for each SIGINT number read from a pipe, until the pipe is closed."""
    while number := os.read(read_end, 1):
        if number[0] == signal.SIGINT:
            act()


def leave(spill: Path | None = None) -> None:
    """End the process at once without waiting for its threads; for commands that only read.

    `spill` is a folder of temporary files to remove first.
    """
    if spill:
        shutil.rmtree(spill, ignore_errors=True)
    sys.stderr.write("Stopped.\n")
    sys.stderr.flush()
    os._exit(STOPPED)
