"""`fleetlake prefect-server`: Prefect's server, whose garbage is collected beside its event loop.

The server keeps its books in SQLite, with a thread for each connection. Python lets go of a
forgotten cursor in whatever thread happens to collect garbage. Where that was the event loop's,
and the cursor's connection was waiting to write, the loop waited with it; whoever was writing
could then not go on either, until all of them gave up a minute later with `database is locked`
(observed 2026-11-21 with Prefect 3.8.8 on a busy machine).
"""

import gc
import os
import runpy
import sys
import threading
import time

SECONDS_BETWEEN = 20.0
KEPT_DAYS = 30
LEASES = "prefect.server.concurrency.lease_storage"

DEFAULTS = {
    # Prefect forgets events by itself, but keeps every run for ever: some 700 of ours a day.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(KEPT_DAYS * 24 * 3600),
    # Who holds a deployment's slot must outlive the server, as the count of slots taken does:
    # a slot without a holder is never given back, and each later run of it is cancelled.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": f"{LEASES}.filesystem",
}
"""Settings of the server that differ from Prefect's own; the environment's win."""

ORIGINS = ("PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS", "PREFECT_SERVER_CORS_ALLOWED_ORIGINS")
"""The names of one setting, in the order in which Prefect looks for them. Its default is `*`."""


def prefect_server() -> None:
    """Start Prefect's server until stopped (Ctrl-C or SIGTERM), for use with SQLite.

    The same as `prefect server start` and set by the same environment, but that it does not come
    to a stand for a minute when many runs write at once, forgets runs after 30 days and remembers
    over a restart who holds a deployment's slot.

    It asks for a password, which its first start makes and keeps in PREFECT_HOME/fleetlake-auth
    (mode 600) unless PREFECT_SERVER_API_AUTH_STRING is set. Log in to the UI with the whole line
    of that file. Web pages of other origins cannot read its answers.
    """
    from fleetlake.cli.output import say
    from fleetlake.cli.prefect.setup import require_prefect
    from fleetlake.machine.prefect_auth import own_origins, prefect_setting, require_password

    require_prefect()
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not prefect_setting(*ORIGINS):
        os.environ[ORIGINS[0]] = own_origins()
    if password_file := require_password():
        say(f"The password is in {password_file}.")
    collect_beside(SECONDS_BETWEEN)
    sys.argv = ["prefect", "server", "start"]
    runpy.run_module("prefect", run_name="__main__", alter_sys=True)


def collect_beside(seconds: float) -> None:
    """Let garbage be collected by a thread of its own from now on, every so many seconds."""
    gc.disable()
    threading.Thread(target=_collect_for_ever, args=(seconds,), daemon=True).start()


def _collect_for_ever(pause: float) -> None:
    while True:
        time.sleep(pause)
        gc.collect()
