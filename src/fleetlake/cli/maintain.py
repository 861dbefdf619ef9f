"""`fleetlake maintain`: keep the lake small and quick."""

from typing import Annotated

import typer


def maintain(
    keep_days: Annotated[
        int, typer.Option(min=0, help="Days of snapshots that time travel keeps.")
    ] = 7,
) -> None:
    """Merge small files, forget old snapshots, remove files that nobody needs any more.

    Waits for nobody: while a stream is being loaded it says so and changes nothing.
    """
    from datetime import timedelta

    from fleetlake.cli.screen import console
    from fleetlake.lake import open_lake
    from fleetlake.lake.catalog import require_lake
    from fleetlake.lake.maintenance import maintain as maintain_lake
    from fleetlake.settings import load_settings

    place = load_settings().lake
    require_lake(place)
    with open_lake(place) as lake:
        done = maintain_lake(lake, keep=timedelta(days=keep_days))
    console().print(
        f"{done.files_written:,} data files written from rows that were in the catalog; "
        f"of {done.files_before:,} data files, merging left {done.files_after:,}; "
        f"{done.snapshots_expired:,} snapshots forgotten, {done.files_removed:,} files removed."
    )
