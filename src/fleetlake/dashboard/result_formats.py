"""Rows as the page, a spreadsheet or a notebook takes them: JSON by column, CSV, Parquet. Pure."""

import io
from collections.abc import Mapping, Sequence

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from fleetlake.dashboard.column_sources import kind_of, label_of, origin_of
from fleetlake.dashboard.panels import Panel
from fleetlake.text.quoting import guarded

_LARGEST_EXACT = 2**53 - 1
"""The largest integer that a script's number holds exactly."""


def as_json(panel: Panel, rows: pa.Table, *, more: Mapping[str, object]) -> bytes:
    """Return rows as one JSON document: what each column is, and its values in a list.

    Times are milliseconds since 1970 in UTC, days ISO texts; a number that a script cannot hold
    exactly is a text. `more` is added to the document.
    """
    columns = []
    for name in rows.column_names:
        origin, meaning = origin_of(panel, name)
        kind = kind_of(name, str(rows.schema.field(name).type))
        columns.append(
            {
                "name": name,
                "label": panel.draw.get("labels", {}).get(name) or label_of(name),
                "kind": panel.draw.get("kinds", {}).get(name, kind),
                "origin": origin,
                "meaning": meaning,
            }
        )
    values = {name: _plain(rows.column(name)) for name in rows.column_names}
    return orjson.dumps(
        {"columns": columns, "rows": rows.num_rows, "values": values, **more}, default=str
    )


def as_csv(rows: pa.RecordBatchReader, proof: Sequence[str] = ()) -> bytes:
    """Return rows as CSV with a heading, with texts that no spreadsheet runs as a formula.

    The lines of a `proof` are above it, as comments.
    """
    out = io.BytesIO("".join(f"# {line}\n" for line in proof).encode())
    out.seek(0, io.SEEK_END)
    fields = [
        (field.name, pa.string() if _is_text(field.type) else field.type) for field in rows.schema
    ]
    with arrow_csv.CSVWriter(out, pa.schema(fields)) as writer:
        for batch in rows:
            writer.write_batch(_guarded(batch))
    return out.getvalue()


def as_parquet(rows: pa.RecordBatchReader, proof: Sequence[str] = ()) -> bytes:
    """Return rows as a Parquet file, with the lines of a `proof` in its metadata."""
    out = io.BytesIO()
    schema = rows.schema.with_metadata({"proof": "\n".join(proof)} if proof else None)
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    return out.getvalue()


def _guarded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose texts are cells that no spreadsheet runs as a formula."""
    for place, column in enumerate(batch.schema):
        if _is_text(column.type):
            values = batch.column(place).to_pylist()
            texts = [value if value is None else guarded(str(value)) for value in values]
            batch = batch.set_column(place, column.name, pa.array(texts, pa.string()))
    return batch


def _is_text(kind: pa.DataType) -> bool:
    """Return whether CSV holds values of a type as texts; lists and the like are such."""
    numbers = pa.types.is_primitive(kind) or pa.types.is_decimal(kind)
    return not numbers or pa.types.is_interval(kind) or pa.types.is_duration(kind)


def _plain(column: pa.ChunkedArray) -> list[object]:
    """Return values that JSON has."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = pc.cast(column, pa.timestamp("ms", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    values: list[object] = column.to_pylist()
    if pa.types.is_integer(kind) and values:
        ends = pc.min_max(column)
        if max(abs(ends["min"].as_py() or 0), abs(ends["max"].as_py() or 0)) > _LARGEST_EXACT:
            return [value if value is None else str(value) for value in values]
    return values
