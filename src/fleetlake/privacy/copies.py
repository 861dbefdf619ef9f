"""Copies of a lake outside of it: published snapshots, reports and backups."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from fleetlake.dashboard.report_files import remove_reports, reports_folder, write_newest_report
from fleetlake.lake.backups.backup_target import BackupTarget
from fleetlake.lake.backups.manifest import STAMP
from fleetlake.privacy.receipt import OutletReceipt
from fleetlake.publishing.publish import publish, published_folder
from fleetlake.publishing.snapshot_folders import (
    is_published_coarse,
    published_raw,
    remove_earlier,
)
from fleetlake.settings import Settings
from fleetlake.text.wording import counted


def renew_published(settings: Settings) -> OutletReceipt:
    """Publish the marts as before, and remove all earlier snapshots. Raises: as `publish`."""
    folder = published_folder(settings)
    publish(
        settings.lake,
        folder,
        raw=published_raw(folder),
        day_rows=settings.published_day_rows,
        is_coarse=settings.published_coarse or is_published_coarse(folder),
        budgets=settings.daily_budgets(),
    )
    removed = remove_earlier(folder)
    return OutletReceipt(
        outlet=f"published snapshots in {folder}",
        done=f"published again; {removed} earlier removed",
        left_to_do="Snapshots published elsewhere with --to: publish there twice.",
    )


def renew_reports(settings: Settings) -> Iterator[OutletReceipt]:
    """Remove the reports of the settings' folder and rewrite the newest; yield what was done.

    Call it after `renew_published`: without a snapshot the newest is only removed. Raises:
    LakeError; OutputLost.
    """
    folder, published = reports_folder(settings), published_folder(settings)
    if removed := remove_reports(folder):
        if is_published := published.is_symlink():
            write_newest_report(published, folder)
        yield OutletReceipt(
            outlet=f"reports in {folder}",
            done=f"{counted(removed, 'report')} removed"
            + (", the newest rewritten" if is_published else ""),
            left_to_do="Reports that were mailed or copied: ask their readers to delete them.",
        )


def earlier_backups(addresses: Sequence[str], moment: datetime) -> Iterator[OutletReceipt]:
    """Yield which backups of each target were made before an erasure or deletion, and so hold it.

    Raises: LakeError if a target cannot be read.
    """
    for address in addresses:
        target = BackupTarget(address)
        with target.errors():
            stamps = target.stamps()
        held = [stamp for stamp in stamps if stamp < moment.strftime(STAMP)]
        yield OutletReceipt(
            outlet=f"backups in {target.name}",
            done=f"still in {counted(len(held), 'backup')}: {', '.join(held)}"
            if held
            else "in no backup",
            left_to_do=f"`fleetlake backup {target.name} --keep 1` replaces them." if held else "",
        )
