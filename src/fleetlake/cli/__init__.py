"""The command line: one module per command, imported when the command is called."""

import sys
from typing import Annotated, Any

import typer

from fleetlake.cli.command_group import GroupOnDemand, say_instead
from fleetlake.cli.command_table import HEADINGS, with_new_words
from fleetlake.cli.interrupts import STOPPED
from fleetlake.cli.output import OutputPipe, lost_output, prepare_streams, say, unwritable_output
from fleetlake.errors import FleetlakeError, OutputLost, SettingsError

EPILOG = (
    "Exit codes: 0 done, 1 a bug, 2 wrong usage, 3 settings, 4 keys or rights refused, "
    "5 service unreachable, 6 invalid response from the service, 7 lake, 8 build or data test "
    "failed, 9 records missing, 10 export failed, 11 output not written, 12 lake busy, 130 stopped."
)


class CommandGroup(GroupOnDemand):
    """All commands, under the headings of the help."""

    headings = HEADINGS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line; deprecated spellings work too, with a warning."""
        words = with_new_words(args)
        if words != args and not ctx.resilient_parsing:
            say_instead(" ".join(["fleetlake", *args]), " ".join(["fleetlake", *words]))
        return super().parse_args(ctx, words)


app = typer.Typer(
    cls=CommandGroup,
    name="fleetlake",
    help="Copies everything a fleet-management service holds, exactly once, to Parquet you own.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would show local variables, including keys
    rich_markup_mode="rich",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from fleetlake.machine.source_commit import source_commit

        commit = source_commit() or "unknown"
        sys.stdout.write(f"fleetlake {version('fleetlake')} (commit {commit})\n")
        raise typer.Exit


@app.callback()
def options(
    *,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show debug logs, and tracebacks of errors.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print version and commit.", callback=_say_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Handle the options that precede the command."""
    import logging

    from fleetlake.cli.output import PlainFormatter
    from fleetlake.machine.umask import apply_umask

    apply_umask(again=True)
    logs = logging.StreamHandler()
    logs.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[logs])
    logging.captureWarnings(capture=True)
    logging.getLogger("httpcore").setLevel(logging.WARNING)


def main() -> int:
    """Run the command line; print every error as one paragraph and return its exit code."""
    try:
        prepare_streams()
    except OutputLost as error:
        say(_paragraph(error))
        return error.exit_code
    code = _run(OutputPipe())
    if lost := lost_output():
        say(_paragraph(lost))
        code = code or lost.exit_code
    return code


def _run(stdout: OutputPipe) -> int:
    """Run a command, print its error if it fails, and return its exit code."""
    try:
        app()
    except FleetlakeError as error:
        return _exit_code_of(error)
    except ModuleNotFoundError as error:  # the code is newer than its environment
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "fleetlake", "fleetsim"}:
            raise
        remedy = "Install fleetlake again; in a clone: `make setup`."
        lacking = f"The package {missing} is not installed, which this version needs."
        return _exit_code_of(SettingsError(lacking, remedy=remedy))
    except (OSError, MemoryError, RuntimeError) as error:
        from fleetlake.machine.io_faults import io_fault

        is_output = isinstance(error, OSError)
        known = (is_output and (lost_output() or unwritable_output())) or io_fault(error)
        if known is None:
            raise
        return _exit_code_of(known)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        if code == STOPPED:  # Typer exits so at a KeyboardInterrupt
            say("Stopped. Committed data is kept.")
        # Typer and Rich exit with 1 at a BrokenPipeError.
        return 0 if code == 1 and stdout.is_closed_by_reader() else code
    return 0


def _exit_code_of(error: FleetlakeError) -> int:
    """Print an error and return its exit code. Raises: the error itself under --debug."""
    if "--debug" in sys.argv:
        raise error
    say(_paragraph(error))
    return error.exit_code


def _paragraph(error: FleetlakeError) -> str:
    remedy = f"\nWhat to do: {error.remedy}" if error.remedy else ""
    return f"Error: {error.what}{remedy}"
