"""Backing up a lake while loads go on.

The catalog is copied first; then the files that it names and the target does not hold yet. Data
files never change, so name and size show whether one is there already. The manifest is written
last: a backup that was killed leaves the earlier ones complete, and files that the next one uses.

Maintenance removes files, so it and a backup exclude each other.

The catalog is one SQLite file. SQLite's backup reads one state of it, and no writer waits for that.
Rows that the catalog itself holds are in the copy; all others are in files that no commit changes.

The format of the lake does not matter here, so a lake can be backed up before it is upgraded.
"""

import sqlite3
import time
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import quote

from fleetlake.care.backups.backup_target import (
    CATALOGS,
    FILES,
    MANIFESTS,
    MARK,
    PART,
    STAMP,
    BackupTarget,
    Manifest,
    copy_all,
    sha256_of,
)
from fleetlake.care.integrity.checksums import known_checksums
from fleetlake.care.integrity.listing import OnBytes, each_of, ignore_bytes
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake.attach import BUSY_MILLISECONDS, CATALOG
from fleetlake.lake.attach import FILES as LAKE_FILES
from fleetlake.lake.catalog import open_as_is, require_lake
from fleetlake.lake.ducklake import end_removals, files_in, identity_of
from fleetlake.lake.evolution.format import this_release
from fleetlake.lake.locks import files_lock, open_lock
from fleetlake.lake_address import DEMO_MARK, LakeAddress, SharedLake
from fleetlake.machine.io_faults import io_fault
from fleetlake.machine.umask import apply_umask
from fleetlake.text.wording import counted


@dataclass(frozen=True, kw_only=True)
class CatalogCopy:
    """A copied catalog: the lake's identity, its newest snapshot, and the bytes of each file.

    Files are named relative to the lake's folder of files. Those of older snapshots, which time
    travel and exports read, are among them.
    """

    path: Path
    lake_id: str
    snapshot_id: int
    files: dict[str, int]


def copy_catalog(lake: Path, to: Path) -> CatalogCopy:
    """Copy the catalog of a lake in a folder.

    This process must not have the lake open: closing the file here would release the locks of
    DuckDB's own SQLite. Raises: LakeError if the catalog cannot be read, or is damaged.
    """
    try:
        with open_lock(lake):
            source = sqlite3.connect(
                f"file:{quote(str(lake / CATALOG))}?mode=ro",
                uri=True,
                timeout=BUSY_MILLISECONDS / 1000,
            )
        try:
            with closing(sqlite3.connect(to)) as copy:
                source.backup(copy)
                return _prepared(copy, to, lake)
        finally:
            with open_lock(lake):
                source.close()
    except sqlite3.Error as error:
        if fault := io_fault(error, to if "full" in str(error) else lake):
            raise fault from None
        raise LakeError(
            f"The catalog of the lake in {lake} could not be copied: {error}.",
            remedy="Run `fleetlake doctor`. Earlier backups are unchanged.",
        ) from None


def _prepared(copy: sqlite3.Connection, path: Path, lake: Path) -> CatalogCopy:
    """Check a copied catalog, make it one file that stands alone, and list what it names."""
    copy.execute("pragma journal_mode = delete")
    [(said,)] = copy.execute("pragma quick_check(1)").fetchall()
    if said != "ok":
        raise LakeError(
            f"The catalog of the lake in {lake} is damaged: {said}.",
            remedy="Restore the lake from an earlier backup, which is unchanged.",
        )
    end_removals(copy)
    lake_id, snapshot_id = identity_of(copy)
    return CatalogCopy(
        path=path, lake_id=lake_id, snapshot_id=snapshot_id, files=_files(copy, lake)
    )


def _files(copy: sqlite3.Connection, lake: Path) -> dict[str, int]:
    files: dict[str, int] = {}
    for schema, table, name, size, is_relative in files_in(copy):
        if not is_relative:
            raise LakeError(
                f"The catalog of the lake in {lake} names a file outside the lake, {name}.",
                remedy="fleetlake does not write such files: copy the lake with the tool that did.",
            )
        files[str(PurePosixPath(schema, table, name))] = size
    return files


KEEP_BACKUPS = 2
"""How many backups stay: the newest, and one before it."""

MAINTENANCE_SECONDS = 1800.0
"""How long a backup waits for maintenance to end."""

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class BackedUp:
    """The result of a backup: what it consists of, and what had to be copied for it.

    `files_replaced` are those that had changed at the target since a backup wrote them.
    """

    manifest: Manifest
    target: str
    files_copied: int
    bytes_copied: int
    files_removed: int
    files_verified: int
    files_replaced: int
    seconds: float


