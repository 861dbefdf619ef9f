"""What `fleetlake prefect server` does for a server on SQLite. Fast: without a server."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

SERVE = """
import threading, weakref
from fleetlake.cli.prefect.server import collect_in_background

class Forgotten:
    def __init__(self):
        self.circle = self

def note():
    global collector
    collector = threading.current_thread()
    collected.set()

collected, collector = threading.Event(), None
collect_in_background(0.01)
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


SET = """
import json, runpy
from fleetlake.cli.prefect.server import server

def show(*_, **__):
    from prefect.settings import get_current_settings

    server = get_current_settings().server
    vacuum = server.services.db_vacuum
    shown = [sorted(vacuum.enabled_vacuum_types), vacuum.retention_period.days]
    leases, telling = server.concurrency.lease_storage, server.analytics_enabled
    print(json.dumps([*shown, leases, telling, server.api.cors_allowed_origins]))

runpy.run_module = show
server()
"""


def settings_of_server(home: Path, **own: str) -> list[object]:
    """Return what the server deletes, after how many days, where it keeps leases, whether it
    sends usage statistics, and its origins.
    """
    names = import_module("fleetlake.cli.prefect.server").DEFAULTS
    env = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", SET],
        env={**env, "PREFECT_HOME": str(home), **own},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: list[object] = json.loads(done.stdout)
    return found


@pytest.mark.proof
def test_server_deletes_old_runs_keeps_leases_on_disk_sends_no_statistics_and_knows_its_pages(
    tmp_path: Path,
) -> None:
    kinds, days, leases, is_telling, origins = settings_of_server(tmp_path)

    assert (kinds, days) == (["events", "flow_runs", "orphans"], 30)
    assert leases == "prefect.server.concurrency.lease_storage.filesystem"
    assert is_telling is False
    assert origins == "http://127.0.0.1:4200,http://localhost:4200"


@pytest.mark.proof
def test_server_follows_the_settings_of_the_environment(tmp_path: Path) -> None:
    own = settings_of_server(
        tmp_path,
        PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED="events",
        PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD=str(7 * 24 * 3600),
        PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE="elsewhere",
        PREFECT_SERVER_ANALYTICS_ENABLED="true",
        PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS="https://prefect.example",
    )

    assert own == [["events"], 7, "elsewhere", True, "https://prefect.example"]
