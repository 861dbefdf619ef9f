"""The command line: one module a command, nothing heavy imported before it is needed."""

import logging
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
from fleetlake.cli.output import Reader, lost_output, prepare_streams, say, unwritable_output
from fleetlake.cli.plain_text import PlainFormatter, PlainGroup
from fleetlake.cli.prefect.server import prefect_server
from fleetlake.cli.prefect.setup import prefect_setup
from fleetlake.cli.prefect.up import up
from fleetlake.cli.prefect.worker import worker
from fleetlake.cli.publish import publish
from fleetlake.cli.quarantine import quarantine
from fleetlake.cli.query import query
from fleetlake.cli.shell import shell
from fleetlake.cli.status import status
from fleetlake.cli.verify import verify
from fleetlake.errors import FleetlakeError, OutputLost, from_os_error
from fleetlake.machine.umask import apply_umask
from fleetsim.command import simulate

EPILOG = (
    "Exit codes: 0 done, 1 a bug, 2 wrong usage, 3 settings, 4 keys or rights refused, "
    "5 service unreachable, 6 service answered wrongly, 7 lake, 8 build or data test failed, "
    "9 records were lost, 10 export failed, 11 output not written, 130 stopped."
)

app = typer.Typer(
    cls=PlainGroup,
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
    logs = logging.StreamHandler()
    logs.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[logs])
    logging.captureWarnings(capture=True)
    logging.getLogger("httpcore").setLevel(logging.WARNING)


def main() -> None:
    """Run the command line; every error ends as one paragraph and its exit code."""
    start_lean()
    try:
        prepare_streams()
    except OutputLost as error:
        say(_paragraph(error))
        sys.exit(error.exit_code)
    code = _run(Reader())
    if lost := lost_output():
        say(_paragraph(lost))
        code = code or lost.exit_code
    sys.exit(code)


def _run(reader: Reader) -> int:
    """Run a command and return its exit code, having said what went wrong."""
    try:
        app()
    except FleetlakeError as error:
        return _ended_with(error)
    except OSError as error:
        known = lost_output() or unwritable_output() or from_os_error(error)
        if known is None:
            raise
        return _ended_with(known)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        if code == STOPPED:  # what Typer makes of a KeyboardInterrupt
            say("Stopped. What was committed is kept.")
        # Typer and Rich end with 1 at a BrokenPipeError.
        return 0 if code == 1 and reader.has_gone() else code
    return 0


def _ended_with(error: FleetlakeError) -> int:
    """Say an error and return its exit code. Raises: it, where it is to be looked into."""
    if "--debug" in sys.argv:
        raise error
    say(_paragraph(error))
    return error.exit_code


def _paragraph(error: FleetlakeError) -> str:
    remedy = f"\nWhat to do: {error.remedy}" if error.remedy else ""
    return f"Error: {error.what}{remedy}"
