"""`fleetlake up`: the scheduled deployment on this machine, over a simulated service."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

FOLDER = Path("data/up")
PATIENCE_SECONDS = 90.0
POLL_SECONDS = 0.5


def up(
    port: Annotated[int, typer.Option(help="Port of Prefect's server and UI.")] = 4200,
    routers: Annotated[int, typer.Option(min=1, help="Size of the simulated fleet.")] = 20,
    days: Annotated[float, typer.Option(min=0.1, help="Days of history it brings.")] = 1,
    speed: Annotated[
        float, typer.Option(min=1, help="Simulated seconds per second; schedules run as fast.")
    ] = 60,
) -> None:
    """Start Prefect's server, a worker and all schedules over a simulated service, until stopped.

    Needs no containers. Each start begins anew, in data/up. Ctrl-C or SIGTERM ends all of it:
    runs under way end first.
    """
    from fleetlake.cli.prefect_setup import PREFECT_FILE, WORK_POOL, prefect_setup
    from fleetlake.cli.screen import console
    from fleetlake.errors import UsageError

    if not Path(PREFECT_FILE).exists():
        raise UsageError(
            f"There is no {PREFECT_FILE} here.", remedy="Run this in the project's folder."
        )
    screen = console()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    prefect = [sys.executable, "-m", "prefect"]
    with ExitStack() as running, _stopped_by_signals():
        service = running.enter_context(_simulator(routers, days, speed))
        os.environ.update(environment(FOLDER.resolve(), service, port))
        screen.print(f"Service: {service}, {speed:g} times as fast as the clock on the wall.")
        server = running.enter_context(_process([*prefect, "server", "start"], "server"))
        _wait_for_server(server, port)
        screen.print(f"Prefect: http://127.0.0.1:{port}")
        prefect_setup(speed=speed, runs=3, secrets=True)
        work = [*prefect, "worker", "start", "--pool", WORK_POOL, "--name", "up"]
        worker = running.enter_context(_process(work, "worker"))
        screen.print(f"Running. Logs are in {FOLDER}; stop it with Ctrl-C.")
        _wait_for_end(server, worker)


def environment(folder: Path, service: str, port: int) -> dict[str, str]:
    """Return the settings under which server, worker and flows run."""
    api = f"http://127.0.0.1:{port}/api"
    return {
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": api,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        # SQLite lets one writer in at a time; on a busy machine the others wait rather than fail.
        "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        # The UI asks port 4200 whatever the server's port is, unless it is told.
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_UI_API_URL": api,
        "FLEETLAKE_BASE_URL": f"{service}/api/v2/",
        "FLEETLAKE_PORTAL_API_ID": "portal-id",
        "FLEETLAKE_PORTAL_API_KEY": "portal-key",
        "FLEETLAKE_MGR_API_ID": "admin-id",
        "FLEETLAKE_MGR_API_KEY": "admin-key",
        "FLEETLAKE_CALLS_PER_MINUTE": "0",
        "FLEETLAKE_LAKE": str(folder / "lake"),
        "FLEETLAKE_PUBLISHED": str(folder / "published"),
        "FLEETLAKE_STATE": str(folder / "state"),
    }


@contextmanager
def _simulator(routers: int, days: float, speed: float) -> Iterator[str]:
    """Run the simulated service; yield its address."""
    command = [sys.executable, "-m", "fleetlake.simulator", "--port", "0"]
    command += ["--routers", str(routers), "--days", str(days), "--speed", str(speed)]
    with _process(command, "simulator") as process:
        log = FOLDER / "simulator.log"
        while not (line := log.read_text("utf-8")).startswith("ready "):
            _refuse_if_ended(process)
            time.sleep(POLL_SECONDS)
        yield line.split()[1]


@contextmanager
def _process(command: list[str], name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that logs to a file, in a session of its own; end it in order.

    Ctrl-C reaches every process of a terminal's group at once; here each must wait its turn.
    """
    with (FOLDER / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own commands
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait_for_server(server: "subprocess.Popen[bytes]", port: int) -> None:
    import httpx

    while True:
        _refuse_if_ended(server)
        try:
            if httpx.get(f"http://127.0.0.1:{port}/api/health").is_success:
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
    from fleetlake.errors import FleetlakeError

    if process.poll() is not None:
        raise FleetlakeError(
            f"A process ended with code {process.returncode}: {process.args!s}",
            remedy=f"Its log is in {FOLDER}.",
        )


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, once: the processes then end in order."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before: Mapping[int, object] = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
