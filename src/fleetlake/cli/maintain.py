"""`fleetlake maintain`: keep the lake small and fast."""

from typing import Annotated

import typer

from fleetlake.cli.screen import console, patience, print_copies
from fleetlake.text.wording import counted


def maintain(
    keep_days: Annotated[
        int, typer.Option(min=0, help="Days of snapshots to keep for time travel.")
    ] = 7,
    backups: Annotated[
        list[str] | None,
        typer.Option(
            "--backup",
            metavar="TARGET",
            help="List the backups there that still hold rows past their retention; repeatable.",
        ),
    ] = None,
    *,
    trust_clock: Annotated[
        bool,
        typer.Option(
            "--trust-clock",
            help="Apply retention by this machine's clock even if it is far ahead of the lake.",
        ),
    ] = False,
    copies: Annotated[
        bool,
        typer.Option(
            "--copies/--no-copies",
            help="After retention deleted rows: build the marts, publish and export again what "
            "still holds them, or leave that to the next build, publish and export.",
        ),
    ] = True,
) -> None:
    """Merge small files, expire old snapshots, remove unused files and rows past their retention.

    The section `retention` of fleetlake.toml sets how many days a raw table keeps its rows. Older
    rows are deleted at once; their bytes are gone when the last snapshot with them expires,
    --keep-days later. Then the marts are rebuilt, and a published snapshot and the exports to known
    addresses are brought up to date.

    Waits up to FLEETLAKE_BUSY_WAIT seconds for running loads, backups and erasures. If one still
    runs then, nothing is changed and the exit code is 12. Loads that begin meanwhile skip their
    turn.
    """
    from datetime import timedelta

    from fleetlake.care.maintenance import maintain as maintain_lake
    from fleetlake.lake import open_lake
    from fleetlake.lake.catalog import require_lake
    from fleetlake.lake.retention_rules import prepare_retention
    from fleetlake.privacy.after_retention import backups_with_deleted_rows, renew_after_retention
    from fleetlake.privacy.receipt import raise_unfinished
    from fleetlake.settings import load_settings

    settings = load_settings()
    require_lake(settings.lake)
    with open_lake(settings.lake) as lake:
        prepare_retention(lake, settings.retention, trust=settings.clock, is_trusted=trust_clock)
        done = maintain_lake(
            lake,
            keep=timedelta(days=keep_days),
            days=settings.retention,
            patience=patience(settings),
        )
    for name, rows in done.rows_deleted.items():
        console().print(f"{name}: {counted(rows, 'row')} past [retention] deleted.")
    console().print(
        f"{counted(done.files_written, 'data file')} written from rows in the catalog; "
        f"{counted(done.files_before, 'data file')} merged into {done.files_after:,}; "
        f"{counted(done.snapshots_expired, 'snapshot')} expired, "
        f"{counted(done.files_removed, 'file')} removed."
    )
    progress = console(stderr=True)

    def say_step(step: str) -> None:
        progress.print(f"{step.capitalize()} …")

    renewed = [*renew_after_retention(settings, on_step=say_step)] if copies else []
    renewed += backups_with_deleted_rows(settings, backups or ())
    if renewed:
        print_copies(console(), renewed)
    raise_unfinished(renewed)
