"""`fleetlake query`: SQL over the lake, while it is being written."""

import csv
from collections.abc import Callable
from datetime import date, datetime, time
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import duckdb
    from duckdb import DuckDBPyConnection

    from fleetlake.errors import UsageError
    from fleetlake.lake_address import LakeAddress

ROWS_AT_A_TIME = 10_000
MOST_ROWS = 1_000
UNSAFE = (
    "Allow everything that DuckDB can do as this user: read and write files, COPY, ATTACH, "
    "extensions, settings. Only for SQL that you trust."
)
GUARD = (
    "In CSV, put ' before texts that a spreadsheet would run as a formula: those that begin with "
    "= + - @, a tab or a carriage return. FLEETLAKE_CSV_GUARD=true does it always."
)
TABLES = "select table_schema, table_name from information_schema.tables"


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def query(
    sql: Annotated[str, typer.Argument(help="For example: select count(*) from raw.alerts")],
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    *,
    unsafe: Annotated[bool, typer.Option("--unsafe", help=UNSAFE)] = False,
    csv_guard: Annotated[bool, typer.Option("--csv-guard", help=GUARD)] = False,
) -> None:
    """Run SQL on the lake, read-only; an ingest may go on meanwhile.

    A statement may read the lake and the files in it, and make temporary tables. Everything
    else is refused: other files of this machine, COPY, ATTACH, extensions, settings.

    Several statements, parted by semicolons, print their results one after another.

    Schemas: raw (one table per endpoint), staging, marts, meta (what was loaded, and when).
    """
    import duckdb

    from fleetlake.cli.interrupts import leave, on_ctrl_c
    from fleetlake.lake import open_lake
    from fleetlake.lake.guard import close_off, spill_folder, spill_into
    from fleetlake.settings import load_settings

    settings = load_settings()
    print_csv = partial(_print_csv, is_guarded=csv_guard or settings.csv_guard)
    printed: dict[Format, Callable[[DuckDBPyConnection], None]] = {
        Format.TABLE: _print_table,
        Format.JSON: _print_json,
        Format.CSV: print_csv,
    }
    with (
        spill_folder() as spill,
        on_ctrl_c(partial(leave, spill)),
        open_lake(settings.lake, read_only=True) as lake,
    ):
        spill_into(lake, spill)
        if not unsafe:
            close_off(lake)
        try:
            for result in lake.run_user_sql(sql):
                printed[output](result)
        except duckdb.Error as error:
            raise failure(error, lake.path, lister=f'fleetlake query "{TABLES}"') from None


def failure(error: "duckdb.Error", place: "LakeAddress", *, lister: str) -> "UsageError":
    """Return what to say of SQL that does not run, and what to do about it.

    DuckDB itself points at wrong syntax. `lister` is what a person types to see the tables.
    """
    from fleetlake.errors import UsageError
    from fleetlake.lake.guard import REMEDY, is_refusal
    from fleetlake.lake_address import SharedLake
    from fleetlake.text.redaction import without_secrets

    text = str(error)
    if isinstance(place, SharedLake):
        text = without_secrets(text, place.catalog)
    if is_refusal(error):
        return UsageError(f"This statement is refused: {text}", remedy=REMEDY)
    remedy = ""
    if text.startswith("Catalog Error: Table"):
        remedy = f"`{lister}` lists the tables."
    if "read-only" in text:
        remedy = "Queries only read; what is in the lake changes by loads and builds."
    return UsageError(f"DuckDB rejected this statement: {text}", remedy=remedy)


def _print_table(result: "DuckDBPyConnection") -> None:
    """Print what a person can read; more rows than that are counted and not kept."""
    from fleetlake.cli.screen import console, print_rows

    screen, rows = console(), result.fetchmany(MOST_ROWS)
    print_rows(screen, _names(result), rows)
    more = 0
    while further := result.fetchmany(ROWS_AT_A_TIME):
        more += len(further)
    if more:
        screen.print(f"{more:,} more rows; `--format csv` gives all.")


def _print_json(result: "DuckDBPyConnection") -> None:
    """Print one array of objects, a row a line."""
    import orjson

    from fleetlake.cli.output import is_read_by_people, machine_output
    from fleetlake.text.plain import plain

    is_shown = is_read_by_people()
    out, names, separator = machine_output(), _names(result), "[\n"
    while rows := result.fetchmany(ROWS_AT_A_TIME):
        for row in rows:
            named = dict(zip(names, row, strict=True))
            line = orjson.dumps(named, default=str, option=orjson.OPT_UTC_Z).decode()
            out.write(f"{separator}{plain(line) if is_shown else line}")
            separator = ",\n"
    out.write("[]\n" if separator == "[\n" else "\n]\n")


def _print_csv(result: "DuckDBPyConnection", *, is_guarded: bool) -> None:
    from fleetlake.cli.output import is_read_by_people, machine_output
    from fleetlake.text.plain import plain
    from fleetlake.text.spreadsheet import guarded

    is_shown = is_read_by_people()

    def text(value: Any) -> Any:
        if isinstance(value, (datetime, date, time)):
            return value.isoformat()
        value = guarded(value) if is_guarded and isinstance(value, str) else value
        return value if value is None or not is_shown else plain(value)

    writer = csv.writer(machine_output(), lineterminator="\n")
    writer.writerow(text(name) for name in _names(result))
    while rows := result.fetchmany(ROWS_AT_A_TIME):
        writer.writerows([text(value) for value in row] for row in rows)


def _names(result: "DuckDBPyConnection") -> list[str]:
    return [column[0] for column in result.description or []]
