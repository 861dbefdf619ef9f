"""The command line: one module a command, nothing heavy imported before it is needed."""

import logging
import select
import sys
from typing import Annotated

import typer

from fleetlake.cli.backfill import backfill
from fleetlake.cli.build import build
from fleetlake.cli.columns import columns
from fleetlake.cli.demo import demo
from fleetlake.cli.doctor import doctor
from fleetlake.cli.export import export
from fleetlake.cli.gaps import gaps
from fleetlake.cli.ingest import ingest
from fleetlake.cli.interrupts import STOPPED
from fleetlake.cli.lean import start_lean
from fleetlake.cli.maintain import maintain
from fleetlake.cli.prefect_server import prefect_server
from fleetlake.cli.prefect_setup import prefect_setup
from fleetlake.cli.publish import publish
from fleetlake.cli.quarantine import quarantine
from fleetlake.cli.query import query
from fleetlake.cli.shell import shell
from fleetlake.cli.simulate import simulate
from fleetlake.cli.status import status
from fleetlake.cli.up import up
from fleetlake.cli.verify import verify
from fleetlake.cli.worker import worker
from fleetlake.errors import FleetlakeError, of_system
from fleetlake.umask import apply_umask

EPILOG = (
    "Exit codes: 0 done, 1 a bug, 2 wrong usage, 3 settings, 4 keys or rights refused, "
    "5 service unreachable, 6 service answered wrongly, 7 lake, 8 build or data test failed, "
    "9 records were lost, 10 export failed, 130 stopped."
)

app = typer.Typer(
    name="fleetlake",
    help="Copies all that a device-fleet service holds into Parquet tables you own, exactly once.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, keys among them
    rich_markup_mode="rich",
)
COMMANDS = (
    demo,
    ingest,
    build,
    publish,
    export,
    query,
    shell,
    status,
    gaps,
    quarantine,
    columns,
    verify,
    backfill,
    maintain,
    doctor,
    simulate,
    prefect_server,
    prefect_setup,
    worker,
    up,
)
for command in COMMANDS:
    app.command()(command)


def _say_version(wanted: bool) -> None:
    from importlib.metadata import version

    if wanted:
        sys.stdout.write(f"fleetlake {version('fleetlake')}\n")
        raise typer.Exit


@app.callback()
def options(
    *,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show what happens inside, and tracebacks.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options that go before the command."""
    apply_umask(again=True)
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("httpcore").setLevel(logging.WARNING)


def main() -> None:
    """Run the command line; every error ends as one paragraph and its exit code."""
    start_lean()
    try:
        app()
    except FleetlakeError as error:
        _end_with(error)
    except OSError as error:
        if (known := of_system(error)) is None:
            raise
        _end_with(known)
    except SystemExit as ended:
        if ended.code == STOPPED:  # what Typer makes of a KeyboardInterrupt
            sys.stderr.write("Stopped. What was committed is kept.\n")
        if ended.code == 1 and _reader_has_gone():  # what Typer makes of a BrokenPipeError
            sys.exit(0)
        raise


def _end_with(error: FleetlakeError) -> None:
    """End the process with an error in words; raise it instead where it is to be looked into."""
    if "--debug" in sys.argv:
        raise error
    sys.stderr.write(f"Error: {error.what}\n")
    if error.remedy:
        sys.stderr.write(f"What to do: {error.remedy}\n")
    sys.exit(error.exit_code)


def _reader_has_gone() -> bool:
    """Return whether standard output is a pipe that is read no more: it got what it wanted."""
    pipe = select.poll()
    pipe.register(1, 0)
    return any(event & select.POLLERR for _, event in pipe.poll(0))
