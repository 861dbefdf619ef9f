"""Processes of `up` and `worker` start and end with them. Fast: without Prefect."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fleetlake.errors import FleetlakeError

# The package exports the commands, which have the names of their modules.
setup = import_module("fleetlake.cli.prefect.setup")
up = import_module("fleetlake.cli.prefect.up")
worker = import_module("fleetlake.cli.prefect.worker")

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
        process.wait(120)

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


SAY_AND_SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
RUN = (sys.executable, "-c", SAY_AND_SLEEP, worker.ENGINE)
"""A run, which says its id once it has the arguments by which it is found."""

STARTS_A_RUN = f"""
import subprocess
with subprocess.Popen({RUN!r}, start_new_session=True) as run:
    pass
"""


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a process of this command, which ends with the block."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_runs_of_a_worker_are_asked_to_end_at_any_depth_and_nothing_else_is(monkeypatch):
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0)
    with started(*RUN) as run, started(sys.executable, "-c", STARTS_A_RUN) as deep:
        runs = {int(process.stdout.readline()) for process in (run, deep) if process.stdout}
        assert len(runs) == 2
        assert {found.pid for found in worker.flow_runs(os.getpid())} == runs

        with started(*SLEEP) as other:
            worker.end_runs(os.getpid())

            assert run.wait(120) == -signal.SIGTERM
            assert deep.wait(120) == 0  # it has waited for its run
            assert other.poll() is None


def test_a_run_that_takes_long_to_end_is_asked_once_and_may_report_its_end(monkeypatch):
    class Run:
        times_asked = 0

        def terminate(self) -> None:
            self.times_asked += 1

    run, waits = Run(), []
    looks = iter([{run}, {run}, {run}, set()])
    monkeypatch.setattr(worker, "flow_runs", lambda _worker_pid: next(looks))
    monkeypatch.setattr(worker.time, "sleep", waits.append)

    worker.end_runs(os.getpid())

    assert run.times_asked == 1
    assert waits == [worker.POLL_SECONDS] * 3 + [worker.REPORT_SECONDS]


def test_a_worker_that_has_ended_has_no_runs():
    with started(*SLEEP) as process:
        process.kill()
        process.wait()

        assert worker.flow_runs(process.pid) == set()


def test_a_worker_ends_even_if_the_wait_for_its_runs_is_interrupted(monkeypatch, tmp_path):
    def interrupted(_worker_pid: int) -> None:
        raise KeyboardInterrupt

    prefect = tmp_path / "prefect"
    prefect.write_text("#!/bin/sh\nexec sleep 600\n")
    prefect.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(prefect))
    monkeypatch.setattr(worker, "flow_runs", interrupted)

    with pytest.raises(KeyboardInterrupt), worker.running_worker() as process:
        pass

    assert process.poll() is not None


class Polled:
    """A process that reports at each poll what the test says, and then that it has ended."""

    args = "a command"
    returncode: int | None = None

    def __init__(self, *polls: Callable[[], Any]) -> None:
        self.polls = list(polls)

    def poll(self) -> int | None:
        if self.polls:
            self.polls.pop(0)()
        else:
            self.returncode = 3
        return self.returncode


@pytest.fixture
def up_of_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Let `up` run in an empty project, and never wait."""
    monkeypatch.chdir(tmp_path)
    Path("prefect.yaml").touch()
    monkeypatch.setattr(up, "POLL_SECONDS", 0)
    return monkeypatch


def test_up_reads_the_simulators_address_once_it_is_ready(up_of_nothing, tmp_path):
    def is_ready() -> None:
        (tmp_path / "simulator.log").write_text("A warning.\nready http://127.0.0.1:8001/api/v2/\n")

    @contextmanager
    def running(_command: list[str], log: Path) -> Iterator[Polled]:
        log.touch()
        yield Polled(lambda: None, is_ready)

    up_of_nothing.setattr(up, "FOLDER", tmp_path)
    up_of_nothing.setattr(worker, "running", running)

    with up._simulator(1, 1, 1) as address:  # noqa: SLF001 - without a server and a worker
        assert address == "http://127.0.0.1:8001/api/v2/"


def test_a_start_of_up_empties_the_folder_of_the_start_before(tmp_path):
    folder = tmp_path / "up"
    up._create_empty(folder)  # noqa: SLF001 - without a server and a worker
    (folder / "prefect").mkdir()
    (folder / "server.log").touch()

    up._create_empty(folder)  # noqa: SLF001

    assert [path.name for path in folder.iterdir()] == [up.MARK]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_up_runs_until_one_of_its_processes_ends(up_of_nothing):
    server = Polled(*[lambda: None] * 20)
    for place, name, started in [
        (worker, "running", server),
        (worker, "running_worker", Polled(*[lambda: None] * 3)),
        (up, "_simulator", "http://127.0.0.1:8001"),
        (up, "_dashboard", "http://127.0.0.1:8710"),
        (up, "_receiver", (Polled(*[lambda: None] * 20), "http://127.0.0.1:8720")),
    ]:
        up_of_nothing.setattr(place, name, lambda *_, started=started, **__: nullcontext(started))
    for place, name in [
        (setup, "set_up"),
        (up, "put_environment"),
        (up, "_wait_for_server"),
    ]:
        up_of_nothing.setattr(place, name, lambda *_, **__: None)

    with pytest.raises(FleetlakeError, match="A process ended with code 3: a command"):
        up.up(port=0, routers=1, days=1, speed=60)

    assert len(server.polls) == 20 - 4


def test_the_worker_command_lasts_as_long_as_its_worker_and_ends_with_its_code(monkeypatch):
    class Worker:
        returncode = None

        def wait(self) -> None:
            self.returncode = 7

    monkeypatch.setattr(setup, "require_set_up", lambda: None)
    monkeypatch.setattr(worker, "running_worker", lambda **_: nullcontext(Worker()))

    with pytest.raises(SystemExit) as ended:
        worker.worker()

    assert ended.value.code == 7
