"""`fleetlake shell`: SQL over the lake, line by line, with completion."""

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from rich.console import Console

    from fleetlake.errors import UsageError
    from fleetlake.lake import Lake
    from fleetlake.lake_address import LakeAddress

from fleetlake.cli.query import UNSAFE

MOST_ROWS = 500
HELP = (
    "SQL ends with a semicolon, .tables lists the tables, .quit or Ctrl-D leaves; "
    "Tab completes names. The lake is read-only here."
)
WORDS = ("select", "from", "where", "group by", "order by", "limit", "describe", "summarize")


def shell(
    *,
    attach: Annotated[
        bool,
        typer.Option(
            "--attach", help="Print the SQL that attaches this lake in any DuckDB 1.5.5, and leave."
        ),
    ] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help=UNSAFE)] = False,
) -> None:
    """Query the lake interactively, read-only; an ingest may go on meanwhile.

    A statement may read the lake and the files in it, and make temporary tables. Everything
    else is refused: other files of this machine, COPY, ATTACH, extensions, settings.
    """
    from fleetlake.cli.screen import console
    from fleetlake.lake import open_lake
    from fleetlake.lake.guard import close_off, spill_folder, spill_into
    from fleetlake.settings import load_settings

    place = load_settings().lake.resolve()
    with spill_folder() as spill, open_lake(place, read_only=True) as lake:
        if attach:
            sys.stdout.write(attach_lines(place))
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


def attach_lines(place: "LakeAddress") -> str:
    """Return the SQL that attaches a lake, without the keys of a shared one."""
    from pydantic import SecretStr

    from fleetlake.lake.attach import attach_statements
    from fleetlake.lake.login import split_password
    from fleetlake.lake_address import SharedLake
    from fleetlake.text.redaction import without_secrets

    public = place
    if isinstance(place, SharedLake):  # libpq takes the password from PGPASSWORD or ~/.pgpass
        address, _ = split_password(place.catalog.get_secret_value())
        public = SharedLake(SecretStr(address), place.files)
    told = attach_statements(public, read_only=True)
    if isinstance(place, SharedLake):
        told = without_secrets(told, place.catalog)
    lines = [line for line in told.splitlines() if " SECRET " not in line]
    return "\n".join([*lines, ""])


def _read(prompt: str) -> str | None:
    """Return a line, or None at the end; a prompt is for people only."""
    try:
        return input(prompt if sys.stdin.isatty() else "")
    except EOFError:
        return None


def _statements(read: Callable[[str], str | None]) -> Iterator[str]:
    """Yield each statement as its semicolon is met; Ctrl-C drops the one that was begun."""
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
            yield "select schema_name, table_name from duckdb_tables() where database_name = 'lake'"
            continue
        pending.append(line)
        if line.rstrip().endswith(";"):
            yield "\n".join(pending)
            pending.clear()
    if "".join(pending).strip():
        yield "\n".join(pending)


def _run(lake: "Lake", screen: "Console", sql: str) -> None:
    """Print what a statement gives, or why it does not run."""
    import duckdb

    from fleetlake.cli.query import failure
    from fleetlake.cli.screen import print_rows
    from fleetlake.errors import UsageError

    try:
        results = lake.run_user_sql(sql)
        while (fetched := _fetched(lake, results)) is not None:
            names, rows = fetched
            print_rows(screen, names, rows[:MOST_ROWS])
            if len(rows) > MOST_ROWS:
                told = "`fleetlake query --format csv` gives all."
                screen.print(f"The first {MOST_ROWS} rows; {told}")
    except (duckdb.InterruptException, KeyboardInterrupt):
        screen.print("Stopped.")
    except UsageError as error:
        _say(screen, error)
    except duckdb.Error as error:
        _say(screen, failure(error, lake.path, lister=".tables"))
    finally:
        lake.end_failed_user_sql()


def _say(screen: "Console", error: "UsageError") -> None:
    screen.print(error.what)
    if error.remedy:
        screen.print(f"What to do: {error.remedy}")


def _fetched(
    lake: "Lake", results: "Iterator[DuckDBPyConnection]"
) -> tuple[list[str], list[tuple[object, ...]]] | None:
    """Return names and first rows of what the next statement gives; Ctrl-C ends it in DuckDB."""
    from fleetlake.cli.interrupts import on_ctrl_c

    with on_ctrl_c(lake.connection.interrupt):
        if (result := next(results, None)) is None:
            return None
        return [name for name, *_ in result.description or []], result.fetchmany(MOST_ROWS + 1)


def _names(lake: "Lake") -> list[str]:
    """Return what may be completed: tables with and without schema, columns, a few words."""
    tables = lake.rows(
        "select schema_name, table_name from duckdb_tables() where database_name = 'lake' "
        "union all select schema_name, view_name from duckdb_views() where database_name = 'lake'"
    )
    columns = lake.rows(
        "select distinct column_name from duckdb_columns() where database_name = 'lake'"
    )
    return sorted(
        {*(f"{schema}.{name}" for schema, name in tables), *(name for (name,) in columns), *WORDS}
    )


def _complete(names: list[str]) -> None:
    """Let Tab complete names, where this Python can."""
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
