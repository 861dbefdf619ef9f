"""Which tables the lake's commits changed, and when."""

from fleetlake.lake.ducklake import TABLE_IDS, OpenLake


def last_changes(lake: OpenLake, after: int) -> tuple[int, dict[str, int]]:
    """Return the snapshot that last changed each table, of those after one.

    The first number says from which snapshot on all are known: earlier ones have expired, or were
    not asked for. A compaction counts as a change although it changes no rows. That costs a
    needless check.
    """
    commits = lake.rows(
        "select snapshot_id, flatten(map_values(changes)) from lake.snapshots() "
        "where snapshot_id > ? order by snapshot_id desc",
        [after],
    )
    if not commits:
        return after, {}
    names, last = dict(lake.rows(TABLE_IDS)), dict[str, int]()
    known = commits[0][0]
    for number, changes in commits:
        if number != known:
            break
        known = number - 1
        for what in changes:  # tables by id, or by name if the commit created them
            last.setdefault(names.get(what, what.replace('"', "")), number)
    return known, last


def changed_tables(
    lake: OpenLake, after: int, until: int, *, made_at: str | None = None
) -> frozenset[str] | None:
    """Return the tables that commits changed after one snapshot, up to another or even later.

    None means unknown: some of these snapshots have expired, the lake was restored from an earlier
    state, or the first snapshot was not made at `made_at`, so it is one of another lake.
    """
    known, last = last_changes(lake, after)
    sql = "select snapshot_time::varchar from lake.snapshots() where snapshot_id = ?"
    is_other = made_at is not None and lake.rows(sql, [after]) != [(made_at,)]
    return None if is_other or not known <= after <= until else frozenset(last)
