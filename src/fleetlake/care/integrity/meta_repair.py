"""Correcting the tables of meta after rows were lost: proofs, watermarks, counts of loads.

Only rules without exceptions are checked. A pushed record may be newer than its stream's watermark;
retention and erasure leave fewer rows than loads wrote, and an older newest row.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from uuid import uuid4

from fleetlake.care.integrity.damage import Damage, DamageKind
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.audit_trail import EventKind
from fleetlake.lake.confirmation import confirm_all
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import columns_in, newest_times
from fleetlake.lake.evolution.format import note_format, read_format
from fleetlake.lake.evolution.registry import register_columns
from fleetlake.lake.watermarks import proven_intervals, replace_intervals
from fleetlake.planning.coverage import SWEEP
from fleetlake.planning.intervals import BEGINNING, Interval, subtract
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.tables_beside import statements_beside

_SQL = statements_beside(__file__, "meta_repair.sql")
_CONTRADICTIONS = {
    "overlaps": "{} proven ranges are empty or overlap",
    "doubled": "{} watermarks too many",
    "unmarked": "{} accounts have proven ranges without a watermark",
}


def index_damages(lake: Lake) -> Iterator[Damage]:
    """Yield where proven ranges, watermarks and counts of loads contradict the raw tables."""
    for name, found in _CONTRADICTIONS.items():
        for endpoint, count in lake.rows(_SQL[name]):
            yield _damage(endpoint, found.format(f"{count:,}"))
    removed, written = _removed_on_purpose(lake), rows_of_loads(lake)
    counts, newest = count_rows(lake), newest_in_files(lake)
    marks = dict(lake.rows("select endpoint, max(watermark_at) from meta.watermarks group by all"))
    for name, rows in counts.items():
        expected, is_reduced = written.get(name, 0), bool(removed & {name, None})
        if rows > expected or (rows < expected and not is_reduced):
            yield _damage(name, f"{rows:,} rows, but loads wrote {expected:,}")
        endpoint, mark = ENDPOINTS[name], marks.get(name)
        if mark is None or is_reduced or endpoint.event_time is None:
            continue  # pushed records have no watermark either
        if missing := _missing_newest(lake, endpoint, mark, newest.get(name)):
            yield _damage(name, missing)


def count_rows(lake: Lake) -> dict[str, int]:
    """Return the rows of each raw table, as the catalog counts them."""
    named = sorted({table for table, _ in columns_in(lake, "raw")} & ENDPOINTS.keys())
    each = (f"select {literal(name)}, count(*) from raw.{quoted(name)}" for name in named)
    return dict(lake.rows(" union all ".join(each))) if named else {}


def _damage(endpoint: str, found: str) -> Damage:
    return Damage(kind=DamageKind.INDEX, table=f"raw.{endpoint}", name="", found=found)


def rows_of_loads(lake: Lake) -> dict[str, int]:
    """Return by endpoint the rows that loads wrote, without those that repairs have forgotten."""
    return dict(lake.rows(_SQL["rows_of_loads"], [EventKind.REPAIR]))


def _removed_on_purpose(lake: Lake) -> set[str | None]:
    """Return the endpoints of which retention or erasure removed rows; None stands for all."""
    kinds = ", ".join(map(literal, (EventKind.RETENTION, EventKind.ERASURE)))
    return {*lake.values(f"select endpoint from meta.events where kind in ({kinds})")}


def _missing_newest(
    lake: Lake, endpoint: Endpoint, watermark: datetime, in_files: datetime | None
) -> str | None:
    """Return what is wrong if the newest row of a stream is older than its watermark."""
    if in_files is not None and in_files >= watermark:
        return None
    event = quoted(endpoint.event_time or "")
    # Only rows that the catalog itself holds are left, so no file is read.
    in_catalog = lake.instant(
        f"select max({event}) from raw.{quoted(endpoint.name)} where {event} > ?",
        [in_files or BEGINNING],
    )
    newest = in_catalog or in_files
    if newest is not None and newest >= watermark:
        return None
    shown = f"{newest:%Y-%m-%d %H:%M:%S}" if newest else "missing"
    return f"the newest row is {shown}, but loads read until {watermark:%Y-%m-%d %H:%M:%S} UTC"


def newest_in_files(lake: Lake) -> dict[str, datetime]:
    """Return the newest event time in the files of each raw table, by the catalog's statistics."""
    events = {(e.name, e.event_time) for e in ENDPOINTS.values()}
    return {
        table: at for (table, column), at in newest_times(lake).items() if (table, column) in events
    }


