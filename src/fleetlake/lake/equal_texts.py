"""Texts that differ but mean the same: the stored text stays, and the record is not changed.

Some services change the order of an object's members from response to response, and the host of
their own URLs, wherever these are. Neither is a change of the record; nor is a value that an
untracked column cannot hold and that is therefore in `_extra`. Releases of different ages can
therefore load one lake in turn without rewriting each other's rows.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import pyarrow as pa

from fleetlake.decoding.arrow import EXTRA
from fleetlake.decoding.records import members_left, take_member
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
        rows = _replaced(rows, name, texts)
    if endpoint.untracked or rows[EXTRA].null_count < rows.num_rows:
        rows = _replaced(rows, EXTRA, _equal_extras(lake, endpoint, rows))
    return rows


def _replaced(rows: pa.Table, name: str, texts: Mapping[int, str | None]) -> pa.Table:
    """Return the rows with other texts in a column, by the number of the row."""
    if not texts:
        return rows
    index, field = rows.schema.get_field_index(name), rows.schema.field(name)
    numbered = zip(rows["_row"].to_pylist(), rows[name].to_pylist(), strict=True)
    column = pa.array([texts.get(row, text) for row, text in numbered], pa.string())
    if isinstance(field.type, pa.BaseExtensionType):
        column = pa.ExtensionArray.from_storage(field.type, column)
    return rows.set_column(index, field, column)


def _equal_extras(lake: Lake, endpoint: Endpoint, rows: pa.Table) -> dict[int, str | None]:
    """Return the stored `_extra` of each row that has the same one, by the number of the row.

    A row whose tracked columns changed keeps the values of untracked members that were sent.
    """
    same: dict[int, str | None] = {}
    alike: dict[int, str | None] = {}
    for row, stored, sent in _differing(lake, endpoint, EXTRA):
        if _extra_content(endpoint, stored) == _extra_content(endpoint, sent):
            is_same = stored and sent and _json_content(stored) == _json_content(sent)
            (same if is_same else alike)[row] = stored
    if alike:
        chosen = pa.array([row in alike for row in rows["_row"].to_pylist()])
        with lake.view("chosen", rows.filter(chosen)):
            equal = [f"t.{c} is not distinct from b.{c}" for c in map(quoted, endpoint.tracked)]
            unchanged = lake.rows(
                f"select b._row from {_stored(endpoint, 'chosen')} where {' and '.join(equal)}"
            )
        same |= {row: alike[row] for (row,) in unchanged}
    return same


def _compared(endpoint: Endpoint, rows: pa.Table) -> Iterator[tuple[str, Callable[[str], object]]]:
    """Yield the columns whose texts may differ and mean the same, with what their content is."""
    for name in endpoint.tracked:
        column = endpoint.column(name)
        if column.kind is Kind.JSON and rows[name].null_count < rows.num_rows:
            yield name, _json_content
        elif column.kind is Kind.TEXT and not column.is_foreign_url and _has_own_url(rows[name]):
            yield name, without_hosts


def _has_own_url(texts: pa.ChunkedArray) -> bool:
    """Return whether a text may have a URL of the service; no text is taken out of Arrow."""
    content = (chunk.buffers()[-1] for chunk in texts.chunks)
    return any(ROOT.search(memoryview(bytes_)) for bytes_ in content if bytes_ is not None)


def _differing(lake: Lake, endpoint: Endpoint, name: str) -> list[tuple[int, str, str]]:
    """Return the differing texts of a column: row of the batch, stored text, sent text.

    Only `_extra` may be null: then a text of it may still have the same content.
    """
    column, differ = quoted(name), "is distinct from" if name == EXTRA else "<>"
    return lake.rows(
        f"select b._row, t.{column}::varchar, b.{column}::varchar from {_stored(endpoint, 'batch')}"
        f" where t.{column}::varchar {differ} b.{column}::varchar"
    )


def _stored(endpoint: Endpoint, rows: str) -> str:
    """Return SQL that joins the stored rows `t`, of history the current ones, to sent rows `b`."""
    same = " and ".join(f"t.{quoted(key)} = b.{quoted(key)}" for key in endpoint.key)
    current = "where valid_to is null" if endpoint.mode is Mode.HISTORY else ""
    return f"(from raw.{quoted(endpoint.name)} {current}) t join {rows} b on {same}"


def _json_content(text: str) -> bytes:
    """Return JSON without the hosts of own URLs, with the members of each object sorted by name."""
    return msgspec.json.encode(msgspec.json.decode(without_hosts(text)), order="sorted")


def _extra_content(endpoint: Endpoint, text: str | None) -> bytes:
    """Return what of `_extra` is content: not what untracked columns could not hold."""
    members = msgspec.json.decode(without_hosts(text or "{}"))
    for path in endpoint.untracked:
        take_member(members, path)
    return msgspec.json.encode(members_left(endpoint, members), order="sorted")
