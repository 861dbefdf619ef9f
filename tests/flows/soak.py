"""Simulated days under the real schedules, then kill -9 of flow, worker and server: minutes long.

    make soak-prefect                   # two days, 192 times as fast: about 25 minutes
    make soak-prefect DAYS=0.2 SPEED=60

Ends with a summary of each deployment, and compares the lake with the simulator's truth.
"""

import itertools
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from fleetlake.cli.prefect.worker import end_runs, flow_runs, running_worker
from flows.states import SKIPPED
from tests.flows.server import SERVE, SET_UP, Server, server_at
from tests.support.processes import UNSETTLED, Service, environment, fleetlake, service
from tests.support.waiting import wait_for
from tests.test_crash import compare

ENDED = {"COMPLETED", "FAILED", "CRASHED"}
PAGE = 200
DEAD_WITHIN_SECONDS = 300  # flows/automations/dead-runs.yaml says 120 after the last heartbeat


def say(what: str) -> None:
    """Print a line immediately, with the time."""
    sys.stdout.write(f"{datetime.now():%H:%M:%S} {what}\n")  # noqa: DTZ005 - for who is watching
    sys.stdout.flush()


def now_at(fleet: Service) -> datetime:
    """Return the service's clock."""
    return datetime.fromisoformat(fleet.state()["now"])


def all_runs(server: Server) -> list[dict[str, Any]]:
    """Return every run that started or was rejected, oldest first."""
    runs: list[dict[str, Any]] = []
    while page := server.ask(
        "flow_runs",
        limit=PAGE,
        offset=len(runs),
        sort="EXPECTED_START_TIME_ASC",
        flow_runs={"state": {"type": {"not_any_": ["SCHEDULED"]}}},
    ):
        runs += page
    return runs


def overlaps(runs: list[dict[str, Any]]) -> int:
    """Return how often a run started before the previous one ended; skipped runs never ran."""
    times = sorted(
        (run["start_time"], run["end_time"])
        for run in runs
        if run["state_type"] in ENDED
        and run["state_name"] != SKIPPED
        and run["start_time"]
        and run["end_time"]
    )
    return sum(ended > began for (_, ended), (began, _) in itertools.pairwise(times))


def table(server: Server) -> str:
    """Return a line per deployment with what it did."""
    names = {d["id"]: d["name"] for d in server.ask("deployments")}
    by_name = defaultdict(list)
    for run in all_runs(server):
        by_name[names.get(run["deployment_id"], "?")].append(run)
    lines = [f"{'deployment':12}{'fired':>7}{'overlaps':>10}  ended as"]
    for name, runs in sorted(by_name.items()):
        states = Counter(run["state_name"] for run in runs)
        reported = ", ".join(f"{count} {state}" for state, count in states.most_common())
        lines.append(f"{name:12}{len(runs):>7}{overlaps(runs):>10}  {reported}")
    return "\n".join(lines)


def names_of(server: Server, ids: set[str]) -> Counter[str]:
    """Return the state names of runs, counted."""
    found = server.ask("flow_runs", flow_runs={"id": {"any_": sorted(ids)}})
    return Counter(run["state_name"] for run in found)


def running_ingests(server: Server) -> set[str]:
    """Return the ids of the running loads."""
    found = server.ask("flow_runs", flow_runs={"state": {"type": {"any_": ["RUNNING"]}}})
    return {run["id"] for run in found if run["name"].startswith("ingest")}


def loading(server: Server, fleet: Service, worker_pid: int) -> set[str]:
    """Return the running loads once one of them calls the service."""

    def found() -> set[str]:
        before = sum(fleet.state()["calls"].values())
        runs = running_ingests(server)
        time.sleep(1)
        is_calling = sum(fleet.state()["calls"].values()) > before
        return runs if is_calling and flow_runs(worker_pid) else set()

    return wait_for(found, 300)


def kill(*processes: psutil.Process) -> None:
    """Kill processes as a power cut would."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def soak(server: Server, fleet: Service, days: float) -> None:
    """Let the schedules run for simulated days."""
    end = now_at(fleet) + timedelta(days=days)
    while (now := now_at(fleet)) < end:
        say(f"{now:%Y-%m-%d %H:%M} at the service; {len(all_runs(server))} runs so far")
        time.sleep(30)


def killed_flow(server: Server, fleet: Service, worker_pid: int) -> None:
    """Kill the processes of the flows; the worker notices and reports it."""
    runs = loading(server, fleet, worker_pid)
    kill(*flow_runs(worker_pid))
    wait_for(lambda: not runs & running_ingests(server), DEAD_WITHIN_SECONDS)
    say(f"flow killed: {dict(names_of(server, runs))}")


def killed_worker(server: Server, fleet: Service, worker_pid: int) -> None:
    """Kill the worker with its flows; only the automation is left to report it."""
    runs = loading(server, fleet, worker_pid)
    kill(psutil.Process(worker_pid), *flow_runs(worker_pid))
    wait_for(lambda: not runs & running_ingests(server), DEAD_WITHIN_SECONDS)
    say(f"worker killed: {dict(names_of(server, runs))}")


def errors_in(log: Path) -> str:
    """Return how many lines of a log report errors, and a locked database."""
    lines = log.read_text("utf-8", "replace").splitlines()
    errors = sum(" | ERROR" in line for line in lines)
    locked = sum(line.startswith("sqlite3") and "locked" in line for line in lines)
    return f"{log.name}: {errors} errors, {locked} times `database is locked`"


def main() -> int:
    """Soak, kill, compare; return the exit code."""
    days, speed = float(os.environ.get("DAYS") or 2), float(os.environ.get("SPEED") or 192)
    # In a larger fleet, routers are unregistered, and their last reports can no longer be read.
    with tempfile.TemporaryDirectory() as home, service(routers=12, days=1, speed=speed) as fleet:
        folder = Path(home)
        env = environment(folder, fleet.url)
        server = server_at(folder, env)
        os.environ.update(server.environment)
        serving = partial(server.running, *SERVE, log=folder / "server.log")
        with serving() as process, (folder / "worker.log").open("ab") as log:
            wait_for(server.is_healthy)
            server.run(*SET_UP, "--speed", str(speed), "--runs", "4")
            with running_worker(log=log) as worker:
                soak(server, fleet, days)
                say("\n" + table(server))
                fleet.faults(latency_ms=300)
                killed_flow(server, fleet, worker.pid)
                killed_worker(server, fleet, worker.pid)
            with running_worker(log=log) as worker:
                runs = loading(server, fleet, worker.pid)
                process.kill()
                with serving():
                    wait_for(server.is_healthy)
                    wait_for(lambda: not runs & running_ingests(server), DEAD_WITHIN_SECONDS)
                    say(f"server killed and started again: {dict(names_of(server, runs))}")
                    end_runs(worker.pid)
        fleet.faults(latency_ms=0)
        fleet.stop_clock()  # nothing may be added while lists are compared
        settled = now_at(fleet) - UNSETTLED
        last = fleetlake("ingest", env=env)
        rows, doubles, losses = compare(fleet, env, settled.isoformat())
        say(f"{rows:,} rows compared, {doubles} duplicates, {losses} losses")
        say(f"{errors_in(folder / 'server.log')}; {errors_in(folder / 'worker.log')}")
    return int(bool(last.returncode or doubles or losses))


if __name__ == "__main__":
    raise SystemExit(main())
