"""`fleetlake shell`: interactive SQL over the lake, with completion."""

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.interrupts import on_ctrl_c
from fleetlake.cli.screen import console, print_rows
from fleetlake.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from fleetlake.cli.screen import Screen
    from fleetlake.errors import FleetlakeError
    from fleetlake.lake import Lake
    from fleetlake.lake_address import LakeAddress

from fleetlake.cli.query import UNSAFE

MAX_ROWS = 500
HELP = (
    "End SQL with a semicolon. .tables lists the tables, .quit or Ctrl-D leaves, Tab completes "
    "names. The lake is read-only here."
)
WORDS = ("select", "from", "where", "group by", "order by", "limit", "describe", "summarize")


def shell(
    *,
    attach: Annotated[
        bool,
        typer.Option(
            "--attach",
            help="Print the SQL that attaches this lake in a DuckDB of the same version, and exit.",
        ),
    ] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help=UNSAFE)] = False,
) -> None:
    """Query the lake interactively and read-only, also while an ingest is running.

    A statement may read the lake and its files, and create temporary tables. Everything else is
    refused: other files of this machine, COPY, ATTACH, extensions, settings.
    """
    from fleetlake.lake import open_lake
    from fleetlake.lake.guard import close_off, spill_folder, spill_into
    from fleetlake.settings import load_settings

    lake_address = load_settings().lake.resolve()
    with spill_folder() as spill, open_lake(lake_address, read_only=True) as lake:
        if attach:
            sys.stdout.write(attach_lines(lake_address))
            return
        spill_into(lake, spill)
        if not unsafe:
            close_off(lake)
        screen = console()
        if sys.stdin.isatty():
            _complete(_names(lake))
            screen.print(HELP)
        for statement in _statements(_read):
            _run(lake, screen, statement)


def attach_lines(lake: "LakeAddress") -> str:
    """Return the SQL that attaches a lake, without the keys of a shared one."""
    from pydantic import SecretStr

    from fleetlake.lake.attach import READ_HISTORY, attach_statements, split_password
    from fleetlake.lake_address import SharedLake
    from fleetlake.text.redaction import without_secrets

    without_password = lake
    if isinstance(lake, SharedLake):  # libpq takes the password from PGPASSWORD or ~/.pgpass
        address, _ = split_password(lake.catalog.get_secret_value())
        without_password = SharedLake(SecretStr(address), lake.files)
    statements = attach_statements(without_password, read_only=True)
    if isinstance(lake, SharedLake):
        statements = without_secrets(statements, lake.catalog)
    lines = [line for line in statements.splitlines() if " SECRET " not in line]
    return "\n".join([READ_HISTORY, *lines, ""])  # its statements are not ours to look at


def _read(prompt: str) -> str | None:
    """Return a line, or None at the end of input; show the prompt only on a terminal."""
    try:
        return input(prompt if sys.stdin.isatty() else "")
    except EOFError:
        return None


def _statements(read: Callable[[str], str | None]) -> Iterator[str]:
    """Yield each statement at its semicolon; Ctrl-C drops an unfinished one."""
    pending: list[str] = []
    while True:
        try:
            line = read("     ... " if pending else "fleetlake> ")
        except KeyboardInterrupt:
            pending.clear()
            sys.stdout.write("\n")
            continue
        if line is None or (not pending and line.strip() in {".quit", ".exit"}):
            break
        if not pending and line.strip() == ".tables":
            yield "show tables"
            continue
        pending.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(pending)
            pending.clear()
    if "".join(pending).strip():
        yield "\n".join(pending)


def _run(lake: "Lake", screen: "Screen", sql: str) -> None:
    """Run one line of statements and print the results or the error."""
    import duckdb

    from fleetlake.analysis.metric_calls import with_metrics
    from fleetlake.cli.query import failure

    try:
        results = lake.run_user_sql(with_metrics(sql))
        while (fetched := _fetched(lake, results)) is not None:
            names, rows = fetched
            print_rows(screen, names, rows[:MAX_ROWS])
            if len(rows) > MAX_ROWS:
                rest = "`fleetlake query --format csv` gives all."
                screen.print(f"The first {MAX_ROWS} rows; {rest}")
    except (duckdb.InterruptException, KeyboardInterrupt):
        screen.print("Stopped.")
    except UsageError as error:
        _print_error(screen, error)
    except duckdb.Error as error:
        _print_error(screen, failure(error, lake.path, ".tables", "describe raw.alerts;"))
    finally:
        lake.end_failed_user_sql()


def _print_error(screen: "Screen", error: "FleetlakeError") -> None:
    screen.print(error.what)
    if error.remedy:
        screen.print(f"What to do: {error.remedy}")


def _fetched(
    lake: "Lake", results: "Iterator[DuckDBPyConnection]"
) -> tuple[list[str], list[tuple[object, ...]]] | None:
    """Run the next statement; return its columns and first rows, or None after the last one.

    Ctrl-C interrupts the statement in DuckDB.
    """
    with on_ctrl_c(lake.connection.interrupt):
        if (result := next(results, None)) is None:
            return None
        return [name for name, *_ in result.description or []], result.fetchmany(MAX_ROWS + 1)


def _names(lake: "Lake") -> list[str]:
    """Return what Tab completes: tables with and without schema, columns, a few keywords."""
    found = lake.rows(
        "select schema_name, table_name, column_name from duckdb_columns() "
        "where database_name = 'lake'"
    )
    tables = {f"{schema}.{table}" for schema, table, _ in found}
    return sorted({*tables, *(column for *_, column in found), *WORDS})


def _complete(names: list[str]) -> None:
    """Make Tab complete names, if this Python has readline."""
    try:
        import readline
    except ImportError:
        return

    def completer(text: str, state: int) -> str | None:
        fitting = [name for name in names if name.startswith(text.lower())]
        return fitting[state] if state < len(fitting) else None

    readline.set_completer(completer)
    readline.set_completer_delims(" \t\n,()=<>")
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
