"""Thinning the lake's history: it keeps one snapshot for each older hour.

Live builds rewrite their marts up to six times a minute. Every snapshot until the next build keeps
the files of that version, so the lake would grow by tens of thousands of files a day. An hourly
load makes some twenty snapshots, each with files that maintenance has merged since.

Readers of older snapshots still find them: the next build and readers that have just begun
(`KEEP_ALL`), time travel (the last snapshot of each hour), the next export (`meta.exports`).
"""

from contextlib import suppress
from datetime import timedelta

from fleetlake.errors import LakeBusy
from fleetlake.lake import ducklake
from fleetlake.lake.connection import Lake
from fleetlake.lake.durable import flush_files
from fleetlake.lake.locks import files_lock

KEEP_ALL = timedelta(hours=3)
"""Every snapshot stays this long; the next build of all marts reads which tables they changed."""

KEEP_EACH = timedelta(hours=26)
"""Of older ones, maintenance leaves the last one of each hour. A daily build needs the younger."""

FEWEST = 100
"""Fewer snapshots than this are not worth a change of the catalog."""

_EXPORTED = "select snapshot_id from meta.exports"
"""The next export asks for the changes from there, by the snapshot that followed."""


def thin_snapshots(lake: Lake, *, keep_all: timedelta = KEEP_ALL) -> int:
    """Expire the snapshots that are not needed, and remove their files; return how many.

    It leaves them to a later call if they are few, or while a backup copies files. The commit lock
    must be held.
    """
    ended = ducklake.between_hours(lake, keep_all)
    if len(ended) < FEWEST:
        return 0
    ended = _without_exported(lake, ended)
    with suppress(LakeBusy), files_lock(lake.path, seconds=0):
        with lake.transaction():
            ducklake.expire(lake, ended)
        flush_files(lake.path)  # the catalog must forget a file before the disk does
        ducklake.remove_unused_files(lake)
        return len(ended)
    return 0


def expire_between_hours(lake: Lake) -> int:
    """Expire the snapshots before `KEEP_EACH`, except the last of each hour; return how many.

    Their files stay for `remove_unused_files`.
    """
    ended = _without_exported(lake, ducklake.between_hours(lake, KEEP_EACH))
    if ended:
        ducklake.expire(lake, ended)
    return len(ended)


def _without_exported(lake: Lake, snapshots: list[int]) -> list[int]:
    held = {number for at in lake.values(_EXPORTED) for number in (at, at + 1)}
    return [number for number in snapshots if number not in held]
