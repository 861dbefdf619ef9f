"""Backing up a lake while loads go on.

The catalog is copied first; then the files that it names and the target does not hold yet. Data
files never change, so name and size show whether one is there already. The manifest is written
last: a backup that was killed leaves the earlier ones complete, and files that the next one uses.

Maintenance removes files, so it and a backup exclude each other.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from fleetlake.errors import LakeError, StreamBusy, UsageError
from fleetlake.lake.attach import FILES as LAKE_FILES
from fleetlake.lake.backups.backup_target import (
    PART,
    BackupTarget,
    OnCopied,
    copy_all,
    ignore_progress,
    sha256_of,
)
from fleetlake.lake.backups.catalog_copy import CatalogCopy, copy_catalog
from fleetlake.lake.backups.manifest import CATALOGS, FILES, MANIFESTS, MARK, STAMP, Manifest
from fleetlake.lake.catalog import require_lake
from fleetlake.lake.evolution.format import this_release
from fleetlake.lake.locks import files_lock
from fleetlake.lake_address import DEMO_MARK, LakeAddress, SharedLake
from fleetlake.machine.umask import apply_umask

KEEP_BACKUPS = 2
"""How many backups stay: the newest, and one before it."""

MAINTENANCE_SECONDS = 1800.0
"""How long a backup waits for maintenance to end."""

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class BackedUp:
    """The result of a backup: what it consists of, and what had to be copied for it."""

    manifest: Manifest
    target: str
    files_copied: int
    bytes_copied: int
    files_removed: int
    seconds: float


def back_up(
    lake: LakeAddress,
    address: str,
    *,
    keep: int = KEEP_BACKUPS,
    on_copied: OnCopied = ignore_progress,
) -> BackedUp:
    """Back up a lake in a folder to another folder or an object store.

    This process must not have the lake open. The newest `keep` backups stay; files that none of
    them names are removed from the target.

    Raises: LakeError if there is no lake, if a file of it is missing or damaged, or if the target
    cannot be written or holds something else; UsageError for a target inside the lake.
    """
    began = time.monotonic()
    apply_umask()
    folder = _require_folder(lake)
    target = BackupTarget(address)
    _refuse_overlap(folder, target)
    with (
        target.errors(),
        _files_kept(folder),
        TemporaryDirectory(prefix="fleetlake-backup-") as work,
    ):
        target.require_own()
        stamp = datetime.now(UTC).strftime(STAMP)
        copy = copy_catalog(folder, Path(work) / "catalog.sqlite")
        _refuse_other_content(target, copy)
        copied = _copy_files(folder, target, copy, on_copied)
        manifest = Manifest(
            stamp=stamp,
            lake_id=copy.lake_id,
            snapshot_id=copy.snapshot_id,
            release=this_release(),
            catalog_bytes=copy.path.stat().st_size,
            catalog_sha256=sha256_of(copy.path),
            files=copy.files,
            marks=_marks(folder),
        )
        target.put(copy.path, manifest.catalog)
        _require_all(target, manifest)
        target.flush()
        target.put_text(manifest.to_text(), manifest.name)
        target.flush()
        removed = _remove_unused(target, keep)
    return BackedUp(
        manifest=manifest,
        target=target.name,
        files_copied=len(copied),
        bytes_copied=sum(copied.values()),
        files_removed=removed,
        seconds=time.monotonic() - began,
    )


@contextmanager
def _files_kept(lake: Path) -> Iterator[None]:
    """Keep maintenance away. Raises: LakeError; being skipped, as maintenance is, is no backup."""
    with ExitStack() as held:
        try:
            held.enter_context(files_lock(lake, seconds=MAINTENANCE_SECONDS))
        except StreamBusy as busy:
            raise LakeError(busy.what, remedy=busy.remedy) from None
        yield


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


def _copy_files(
    lake: Path, target: BackupTarget, copy: CatalogCopy, on_copied: OnCopied
) -> dict[str, int]:
    """Copy what the target lacks; return the bytes of each copied file."""
    held = target.sizes(FILES)
    lacking = {name: size for name, size in copy.files.items() if held.get(name) != size}
    for name, size in lacking.items():
        _require_whole(lake / LAKE_FILES / name, size)
    copy_all(
        lacking, lambda name: target.put(lake / LAKE_FILES / name, f"{FILES}/{name}"), on_copied
    )
    return lacking


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
    target.delete(name for name in parts if name not in catalogs)
    unused = [
        name
        for name in target.sizes(FILES)
        if name not in files and name.endswith((".parquet", PART))
    ]
    return target.delete(f"{FILES}/{name}" for name in unused)
