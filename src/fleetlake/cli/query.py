"""`fleetlake query`: read-only SQL over the lake, also while it is being written."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.formats import FormatOption, OutputFormat, Row, print_csv, print_json
from fleetlake.cli.output import say

if TYPE_CHECKING:
    import duckdb
    from duckdb import DuckDBPyConnection

    from fleetlake.errors import FleetlakeError
    from fleetlake.lake import Lake
    from fleetlake.lake_address import LakeAddress
    from fleetlake.monitoring.proof import AnswerProof

ROWS_AT_A_TIME = 10_000
MAX_ROWS = 1_000
UNSAFE = (
    "Allow everything that DuckDB can do as this user: reading and writing files, COPY, ATTACH, "
    "extensions, settings. Use it only for SQL that you trust."
)
PROOF = (
    "Say on standard error what the answer rests on and what is missing: as text, as JSON on one "
    "line, or not at all. By default as text below a table, and not at all for CSV and JSON. "
    "`header` writes it above the CSV itself, in lines that begin with #."
)
GUARD = (
    "In CSV, put ' before texts that a spreadsheet would run as a formula: those that start with "
    "= + - @, a tab or a carriage return. FLEETLAKE_CSV_GUARD=true turns this on for all commands."
)


class ProofFormat(StrEnum):
    """The values of `--proof`."""

    TEXT = "text"
    JSON = "json"
    HEADER = "header"
    OFF = "off"


ProofOption = Annotated[ProofFormat | None, typer.Option("--proof", help=PROOF)]


def query(
    sql: Annotated[str, typer.Argument(help="For example: select count(*) from raw.alerts")],
    output: FormatOption = OutputFormat.TABLE,
    *,
    proof: ProofOption = None,
    unsafe: Annotated[bool, typer.Option("--unsafe", help=UNSAFE)] = False,
    csv_guard: Annotated[bool, typer.Option("--csv-guard", help=GUARD)] = False,
) -> None:
    """Run read-only SQL on the lake, also while an ingest is running.

    A statement may read the lake and its files, and create temporary tables. Everything else is
    refused: other files of this machine, COPY, ATTACH, extensions, settings.

    Several statements, separated by semicolons, print their results one after another.

    Schemas: raw (one table per endpoint; those with valid_to hold every version of a record),
    current (the records of these as they are now, e.g. current.batteries), staging, marts, meta
    (what was loaded, and when). Metrics: from metrics.failovers(by := 'carrier', grain := 'day').
    """
    import duckdb

    from fleetlake.analysis.metric_calls import with_metrics
    from fleetlake.cli.interrupts import leave, on_ctrl_c
    from fleetlake.lake import open_lake
    from fleetlake.lake.guard import close_off, spill_folder, spill_into
    from fleetlake.settings import load_settings

    sql = with_metrics(sql)
    settings = load_settings()
    is_guarded = csv_guard or settings.csv_guard
    form = proof_format(proof, output)
    with (
        spill_folder() as spill,
        on_ctrl_c(partial(leave, spill)),
        open_lake(settings.lake, read_only=True) as lake,
    ):
        spill_into(lake, spill)
        if not unsafe:
            close_off(lake)
        try:
            proven = "" if form is ProofFormat.OFF else _proof(lake, sql, form)
            say_above(proven, form)
            for result in lake.run_user_sql(sql):
                _print_result(result, output, is_guarded=is_guarded)
        except duckdb.Error as error:
            asked = ('fleetlake query "show tables"', 'fleetlake query "describe raw.alerts"')
            raise failure(error, lake.path, *asked) from None
    say_below(proven, form)


def say_above(proven: str, form: ProofFormat) -> None:
    """Write a proof above CSV, as comments."""
    from fleetlake.cli.output import machine_output

    if form is ProofFormat.HEADER and proven:
        machine_output().write("".join(f"# {line}\n" for line in proven.splitlines()))


def say_below(proven: str, form: ProofFormat) -> None:
    """Write a proof to standard error, unless it is above the CSV."""
    if proven and form is not ProofFormat.HEADER:
        say(proven)


def _proof(lake: "Lake", sql: str, form: ProofFormat) -> str:
    """Return the proof of what SQL reads, before it is read."""
    from fleetlake.lake.guard import tables_read
    from fleetlake.monitoring.proof import prove
    from fleetlake.monitoring.streams import lake_now
    from fleetlake.settings import load_settings

    def made() -> "AnswerProof":
        now = lake_now(lake, load_settings().clock)
        return prove(lake, tables_read(lake, sql), now=now)

    return proof_text(made, form)


def proof_text(made: "Callable[[], AnswerProof]", form: ProofFormat) -> str:
    """Return a proof in a format, empty for OFF."""
    import orjson

    from fleetlake.errors import LakeError

    if form is ProofFormat.OFF:
        return ""
    try:
        proof = made()
        told, lines = proof.as_dict(), [*proof.lines()]
    except LakeError as error:  # the answer itself may be in files that are not damaged
        told = {"is_complete": False, "not_complete_because": [str(error)]}
        lines = [f"Not proven: {error}"]
    if form in {ProofFormat.TEXT, ProofFormat.HEADER}:
        return "\n".join(lines)
    return orjson.dumps(told, default=str, option=orjson.OPT_UTC_Z).decode()


def proof_format(asked: ProofFormat | None, output: OutputFormat) -> ProofFormat:
    """Return the format that was asked for, or the one that suits the output."""
    if asked is ProofFormat.HEADER and output is not OutputFormat.CSV:
        raise typer.BadParameter("--proof header needs --format csv.")
    if asked is not None:
        return asked
    return ProofFormat.TEXT if output is OutputFormat.TABLE else ProofFormat.OFF


def failure(
    error: "duckdb.Error", lake: "LakeAddress", tables: str, columns: str
) -> "FleetlakeError":
    """Return the error for SQL that DuckDB rejected, with what to do about it.

    DuckDB's own message locates syntax errors. `tables` is the command that lists the tables,
    `columns` the one that lists the columns of a table.
    """
    import duckdb

    from fleetlake.errors import UsageError
    from fleetlake.lake.guard import REMEDY, is_refusal
    from fleetlake.lake_address import SharedLake
    from fleetlake.machine.io_faults import io_fault
    from fleetlake.text.redaction import without_secrets

    if isinstance(error, duckdb.IOException) and (fault := io_fault(error)):
        return fault
    text = str(error)
    if isinstance(lake, SharedLake):
        text = without_secrets(text, lake.catalog)
    if is_refusal(error):
        return UsageError(f"This statement is refused: {text}", remedy=REMEDY)
    remedy = ""
    if text.startswith("Catalog Error: Table"):
        remedy = f"`{tables}` lists the tables."
    if text.startswith("Binder Error") and " column " in text:
        remedy = f"`{columns}` lists the columns of raw.alerts, and so for any table."
    if "read-only" in text:
        remedy = "Queries only read; loads and builds change the lake."
    return UsageError(f"DuckDB rejected this statement: {text}", remedy=remedy)


def _print_result(result: "DuckDBPyConnection", output: OutputFormat, *, is_guarded: bool) -> None:
    if output is OutputFormat.TABLE:
        _print_table(result)
    elif output is OutputFormat.JSON:
        print_json(_names(result), _batches(result))
    else:
        print_csv(_names(result), _batches(result), is_guarded=is_guarded)


def _print_table(result: "DuckDBPyConnection") -> None:
    """Print the first rows; count the rest without keeping it."""
    from fleetlake.cli.screen import console, print_rows

    screen, rows = console(), result.fetchmany(MAX_ROWS)
    print_rows(screen, _names(result), rows)
    more = sum(len(batch) for batch in _batches(result))
    if more:
        screen.print(f"{more:,} more rows; `--format csv` gives all.")


def _batches(result: "DuckDBPyConnection") -> Iterator[list[Row]]:
    while rows := result.fetchmany(ROWS_AT_A_TIME):
        yield [*rows]


def _names(result: "DuckDBPyConnection") -> list[str]:
    return [column[0] for column in result.description or []]
