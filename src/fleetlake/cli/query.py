"""`fleetlake query`: SQL over the lake, while it is being written."""

import csv
import sys
from datetime import date, datetime, time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import duckdb
    from duckdb import DuckDBPyConnection

ROWS_AT_A_TIME = 10_000
MOST_ROWS = 1_000
TABLES = "select table_schema, table_name from information_schema.tables"


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def query(
    sql: Annotated[str, typer.Argument(help="For example: select count(*) from raw.alerts")],
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
) -> None:
    """Run SQL on the lake, read-only; an ingest may go on meanwhile.

    Several statements, parted by semicolons, print their results one after another.

    Schemas: raw (one table per endpoint), staging, marts, meta (what was loaded, and when).
    """
    import duckdb

    from fleetlake.cli.interrupts import leave, on_ctrl_c
    from fleetlake.errors import UsageError
    from fleetlake.lake import open_lake
    from fleetlake.settings import load_settings

    printed = {Format.TABLE: _print_table, Format.JSON: _print_json, Format.CSV: _print_csv}
    with on_ctrl_c(leave), open_lake(load_settings().lake, read_only=True) as lake:
        try:
            for result in lake.ask(sql):
                printed[output](result)
        except duckdb.Error as error:
            told = remedy(error, lister=f'fleetlake query "{TABLES}"')
            raise UsageError(f"DuckDB does not run this query: {error}", remedy=told) from None


def remedy(error: "duckdb.Error", *, lister: str) -> str:
    """Return what to do about SQL that does not run; DuckDB itself points at wrong syntax.

    `lister` is what a person types to see the tables.
    """
    text = str(error)
    if text.startswith("Catalog Error: Table"):
        return f"`{lister}` lists the tables."
    if "read-only" in text:
        return "Queries only read; what is in the lake changes by loads and builds."
    return ""


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

    names, separator = _names(result), "[\n"
    while rows := result.fetchmany(ROWS_AT_A_TIME):
        for row in rows:
            named = dict(zip(names, row, strict=True))
            line = orjson.dumps(named, default=str, option=orjson.OPT_UTC_Z).decode()
            sys.stdout.write(f"{separator}{line}")
            separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def _print_csv(result: "DuckDBPyConnection") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_names(result))
    while rows := result.fetchmany(ROWS_AT_A_TIME):
        writer.writerows([_text(value) for value in row] for row in rows)


def _names(result: "DuckDBPyConnection") -> list[str]:
    return [column[0] for column in result.description or []]


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, (datetime, date, time)) else value
