"""Erase a device, a person or an account everywhere: the lake, then every copy made of it.

Tombstones come first, so a stopped erasure lets nothing back. Every later step does not depend on
what was found before, so running the command again finishes the work.

Deleting rows leaves their bytes in data files until each is rewritten, in the files of older
snapshots, in rows and statistics of the catalog, and in free pages of the catalog's own file. The
order matters: rows in the catalog become files first, and every older snapshot expires.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleetlake.care.maintenance import one_thread
from fleetlake.endpoints.relations import Thing
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake import Lake, ducklake, open_lake
from fleetlake.lake.attach import BUSY_MILLISECONDS, CATALOG
from fleetlake.lake.catalog import require_lake
from fleetlake.lake.ducklake import data_files, tables_in
from fleetlake.lake.durable import flush_files
from fleetlake.lake.erasure import (
    ErasedRows,
    commit_tombstones,
    count_rows,
    erase_rows,
    erased_things,
)
from fleetlake.lake.erasure_plan import ErasurePlan, is_held, plan_erasure, require_described
from fleetlake.lake.locks import Patience, commit_lock, open_lock, quiet_lake
from fleetlake.lake.tombstones import read_tombstones
from fleetlake.lake_address import LakeAddress, SharedLake
from fleetlake.machine.io_faults import io_fault
from fleetlake.marts.build import build_marts, forget_scratch
from fleetlake.marts.on_target import is_storage_of, target_of
from fleetlake.privacy.copies import (
    OnStep,
    earlier_backups,
    renew_exports,
    renew_published,
    renew_reports,
)
from fleetlake.privacy.receipt import OutletReceipt, Receipt, attempted, table_receipts
from fleetlake.publishing.snapshot_folders import published_folder
from fleetlake.receiving.drain import drain_quiet
from fleetlake.receiving.journal_positions import read_positions
from fleetlake.receiving.journal_table import (
    JournalTable,
    JournalUnavailable,
    has_journal,
    read_waiting,
)
from fleetlake.settings import Settings
from fleetlake.text.quoting import quoted
from fleetlake.text.wording import counted


def purge_files(lake: Lake) -> None:
    """Rewrite every file with deleted rows, and remove all snapshots but the newest.

    The caller holds `quiet_lake`. Time travel ends here, and exports start from a full copy.
    """
    with commit_lock(lake.path):
        with one_thread(lake), lake.transaction():
            ducklake.flush_rows(lake)
        with lake.transaction():
            ducklake.rewrite_all_files(lake)
        with lake.transaction():
            ducklake.expire_older(lake, timedelta())
        flush_files(lake.path)  # the catalog must forget a file before the disk does
        ducklake.remove_unused_files(lake)
        # No commit is under way, so a file that the catalog does not name is a stopped one's.
        ducklake.remove_strays(lake, timedelta())
        ducklake.correct_statistics(lake)


def purge_catalog(lake: LakeAddress) -> None:
    """Rewrite the catalog without the bytes of deleted rows. This process has no lake open.

    Raises: LakeError if another process reads the catalog for too long.
    """
    with commit_lock(lake):
        if isinstance(lake, SharedLake):
            _vacuum_database(lake)
            return
        try:
            _vacuum_file(lake)
        except sqlite3.Error as error:
            if fault := io_fault(error, lake):
                raise LakeError(
                    f"The catalog of the lake in {lake} still holds bytes of deleted rows. "
                    f"{fault.what}",
                    remedy=fault.remedy,
                ) from None
            raise LakeError(
                f"The catalog of the lake in {lake} still holds bytes of deleted rows: {error}.",
                remedy="End other programs that read the lake, then run the same command again.",
            ) from None


def _vacuum_file(lake: Path) -> None:
    with open_lock(lake):
        catalog = sqlite3.connect(
            lake / CATALOG, timeout=BUSY_MILLISECONDS / 1000, isolation_level=None
        )
    with closing(catalog):
        catalog.execute("pragma secure_delete = on")
        catalog.execute("vacuum")
        [is_busy, *_] = catalog.execute("pragma wal_checkpoint(truncate)").fetchone()
        if is_busy:
            raise sqlite3.OperationalError("another process is reading it")


def _vacuum_database(lake: SharedLake) -> None:
    """Rewrite the tables of a shared catalog; its log and backups are not ours."""
    with closing(lake.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(ducklake.CATALOG_TABLES)
        for schema, table in cursor.fetchall():
            cursor.execute(f"vacuum (full, analyze) {quoted(schema)}.{quoted(table)}")


def erase(
    settings: Settings,
    wanted: Sequence[tuple[Thing, int]],
    *,
    backups: Sequence[str] = (),
    is_dry_run: bool = False,
    on_step: OnStep = lambda _: None,
) -> Receipt:
    """Erase things by kind and id; `backups` are looked into for copies that still hold them.

    With `is_dry_run`, only count. Raises: UsageError for a thing that the lake does not know;
    LakeBusy if a load, maintenance or a backup runs for too long; LakeError; BuildFailed. What
    failed about a copy is in the receipt: see `raise_unfinished`.
    """
    began, lake = time.monotonic(), settings.lake.resolve()
    require_lake(lake)
    erased_at = datetime.now(UTC)
    if is_dry_run:
        with open_lake(lake, read_only=True) as opened:
            plan = _plan(opened, wanted)
            done = ErasedRows(deleted=count_rows(opened, plan), redacted={})
            files = data_files(opened)
        outlets = [*_backups(backups, erased_at)]
        after = files
    else:
        with quiet_lake(lake, Patience(seconds=settings.busy_wait, on_busy=on_step)):
            [*_empty_journal(settings)]  # so that it is erased in the lake; reported below
            plan, done, files, has_marts = _erase_rows(lake, wanted, on_step)
            absent = _renew_marts(settings, on_step, has_marts=has_marts)
            after = _purge(lake, on_step)
            journals = [*_empty_journal(settings), *_journals_elsewhere(settings)]
        outlets = [*journals, *map(_absent_storage, absent)]
        outlets += [*_renew_copies(settings, on_step), *_backups(backups, erased_at)]
    return Receipt(
        erased_at=erased_at,
        things={str(thing): count for thing, count in erased_things(plan).items()},
        tables=table_receipts(done.deleted, done.redacted, files, after),
        outlets=outlets,
        is_dry_run=is_dry_run,
        seconds=time.monotonic() - began,
    )


def _empty_journal(settings: Settings) -> Iterator[OutletReceipt]:
    """Bring what waits in the journal into the lake and delete it here; yield what was done.

    What arrives later about something erased is kept out of the lake by its tombstone, and deleted
    by the next drain.
    """
    folder = settings.push_journal

    def work() -> OutletReceipt | None:
        drained = drain_quiet(settings.lake, folder, profile=settings.profile)
        while not drained.is_nothing:
            drained = drain_quiet(settings.lake, folder, profile=settings.profile)
        if not has_journal(folder):
            return None
        with closing(JournalTable(folder)) as table:
            if not table.delete_until(0):
                raise JournalUnavailable("another process keeps reading the journal")
        return OutletReceipt(outlet=outlet, done="in the lake, and deleted here")

    outlet = f"pushed messages in {folder}"
    yield from attempted(outlet, work)


def _journals_elsewhere(settings: Settings) -> Iterator[OutletReceipt]:
    """Yield what is left to do about the journals of other folders and machines."""
    with open_lake(settings.lake, read_only=True) as lake:
        ids = {*read_positions(lake)}
    with suppress(OSError, LakeError):  # reported already
        ids -= {read_waiting(settings.push_journal, {}).journal_id}
    if ids:
        yield OutletReceipt(
            outlet="pushed messages in other folders",
            done="not changed",
            left_to_do=f"{counted(len(ids), 'journal')} elsewhere: run the same command "
            "where their receivers run, or remove those that are no longer used.",
        )


def _plan(lake: Lake, wanted: Sequence[tuple[Thing, int]]) -> ErasurePlan:
    """Return what to erase. Raises: UsageError for a thing of which the lake has never held a row.

    One that was erased before is known by its tombstone. Raises: LakeError for a list that is
    described nowhere.
    """
    require_described(lake)
    tombstones = read_tombstones(lake)
    for thing, id_ in wanted:
        if not tombstones.has(thing, id_) and not is_held(lake, thing, id_):
            raise UsageError(
                f"The lake holds no row of {thing} {id_}.",
                remedy=f"raw.{thing.listing.name} lists the ids of those that it holds.",
            )
    return plan_erasure(lake, wanted)


def _erase_rows(
    lake: LakeAddress, wanted: Sequence[tuple[Thing, int]], on_step: OnStep
) -> tuple[ErasurePlan, ErasedRows, dict[str, str], bool]:
    on_step("deleting rows")
    with open_lake(lake) as opened, commit_lock(lake):
        plan, files = _plan(opened, wanted), data_files(opened)
        has_marts = bool(tables_in(opened, "marts"))
        return plan, erase_rows(opened, plan, commit_tombstones(opened, plan)), files, has_marts


def _absent_storage(storage: Path) -> OutletReceipt:
    return OutletReceipt(
        outlet=f"tables of builds in {storage}",
        done="not found",
        left_to_do="If it is only not mounted: delete its folders mirror and tables.",
    )


def _renew_marts(settings: Settings, on_step: OnStep, *, has_marts: bool) -> list[Path]:
    """Build all marts from nothing: sums and counts hold what was erased, too.

    Returns the storages of builds in which nothing was found.
    """
    absent = forget_scratch(settings.lake, own_storages(settings))
    if has_marts:
        on_step("building the marts")
        target = target_of(settings.build_on, settings.build_storage)
        build_marts(settings.lake, is_full=True, memory=settings.build_memory, target=target)
    return absent


def own_storages(settings: Settings) -> list[Path]:
    """Return the storage of the settings if it has what builds have made of the lake.

    The folder that notes which storages builds have used may be another machine's, or be deleted.
    """
    if settings.build_storage is None:
        return []
    with open_lake(settings.lake, read_only=True) as lake:
        is_ours = is_storage_of(settings.build_storage, ducklake.lake_uuid(lake))
    return [settings.build_storage] if is_ours else []


def _purge(lake: LakeAddress, on_step: OnStep) -> dict[str, str]:
    on_step("rewriting files")
    with open_lake(lake) as opened:
        purge_files(opened)
        after = data_files(opened)
    purge_catalog(lake)
    return after


def _renew_copies(settings: Settings, on_step: OnStep) -> Iterator[OutletReceipt]:
    """Renew published snapshots, reports and exports; yield what was done about each."""
    published: list[OutletReceipt] = []
    if published_folder(settings).is_symlink():
        on_step("publishing")
        published += renew_published(settings)
        yield from published
    is_published = bool(published) and not any(one.is_failed for one in published)
    yield from renew_reports(settings, is_published=is_published)
    yield from renew_exports(settings, on_step)
    if isinstance(settings.lake, SharedLake):
        yield OutletReceipt(
            outlet="PostgreSQL's own log and backups of the catalog",
            done="not changed",
            left_to_do="Let them expire. Other machines delete their build files when they build.",
        )


def _backups(addresses: Sequence[str], erased_at: datetime) -> Iterator[OutletReceipt]:
    """Yield the backups made before the erasure: all of them still hold what was erased."""
    yield from earlier_backups(addresses, erased_at)
    if not addresses:
        yield OutletReceipt(
            outlet="backups",
            done="not checked",
            left_to_do="Backups made before now hold what was erased, and the next ones do not. "
            "`--backup TARGET` lists them.",
        )
