"""`fleetlake maintain`: keep the lake small and fast."""

from typing import Annotated

import typer


def maintain(
    keep_days: Annotated[
        int, typer.Option(min=0, help="Days of snapshots to keep for time travel.")
    ] = 7,
    *,
    trust_clock: Annotated[
        bool,
        typer.Option(
            "--trust-clock",
            help="Apply [retention] by this machine's clock even if it is far ahead of the lake.",
        ),
    ] = False,
) -> None:
    """Merge small files, expire old snapshots, remove unused files and rows past their days.

    `[retention]` in fleetlake.toml says how many days the rows of a raw table stay. Such a row is
    deleted at once; its bytes are gone when the last snapshot with it expires, --keep-days later.
    The next build computes all marts anew, and published snapshots and exports follow the marts.

    Never waits: if a stream is being loaded, it reports that and changes nothing.
    """
    from datetime import timedelta

    from fleetlake.cli.screen import console
    from fleetlake.lake import open_lake
    from fleetlake.lake.catalog import require_lake
    from fleetlake.lake.maintenance import maintain as maintain_lake
    from fleetlake.lake.retention_rules import prepare_retention
    from fleetlake.settings import load_settings
    from fleetlake.text.wording import counted

    settings = load_settings()
    require_lake(settings.lake)
    with open_lake(settings.lake) as lake:
        prepare_retention(lake, settings.retention, trust=settings.clock, is_trusted=trust_clock)
        done = maintain_lake(lake, keep=timedelta(days=keep_days), days=settings.retention)
    for name, rows in done.rows_deleted.items():
        console().print(f"{name}: {counted(rows, 'row')} past [retention] deleted.")
    console().print(
        f"{done.files_written:,} data files written from rows in the catalog; "
        f"{done.files_before:,} data files merged into {done.files_after:,}; "
        f"{done.snapshots_expired:,} snapshots expired, {done.files_removed:,} files removed."
    )
