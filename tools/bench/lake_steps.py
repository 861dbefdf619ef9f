"""Steps on a large lake, each in its own process: `python -m tools.bench.lake_steps STEP LAKE`.

DuckDB may use 2 GB of memory and spills the rest. A step prints what it did as JSON, so that the
bench can check it.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from fleetlake.decoding.arrow import EXTRA, schema_of
from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import Lake, open_lake
from tests.support.loads import commit, load_of_rows

MEMORY = "2GB"
SAMPLES = ENDPOINTS["net_device_usage_samples"]
READ_AGAIN = 100_000
"""Rows of a merge, one in a hundred of which is new to the lake."""


@contextmanager
def opened(path: Path, *, threads: int | None = None) -> Iterator[Lake]:
    """Open the lake with DuckDB's memory capped."""
    with open_lake(path, threads=threads) as lake:
        lake.execute(f"set memory_limit = '{MEMORY}'")
        lake.execute(f"set temp_directory = '{path.parent / 'spill'}'")
        yield lake


def scanned(path: Path, where: str) -> dict[str, int]:
    """Sum every interface's traffic."""
    with opened(path) as lake:
        sums = lake.rows(
            "select net_device_id, sum(bytes_in + bytes_out), max(created_at), count(*) "
            f"from raw.{SAMPLES.name} {where} group by net_device_id"
        )
    return {"rows": sum(row[3] for row in sums)}


def sampled(path: Path) -> dict[str, int]:
    """Write the newest rows to a file beside the lake, as a load that re-reads them gets them."""
    columns = ", ".join(f'"{c.name}"' for c in SAMPLES.columns)
    with opened(path) as lake:
        newest = lake.execute(
            f"select {columns}, null::varchar as {EXTRA} from raw.{SAMPLES.name} "
            f"order by created_at desc, net_device_id limit {READ_AGAIN}"
        ).to_arrow_table()
    pq.write_table(newest, path.parent / "again.parquet")
    return {"rows": newest.num_rows}


def merged(path: Path) -> dict[str, int]:
    """Commit rows that the lake has, and a few that it does not have."""
    rows = pq.read_table(path.parent / "again.parquet")
    keys, load_id = rows["created_at_timeuuid"].to_pylist(), str(uuid4())
    keys[::100] = [f"{key} {load_id}" for key in keys[::100]]
    place = rows.schema.get_field_index("created_at_timeuuid")
    rows = rows.set_column(place, "created_at_timeuuid", pa.array(keys))
    load = load_of_rows(SAMPLES, rows.cast(schema_of(SAMPLES)), seen_at=datetime.now(UTC))
    with opened(path, threads=1) as lake:  # as an ingest does
        return {"rows": rows.num_rows, "added": commit(lake, load).added}


NEWEST_DAY = (
    f"where created_at >= (select max(created_at) - interval 1 day from raw.{SAMPLES.name})"
)
STEPS: dict[str, Callable[..., dict[str, int]]] = {
    "scan": lambda path: scanned(path, ""),
    "scan-day": lambda path: scanned(path, NEWEST_DAY),
    "sample": sampled,
    "merge": merged,
}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(STEPS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])))
