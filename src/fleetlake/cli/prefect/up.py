"""`fleetlake prefect up`: the scheduled deployment on this machine, over a simulated service."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.screen import console
from fleetlake.errors import FleetlakeError, UsageError

FOLDER = Path("data/up")
LOCK = Path("data/up.lock")
"""Kept outside the folder, because every start empties that."""

MARK = ".fleetlake-up"
"""File that marks the folder as created by `up`, so that it may be emptied."""

POLL_SECONDS = 0.5
HOST = "127.0.0.1"
OURS = ("FLEETLAKE_", "PREFECT_")
"""Prefixes of all environment variables that are settings here."""


def up(
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of Prefect's server and UI.")
    ] = 4200,
    routers: Annotated[int, typer.Option(min=1, help="Size of the simulated fleet.")] = 20,
    days: Annotated[float, typer.Option(min=0.1, help="Days of history.")] = 1,
    speed: Annotated[
        float, typer.Option(min=1, help="Simulated seconds per second; schedules run as fast.")
    ] = 60,
) -> None:
    """Run Prefect's server, a worker and all schedules over a simulated service until stopped.

    The service also pushes its alerts to a receiver, which brings them into the lake at once.

    Needs no containers. Each start empties the project's data/up first. Ctrl-C, SIGTERM or a closed
    terminal stops everything, after the active runs have committed.
    """
    from fleetlake.cli.prefect.setup import require_prefect, set_up
    from fleetlake.cli.prefect.worker import running, running_worker, stopped_by_signals
    from fleetlake.machine.child_environment import server_access
    from fleetlake.machine.prefect_auth import auth_file
    from fleetlake.machine.project import project_folder
    from fleetlake.serving.web_server import listen

    require_prefect()
    os.chdir(project_folder())
    listen("127.0.0.1", port).close()  # the server would report a taken port only in its log
    screen = console()
    with _locked_folder(), stopped_by_signals(), ExitStack() as started:
        _create_empty(FOLDER)
        service = started.enter_context(_simulator(routers, days, speed))
        put_environment(environment(FOLDER.resolve(), service, port))
        screen.print(f"Service: {service}, {speed:g} times as fast as real time.")
        receiver, address = started.enter_context(_receiver())
        screen.print(f"Receiver: {address}/push, where the service pushes its alerts.")
        screen.print("Starting Prefect's server and a worker; the first runs start in a minute.")
        command = [sys.executable, "-P", "-m", "fleetlake", "prefect", "server"]
        log = FOLDER / "server.log"
        server = started.enter_context(running(command, log, more=server_access()))
        _wait_for_server(server, port)
        screen.print(f"Prefect: http://{HOST}:{port}")
        screen.print(login_hint(auth_file(), is_terminal=screen.is_terminal))
        set_up(speed=speed, runs=4, store_keys=False)
        worker_log = started.enter_context((FOLDER / "worker.log").open("wb"))
        worker = started.enter_context(running_worker(name="up", log=worker_log))
        screen.print(
            f"Dashboard: {started.enter_context(_dashboard())} (fills with the first marts)"
        )
        screen.print(f"Alerts as they arrive: {command_on(FOLDER, 'alerts watch')}")
        screen.print(f"How complete the lake is: {command_on(FOLDER, 'status')}")
        screen.print(f"Running. Logs are in {FOLDER}; press Ctrl-C to stop.")
        try:
            _wait_for_end(server, worker, receiver)
        except KeyboardInterrupt:
            with suppress(OSError):  # the terminal may be closed
                screen.print("Stopping: active runs finish their commit first.")
            raise


@contextmanager
def _locked_folder() -> Iterator[None]:
    """Lock the folder against another `up`. Raises: UsageError if one is running."""
    from fleetlake.machine.file_locks import LockTaken, file_lock

    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(LOCK, seconds=0))
        except LockTaken:
            raise UsageError(
                f"Another `fleetlake prefect up` is running in {FOLDER.resolve()}.",
                remedy="Stop it first: a start empties that folder.",
            ) from None
        yield


def _create_empty(folder: Path) -> None:
    """Create the folder empty and readable only by its owner.

    Raises: UsageError if it exists and `up` did not create it, LakeError if it is another user's.
    """
    from fleetlake.machine.io_faults import not_writable
    from fleetlake.machine.ownership import require_own

    require_own(folder, "work", otherwise="run this in another folder")
    if folder.is_symlink() or (folder.exists() and not _is_ours(folder)):
        raise UsageError(
            f"{folder.absolute()} exists, but `fleetlake prefect up` did not create it.",
            remedy="Move it elsewhere: a start empties that folder.",
        )
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
        (folder / MARK).touch()
    except OSError as error:
        raise not_writable("work", folder, error, setting="the current folder") from None


def _is_ours(folder: Path) -> bool:
    """Return whether `up` created a folder; one of an older release is judged by its content."""
    logs = (folder / "server.log", folder / "simulator.log")
    was_ours = all(log.is_file() for log in logs) and (folder / "prefect").is_dir()
    return was_ours or (folder / MARK).is_file()


def login_hint(password_file: Path, *, is_terminal: bool) -> str:
    """Return how to log in to Prefect's UI; show the password only on a terminal."""
    if not is_terminal:
        return f"Its password is the line in {password_file}."
    return f"Its password: {password_file.read_text('ascii').strip()}"


