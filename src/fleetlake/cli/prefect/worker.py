"""`fleetlake worker`: a Prefect worker whose runs end in order when it is stopped."""

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
"""What the command of a flow run's process holds."""

PATIENCE_SECONDS = 90.0
POLL_SECONDS = 0.5
REPORT_SECONDS = 3.0
"""What a worker gets to tell the server of the runs that have ended."""


def worker(
    name: Annotated[str | None, typer.Option(help="Its name on the server.")] = None,
) -> None:
    """Run flows from the work pool until stopped (Ctrl-C, SIGTERM or a closed terminal).

    The same as `prefect worker start`, which kills its runs when it is stopped: here each ends
    its commit first and says what became of it.
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
    """Run a Prefect worker meanwhile; its runs end before it does.

    It has this environment, the server's password included, and hands it to its runs.
    """
    from fleetlake.cli.prefect.setup import WORK_POOL
    from fleetlake.machine.prefect_auth import use_password

    use_password()
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", WORK_POOL]
    command += ["--name", name] if name else []
    process = subprocess.Popen(  # noqa: S603 - Prefect's own command
        command, stdout=log, stderr=log and subprocess.STDOUT, start_new_session=True
    )
    try:
        yield process
    finally:
        try:
            end_runs(process.pid)
        finally:  # a worker without us would go on for ever
            end(process)


def end_runs(worker_pid: int) -> None:
    """Ask the flow runs of a worker to end, and wait until they have."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    asked: set[int] = set()
    while (runs := run_processes(worker_pid, listed())) and time.monotonic() < deadline:
        for pid in runs - asked:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        asked |= runs
        time.sleep(POLL_SECONDS)
    if asked:  # one that had not begun yet cannot say so itself: its worker does
        time.sleep(REPORT_SECONDS)


def run_processes(worker_pid: int, listed: Iterable[str]) -> set[int]:
    """Return the flow runs' processes below a worker, from lines of pid, parent and command.

    >>> lines = ["7 1 prefect worker start", "8 7 python -m prefect.engine", "9 8 dbt build",
    ...          "10 1 python -m prefect.engine"]
    >>> run_processes(7, lines)
    {8}
    """
    children: dict[int, list[int]] = defaultdict(list)
    engines = set()
    for line in listed:
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


def listed() -> list[str]:
    """Return pid, parent and command of each process.

    Raises: FleetlakeError where neither /proc nor ps tells.
    """
    lines = listed_by_kernel() if Path("/proc/self/stat").exists() else listed_by_ps()
    return [line for line in lines if len(line.split()) > 2]  # noqa: PLR2004 - one without a command runs nothing


def listed_by_kernel() -> Iterator[str]:
    """Yield what ps would, which a small container often lacks."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            # A program's own name, in brackets, may hold anything; behind it: state and parent.
            parent = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
            yield f"{folder.name} {parent} {command}"


def listed_by_ps() -> list[str]:
    """Return what ps lists. Raises: FleetlakeError where there is none."""
    from fleetlake.errors import FleetlakeError
    from fleetlake.machine.child_environment import plain_environment

    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    try:
        done = subprocess.run(  # noqa: S603 - as POSIX has it
            command, capture_output=True, text=True, check=True, env=plain_environment()
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise FleetlakeError(
            f"The runs of the worker could not be looked up: {error}.",
            remedy="Install ps: with it, runs end what they are committing before a worker ends.",
        ) from None
    return done.stdout.splitlines()


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process in order, or by force with its whole group when it does not come."""
    process.terminate()
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def running(
    command: list[str], log: Path, *, more: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command meanwhile that logs to a file, in a session of its own.

    Of our environment it gets what any process needs, and `more`.

    Ctrl-C reaches every process of a terminal's group at once; here each must wait its turn.
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
    """Let SIGTERM and SIGHUP do what Ctrl-C does, once: what is running then ends in order.

    SIGHUP is a closed terminal or a lost ssh. Where it is ignored, as under nohup, it stays so.
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
