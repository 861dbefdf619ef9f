"""Schema drift: members without a column that the service sends, when first seen."""

from collections.abc import Collection

import msgspec
import pyarrow as pa

from fleetlake.decoding.arrow import EXTRA
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.member_names import format_path
from fleetlake.lake.loads import Load

LONGEST_EXAMPLE = 500

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def note_drift(lake: Lake, load: Load, rows: pa.Table) -> None:
    """Record each member without a column when it is first seen, with an example as JSON.

    `rows` are those of the load, or a part of them. Within the open transaction.
    """
    column = rows[EXTRA]
    if column.null_count == rows.num_rows:
        return
    endpoint = load.endpoint.name
    found = lake.recall("select member from meta.schema_drift where endpoint = ?", (endpoint,))
    known = {member for (member,) in found}
    sent = {name: format_path([name]) for name in _names(lake, column)}
    for name in sent.keys() & known - {*sent.values()}:
        # An earlier release recorded plain names: there `a.b` would look like a path.
        sql = "update meta.schema_drift set member = ? where endpoint = ? and member = ?"
        lake.execute(sql, [format_path([name]), endpoint, name])
        known.add(format_path([name]))
    new = {name: member for name, member in sent.items() if member not in known}
    if not new:
        return
    drifted = {"member": [*new.values()], "example": _examples(column, new)}
    with lake.view("drifted", pa.table(drifted)):
        lake.execute(
            "insert into meta.schema_drift by name select ? as account_profile, ? as endpoint, "
            "member, example, ? as load_id, now() as first_seen_at from drifted",
            [load.profile, endpoint, load.load_id],
        )


def _names(lake: Lake, objects: pa.ChunkedArray) -> list[str]:
    """Return the names of all members of a column of JSON objects, in order."""
    with lake.stream("unknown", pa.table({"members": objects})):
        found = lake.rows(
            "select distinct unnest(json_keys(members)) as name from unknown order by 1"
        )
    return [name for (name,) in found]


def _examples(objects: pa.ChunkedArray, names: Collection[str]) -> list[str]:
    """Return the first value of each of these members in a column of JSON objects."""
    examples: dict[str, str] = {}
    texts = (text for chunk in objects.chunks for text in chunk.to_pylist())
    while len(examples) < len(names):
        for name, value in _OBJECT.decode(next(texts) or "{}").items():
            if name in names and name not in examples:
                examples[name] = _shortened(bytes(value).decode())
    return [examples[name] for name in names]


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[: LONGEST_EXAMPLE - 1]}…"
