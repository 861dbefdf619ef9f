"""Texts that differ but mean the same: the stored text stays, and the record is not changed.

Some services change the order of an object's members from response to response, and the host of
their own URLs, wherever these are. Neither is a change of the record. Releases of different ages
can therefore load one lake in turn without rewriting each other's rows.
"""

from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa

from fleetlake.decoding.arrow import EXTRA
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.connection import Lake
from fleetlake.text.own_urls import ROOT, without_hosts
from fleetlake.text.quoting import quoted


def as_stored(lake: Lake, endpoint: Endpoint, rows: pa.Table) -> pa.Table:
    """Return the rows, with each text replaced by the stored one if the content is equal.

    The rows are those of the view `batch`, numbered in `_row`. For history, they are compared with
    the current version.
    """
    for name, content in _compared(endpoint, rows):
        differing = _differing(lake, endpoint, name)
        texts = {row: stored for row, stored, sent in differing if content(stored) == content(sent)}
        if texts:
            index, field = rows.schema.get_field_index(name), rows.schema.field(name)
            numbered = zip(rows["_row"].to_pylist(), rows[name].to_pylist(), strict=True)
            column = pa.array([texts.get(row, text) for row, text in numbered], pa.string())
            if isinstance(field.type, pa.BaseExtensionType):
                column = pa.ExtensionArray.from_storage(field.type, column)
            rows = rows.set_column(index, field, column)
    return rows


def _compared(endpoint: Endpoint, rows: pa.Table) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Yield the columns whose texts may differ and mean the same, with what their content is."""
    for name in endpoint.tracked:
        column = endpoint.column(name)
        if column.kind is Kind.JSON and rows[name].null_count < rows.num_rows:
            yield name, _json_content
        elif column.kind is Kind.TEXT and not column.is_foreign_url and _has_own_url(rows[name]):
            yield name, without_hosts
    if rows[EXTRA].null_count < rows.num_rows:
        yield EXTRA, _json_content


def _has_own_url(texts: pa.ChunkedArray) -> bool:
    """Return whether a text may have a URL of the service; no text is taken out of Arrow."""
    content = (chunk.buffers()[-1] for chunk in texts.chunks)
    return any(ROOT.search(memoryview(bytes_)) for bytes_ in content if bytes_ is not None)


def _differing(lake: Lake, endpoint: Endpoint, name: str) -> list[tuple[int, str, str]]:
    """Return the differing texts of a column: row of the batch, stored text, sent text."""
    same = " and ".join(f"t.{quoted(key)} = b.{quoted(key)}" for key in endpoint.key)
    current = "and t.valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    column = quoted(name)
    return lake.rows(
        f"select b._row, t.{column}::varchar, b.{column}::varchar "
        f"from raw.{quoted(endpoint.name)} t join batch b on {same} "
        f"where t.{column}::varchar <> b.{column}::varchar {current}"
    )


def _json_content(text: str) -> bytes:
    """Return JSON without the hosts of own URLs, with the members of each object sorted by name."""
    return msgspec.json.encode(msgspec.json.decode(without_hosts(text)), order="sorted")
