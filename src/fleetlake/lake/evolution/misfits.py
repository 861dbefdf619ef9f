"""Values that a declared column refused because of its kind: they are kept in `_extra`.

A load notes each member of `_extra` when it is first seen, so only those are counted.
"""

from dataclasses import dataclass

from fleetlake.decoding.arrow import EXTRA
from fleetlake.endpoints.columns import Column
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.member_names import format_path
from fleetlake.lake.evolution.promote import RETYPES
from fleetlake.lake.evolution.promotions import with_retyped
from fleetlake.text.quoting import literal, quoted


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
    noted = {
        member
        for (member,) in lake.recall(
            "select distinct member from meta.schema_drift where endpoint = ?", (endpoint.name,)
        )
    }
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
            command = _command(endpoint, declared)
            found.append(
                Misfit(
                    column=column.name,
                    kind=str(column.kind),
                    rows=rows,
                    example=example,
                    command=command,
                )
            )
    return tuple(found)


def _command(endpoint: Endpoint, column: Column) -> str | None:
    if column.kind not in RETYPES or column.name in endpoint.required:
        return None
    return f"fleetlake columns retype {endpoint.name} {column.name}"
