"""Runs a module as a program, and asks it to stop when the parent process is gone.

`python -m fleetlake.receiving.while_parent_lives MODULE`. The parent holds the other end of
standard input. A killed parent could not stop its child any more, which would go on next to that of
the next parent.
"""

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    """Run the module that is named by the first argument."""
    threading.Thread(target=_stop_at_the_end_of_input, daemon=True).start()
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _stop_at_the_end_of_input() -> None:
    """Send SIGTERM to this process once its parent has closed the pipe."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
