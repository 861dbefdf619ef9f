"""JSON that is stored with its members in another order: the record has not changed.

The members of an object have no order, and some services change it from response to response.
Texts that differ only in this count as equal, and the stored text stays. So no release rewrites
the rows of another, and releases that load one lake in turn agree.
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
    """Return the rows with JSON texts as stored, where the content is the same.

    The rows are those of the view `batch`, numbered in `_row`. For history, the current version
    counts.
    """
    kinds = {column.name: column.kind for column in endpoint.columns}
    names = [*(name for name in endpoint.tracked if kinds[name] is Kind.JSON), EXTRA]
    names = [name for name in names if rows[name].null_count < rows.num_rows]
    for name in names:
        texts = _respelled(_differing(lake, endpoint, name))
        if texts:
            place, field = rows.schema.get_field_index(name), rows.schema.field(name)
            numbered = zip(rows["_row"].to_pylist(), rows[name].to_pylist(), strict=True)
            storage = pa.array([texts.get(row, text) for row, text in numbered], pa.string())
            column = pa.ExtensionArray.from_storage(field.type, storage)
            rows = rows.set_column(place, field, column)
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
