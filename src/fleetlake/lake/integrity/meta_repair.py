"""Correcting the tables of meta after rows were lost: proofs, watermarks, counts of loads."""

from collections.abc import Collection, Sequence
from uuid import uuid4

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.confirmation import confirm_all
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.format import note_format, read_format
from fleetlake.lake.evolution.registry import register_columns
from fleetlake.lake.integrity.index_checks import count_rows, rows_of_loads
from fleetlake.lake.watermarks import proven_intervals, replace_intervals
from fleetlake.planning.coverage import SWEEP
from fleetlake.planning.intervals import Interval, subtract
from fleetlake.text.quoting import literal, quoted


def read_stream_again(lake: Lake, endpoint: Endpoint, ranges: Sequence[Interval] | None) -> None:
    """Let the next loads of all accounts read ranges of a stream again; None: all of it.

    The next load requests every id. It measures no lateness, because rows that come back are not
    late. Joins the open transaction.
    """
    if ranges is None:
        lake.execute("delete from meta.intervals where endpoint = ?", [endpoint.name])
    for profile in _profiles(lake, endpoint) if ranges else ():
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
    lake.execute(
        "update meta.reads set final_until = null, read_until = null, "
        f"swept_at = swept_at - interval {2 * SWEEP.days} days where {condition}",
        parameters,
    )


def _profiles(lake: Lake, endpoint: Endpoint) -> list[str]:
    found = lake.rows(
        "select distinct account_profile from meta.intervals where endpoint = ?", [endpoint.name]
    )
    return [profile for (profile,) in found]


def lower_watermark(lake: Lake, endpoint: Endpoint) -> None:
    """Move a stream's watermarks back to its newest row, in the open transaction."""
    [(newest,)] = lake.rows(
        f"select max({quoted(endpoint.event_time or '')}) from raw.{quoted(endpoint.name)}"
    )
    lake.execute(
        "update meta.watermarks set watermark_at = "
        "case when ?::timestamptz is not null then least(watermark_at, ?::timestamptz) end "
        "where endpoint = ?",
        [newest, newest, endpoint.name],
    )


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
            "insert into meta.watermarks (account_profile, endpoint, watermark_at, updated_at) "
            f"select account_profile, {literal(name)}, max({newest}), max(_loaded_at) "
            f"from raw.{quoted(name)} r where not exists (select 1 from meta.watermarks w "
            f"where w.account_profile = r.account_profile and w.endpoint = {literal(name)}) "
            "group by account_profile"
        )


def balance_loads(lake: Lake, names: Collection[str]) -> None:
    """Add to meta.loads what it lacks to agree with the rows of raw tables.

    Joins the open transaction.
    """
    written, held = rows_of_loads(lake), count_rows(lake)
    for name in names:
        missing = held.get(name, 0) - written.get(name, 0)
        if missing:
            lake.execute(
                "insert into meta.loads (load_id, run_id, account_profile, endpoint, records, "
                "rows_added, rows_changed, quarantined, committed_at) "
                "values (?, 'repair', '', ?, 0, ?, 0, 0, now())",
                [str(uuid4()), name, missing],
            )
