"""Keeping a lake small and fast: merge small files, expire old snapshots, remove leftovers.

Files that no snapshot names are removed only if they are a day old, and only while all stream
locks are held: a commit in progress has written files that the catalog does not list yet.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake.connection import Lake
from fleetlake.lake.durable import flush_files
from fleetlake.lake.lateness import forget_lateness
from fleetlake.lake.locks import commit_lock, files_lock, stream_lock
from fleetlake.lake.retention_rules import delete_older, drop_other_rules, kept_from
from fleetlake.text.quoting import literal

KEEP_SNAPSHOTS = timedelta(days=7)
"""How far back time travel is possible after maintenance."""

OLDEST_STRAY = timedelta(days=1)


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
    lake: Lake, *, keep: timedelta = KEEP_SNAPSHOTS, days: Mapping[str, int] | None = None
) -> Maintained:
    """Compact the lake's files, expire snapshots older than `keep`, remove unused files.

    With `days`, the rules of `meta.retention` are applied, and rules that `days` lacks removed.

    Raises: StreamBusy if a stream is being loaded, or if a backup is being made.
    """
    found, deleted = _files(lake), dict[str, int]()
    with ExitStack() as locks:
        locks.enter_context(files_lock(lake.path, seconds=0))
        for name in ENDPOINTS:
            locks.enter_context(stream_lock(lake.path, name))
        locks.enter_context(commit_lock(lake.path))
        forget_lateness(lake)
        if days is not None:
            drop_other_rules(lake, days)
            deleted = delete_older(lake)
        with one_thread(lake):
            lake.execute("call ducklake_flush_inlined_data('lake')")
        before = _files(lake)
        lake.execute("call ducklake_merge_adjacent_files('lake')")
        lake.execute("call ducklake_rewrite_data_files('lake')")
        for name in (
            kept_from(lake).keys() & ENDPOINTS.keys()
        ):  # however few of a file's rows are gone
            lake.execute(
                f"call ducklake_rewrite_data_files('lake', {literal(name)}, schema => 'raw', "
                "delete_threshold => 0)"
            )
        expired = lake.rows(
            "call ducklake_expire_snapshots('lake', "
            f"older_than => now() - interval '{_seconds(keep)} seconds')"
        )
        flush_files(lake.path)
        removed = lake.rows("call ducklake_cleanup_old_files('lake', cleanup_all => true)")
        removed += lake.rows(
            "call ducklake_delete_orphaned_files('lake', "
            f"older_than => now() - interval '{_seconds(OLDEST_STRAY)} seconds')"
        )
    return Maintained(
        files_written=before - found,
        files_before=before,
        files_after=_files(lake),
        snapshots_expired=len(expired),
        files_removed=len(removed),
        rows_deleted=deleted,
    )


@contextmanager
def one_thread(lake: Lake) -> Iterator[None]:
    """Limit DuckDB to one thread within the block.

    With several threads, DuckLake's flush corrupts memory about once in a few dozen runs, and the
    process aborts (observed 2026-11-22 with 1.5.5; `make soak-maintain` without this shows it).
    """
    [(threads,)] = lake.rows("select current_setting('threads')")
    lake.execute("set threads = 1")
    try:
        yield
    finally:
        lake.execute(f"set threads = {threads}")


def _files(lake: Lake) -> int:
    [(count,)] = lake.rows("select coalesce(sum(file_count), 0) from ducklake_table_info('lake')")
    return int(count)


def _seconds(length: timedelta) -> int:
    return int(length.total_seconds())
