"""Restoring a lake from a backup into an empty folder.

Files come first and the catalog last, in one step: until then the folder holds no lake, and other
commands refuse it. A restore that was stopped continues where it was.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from fleetlake.care.backups.backup_target import (
    FILES,
    PART,
    BackupTarget,
    Manifest,
    copy_all,
    sha256_of,
)
from fleetlake.care.integrity.listing import OnBytes, each_of, ignore_bytes
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.attach import FILES as LAKE_FILES
from fleetlake.lake.catalog import READY, RESTORING
from fleetlake.lake.durable import flush_files
from fleetlake.lake.locks import commit_lock
from fleetlake.lake_address import LakeAddress, SharedLake, refuse_unusable
from fleetlake.machine.io_faults import not_writable
from fleetlake.machine.ownership import require_own
from fleetlake.machine.umask import apply_umask

_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Restored:
    """The result of a restore."""

    manifest: Manifest
    lake: Path
    seconds: float


def restore(
    address: str, lake: LakeAddress, *, at: str | None = None, on_copied: OnBytes = ignore_bytes
) -> Restored:
    """Restore the newest backup, or the one made `at` a time, into the folder of a new lake.

    Raises: LakeError if the folder is not empty, or if the backup is incomplete; UsageError if
    there is no such backup.
    """
    began = time.monotonic()
    apply_umask()
    source = BackupTarget(address)
    folder = _require_new(lake)
    with source.errors():
        manifest = source.manifest(_chosen(source, at))
        _require_complete(source, manifest)
    _make_folder(folder, manifest)
    with commit_lock(folder), source.errors():
        _fetch(source, manifest, folder, on_copied)
    return Restored(manifest=manifest, lake=folder, seconds=time.monotonic() - began)


def _require_new(lake: LakeAddress) -> Path:
    """Return the folder to restore into. Raises: LakeError unless it is empty or does not exist."""
    if isinstance(lake, SharedLake):
        raise LakeError(
            f"`fleetlake restore` makes lakes in folders, and {lake} is a PostgreSQL database.",
            remedy="Set FLEETLAKE_LAKE to a new folder. A shared lake is restored with pg_restore.",
        )
    folder = lake.resolve()
    refuse_unusable("lake", folder, setting="FLEETLAKE_LAKE")
    require_own(folder, "lake", otherwise="set FLEETLAKE_LAKE to a folder of your own")
    if (folder / CATALOG).exists():
        raise LakeError(
            f"There is a lake in {folder} already.",
            remedy="Restore into a new folder: --to, or FLEETLAKE_LAKE.",
        )
    if folder.exists() and any(folder.iterdir()) and not (folder / RESTORING).exists():
        raise LakeError(
            f"The folder {folder} is not empty.",
            remedy="Restore into a new folder: --to, or FLEETLAKE_LAKE.",
        )
    return folder


def _chosen(source: BackupTarget, at: str | None) -> str:
    stamps = source.stamps()
    if not stamps:
        raise UsageError(
            f"There is no complete backup in {source.name}.",
            remedy="Name the folder or URL that `fleetlake backup` was given.",
        )
    if at is None:
        return stamps[0]
    if at not in stamps:
        raise UsageError(
            f"There is no backup of {at} in {source.name}.",
            remedy=f"Choose one of: {', '.join(stamps)}.",
        )
    return at


def _require_complete(source: BackupTarget, manifest: Manifest) -> None:
    """Raise LakeError unless every file of a backup is there with its size."""
    held = source.sizes(FILES)
    wrong = [name for name, size in manifest.files.items() if held.get(name) != size]
    if wrong:
        raise LakeError(
            f"The backup {manifest.stamp} in {source.name} is incomplete: {len(wrong):,} files "
            f"are missing or damaged, e.g. {', '.join(wrong[:_SHOWN])}.",
            remedy="Choose an earlier backup with --at. Nothing was written.",
        )


def _make_folder(folder: Path, manifest: Manifest) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESTORING).write_text(f"{manifest.stamp}\n", encoding="utf-8")
        (folder / LAKE_FILES).mkdir(exist_ok=True)
    except OSError as error:
        raise not_writable("lake", folder, error, setting="FLEETLAKE_LAKE") from None


def _changed(manifest: Manifest, name: str) -> LakeError:
    """Return the error for a file of a backup that is not as the backup wrote it."""
    return LakeError(
        f"The file {name} of the backup {manifest.stamp} changed after being written: its size or "
        "checksum is another one.",
        remedy="Run the restore again. If the same file is named, choose an earlier backup with "
        "--at. If the lake still exists, `fleetlake backup --verify` copies the file again.",
    )


def _fetch(source: BackupTarget, manifest: Manifest, folder: Path, on_copied: OnBytes) -> None:
    """Copy what the folder lacks, then switch the catalog in."""
    files = folder / LAKE_FILES

    def is_whole(name: str) -> bool:
        """Return whether a file is here with its size, and its checksum if it has one."""
        path, checksum = files / name, manifest.sha256.get(name)
        is_here = path.exists() and path.stat().st_size == manifest.files[name]
        return is_here and checksum in {None, sha256_of(path)}

    def fetch(name: str) -> None:
        source.get(f"{FILES}/{name}", files / name)
        if not is_whole(name):
            (files / name).unlink()
            raise _changed(manifest, name)

    names = [*manifest.files]
    here = each_of(names, is_whole)
    lacking = [name for name, is_here in zip(names, here, strict=True) if not is_here]
    copy_all({name: manifest.files[name] for name in lacking}, fetch, on_copied)
    for part in folder.rglob(f"*{PART}"):
        part.unlink()  # of a restore of another backup that was killed
    for name, text in manifest.marks.items():
        (folder / name).write_text(text, encoding="utf-8")
    catalog = folder / f"{CATALOG}.new"
    source.get(manifest.catalog, catalog)
    if sha256_of(catalog) != manifest.catalog_sha256:
        raise _changed(manifest, manifest.catalog)
    flush_files(folder)
    (folder / READY).touch()
    catalog.rename(folder / CATALOG)
    (folder / RESTORING).unlink()
    flush_files(folder)
