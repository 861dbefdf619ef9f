"""Invalid requests to flows, and server responses, for tests with and without a server."""

from datetime import datetime

import httpx

from fleetlake.planning.shards import PARTS

JUNE = {"start": datetime(2026, 6, 1), "end": datetime(2026, 6, 2)}  # noqa: DTZ001 - as people type it

REFUSED_BACKFILLS = [
    ({**JUNE, "endpoint": "alertz"}, "Did you mean alerts?"),
    ({**JUNE, "endpoint": "Activity Logs"}, "`fleetlake endpoints list` lists them all"),
    ({**JUNE, "endpoint": "routers"}, "no past range to read again"),
    ({"endpoint": "alerts", "start": JUNE["end"], "end": JUNE["start"]}, "not before end"),
    ({"endpoint": "alerts", "start": JUNE["end"], "end": JUNE["end"]}, "not before end"),
]

OUT_OF_BOUNDS = [
    ("backfill", "backfill", {**JUNE, "endpoint": "alerts", "slice_hours": 0}),
    ("backfill", "backfill", {**JUNE, "endpoint": "alerts", "slice_hours": -1}),
    ("maintain", "maintain", {"keep_days": -5}),
    ("maintain", "nightly", {"days": 0}),
    ("pushes", "drain_journal", {"minutes": -1}),
    ("pushes", "drain_journal", {"minutes": 61}),
    ("live", "live_marts", {"minutes": -1}),
    ("ingest", "ingest", {"group": "series", "shards": 0}),
    ("ingest", "ingest", {"group": "series", "shards": PARTS + 1}),
    ("ingest", "ingest_shard", {"group": "series", "shards": 2, "shard": 0}),
]


def answer_of_server(code: int) -> httpx.HTTPStatusError:
    """Return a response of Prefect's server as an error."""
    request = httpx.Request("POST", "http://prefect")
    return httpx.HTTPStatusError("", request=request, response=httpx.Response(code))
