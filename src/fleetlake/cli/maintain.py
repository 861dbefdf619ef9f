"""`fleetlake maintain`: keep the lake small and fast."""

from typing import Annotated

import typer


def maintain(
    keep_days: Annotated[
        int, typer.Option(min=0, help="Days of snapshots to keep for time travel.")
    ] = 7,
) -> None:
    """Merge small files, expire old snapshots and remove unused files.

    Never waits: if a stream is being loaded, it reports that and changes nothing.
    """
    from datetime import timedelta

    from fleetlake.cli.screen import console
    from fleetlake.lake import open_lake
    from fleetlake.lake.catalog import require_lake
    from fleetlake.lake.maintenance import maintain as maintain_lake
    from fleetlake.settings import load_settings

    lake_address = load_settings().lake
    require_lake(lake_address)
    with open_lake(lake_address) as lake:
        done = maintain_lake(lake, keep=timedelta(days=keep_days))
    console().print(
        f"{done.files_written:,} data files written from rows in the catalog; "
        f"{done.files_before:,} data files merged into {done.files_after:,}; "
        f"{done.snapshots_expired:,} snapshots expired, {done.files_removed:,} files removed."
    )
