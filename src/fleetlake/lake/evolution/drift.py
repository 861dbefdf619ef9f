"""Schema drift: members without a column that the service sends, when first seen."""

from collections.abc import Iterable

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
    sent = _examples(text for text in column.to_pylist() if text is not None)
    endpoint = load.endpoint.name
    found = lake.rows("select member from meta.schema_drift where endpoint = ?", [endpoint])
    known = {member for (member,) in found}
    new = {format_path([name]): example for name, example in sent.items()}
    for name in sent.keys() & known - new.keys():
        # An earlier release recorded plain names: there `a.b` would look like a path.
        sql = "update meta.schema_drift set member = ? where endpoint = ? and member = ?"
        lake.execute(sql, [format_path([name]), endpoint, name])
        known.add(format_path([name]))
    members = [member for member in new if member not in known]
    if not members:
        return
    rows = {"member": members, "example": [new[member] for member in members]}
    with lake.view("drifted", pa.table(rows)):
        lake.execute(
            "insert into meta.schema_drift by name select ? as account_profile, ? as endpoint, "
            "member, example, ? as load_id, now() as first_seen_at from drifted",
            [load.profile, endpoint, load.load_id],
        )


def _examples(texts: Iterable[str]) -> dict[str, str]:
    """Return the members of these objects by name, each with its first value."""
    examples: dict[str, str] = {}
    for text in texts:
        for name, value in _OBJECT.decode(text).items():
            if name not in examples:
                examples[name] = _shortened(bytes(value).decode())
    return examples


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[: LONGEST_EXAMPLE - 1]}…"
