"""Measuring how late records become visible, and so how far back a load should look.

A load reads the end of the previous load's range again. A new record there was invisible at one age
and visible at a later one, so its lateness lies between the two. The measurement is twice the first
age, or the second age if that is less. So the lookback does not grow to the time between rare
loads, and if records are later than the lookback, it doubles until it finds them. A record after
that range was read for the first time and counts as on time. In a range that was never read before,
nothing is measured.
"""

from datetime import datetime, timedelta

import pyarrow as pa

from fleetlake.lake.connection import Lake
from fleetlake.lake.loads import Batch
from fleetlake.planning.coverage import SETTLE, Overlap
from fleetlake.text.quoting import quoted
from fleetlake.text.tables_beside import statements_beside

REMEMBERED = timedelta(days=14)
"""How long a measurement counts; the cause of an older one may have been fixed."""

SHARE_ON_TIME = 0.999
"""Share of records that should be visible when a range counts as final."""

RESOLUTION_SECONDS = 10

_SQL = statements_beside(__file__, "lateness.sql")


def note_lateness(lake: Lake, batch: Batch, overlap: Overlap, load_id: str) -> None:
    """Record how late the rows were that a load has just inserted, in the open transaction."""
    if not overlap.starts:
        return
    endpoint = batch.endpoint
    sql = _SQL["note"].format(
        table=endpoint.name,
        event=f"r.{quoted(str(endpoint.event_time))}",
        partition=f"r.{quoted(endpoint.fan_out.partition)}::varchar" if endpoint.fan_out else "''",
        settle=SETTLE.seconds,
        resolution=RESOLUTION_SECONDS,
    )
    starts = {
        "id": list(overlap.starts),
        "start_at": pa.array(overlap.starts.values(), pa.timestamp("us", tz="UTC")),
    }
    with lake.view("starts", pa.table(starts)):
        lake.execute(
            sql,
            {
                "profile": batch.profile,
                "endpoint": endpoint.name,
                "load_id": load_id,
                "seen_at": batch.seen_at,
                "final_until": overlap.unsettled.start,
                "read_until": overlap.unsettled.end,
                "earliest": min(overlap.starts.values()),
            },
        )


def measured_lateness(lake: Lake, profile: str, *, now: datetime) -> dict[str, timedelta]:
    """Return, by endpoint, the lateness that only one record in a thousand exceeds."""
    found = lake.rows(_SQL["measured"], [profile, now - REMEMBERED, SHARE_ON_TIME])
    return {endpoint: timedelta(seconds=int(seconds)) for endpoint, seconds in found}


def found_by_sweep(lake: Lake, run_id: str, endpoint: str, *, beyond: timedelta) -> int:
    """Return how many of a run's records were later than `beyond`."""
    return lake.number(
        "select coalesce(sum(l.records), 0) from meta.lateness l join meta.loads using (load_id) "
        "where run_id = ? and l.endpoint = ? and lateness_seconds > ?",
        [run_id, endpoint, beyond.total_seconds()],
    )


def forget_lateness(lake: Lake) -> None:
    """Delete measurements that no longer count; joins the open transaction, if any."""
    lake.execute(
        "delete from meta.lateness where measured_at < "
        "(select max(measured_at) from meta.lateness) - to_days(?)",
        [REMEMBERED.days],
    )
