"""What `fleetlake prefect-server` does for a server over SQLite; without Prefect, so quick."""

import subprocess
import sys

SERVE = """
import threading, weakref
from fleetlake.cli.prefect_server import collect_beside

class Forgotten:
    def __init__(self):
        self.circle = self

def note():
    global collector
    collector = threading.current_thread()
    collected.set()

collected, collector = threading.Event(), None
collect_beside(0.01)
weakref.finalize(Forgotten(), note)
for number in range(1_000_000):  # Python's own collector would have run many times
    made = [number]
    made.append([made])
assert collected.wait(30), "nobody collects"
print("beside" if collector is not threading.main_thread() else "in the thread that serves")
"""


def test_garbage_is_collected_but_never_by_the_thread_that_serves() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVE], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.strip() == "beside"
