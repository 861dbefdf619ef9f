"""`fleetlake metric`: figures that are defined once, by dimension and time."""

from typing import Annotated

import typer

from fleetlake.cli.formats import FormatOption, OutputFormat
from fleetlake.cli.query import ProofOption, proof_format, proof_text, say_above, say_below

_BY = "A dimension, e.g. carrier, group, account or router. Repeat it for several."
_ONLY = "Only rows with this value: carrier=Bluewave, group_id=102. Repeat it for several."
_SINCE = "From this day on: 2026-11-01, or 30d for the newest 30 days of the lake (UTC)."


def metric(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="None: list the metrics.")
    ] = None,
    *,
    by: Annotated[list[str] | None, typer.Option(metavar="DIMENSION", help=_BY)] = None,
    grain: Annotated[
        str | None, typer.Option(metavar="GRAIN", help="day, week, month, quarter or year.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="DAY", help=_SINCE)] = None,
    until: Annotated[str | None, typer.Option(metavar="DAY", help="Before this day.")] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help=_ONLY)] = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL instead of running it.")
    ] = False,
    output: FormatOption = OutputFormat.TABLE,
    proof: ProofOption = None,
) -> None:
    """Print metrics, such as availability or failovers, by carrier, group or time.

    A metric is defined once, in sql/metrics, in dbt's format: dashboards, reports and assistants
    compute it in the same way. A project adds its own in sql/metrics/*.yml.

    fleetlake metric availability_pct failovers --by group --since 30d
    """
    from fleetlake.analysis.reader import open_for_reading
    from fleetlake.cli.formats import print_records
    from fleetlake.cli.screen import console, print_rows

    form = proof_format(proof, output)
    if not names:
        _list(output)
        return
    with open_for_reading(None, published=False) as lake:
        found = lake.metric(
            *names, by=by or (), grain=grain, since=since, until=until, only=_pairs(only or ())
        )
        if sql:
            console().print(found.sql, soft_wrap=True)
            return
        proven = proof_text(lambda: found.proof, form)
        rows = found.arrow()
    columns, values = rows.column_names, [tuple(row.values()) for row in rows.to_pylist()]
    if output is OutputFormat.TABLE:
        rounded = [[round(v, 3) if isinstance(v, float) else v for v in row] for row in values]
        print_rows(console(), columns, rounded)
    else:
        say_above(proven, form)
        print_records(output, columns, values)
    say_below(proven, form)


def _list(output: OutputFormat) -> None:
    """Print the metrics."""
    from fleetlake.cli.formats import print_listed
    from fleetlake.semantic_layer import metrics

    columns = ("metric", "unit", "meaning", "marts")
    rows = [
        (one.name, one.unit, one.about, ", ".join(one.marts))
        for one in metrics().values()
        if not one.is_part
    ]
    print_listed(
        output, columns, rows, things="metrics", heads=columns[:3], row=lambda one: one[:3]
    )


def _pairs(given: "list[str] | tuple[str, ...]") -> dict[str, object]:
    pairs: dict[str, object] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE.")
        pairs[name] = value
    return pairs