def back_up(
    lake: LakeAddress,
    address: str,
    *,
    keep: int = KEEP_BACKUPS,
    is_verified: bool = False,
    on_copied: OnBytes = ignore_bytes,
) -> BackedUp:
    """Back up a lake in a folder to another folder or an object store.

    This process must not have the lake open. The newest `keep` backups stay; files that none of
    them names are removed from the target. `is_verified` first compares every file there with its
    checksum, and copies again what has changed.

    Raises: LakeError if there is no lake, if a file of it is missing or damaged, or if the target
    cannot be written or holds something else; also for changed files of earlier backups that the
    lake no longer has, when the new backup is complete. UsageError for a target inside the lake.
    """
    began = time.monotonic()
    apply_umask()
    folder = _require_folder(lake)
    target = BackupTarget(address)
    _refuse_overlap(folder, target)
    own = _own_checksums(folder)
    with (
        target.errors(),
        files_lock(folder, seconds=MAINTENANCE_SECONDS),
        TemporaryDirectory(prefix="fleetlake-backup-") as work,
    ):
        target.require_own()
        stamp = datetime.now(UTC).strftime(STAMP)
        copy = copy_catalog(folder, Path(work) / "catalog.sqlite")
        _refuse_other_content(target, copy)
        written = (found.sha256.items() for found in target.manifests())
        sums = dict(chain.from_iterable(written)) | own
        verified = _verified(target, sums) if is_verified else {}
        changed = {name for name, is_as_written in verified.items() if not is_as_written}
        copied = _copy_files(folder, target, copy, sums=sums, changed=changed, on_copied=on_copied)
        manifest = Manifest(
            stamp=stamp,
            lake_id=copy.lake_id,
            snapshot_id=copy.snapshot_id,
            release=this_release(),
            catalog_bytes=copy.path.stat().st_size,
            catalog_sha256=sha256_of(copy.path),
            files=copy.files,
            sha256={name: sums[name] for name in copy.files},
            marks=_marks(folder),
        )
        target.put(copy.path, manifest.catalog)
        _require_all(target, manifest)
        target.flush()
        target.put_text(manifest.to_text(), manifest.name)
        target.flush()
        removed = _remove_unused(target, keep)
        _refuse_changed(target, changed - {f"{FILES}/{name}" for name in copied}, manifest)
    return BackedUp(
        manifest=manifest,
        target=target.name,
        files_copied=len(copied),
        bytes_copied=sum(copied.values()),
        files_removed=removed,
        files_verified=len(verified),
        files_replaced=len(changed),
        seconds=time.monotonic() - began,
    )


def _require_folder(lake: LakeAddress) -> Path:
    """Return the folder of a lake. Raises: LakeError for a shared lake, or if there is none."""
    if isinstance(lake, SharedLake):
        raise LakeError(
            f"`fleetlake backup` copies lakes in folders, and {lake} is a PostgreSQL database.",
            remedy="Stop `fleetlake maintain`, save the database with pg_dump, then copy the "
            f"folder or bucket {lake.files}. In this order, every file that the dump names is "
            "in the copy.",
        )
    require_lake(lake)
    return lake.resolve()


def _refuse_overlap(lake: Path, target: BackupTarget) -> None:
    folder = target.folder.resolve() if target.folder else None
    if folder and (folder.is_relative_to(lake) or lake.is_relative_to(folder)):
        raise UsageError(
            f"The target {folder} and the lake {lake} overlap.",
            remedy="Back up to a folder outside of the lake, best on another disk.",
        )


def _refuse_other_content(target: BackupTarget, copy: CatalogCopy) -> None:
    """Refuse a target that holds other files, or another lake; mark a new one as ours."""
    if target.is_other_folder():
        raise LakeError(
            f"{target.name} holds files that no backup made.",
            remedy="Back up to an empty folder or a new prefix.",
        )
    if any(manifest.lake_id != copy.lake_id for manifest in target.manifests()):
        raise LakeError(
            f"{target.name} holds backups of another lake.",
            remedy="Back up each lake to a folder or prefix of its own.",
        )
    target.put_text('{"what": "backups of a fleetlake lake: see `fleetlake restore`"}\n', MARK)


def _own_checksums(lake: Path) -> dict[str, str]:
    """Return the checksums that a lake keeps of its files; none if it is damaged or older."""
    with suppress(LakeError), open_as_is(lake) as opened:
        return known_checksums(opened)
    return {}


