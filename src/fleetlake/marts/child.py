"""dbt in a process of its own, which ends when the one that started it has ended.

A build that is killed cannot end its child, and two dbt processes would then write one scratch
file. The child's standard input is a pipe that nobody writes to: it ends with its other end.
"""

import gc
import os
import sys
import threading

from dbt.cli.main import cli


def _end_with_parent() -> None:
    """Wait for the end of standard input, and end at once."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    # dbt makes objects by the hundred thousand that live as long as it does: to look through
    # them for garbage as often as Python does takes a sixth of its seconds.
    gc.set_threshold(100_000, 50, 100)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    cli()
