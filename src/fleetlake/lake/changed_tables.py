"""Which tables of a lake changed after a snapshot, according to the catalog."""

from fleetlake.lake.attach import METADATA
from fleetlake.lake.audit_trail import EventKind
from fleetlake.lake.connection import Lake
from fleetlake.lake.meta_tables import has_meta

# The changes of a commit are a map of lists: tables by id, or by name if it created them. A
# compaction counts as a change although it changes no rows. That costs a needless check.
_CHANGED = f"""
WITH changed AS (
    SELECT unnest(flatten(map_values(changes))) AS what
    FROM lake.snapshots() WHERE snapshot_id > ? AND snapshot_id <= ?
)
SELECT DISTINCT s.schema_name || '.' || t.table_name
FROM {METADATA}.ducklake_table AS t
JOIN {METADATA}.ducklake_schema AS s USING (schema_id)
WHERE t.table_id::VARCHAR IN (SELECT what FROM changed)
OR s.schema_name || '.' || t.table_name IN (SELECT replace(what, '"', '') FROM changed)
"""


def newest_snapshot(lake: Lake) -> int:
    """Return the lake's newest snapshot, without the changes that each of them made."""
    [(newest,)] = lake.rows(f"SELECT max(snapshot_id) FROM {METADATA}.ducklake_snapshot")
    return int(newest)


def changed_tables(lake: Lake, after: int, until: int) -> frozenset[str] | None:
    """Return the tables that commits changed after one snapshot, up to another.

    None means unknown: some of these snapshots have expired, or the lake was restored from an
    earlier state.
    """
    [(known,)] = lake.rows(
        "SELECT count(*) FROM lake.snapshots() WHERE snapshot_id > ? AND snapshot_id <= ?",
        [after, until],
    )
    if known != until - after:
        return None
    return frozenset(name for (name,) in lake.rows(_CHANGED, [after, until]))


def count_removals(lake: Lake) -> int:
    """Return how many events record removed rows: results computed from those rows are outdated."""
    if not has_meta(lake, "events"):
        return 0  # a lake that only earlier releases have written
    kinds = [EventKind.REPAIR, EventKind.RETENTION, EventKind.ERASURE]
    [(count,)] = lake.rows(
        "SELECT count(*) FROM meta.events WHERE kind IN (SELECT unnest(?::varchar[]))",
        [[str(kind) for kind in kinds]],
    )
    return int(count)
