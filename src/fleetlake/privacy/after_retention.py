"""What was made of a lake follows after maintenance deleted rows past their days.

Which copies are outdated follows from times that the lake, the snapshots and the targets keep, and
not from what this run has deleted: so the next maintenance finishes what a stopped one has not.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fleetlake.lake import Lake, open_lake
from fleetlake.lake.audit_trail import EventKind, count_removals
from fleetlake.lake.ducklake import tables_in
from fleetlake.marts.build import build_marts, forget_other_storages
from fleetlake.marts.on_target import target_of
from fleetlake.marts.plan import last_built
from fleetlake.privacy.copies import (
    OnStep,
    bring_exports_up_to_date,
    earlier_backups,
    remove_earlier_published,
    renew_published,
)
from fleetlake.privacy.receipt import OutletReceipt
from fleetlake.publishing.snapshot_folders import STAMP, published_folder, snapshot_names
from fleetlake.settings import Settings
from fleetlake.text.wording import counted


def renew_after_retention(
    settings: Settings, *, on_step: OnStep = lambda _: None
) -> Iterator[OutletReceipt]:
    """Bring marts, published snapshots and known exports up to date; yield what was done to each.

    Yields nothing for a copy that is up to date, and changes nothing in a lake from which no rule
    has ever deleted a row. This process must not have the lake open.

    Raises: BuildFailed; LakeError. What failed about a copy is among what is yielded.
    """
    with open_lake(settings.lake, read_only=True) as lake:
        deleted_at = _last_deletion(lake)
        has_marts = bool(tables_in(lake, "marts"))
        if deleted_at is None:
            return
        target = target_of(settings.build_on, settings.build_storage)
        made = target.tables if target else lake.path / "dbt"
        is_outdated = has_marts and _are_outdated(lake, made, deleted_at)
    if is_outdated:
        on_step("building the marts")
        forget_other_storages(settings.lake, target)
        built = build_marts(settings.lake, memory=settings.build_memory, target=target)
        done = f"{counted(len(built.models), 'model')} rebuilt"
        yield OutletReceipt(outlet="marts", done=done)
    with open_lake(settings.lake, read_only=True) as lake:
        built_at = _newest(lake, "builds", "built_at", _FULL_BUILD) if has_marts else None
    if built_at:
        yield from _renew_published(settings, on_step, before=built_at)
    latest = max(deleted_at, built_at or deleted_at)
    yield from bring_exports_up_to_date(settings, on_step, before=latest)


def backups_with_deleted_rows(
    settings: Settings, addresses: Sequence[str]
) -> Iterator[OutletReceipt]:
    """Yield which backups of each target still hold rows that a rule has deleted."""
    with open_lake(settings.lake, read_only=True) as lake:
        deleted_at = _last_deletion(lake)
    if deleted_at:
        yield from earlier_backups(addresses, deleted_at)


def _last_deletion(lake: Lake) -> datetime | None:
    return _newest(lake, "events", "happened_at", f"kind = '{EventKind.RETENTION}'")


def _are_outdated(lake: Lake, made: Path, deleted_at: datetime) -> bool:
    """Return whether the marts hold what was computed from deleted rows.

    `made` is where this machine finds its last build. If others have built, only the lake's own
    record of builds shows it. What a build reads is as old as its beginning.
    """
    built = last_built(made)
    if built is not None:
        return built.removals != count_removals(lake)
    began_at = _newest(lake, "builds", "built_at - to_seconds(seconds)", _FULL_BUILD)
    return began_at is None or began_at < deleted_at


def _newest(lake: Lake, table: str, column: str, condition: str) -> datetime | None:
    """Return the latest time in a table of meta, in UTC."""
    moment = lake.instant(f"select max({column}) from meta.{table} where {condition}")
    return moment.astimezone(UTC) if moment else None


_FULL_BUILD = "is_good and is_full"


def _renew_published(
    settings: Settings, on_step: OnStep, *, before: datetime
) -> Iterator[OutletReceipt]:
    """Publish again if the newest snapshot is older than an instant, and remove older ones."""
    folder, stamp = published_folder(settings), before.strftime(STAMP)
    names = snapshot_names(folder) if folder.is_symlink() else []
    if not names or names[-1] >= stamp:
        return
    on_step("publishing")
    if folder.resolve().name < stamp:
        yield from renew_published(settings)
    else:
        yield from remove_earlier_published(settings)
