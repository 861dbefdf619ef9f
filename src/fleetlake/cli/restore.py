"""`fleetlake restore`: a lake from a backup."""

from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.screen import console, copy_progress
from fleetlake.text.wording import counted, size_in_words


def restore(
    source: Annotated[str, typer.Argument(help="The folder or URL given to `fleetlake backup`.")],
    to: Annotated[
        Path | None,
        typer.Option(help="Folder of the restored lake, new or empty; default: FLEETLAKE_LAKE."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The backup to restore, as `fleetlake backup` printed it; default: the newest.",
        ),
    ] = None,
) -> None:
    """Make a lake from a backup, in a new or empty folder.

    The next `fleetlake ingest` loads what the service has recorded since. A restore that is
    stopped leaves no lake; run it again to continue.
    """
    from fleetlake.care.backups.restore import restore as restore_lake
    from fleetlake.settings import load_settings

    lake = to or load_settings().lake
    with copy_progress(console(stderr=True), "restoring") as on_copied:
        done = restore_lake(source, lake, at=at, on_copied=on_copied)
    console().print(
        f"Restored the backup of {done.manifest.stamp} to {done.lake}: "
        f"{counted(len(done.manifest.files), 'file')}, {size_in_words(done.manifest.size)}, "
        f"{done.seconds:.1f} s."
    )
    if not done.manifest.sha256:
        console().print(
            "An earlier release made this backup, without checksums of its files. Run `fleetlake "
            "check --full`, which compares the files with the lake's own."
        )
