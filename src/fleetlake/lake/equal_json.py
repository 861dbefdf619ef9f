"""JSON texts that differ only in the order of their members are equal.

Some services change the order of an object's members from response to response. Such a text is not
a change of the record, so the stored text stays. Releases of different ages can therefore load one
lake in turn without rewriting each other's rows.
"""

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from fleetlake.decoding.arrow import EXTRA
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.connection import Lake
from fleetlake.text.quoting import quoted


def as_stored(lake: Lake, endpoint: Endpoint, rows: pa.Table) -> pa.Table:
    """Return the rows, with each JSON text replaced by the stored one if the content is equal.

    The rows are those of the view `batch`, numbered in `_row`. For history, they are compared with
    the current version.
    """
    kinds = {column.name: column.kind for column in endpoint.columns}
    names = [*(name for name in endpoint.tracked if kinds[name] is Kind.JSON), EXTRA]
    names = [name for name in names if rows[name].null_count < rows.num_rows]
    for name in names:
        texts = _respelled(_differing(lake, endpoint, name))
        if texts:
            index, field = rows.schema.get_field_index(name), rows.schema.field(name)
            numbered = zip(rows["_row"].to_pylist(), rows[name].to_pylist(), strict=True)
            storage = pa.array([texts.get(row, text) for row, text in numbered], pa.string())
            column = pa.ExtensionArray.from_storage(field.type, storage)
            rows = rows.set_column(index, field, column)
    return rows


def _differing(lake: Lake, endpoint: Endpoint, name: str) -> list[tuple[int, str, str]]:
    """Return the differing texts of a JSON column: row of the batch, stored text, sent text."""
    same = " and ".join(f"t.{quoted(key)} = b.{quoted(key)}" for key in endpoint.key)
    current = "and t.valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    column = quoted(name)
    return lake.rows(
        f"select b._row, t.{column}::varchar, b.{column}::varchar "
        f"from raw.{quoted(endpoint.name)} t join batch b on {same} "
        f"where t.{column}::varchar <> b.{column}::varchar {current}"
    )


def _respelled(texts: Iterable[tuple[int, str, str]]) -> dict[int, str]:
    return {row: stored for row, stored, sent in texts if _sorted(stored) == _sorted(sent)}


def _sorted(text: str) -> bytes:
    """Return JSON with the members of each object sorted by name."""
    return msgspec.json.encode(msgspec.json.decode(text), order="sorted")
