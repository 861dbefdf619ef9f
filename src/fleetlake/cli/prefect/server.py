"""`fleetlake prefect server`: Prefect's server with garbage collection outside its event loop.

The server keeps its state in SQLite, with one thread per connection. Python frees an abandoned
cursor in whichever thread runs the garbage collector. If that is the event loop's thread and the
cursor's connection is waiting to write, the event loop waits too. The current writer then cannot
finish either, until all of them fail a minute later with `database is locked` (observed
2026-11-21 with Prefect 3.8.8 on a busy machine).
"""

import gc
import os
import runpy
import sys
import threading
import time

from fleetlake.cli.output import say

COLLECTION_INTERVAL_SECONDS = 20.0
KEPT_DAYS = 30
LEASES = "prefect.server.concurrency.lease_storage"

DEFAULTS = {
    # By default Prefect deletes old events but keeps every run: about 700 of ours per day.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(KEPT_DAYS * 24 * 3600),
    # The holders of a deployment's slots must survive a restart, because the count of taken slots
    # does: a slot without a holder is never released, and every later run is cancelled.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": f"{LEASES}.filesystem",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",  # usage statistics, sent to Prefect's makers
}
"""Server settings that differ from Prefect's defaults; the environment overrides them."""

ORIGINS = ("PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS", "PREFECT_SERVER_CORS_ALLOWED_ORIGINS")
"""The names of one setting in Prefect's order of precedence. Its default is `*`."""


def server() -> None:
    """Run Prefect's server until stopped (Ctrl-C or SIGTERM).

    It works like `prefect server start` and reads the same environment, with four differences:
    it does not stall for a minute when many runs write at once, it deletes runs after 30 days, it
    remembers the holders of a deployment's slots over a restart, and it sends no usage statistics.
    Its data is in SQLite, unless PREFECT_SERVER_DATABASE_CONNECTION_URL names another database.

    It requires a password. The first start creates one in PREFECT_HOME/fleetlake-auth (mode 600)
    unless PREFECT_SERVER_API_AUTH_STRING is set. To log in to the UI, type the whole line of that
    file. Web pages of other origins cannot read its responses.
    """
    from fleetlake.cli.prefect.setup import require_prefect
    from fleetlake.machine.prefect_auth import own_origins, prefect_setting, require_password

    require_prefect()
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not prefect_setting(*ORIGINS):
        os.environ[ORIGINS[0]] = own_origins()
    if password_file := require_password():
        say(f"The password is in {password_file}.")
    collect_in_background(COLLECTION_INTERVAL_SECONDS)
    sys.argv = ["prefect", "server", "start"]
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)


def collect_in_background(seconds: float) -> None:
    """Collect garbage only in a background thread from now on, at this interval."""
    gc.disable()
    threading.Thread(target=_collect_repeatedly, args=(seconds,), daemon=True).start()


def _collect_repeatedly(pause: float) -> None:
    while True:
        time.sleep(pause)
        gc.collect()
