"""`fleetlake export`: copy the lake's tables to other databases and file formats."""

from dataclasses import replace
from typing import Annotated, Literal

import typer

from fleetlake.cli.screen import console, count_bars, table
from fleetlake.exporters import TARGETS
from fleetlake.text.wording import counted

ABOUT = "; ".join(f"{target.name}: {target.about}" for target in TARGETS.values())


def export(
    target: Annotated[str, typer.Argument(help=f"The export target. {ABOUT}.")],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            help="A mart, raw.<endpoint>, or a whole schema (marts, raw, meta); repeatable. "
            "All marts if omitted; with geoparquet, those with places.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="A folder or URL for this run only. Put an address with a password into "
            "FLEETLAKE_EXPORTS__<TARGET>: other users can see a command line."
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Send every row, even those that the target already has.")
    ] = False,
    mode: Annotated[
        Literal["history", "soft_delete"] | None,
        typer.Option(
            help="How the named lists are held at the target, until another mode is named: "
            "history (all versions), or soft_delete (the newest, marked when it is gone)."
        ),
    ] = None,
) -> None:
    """Copy tables of the lake to a database, to files or to another table format.

    Sends only what changed since the last export: new rows, updates, deletions, new columns. You
    can stop it at any moment and run it again; each table changes atomically.
    """
    from pydantic import SecretStr

    from fleetlake.exporters.export import address_of, is_folder, require_lists, target_named
    from fleetlake.exporters.export import export as export_tables
    from fleetlake.lake import open_lake
    from fleetlake.lake.catalog import is_writable, require_lake
    from fleetlake.settings import load_settings

    settings, row = load_settings(), target_named(target)
    if settings.csv_guard and row.option == "csv":
        row = replace(row, option="csv guarded")
    require_lists(settings.export_modes)
    require_lake(settings.lake)
    address = SecretStr(to) if to else address_of(row, settings.exports)
    with (
        # Who may only read exports, too: the lake then keeps no snapshot for the next export.
        open_lake(settings.lake, read_only=not is_writable(settings.lake)) as lake,
        count_bars(console(stderr=True), "rows") as (on_rows, _),
    ):
        done = export_tables(
            lake,
            row,
            address,
            tables or [],
            is_full=full,
            mode=mode,
            modes=settings.export_modes,
            on_rows=on_rows,
        )
    columns = ("table", "rows sent", "rows removed", "seconds", "reason for a full export")
    rows = [(o.table, o.sent, o.removed, round(o.seconds, 1), o.full_reason) for o in done]
    console().print(table("", columns, rows))
    sent, seconds = sum(o.sent for o in done), sum(o.seconds for o in done)
    place = f" ({address.get_secret_value()})" if is_folder(row, address) else ""
    console().print(f"{counted(sent, 'row')} sent to {target}{place} in {seconds:.1f} s.")
