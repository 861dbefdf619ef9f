"""A plain script: httpx, orjson, pyarrow, one Parquet file; no guarantees.

It keeps all rows in memory, and a killed run starts again from the beginning. Its next run requests
what is newer than its newest record, which it stores beside the file.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tools.bench.peers.download import bodies

TIMES = {"alerts": ("created_at",), "activity_logs": ("action", "timestamp")}
"""The member with a record's time; the name of the service's filter is derived from it."""


def time_of(record: Any, resource: str) -> str:
    """Return the time that a record is listed by."""
    for name in TIMES[resource]:
        record = record[name]
    return str(record)


def pages(url: str, resource: str, newer_than: str | None) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of each page."""
    bound = {"__".join([*TIMES[resource], "gt"]): newer_than} if newer_than else {}
    for body in bodies(url, resource, **bound):
        yield orjson.loads(body)["data"]


def row_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its nested members as JSON."""
    return {
        name: orjson.dumps(value).decode() if isinstance(value, dict | list) else value
        for name, value in record.items()
    }


def take(url: str, resource: str, folder: Path) -> int:
    """Add a file of the new records; return the number of rows in all files."""
    note = folder / "newest"
    before = note.read_text() if note.exists() else None
    newest, rows = None, []
    for page in pages(url, resource, before):
        newest = newest or (time_of(page[0], resource) if page else None)
        rows += [row_of(record) for record in page]
    if newest:
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{newest}.parquet")
        note.write_text(newest)
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"rows": take(*sys.argv[1:3], Path(sys.argv[3]))}))
