"""Copies of a lake outside of it: published snapshots, reports and backups."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from fleetlake.dashboard.report_files import remove_reports, reports_folder, write_newest_report
from fleetlake.lake.backups.backup_target import BackupTarget
from fleetlake.lake.backups.manifest import STAMP
from fleetlake.privacy.receipt import OutletReceipt, attempted
from fleetlake.publishing.publish import publish, published_folder
from fleetlake.publishing.snapshot_folders import (
    is_published_coarse,
    published_raw,
    remove_earlier,
)
from fleetlake.settings import Settings
from fleetlake.text.wording import counted


def renew_published(settings: Settings) -> Iterator[OutletReceipt]:
    """Publish the marts as before, and remove all earlier snapshots; yield what was done."""
    yield from attempted(_snapshots(settings), partial(_publish_again, settings))


def remove_earlier_published(settings: Settings) -> Iterator[OutletReceipt]:
    """Remove all published snapshots but the newest; yield what was done."""

    def remove() -> OutletReceipt:
        removed = remove_earlier(published_folder(settings))
        return OutletReceipt(outlet=_snapshots(settings), done=f"{removed} earlier removed")

    yield from attempted(_snapshots(settings), remove)


def _snapshots(settings: Settings) -> str:
    return f"published snapshots in {published_folder(settings)}"


def _publish_again(settings: Settings) -> OutletReceipt:
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
        outlet=_snapshots(settings),
        done=f"published again; {removed} earlier removed",
        left_to_do="Snapshots published elsewhere with --to: publish there twice.",
    )


def renew_reports(settings: Settings, *, is_published: bool) -> Iterator[OutletReceipt]:
    """Remove the reports of the settings' folder and rewrite the newest; yield what was done.

    If nothing `is_published` since the erasure, the newest is only removed.
    """
    folder, published = reports_folder(settings), published_folder(settings)

    def work() -> OutletReceipt | None:
        removed = remove_reports(folder)
        if not removed:
            return None
        if is_published:
            write_newest_report(published, folder)
        return OutletReceipt(
            outlet=f"reports in {folder}",
            done=f"{counted(removed, 'report')} removed"
            + (", the newest rewritten" if is_published else ""),
            left_to_do="Reports that were mailed or copied: ask their readers to delete them.",
        )

    yield from attempted(f"reports in {folder}", work)


def earlier_backups(addresses: Sequence[str], moment: datetime) -> Iterator[OutletReceipt]:
    """Yield which backups of each target were made before rows were deleted, and so hold them."""
    for address in addresses:
        yield from attempted("backups", partial(_earlier_backups, address, moment))


def _earlier_backups(address: str, moment: datetime) -> OutletReceipt:
    target = BackupTarget(address)
    outlet = f"backups in {target.name}"
    with target.errors():
        stamps = target.stamps()
    if not stamps:
        return OutletReceipt(
            outlet=outlet, done="no backup is there", left_to_do="Check the address."
        )
    held = [stamp for stamp in stamps if stamp < moment.strftime(STAMP)]
    return OutletReceipt(
        outlet=outlet,
        done=f"still in {counted(len(held), 'backup')}: {', '.join(held)}"
        if held
        else "in no backup",
        left_to_do=f"`fleetlake backup {target.name} --keep 1` replaces them." if held else "",
    )
