"""`fleetlake backup`: a consistent copy of the lake, made while loads go on."""

from typing import Annotated

import typer

from fleetlake.cli.screen import console, copy_progress
from fleetlake.text.wording import counted, size_in_words


def backup(
    target: Annotated[
        str, typer.Argument(help="A folder, best on another disk, or s3://bucket/prefix.")
    ],
    keep: Annotated[
        int, typer.Option(min=1, help="Number of backups to keep, this one included.")
    ] = 2,
    *,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="First compare every file at the target with its checksum, and copy again what "
            "has changed.",
        ),
    ] = False,
) -> None:
    """Copy the lake to a folder or an object store while loads go on.

    Copies the catalog first, then the files that it names and the target does not hold yet. A
    backup that is stopped leaves the earlier ones complete; run it again to continue.

    Loads and builds do not wait for a backup; `fleetlake maintain` does.
    Object stores take their keys from the usual AWS_ variables. `fleetlake restore` makes a lake
    from a backup.
    """
    from fleetlake.care.backups.backup import back_up
    from fleetlake.settings import load_settings

    lake = load_settings().lake
    with copy_progress(console(stderr=True), "copying") as on_copied:
        done = back_up(lake, target, keep=keep, is_verified=verify, on_copied=on_copied)
    console().print(
        f"{counted(len(done.manifest.files), 'file')} ({size_in_words(done.manifest.size)} with "
        f"the catalog): {done.files_copied:,} new ({size_in_words(done.bytes_copied)}), "
        f"{done.files_removed:,} old ones removed."
    )
    if verify:
        console().print(
            f"{counted(done.files_verified, 'file')} at the target verified: "
            f"{done.files_replaced:,} had changed and were copied again."
        )
    console().print(f"Backed up to {done.target} as {done.manifest.stamp} in {done.seconds:.1f} s.")
