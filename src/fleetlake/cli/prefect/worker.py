"""`fleetlake prefect worker`: a worker that lets its runs finish their commit when it stops."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from psutil import Process

ENGINE = "prefect.engine"
"""An argument of the command of a flow run's process."""

STOP_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.5
REPORT_SECONDS = 3.0
"""Time for a worker to report ended runs to the server."""


def worker(
    name: Annotated[str | None, typer.Option(help="The worker's name on the server.")] = None,
) -> None:
    """Run flows from the work pool until stopped (Ctrl-C, SIGTERM or a closed terminal).

    `prefect worker start` kills its runs when it is stopped. This worker lets each run finish its
    commit and report its outcome first.
    """
    from fleetlake.cli.prefect.setup import require_set_up

    require_set_up()
    with stopped_by_signals(), running_worker(name=name) as process:
        process.wait()
        raise SystemExit(process.returncode)


@contextmanager
def running_worker(
    *, name: str | None = None, log: IO[bytes] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a Prefect worker inside the context; at the end, stop its runs and then the worker.

    The worker and its runs inherit this environment and the server's password.
    """
    from fleetlake.cli.prefect.deployments import flows_path
    from fleetlake.cli.prefect.setup import WORK_POOL
    from fleetlake.machine.prefect_auth import use_password

    use_password()
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", WORK_POOL]
    command += ["--name", name] if name else []
    process = subprocess.Popen(  # noqa: S603 - Prefect's own command
        command,
        stdout=log,
        stderr=log and subprocess.STDOUT,
        start_new_session=True,
        env=os.environ | flows_path(),
    )
    try:
        yield process
    finally:
        try:
            end_runs(process.pid)
        finally:  # otherwise the worker would outlive us
            end(process)


def end_runs(worker_pid: int) -> None:
    """Ask the flow runs of a worker to end, and wait for them (90 s at most)."""
    from psutil import NoSuchProcess

    deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
    asked: set[Process] = set()
    while (runs := flow_runs(worker_pid)) and time.monotonic() < deadline:
        for run in runs - asked:
            with suppress(NoSuchProcess):
                run.terminate()
        asked |= runs
        time.sleep(POLL_SECONDS)
    if asked:  # the worker reports a run that had not started yet
        time.sleep(REPORT_SECONDS)


def flow_runs(worker_pid: int) -> set["Process"]:
    """Return the processes of a worker's flow runs, in whatever session they are."""
    from psutil import Error, NoSuchProcess, Process

    runs = set()
    with suppress(NoSuchProcess):  # the worker has ended
        for process in Process(worker_pid).children(recursive=True):
            with suppress(Error):  # this process has ended, or its command is hidden from us
                if ENGINE in process.cmdline():
                    runs.add(process)
    return runs


def end(process: "subprocess.Popen[bytes]") -> None:
    """Terminate a process; kill its process group if it does not end in 90 s."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def running(
    command: list[str], log: Path, *, more: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command inside the context, in its own session, with its output in a log file.

    Its environment holds `more` and the few of our variables that every process needs. In its own
    session it does not receive the terminal's Ctrl-C: the processes must end one after another.
    """
    from fleetlake.machine.child_environment import plain_environment

    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own commands
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**plain_environment(), **(more or {})},
        )
        try:
            yield process
        finally:
            end(process)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP act like the first Ctrl-C, and ignore further ones.

    SIGHUP means a closed terminal or a lost ssh session. If it is ignored, as under nohup, it
    stays ignored.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