def command_on(folder: Path, command: str) -> str:
    """Return a command about the lake in a folder, for another terminal.

    The service's time runs faster than this machine's, which would call its records future ones.
    """
    return f"FLEETLAKE_LAKE={folder / 'lake'} FLEETLAKE_CLOCK=service fleetlake {command}"


def environment(folder: Path, service: str, port: int) -> dict[str, str]:
    """Return the settings of server, worker and flows, which `up.env` lists."""
    from fleetlake.text.tables_beside import lines_beside

    values = {"folder": folder, "service": service, "host": HOST, "port": port}
    values["api"] = f"http://{HOST}:{port}/api"
    lines = [line for line in lines_beside(__file__, "up.env") if not line.startswith("#")]
    pairs = (line.partition("=") for line in lines)
    return {name: value.format(**values) for name, _, value in pairs}


def put_environment(wanted: Mapping[str, str]) -> None:
    """Make these the only settings of this process and its children.

    The environment may hold the settings of a real service and server, which `up` must neither
    read nor write. Raises: UsageError for accounts in fleetlake.toml or .env, which no variable can
    remove.
    """
    from fleetlake.settings import load_settings

    for name in [name for name in os.environ if name.startswith(OURS)]:
        del os.environ[name]
    os.environ.update(wanted)
    load_settings.cache_clear()
    if profiles := load_settings().profiles:
        raise UsageError(
            f"fleetlake.toml or .env names accounts of a service: {', '.join(profiles)}.",
            remedy="Move the file away while `fleetlake prefect up` runs, so that it reads no "
            "account.",
        )


@contextmanager
def _simulator(routers: int, days: float, speed: float) -> Iterator[str]:
    """Run the simulated service; yield its address."""
    from fleetlake.cli.prefect.worker import running

    command = [sys.executable, "-P", "-m", "fleetsim", "--port", "0"]
    command += ["--routers", str(routers), "--days", str(days), "--speed", str(speed)]
    log = FOLDER / "simulator.log"
    with running(command, log) as process:
        yield _announced_address(log, process)


@contextmanager
def _receiver() -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Run a receiver, and have the service push its alerts to it; yield process and address."""
    import asyncio

    from fleetlake.cli.prefect.worker import running
    from fleetlake.demo.pushes import RECEIVER, have_pushed, receiver_environment
    from fleetlake.settings import load_settings

    settings, log = load_settings(), FOLDER / "receiver.log"
    with running([*RECEIVER], log, more=receiver_environment(settings)) as process:
        address = _announced_address(log, process)
        asyncio.run(have_pushed(settings, address))
        yield process, address


@contextmanager
def _dashboard() -> Iterator[str]:
    """Run the dashboard over the marts that the flows publish; yield its address."""
    from fleetlake.cli.prefect.worker import running

    command = [sys.executable, "-P", "-m", "fleetlake", "dashboard", "--port", "0"]
    command += ["--from", str((FOLDER / "published").resolve())]
    log = FOLDER / "dashboard.log"
    with running(command, log) as process:
        yield _announced_address(log, process)


def _announced_address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    """Return the address that a server writes to its log once it accepts connections."""
    while not (found := re.search(r"^ready (\S+)$", log.read_text("utf-8"), re.MULTILINE)):
        _refuse_if_ended(process)
        time.sleep(POLL_SECONDS)
    return found[1]


def _wait_for_server(server: "subprocess.Popen[bytes]", port: int) -> None:
    import httpx

    while True:
        _refuse_if_ended(server)
        try:
            if httpx.get(f"http://{HOST}:{port}/api/health").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(POLL_SECONDS)


def _wait_for_end(*processes: "subprocess.Popen[bytes]") -> None:
    while True:
        for process in processes:
            _refuse_if_ended(process)
        time.sleep(POLL_SECONDS)


def _refuse_if_ended(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is not None:
        raise FleetlakeError(
            f"A process ended with code {process.returncode}: {process.args!s}",
            remedy=f"Its log is in {FOLDER}.",
        )
