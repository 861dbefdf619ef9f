"""Schema drift: members without a column that the service sends, when first seen.

A load notes each member of `_extra` when it is first seen, so only those are counted.
"""

from collections.abc import Collection
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from fleetlake.decoding.arrow import EXTRA
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.member_values import format_path
from fleetlake.lake.evolution.promote import RETYPES
from fleetlake.lake.evolution.promotions import with_retyped
from fleetlake.lake.run_state import RunState
from fleetlake.text.quoting import literal, quoted

LONGEST_EXAMPLE = 500

_TABLE = "meta.schema_drift"

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def note_drift(state: RunState, endpoint: Endpoint, load_id: str, rows: pa.Table) -> None:
    """Record each member without a column when it is first seen, with an example as JSON.

    `rows` are those of the load, or a part of them. Within the open transaction.
    """
    column = rows[EXTRA]
    if column.null_count == rows.num_rows:
        return
    lake, known = state.lake, state.drifted(endpoint)
    sent = {name: format_path([name]) for name in _names(lake, column)}
    new = {name: member for name, member in sent.items() if member not in known}
    if not new:
        return
    state.forget(_TABLE)
    drifted = {"member": [*new.values()], "example": _examples(column, new)}
    with lake.view("drifted", pa.table(drifted)):
        lake.execute(
            "insert into meta.schema_drift by name select ? as account_profile, ? as endpoint, "
            "member, example, ? as load_id, now() as first_seen_at from drifted",
            [state.profile, endpoint.name, load_id],
        )


def _names(lake: Lake, objects: pa.ChunkedArray) -> list[str]:
    """Return the names of all members of a column of JSON objects, in order."""
    with lake.stream("unknown", pa.table({"members": objects})):
        return lake.values(
            "select distinct unnest(json_keys(members)) as name from unknown order by 1"
        )


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


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """A column and the rows whose value it could not hold; `command` stores such values in it."""

    column: str
    kind: str
    rows: int
    example: str
    command: str | None


def misfits(lake: Lake, endpoint: Endpoint, profile: str) -> tuple[Misfit, ...]:
    """Return the columns of an endpoint that refused values of an account."""
    sql = "select distinct member from meta.schema_drift where endpoint = ?"
    noted = {*lake.values(sql, [endpoint.name])}
    [now] = with_retyped(lake, [endpoint])
    found = []
    for column, declared in zip(now.columns, endpoint.columns, strict=True):
        if format_path(column.path[:1]) not in noted:
            continue
        path = literal("$" + "".join(f'."{part}"' for part in column.path))
        [(rows, example)] = lake.rows(
            f"select count(*), any_value(json_extract({EXTRA}, {path})::varchar) "
            f"from raw.{quoted(endpoint.name)} "
            f"where account_profile = ? and json_exists({EXTRA}, {path})",
            [profile],
        )
        if rows:
            can_change = declared.kind in RETYPES and declared.name not in endpoint.required
            command = f"fleetlake records columns retype {endpoint.name} {declared.name}"
            found.append(
                Misfit(
                    column=column.name,
                    kind=str(column.kind),
                    rows=rows,
                    example=example,
                    command=command if can_change else None,
                )
            )
    return tuple(found)
