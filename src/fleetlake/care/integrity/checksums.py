"""A checksum of each data file, kept in the table meta.files.

DuckDB writes no checksums into Parquet's pages (1.5.5; observed 2026-11-23: two flipped bits in
five change values without an error). So the lake keeps a checksum of each whole file. Loads and
builds add those of the files that they wrote, maintenance those of the files that it merged.

An object store verifies its content by itself, so files there have none.
"""

import hashlib
from collections.abc import Collection

from fleetlake.care.integrity.listing import FileStore, ListedFile, each_of, listed_files
from fleetlake.lake.connection import Lake
from fleetlake.machine.io_faults import refuse_io_fault


def checksum_of(store: FileStore, file: ListedFile) -> str | None:
    """Return the checksum of a stored file, or None if it cannot be read.

    Raises: what `refuse_io_fault` raises.
    """
    try:
        with open(store.path(file.name), "rb") as content:  # noqa: PTH123 - the path is text
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        refuse_io_fault(error)
        return None


def known_checksums(lake: Lake) -> dict[str, str]:
    """Return the checksums of files by name."""
    return dict(lake.rows("select name, sha256 from meta.files"))


def files_without_checksum(lake: Lake) -> list[ListedFile]:
    """Return the files of the newest snapshot that have no checksum yet.

    Older ones are those of live builds, which the next build replaced within seconds.
    """
    known = known_checksums(lake)
    return [file for file in listed_files(lake) if file.ended is None and file.name not in known]


def add_checksums(lake: Lake) -> int:
    """Add the checksums that are missing, in the open transaction; return how many.

    A file whose size is not the recorded one gets none: `fleetlake check` reports it.
    """
    store = FileStore(lake.path)
    if not store.is_local:
        return 0
    files = files_without_checksum(lake)
    sums = each_of(files, lambda file: checksum_of(store, file))
    rows = [
        (file, checksum)
        for file, checksum in zip(files, sums, strict=True)
        if checksum and store.size(file.name) == file.size
    ]
    if rows:
        members = {
            "name": [file.name for file, _ in rows],
            "size_bytes": [file.size for file, _ in rows],
            "sha256": [checksum for _, checksum in rows],
        }
        columns = ", ".join(f"unnest(${name}) as {name}" for name in members)
        insert = f"insert into meta.files by name select {columns}, now() as checked_at"
        lake.execute(insert, members)
    return len(rows)


def changed_files(lake: Lake, *, smaller_than: int) -> list[ListedFile]:
    """Return the current files below a size, in bytes, whose content no longer has its checksum."""
    store, known = FileStore(lake.path), known_checksums(lake)
    files = [
        file
        for file in (listed_files(lake) if store.is_local else ())
        if file.ended is None and file.size < smaller_than and file.name in known
    ]
    sums = each_of(files, lambda file: checksum_of(store, file))
    return [file for file, found in zip(files, sums, strict=True) if found != known[file.name]]


def keep_checksums(lake: Lake) -> None:
    """Add missing checksums and remove those of files that are gone, in one transaction.

    The commit lock must be held.
    """
    with lake.transaction():
        gone = known_checksums(lake).keys() - {file.name for file in listed_files(lake)}
        forget_checksums(lake, gone)
        add_checksums(lake)


def forget_checksums(lake: Lake, names: Collection[str]) -> None:
    """Remove the checksums of files, in the open transaction."""
    if names:
        gone = {"names": [*names]}
        lake.execute("delete from meta.files where name in (select unnest($names))", gone)
