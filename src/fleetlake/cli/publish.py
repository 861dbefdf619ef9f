"""`fleetlake publish`: the marts as plain Parquet files."""

from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.screen import NOTHING_LOADED, console, table


def publish(
    to: Annotated[
        Path | None,
        typer.Option(
            help="Target folder; default: FLEETLAKE_PUBLISHED; if unset, in a demo's lake."
        ),
    ] = None,
    raw: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENDPOINT",
            help="Also publish this raw table, as raw_<endpoint>; repeatable. Without it, those of "
            "FLEETLAKE_PUBLISH_RAW.",
        ),
    ] = None,
    *,
    coarse_locations: Annotated[
        bool,
        typer.Option(
            "--coarse-locations",
            help="Round coordinates to 100 m, and leave out names and identifiers of devices and "
            "people, and free texts. FLEETLAKE_PUBLISHED_COARSE makes this the default.",
        ),
    ] = False,
) -> None:
    """Publish the marts as Parquet, with a DuckDB file of views that needs no extension.

    Readers see either the whole old snapshot or the whole new one.
    """
    from fleetlake.publishing.publish import publish as publish_snapshot
    from fleetlake.publishing.snapshot_folders import published_folder
    from fleetlake.settings import load_settings

    settings = load_settings()
    done = publish_snapshot(
        settings.lake,
        to or published_folder(settings),
        raw=raw or settings.publish_raw,
        day_rows=settings.published_day_rows,
        is_coarse=coarse_locations or settings.published_coarse,
        budgets=settings.daily_budgets(),
    )
    rows = [(name, count) for name, count in done.rows.items()]
    console().print(table("", ("table", "rows"), rows))
    if done.left_out:
        left_out = ", ".join(sorted(done.left_out))
        console().print(f"No longer published: {left_out}.")
    console().print(f"Published to {done.path} in {done.seconds:.1f} s.")
    if done.nothing_loaded:
        console(stderr=True).print(NOTHING_LOADED)
