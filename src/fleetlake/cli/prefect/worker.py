"""`fleetlake worker`: a Prefect worker that lets its runs finish their commit when it stops."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Annotated

import typer

ENGINE = "prefect.engine"
"""Part of the command line of a flow run's process."""

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
        finally:  # otherwise the worker would run on without us
            end(process)


def end_runs(worker_pid: int) -> None:
    """Ask the flow runs of a worker to end, and wait for them (90 s at most)."""
    deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
    asked: set[int] = set()
    while (runs := run_processes(worker_pid, list_processes())) and time.monotonic() < deadline:
        for pid in runs - asked:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        asked |= runs
        time.sleep(POLL_SECONDS)
    if asked:  # the worker reports a run that had not started yet
        time.sleep(REPORT_SECONDS)


def run_processes(worker_pid: int, processes: Iterable[str]) -> set[int]:
    """Return the ids of a worker's flow runs, from lines of pid, parent pid and command.

    >>> lines = ["7 1 prefect worker start", "8 7 python -m prefect.engine", "9 8 dbt build",
    ...          "10 1 python -m prefect.engine"]
    >>> run_processes(7, lines)
    {8}
    """
    children: dict[int, list[int]] = defaultdict(list)
    engines = set()
    for line in processes:
        pid, parent, command = line.split(maxsplit=2)
        children[int(parent)].append(int(pid))
        if ENGINE in command:
            engines.add(int(pid))
    below, waiting = set(), [worker_pid]
    while waiting:
        found = children[waiting.pop()]
        below.update(found)
        waiting += found
    return below & engines


def list_processes() -> list[str]:
    """Return pid, parent pid and command of each process.

    Raises: FleetlakeError without /proc and ps.
    """
    lines = processes_from_proc() if Path("/proc/self/stat").exists() else processes_from_ps()
    return [line for line in lines if len(line.split()) > 2]  # noqa: PLR2004 - a zombie has no command


def processes_from_proc() -> Iterator[str]:
    """Yield the lines of ps, which small containers often lack."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has ended
            # The program's name, in parentheses, may contain anything; state and parent follow it.
            parent = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
            yield f"{folder.name} {parent} {command}"


def processes_from_ps() -> list[str]:
    """Return the lines of ps. Raises: FleetlakeError if it is not installed."""
    from fleetlake.errors import FleetlakeError
    from fleetlake.machine.child_environment import plain_environment

    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    try:
        done = subprocess.run(  # noqa: S603 - the options of POSIX
            command, capture_output=True, text=True, check=True, env=plain_environment()
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise FleetlakeError(
            f"The processes of this machine could not be listed: {error}.",
            remedy="Install ps: the worker needs it to let its runs finish their commit.",
        ) from None
    return done.stdout.splitlines()


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

    It gets `more` and, of our environment, only what every process needs. In a session of its own
    it does not receive the terminal's Ctrl-C: the processes must end one after another.
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
