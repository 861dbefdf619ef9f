"""Keeping a lake small and fast: merge small files, expire old snapshots, remove leftovers.

The order of DuckLake's steps is load-bearing (`shrink_files`). Rows in the catalog become files
before any file is rewritten: a flush after a rewrite gives older snapshots rows twice
(ducklake#1406). The catalog forgets a file before it leaves the disk. `make engine-fuzz` compares
every older snapshot with what it held, for each DuckDB that is allowed.

Files that no snapshot names are removed only if they are a day old, and only while all stream
locks are held: a commit in progress has written files that the catalog does not list yet.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from fleetlake.care.integrity.checksums import changed_files, keep_checksums
from fleetlake.care.thinning import expire_between_hours
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError
from fleetlake.lake import ducklake
from fleetlake.lake.confirmation import confirm_all
from fleetlake.lake.connection import Lake
from fleetlake.lake.durable import flush_files
from fleetlake.lake.lateness import forget_lateness
from fleetlake.lake.locks import AT_ONCE, Patience, all_locks
from fleetlake.lake.retention_rules import delete_older, drop_other_rules, kept_from
from fleetlake.lake.tables import set_file_options
from fleetlake.text.wording import counted

KEEP_SNAPSHOTS = timedelta(days=7)
"""How far back time travel is possible after maintenance."""

OLDEST_STRAY = timedelta(days=1)

MOST_LOST = 7
"""A list kept as history ends versions in the files of earlier days: one more file each night."""

MERGED_BYTES = 512 * 1024**2
"""DuckLake merges only files below this size, by default."""


@dataclass(frozen=True, kw_only=True)
class Maintained:
    """The result of maintenance: files before and after, snapshots expired, files removed.

    `files_written` counts files written from rows of small loads, which the catalog held before.
    `files_before` includes them. `rows_deleted` are rows past their table's days, by endpoint.
    """

    files_written: int
    files_before: int
    files_after: int
    snapshots_expired: int
    files_removed: int
    rows_deleted: Mapping[str, int] = field(default_factory=dict)


def maintain(
    lake: Lake,
    *,
    keep: timedelta = KEEP_SNAPSHOTS,
    days: Mapping[str, int] | None = None,
    patience: Patience = AT_ONCE,
) -> Maintained:
    """Compact the lake's files, expire snapshots older than `keep`, remove unused files.

    With `days`, the rules of `meta.retention` are applied, and rules that `days` lacks removed.

    Raises: LakeBusy if streams are being loaded, or a backup is being made, for longer than
    `patience`; LakeError if a file is damaged.
    """
    found, deleted = _files(lake), dict[str, int]()
    with all_locks(lake.path, patience):
        _refuse_changed_files(lake)
        with lake.transaction():
            forget_lateness(lake)
            confirm_all(lake)  # an earlier release loads without pairing
        if days is not None:
            drop_other_rules(lake, days)
            deleted = delete_older(lake)
        emptied = sorted(kept_from(lake).keys() & ENDPOINTS.keys())
        before, expired, removed = shrink_files(lake, keep=keep, emptied=emptied)
        keep_checksums(lake)
    return Maintained(
        files_written=before - found,
        files_before=before,
        files_after=_files(lake),
        snapshots_expired=expired,
        files_removed=removed,
        rows_deleted=deleted,
    )


def shrink_files(
    lake: Lake, *, keep: timedelta, emptied: Iterable[str] = ()
) -> tuple[int, int, int]:
    """Merge and rewrite files, then remove what no snapshot of the last `keep` needs.

    Returns the files before they were merged, the snapshots expired, and the files removed.

    A file is rewritten once it has lost many rows. In the raw tables `emptied`, which have
    retention rules, any lost row is enough, because its bytes must go too; and so it is in a table
    with more such files than `MOST_LOST`, because they are never merged. The caller holds
    `all_locks`. The steps must stay in this order; the module's docstring says why.
    """
    with one_thread(lake), lake.transaction():
        set_file_options(lake)
        ducklake.flush_rows(lake)
    before = _files(lake)
    with lake.transaction():
        ducklake.merge_files(lake)
    with lake.transaction():
        ducklake.rewrite_files(lake)
    lost = ducklake.files_that_lost_rows(lake)
    crowded = {table for table, count in lost.items() if count > MOST_LOST}
    for schema, table in sorted(crowded | {("raw", name) for name in emptied}):
        with lake.transaction():
            ducklake.rewrite_all_files(lake, schema, table)
    with lake.transaction():
        expired = ducklake.expire_older(lake, keep) + expire_between_hours(lake)
    flush_files(lake.path)  # the catalog must forget a file before the disk does
    removed = ducklake.remove_unused_files(lake) + ducklake.remove_strays(lake, OLDEST_STRAY)
    return before, expired, removed


def _refuse_changed_files(lake: Lake) -> None:
    """Raise LakeError if a file to be merged has changed: the merged file would hide that."""
    changed = changed_files(lake, smaller_than=MERGED_BYTES)
    if changed:
        raise LakeError(
            f"{counted(len(changed), 'file')} of the lake changed after being written, e.g. "
            f"{changed[0].name}.",
            remedy="Run `fleetlake check --full`, then `fleetlake repair`. Nothing was changed.",
        )


@contextmanager
def one_thread(lake: Lake) -> Iterator[None]:
    """Limit DuckDB to one thread within the block.

    With several threads, DuckLake's flush corrupts memory about once in a few dozen runs, and the
    process aborts (observed 2026-11-22 with 1.5.5; `make soak-maintain` without this shows it).
    """
    threads = lake.number("select current_setting('threads')")
    lake.execute("set threads = 1")
    try:
        yield
    finally:
        lake.execute(f"set threads = {threads}")


def _files(lake: Lake) -> int:
    files, *_ = ducklake.storage(lake)
    return files
