"""How commands read times, ask, and print rows: as a table for people, as JSON or CSV for programs.

JSON is one document, CSV has a header, and both are UTF-8 whatever the terminal's encoding is.
Programs get every character unchanged; a terminal gets control characters as visible codes.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

Row = Sequence[object]


class OutputFormat(StrEnum):
    """The values of `--format`."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


FormatOption = Annotated[
    OutputFormat,
    typer.Option("--format", help="Print a table for people, or JSON or CSV for programs."),
]


def print_records(output: OutputFormat, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Print rows as JSON or CSV: times in UTC, durations in seconds."""
    from fleetlake.settings import load_settings

    batches = [[[_machine_value(value) for value in row] for row in rows]]
    if output is OutputFormat.JSON:
        print_json(columns, batches)
    else:
        print_csv(columns, batches, is_guarded=load_settings().csv_guard)


def print_listed(
    output: OutputFormat,
    fields: Sequence[str],
    found: Sequence[Any],
    *,
    things: str,
    heads: Sequence[str],
    row: Callable[[Any], Row] = tuple,
) -> None:
    """Print a list: for programs all `fields`, for people a table with a `row` of each.

    What was found are objects or dictionaries with these fields, or rows.
    """
    if output is OutputFormat.TABLE:
        from fleetlake.cli.screen import console, table_or_none

        console().print(table_or_none(things, heads, [row(one) for one in found]))
    else:
        print_records(output, fields, [_fields(one, fields) for one in found])


def _fields(one: Any, fields: Sequence[str]) -> Row:
    if isinstance(one, (tuple, list)):
        return one
    values = one if isinstance(one, dict) else {name: getattr(one, name) for name in fields}
    return [values[name] for name in fields]


def print_json(columns: Sequence[str], batches: Iterable[Iterable[Row]]) -> None:
    """Print one array of objects, one row per line."""
    import orjson

    from fleetlake.cli.output import is_read_by_people, machine_output
    from fleetlake.text.plain import plain

    is_shown = is_read_by_people()
    out, separator = machine_output(), "[\n"
    for rows in batches:
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            line = orjson.dumps(named, default=str, option=orjson.OPT_UTC_Z).decode()
            out.write(f"{separator}{plain(line) if is_shown else line}")
            separator = ",\n"
    out.write("[]\n" if separator == "[\n" else "\n]\n")


def print_csv(
    columns: Sequence[str], batches: Iterable[Iterable[Row]], *, is_guarded: bool
) -> None:
    """Print CSV with a header; `is_guarded` puts ' before texts that would run as formulas."""
    write = csv_writer(columns, is_guarded=is_guarded)
    for rows in batches:
        write(rows)


def csv_writer(columns: Sequence[str], *, is_guarded: bool) -> Callable[[Iterable[Row]], None]:
    """Print the header of CSV, and return a function that prints rows of it."""
    from fleetlake.cli.output import is_read_by_people, machine_output
    from fleetlake.text.plain import plain
    from fleetlake.text.quoting import guarded

    is_shown = is_read_by_people()

    def cell(value: object) -> object:
        if isinstance(value, (datetime, date, time)):
            return value.isoformat()
        text = guarded(value) if is_guarded and isinstance(value, str) else value
        return text if text is None or not is_shown else plain(text)

    writer = csv.writer(machine_output(), lineterminator="\n")
    writer.writerow(cell(name) for name in columns)
    return lambda rows: writer.writerows([cell(value) for value in row] for row in rows)


def print_document(document: object) -> None:
    """Print one JSON value, indented: times in UTC, durations in seconds."""
    import orjson

    from fleetlake.cli.output import is_read_by_people, machine_output
    from fleetlake.text.plain import plain_lines

    option = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z
    text = orjson.dumps(document, option=option, default=_machine_value).decode()
    machine_output().write(f"{plain_lines(text) if is_read_by_people() else text}\n")


def _machine_value(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value.total_seconds() if isinstance(value, timedelta) else value


_TIME_FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z")


YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def is_agreed(question: str, *, yes: bool, otherwise: str = "Nothing was changed.") -> bool:
    """Return whether the user agrees. Raises: UsageError if there is no terminal to ask on."""
    from fleetlake.errors import UsageError
    from fleetlake.text.plain import plain

    if yes:
        return True
    try:
        return typer.confirm(plain(question))  # names in it may come from the service
    except typer.Abort:
        raise UsageError(otherwise, remedy="Add --yes to skip the question.") from None


def instant(text: str) -> datetime:
    """Return a time with its zone; a time without one is UTC.

    Raises: typer.BadParameter saying how a time is written.

    >>> instant("2026-06-15T12:00:00")
    datetime.datetime(2026, 6, 15, 12, 0, tzinfo=datetime.timezone.utc)
    """
    for form in _TIME_FORMATS:
        try:
            moment = datetime.strptime(text, form)  # noqa: DTZ007 - the next line adds the zone
        except ValueError:
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise typer.BadParameter(
        f"{text!r} is not a time. Write it as 2026-06-15, 2026-06-15T12:00:00 or "
        "2026-06-15T12:00:00+02:00."
    )


def day(text: str) -> datetime:
    """Return the beginning of a day. Raises: typer.BadParameter saying how a day is written."""
    try:
        return datetime.strptime(text, _TIME_FORMATS[0]).replace(tzinfo=UTC)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day. Write it as 2026-06-15.") from None


TIME: dict[str, Any] = {"parser": instant, "metavar": "TIME"}
"""Keyword arguments of an option that takes a time."""
