"""Thinning the lake's history: it keeps one snapshot for each older hour.

Live builds rewrite their marts up to six times a minute. Every snapshot until the next build keeps
the files of that version, so the lake would grow by tens of thousands of files a day.

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
    held = {number for (at,) in lake.rows(_EXPORTED) for number in (at, at + 1)}
    ended = [number for number in ended if number not in held]
    with suppress(LakeBusy), files_lock(lake.path, seconds=0):
        with lake.transaction():
            ducklake.expire(lake, ended)
        flush_files(lake.path)  # the catalog must forget a file before the disk does
        ducklake.remove_unused_files(lake)
        return len(ended)
    return 0