def read_stream_again(lake: Lake, endpoint: Endpoint, ranges: Sequence[Interval] | None) -> None:
    """Let the next loads of all accounts read ranges of a stream again; None: all of it.

    The next load requests every id. It measures no lateness, because rows that come back are not
    late. Joins the open transaction.
    """
    if ranges is None:
        lake.execute("delete from meta.intervals where endpoint = ?", [endpoint.name])
    sql = "select distinct account_profile from meta.intervals where endpoint = ?"
    for profile in lake.values(sql, [endpoint.name]) if ranges else ():
        known = proven_intervals(lake, profile, endpoint)
        left = {
            partition: [part for whole in proven for part in subtract(whole, ranges or ())]
            for partition, proven in known.items()
        }
        replace_intervals(lake, profile, endpoint, left)
    _sweep_next(lake, "endpoint = ?", [endpoint.name])
    if endpoint.event_time:
        lower_watermark(lake, endpoint)


def forget_all_proofs(lake: Lake) -> None:
    """Let the next loads prove again everything that the service holds, in the open transaction.

    Without any proven range, nothing that the service has deleted counts as a gap.
    """
    lake.execute("delete from meta.intervals")
    _sweep_next(lake, "true", [])


def _sweep_next(lake: Lake, condition: str, parameters: list[object]) -> None:
    sql = _SQL["sweep_next"].format(days=2 * SWEEP.days, condition=condition)
    lake.execute(sql, parameters)


def lower_watermark(lake: Lake, endpoint: Endpoint) -> None:
    """Move a stream's watermarks back to its newest row, in the open transaction."""
    newest = lake.instant(
        f"select max({quoted(endpoint.event_time or '')}) from raw.{quoted(endpoint.name)}"
    )
    lake.execute(_SQL["lower_watermark"], {"newest": newest, "endpoint": endpoint.name})


def restore_meta(lake: Lake, lost: Collection[str]) -> None:
    """Rewrite lost tables of meta from what other tables record, in the open transaction."""
    if "meta.watermarks" in lost:
        restore_watermarks(lake)
    if "meta.columns" in lost:
        register_columns(lake, ENDPOINTS.values(), set())
    if "meta.lake" in lost and read_format(lake) is None:
        note_format(lake)
    if "meta.confirmations" in lost:
        confirm_all(lake)
    if "meta.loads" in lost:
        balance_loads(lake, [*ENDPOINTS])


def restore_watermarks(lake: Lake) -> None:
    """Add the watermarks that streams with rows lack, in the open transaction."""
    for name in count_rows(lake):
        endpoint = ENDPOINTS[name]
        if not endpoint.is_requested:
            continue
        newest = "_loaded_at"
        if endpoint.event_time:
            newest = quoted(endpoint.event_time)
        elif endpoint.mode is Mode.HISTORY:
            newest = "greatest(valid_from, valid_to)"
        lake.execute(
            _SQL["restore_watermarks"].format(name=literal(name), newest=newest, table=quoted(name))
        )


def balance_loads(lake: Lake, names: Collection[str]) -> None:
    """Add to meta.loads what it lacks to agree with the rows of raw tables.

    Joins the open transaction.
    """
    written, held = rows_of_loads(lake), count_rows(lake)
    for name in names:
        missing = held.get(name, 0) - written.get(name, 0)
        if missing:
            lake.execute(_SQL["balance_load"], [str(uuid4()), name, missing])