def _verified(target: BackupTarget, sums: Mapping[str, str]) -> dict[str, bool]:
    """Read all files of a target's backups; return of each whether it is as it was written."""
    known = {f"{FILES}/{name}": checksum for name, checksum in sums.items()}
    known |= {found.catalog: found.catalog_sha256 for found in target.manifests()}
    names = sorted(known.keys() & target.sizes().keys())
    found = each_of(names, lambda name: target.sha256(name) == known[name])
    return dict(zip(names, found, strict=True))


def _copy_files(
    lake: Path,
    target: BackupTarget,
    copy: CatalogCopy,
    *,
    sums: dict[str, str],
    changed: Collection[str],
    on_copied: OnBytes,
) -> dict[str, int]:
    """Copy what the target lacks, and what has `changed`; return the bytes of each copied file.

    `sums` gets the checksums that it lacks. Raises: LakeError for a file of the lake that is not as
    it was written.
    """
    held, files = target.sizes(FILES), lake / LAKE_FILES
    lacking = {
        name: size
        for name, size in copy.files.items()
        if held.get(name) != size or f"{FILES}/{name}" in changed
    }
    for name, size in lacking.items():
        _require_whole(files / name, size)

    def copy_one(name: str) -> None:
        checksum = sha256_of(files / name)
        if sums.setdefault(name, checksum) != checksum:
            raise LakeError(
                f"The file {files / name} of the lake changed after being written, so it cannot "
                "be backed up.",
                remedy="Run `fleetlake check --full`, then `fleetlake repair`. Earlier backups "
                "are unchanged.",
            )
        target.put(files / name, f"{FILES}/{name}")

    copy_all(lacking, copy_one, on_copied)
    for name in copy.files.keys() - sums.keys():  # of a backup that an earlier release made
        sums[name] = sha256_of(files / name)
    return lacking


def _refuse_changed(target: BackupTarget, changed: Collection[str], new: Manifest) -> None:
    """Raise LakeError if changed files of earlier backups are left at a target."""
    left = sorted(target.sizes().keys() & {*changed})
    if left:
        raise LakeError(
            f"{counted(len(left), 'file')} of earlier backups in {target.name} changed after being "
            f"written, and the lake no longer has them, e.g. {', '.join(left[:_SHOWN])}.",
            remedy=f"The new backup {new.stamp} is complete. Earlier ones cannot be restored "
            "whole: `--keep 1` removes them. Check the disk.",
        )


def _require_whole(path: Path, size: int) -> None:
    found = path.stat().st_size if path.exists() else None
    if found != size:
        what = "is missing" if found is None else f"has {found:,} bytes instead of {size:,}"
        raise LakeError(
            f"The file {path} of the lake {what}, so it cannot be backed up.",
            remedy="Run again. If the same file is named, the disk has lost it: restore the lake "
            "from an earlier backup, which is unchanged.",
        )


def _require_all(target: BackupTarget, manifest: Manifest) -> None:
    """Raise LakeError unless every part of a backup is at the target with its size."""
    held, catalogs = target.sizes(FILES), target.sizes(CATALOGS)
    wrong = [name for name, size in manifest.files.items() if held.get(name) != size]
    if catalogs.get(f"{manifest.stamp}.sqlite") != manifest.catalog_bytes:
        wrong.append(manifest.catalog)
    if wrong:
        raise LakeError(
            f"{len(wrong):,} files did not arrive whole at {target.name}, e.g. "
            f"{', '.join(wrong[:_SHOWN])}.",
            remedy="Run the backup again. Earlier backups are unchanged.",
        )


def _marks(lake: Path) -> dict[str, str]:
    """Return the small files that say what kind of lake this is."""
    mark = lake / DEMO_MARK
    return {DEMO_MARK: mark.read_text("utf-8")} if mark.exists() else {}


def _remove_unused(target: BackupTarget, keep: int) -> int:
    """Remove old backups, then the files that no backup names; return how many data files.

    Manifests go first, so that none is left whose files are gone.
    """
    stamps, readable = target.stamps(), target.manifests()
    if len(readable) < len(stamps):
        return 0  # a damaged manifest, or one of a later release, may name any of the files
    kept = readable[:keep]
    target.delete(manifest.name for manifest in readable[keep:])
    catalogs = {manifest.catalog for manifest in kept}
    files = {name for manifest in kept for name in manifest.files}
    parts = [f"{CATALOGS}/{name}" for name in target.sizes(CATALOGS)]
    parts += [f"{MANIFESTS}/{name}" for name in target.sizes(MANIFESTS) if name.endswith(PART)]
    target.delete(name for name in (*parts, *target.unfinished_marks()) if name not in catalogs)
    unused = [
        name
        for name in target.sizes(FILES)
        if name not in files and name.endswith((".parquet", PART))
    ]
    return target.delete(f"{FILES}/{name}" for name in unused)
