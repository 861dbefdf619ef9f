"""Copies of a lake outside of it: published snapshots, reports and backups.

Known are the addresses in the settings, and the default folders. A target that keeps earlier
versions of rows has them removed as far as it allows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from fleetlake.care.backups.backup_target import STAMP, BackupTarget
from fleetlake.dashboard.report import remove_reports, reports_folder, write_newest_report
from fleetlake.exporters import TARGETS, Target, plugin_names
from fleetlake.exporters.export import address_of, catch_up, renew, target_named
from fleetlake.lake import Lake, open_lake
from fleetlake.privacy.receipt import OutletReceipt, attempted
from fleetlake.publishing.publish import publish
from fleetlake.publishing.snapshot_folders import (
    is_published_coarse,
    published_folder,
    published_raw,
    remove_earlier,
)
from fleetlake.settings import Settings
from fleetlake.text.wording import counted

OnStep = Callable[[str], None]
_Work = Callable[[Lake, Target, SecretStr], OutletReceipt | None]

_KEPT_BY_TARGET = {
    "snowflake": "Snowflake keeps deleted rows for Time Travel and Fail-safe: set "
    "DATA_RETENTION_TIME_IN_DAYS to 0, and wait 7 days for Fail-safe.",
    "bigquery": "BigQuery keeps deleted rows for time travel and fail-safe, 14 days by default.",
    "postgres": "Its write-ahead log, replicas and backups are not changed: let them expire.",
}


_UNDISTURBED = {"postgres": "PostgreSQL reuses the space of deleted rows after its next VACUUM."}
"""Targets whose earlier rows cannot be removed without making readers wait."""


def renew_exports(settings: Settings, on_step: OnStep) -> Iterator[OutletReceipt]:
    """Rewrite the exported tables of every known target; yield what was done about each."""

    def work(lake: Lake, target: Target, address: SecretStr) -> OutletReceipt:
        tables = renew(lake, target, address)
        left = _KEPT_BY_TARGET.get(target.name, "") if tables else ""
        if "://" in address.get_secret_value() and target.module == ".files":
            left = "If the bucket keeps versions of objects, delete the older ones."
        return _receipt(target, f"{counted(len(tables), 'table')} rewritten", left)

    yield from _each_target(settings, on_step, work)
    yield OutletReceipt(
        outlet="exports to other addresses",
        done="not known",
        left_to_do="Run each `fleetlake export TARGET --to ADDRESS --full` again.",
    )


def bring_exports_up_to_date(
    settings: Settings, on_step: OnStep, *, before: datetime
) -> Iterator[OutletReceipt]:
    """Export tables that known targets hold as they were before an instant; yield what was done.

    Only changes are sent. Earlier versions of rows go where that makes no reader wait.
    """

    def work(lake: Lake, target: Target, address: SecretStr) -> OutletReceipt | None:
        is_undisturbed = target.name in _UNDISTURBED
        tables = catch_up(
            lake, target, address, before=before, are_earlier_removed=not is_undisturbed
        )
        if not tables:
            return None
        left = (_UNDISTURBED if is_undisturbed else _KEPT_BY_TARGET).get(target.name, "")
        return _receipt(target, f"{counted(len(tables), 'table')} brought up to date", left)

    yield from _each_target(settings, on_step, work)


def _each_target(settings: Settings, on_step: OnStep, work: _Work) -> Iterator[OutletReceipt]:
    """Do some work on every known target; yield the receipts, those of failures included."""
    for name in (*TARGETS, *plugin_names()):
        yield from attempted(_outlet(name), partial(_on_target, settings, on_step, work, name))


def _on_target(settings: Settings, on_step: OnStep, work: _Work, name: str) -> OutletReceipt | None:
    """Do some work on a target if its address is known; a default one must exist.

    Raises: SettingsError for an unusable plug-in, which may hold what was deleted.
    """
    target = target_named(name)
    if target.name not in settings.exports and target.address is None:
        return None
    address = address_of(target, settings.exports)
    text = address.get_secret_value()
    if target.address is not None and "://" not in text and not Path(text).exists():
        return None
    if target.name == "csv" and settings.csv_guard:
        target = replace(target, option="csv guarded")
    on_step(f"exporting to {name}")
    with open_lake(settings.lake) as lake:
        return work(lake, target, address)


def _receipt(target: Target, done: str, left: str) -> OutletReceipt:
    return OutletReceipt(outlet=_outlet(target.name), done=done, left_to_do=left)


def _outlet(name: str) -> str:
    return f"export to {name}"


def renew_published(settings: Settings) -> Iterator[OutletReceipt]:
    """Publish the marts as before, and remove all earlier snapshots; yield what was done."""
    folder, outlet = published_folder(settings), _snapshots(settings)

    def publish_again() -> OutletReceipt:
        publish(
            settings.lake,
            folder,
            raw=published_raw(folder),
            day_rows=settings.published_day_rows,
            is_coarse=settings.published_coarse or is_published_coarse(folder),
            budgets=settings.daily_budgets(),
        )
        return OutletReceipt(
            outlet=outlet,
            done=f"published again; {remove_earlier(folder)} earlier removed",
            left_to_do="Snapshots published elsewhere with --to: publish there twice.",
        )

    yield from attempted(outlet, publish_again)


def remove_earlier_published(settings: Settings) -> Iterator[OutletReceipt]:
    """Remove all published snapshots but the newest; yield what was done."""

    def remove() -> OutletReceipt:
        removed = remove_earlier(published_folder(settings))
        return OutletReceipt(outlet=_snapshots(settings), done=f"{removed} earlier removed")

    yield from attempted(_snapshots(settings), remove)


def _snapshots(settings: Settings) -> str:
    return f"published snapshots in {published_folder(settings)}"


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
