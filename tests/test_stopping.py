"""Processes of `up` and `worker` end with them, whatever stops them. Fast: without Prefect."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from fleetlake.errors import FleetlakeError

worker = import_module(
    "fleetlake.cli.prefect.worker"
)  # a command of the same name hides it in its package

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")

START_A_CHILD = f"""
import sys
from pathlib import Path
from fleetlake.cli.prefect.worker import running, stopped_by_signals

with stopped_by_signals(), running({SLEEP!r}, Path(sys.argv[1])) as child:
    print(child.pid, flush=True)
    child.wait()
"""


@contextmanager
def child_of_a_command(log: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield a process that started a child as our commands do, and the id of that child."""
    line = [sys.executable, "-c", START_A_CHILD, str(log)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.terminate()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def at_a_closed_terminal(action: signal.Handlers) -> Iterator[None]:
    """Set how processes started in this block react to SIGHUP, independent of the test runner."""
    before = signal.signal(signal.SIGHUP, action)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_child_processes_end_with_their_command_even_if_the_terminal_closes(number, tmp_path):
    with (
        at_a_closed_terminal(signal.SIG_DFL),
        child_of_a_command(tmp_path / "log") as (process, child),
    ):
        process.send_signal(number)
        process.wait(30)

        was_left = is_alive(child)
        if was_left:
            os.kill(child, signal.SIGKILL)
    assert not was_left


def test_a_closed_terminal_does_not_stop_processes_started_with_nohup(tmp_path):
    with (
        at_a_closed_terminal(signal.SIG_IGN),  # as nohup does
        child_of_a_command(tmp_path / "log") as (process, child),
    ):
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        assert is_alive(child)


@contextmanager
def a_run() -> Iterator[int]:
    """Yield the id of a process that looks like a flow run's."""
    with subprocess.Popen([*SLEEP, worker.ENGINE]) as run:
        try:
            yield run.pid
        finally:
            run.kill()


def test_runs_are_found_on_a_machine_without_ps(monkeypatch):
    with a_run() as run:
        monkeypatch.setenv("PATH", "")
        assert worker.run_processes(os.getpid(), worker.list_processes()) == {run}


def test_the_kernel_and_ps_list_the_same_processes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")  # the width at which ps would cut its lines
    with a_run() as run:
        by_kernel, by_ps = (
            [line.split() for line in lines if line.split()[0] == str(run)]
            for lines in (worker.processes_from_proc(), worker.processes_from_ps())
        )

    assert by_kernel == by_ps
    assert by_ps


def test_a_worker_ends_even_if_its_runs_cannot_be_found(monkeypatch, tmp_path):
    prefect = tmp_path / "prefect"
    prefect.write_text("#!/bin/sh\nexec sleep 600\n")
    prefect.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(prefect))
    monkeypatch.setattr(worker, "processes_from_proc", worker.processes_from_ps)

    with (
        pytest.raises(FleetlakeError, match="could not be listed"),
        worker.running_worker() as process,
    ):
        monkeypatch.setenv("PATH", "")

    assert process.poll() is not None
