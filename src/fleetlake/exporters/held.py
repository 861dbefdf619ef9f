"""The snapshots of the lake that the last exports read: the next ones continue from them.

The targets have the marks themselves, but the lake does not know every target's address. So it
keeps the snapshots (`fleetlake.lake.thinning`). Without its snapshot, a target gets a full export.
"""

from collections.abc import Mapping

from fleetlake.lake import Lake
from fleetlake.lake.ducklake import expired_condition, rows_in_catalog
from fleetlake.lake.locks import commit_lock

_GONE = f"delete from meta.exports where {expired_condition('snapshot_id')}"
_EARLIER = """
delete from meta.exports where rowid in (
    select min(rowid) from meta.exports
    where target = ? and table_name = ? and snapshot_id = ?
)
"""
_LATEST = "insert into meta.exports values (?, ?, ?, now())"


def hold_snapshots(lake: Lake, target: str, marks: Mapping[str, tuple[int | None, int]]) -> None:
    """Keep the snapshot that each exported table has reached, in place of the one before it.

    Another address of the same target may hold that one, too: each has a row. A lake that is open
    for reading only keeps none.
    """
    if lake.is_read_only:
        return
    with commit_lock(lake.path), lake.transaction(), rows_in_catalog(lake):
        lake.execute(_GONE)
        for table, (before, now) in marks.items():
            lake.execute(_EARLIER, [target, table, before])
            lake.execute(_LATEST, [target, table, now])
