"""Filling a new column in rows that an older release wrote without it.

Values in the rows' `_extra` are moved to the column. For records kept as history that have no such
value, the next load writes the value into the current version. A new column is not a change of the
record, so it starts no new version.
"""

from fleetlake.decoding.arrow import EXTRA
from fleetlake.endpoints.columns import Column
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.current import is_current
from fleetlake.lake.evolution.member_values import forget_drift, move_values
from fleetlake.lake.evolution.registry import columns_new_to
from fleetlake.lake.loads import Load
from fleetlake.text.quoting import quoted


def fill_gained(lake: Lake, endpoint: Endpoint, column: Column) -> None:
    """Fill a column just added to a table from `_extra`, in the open transaction."""
    move_values(lake, endpoint, column)
    forget_drift(lake, endpoint.name, column)


def take_from_extra(lake: Lake, load: Load) -> int:
    """Move values that a release without some column left in `_extra`; return the row count.

    For records kept as history, only the current version is considered.
    """
    return take_values(lake, load.endpoint, is_current(load.endpoint))


def take_values(lake: Lake, endpoint: Endpoint, condition: str = "true") -> int:
    """Move values that fit their columns out of `_extra`, if any of the rows have some."""
    found = lake.rows(
        f"select distinct unnest(json_keys({EXTRA})) from raw.{quoted(endpoint.name)} "
        f"where {condition} and {EXTRA} is not null"
    )
    members = {member for (member,) in found}
    late = [column for column in endpoint.columns if column.path[0] in members]
    return sum(move_values(lake, endpoint, column) for column in late)


def fill_never_held(lake: Lake, load: Load, is_own: str) -> int:
    """Fill columns that are new to current versions; return the number of rows.

    Only the first load after a column was added does this: later nulls come from the service.
    `is_own` is the condition on the account, with one parameter.
    """
    endpoint, filled = load.endpoint, 0
    same = " and ".join(f"t.{quoted(name)} = b.{quoted(name)}" for name in endpoint.key)
    for column in columns_new_to(lake, load.profile, endpoint):
        name = quoted(column.name)
        [(rows,)] = lake.rows(
            f"update raw.{quoted(endpoint.name)} t set {name} = b.{name} from batch b "
            f"where t.valid_to is null and {same} and t.{name} is null "
            f"and b.{name} is not null and {is_own}",
            [load.profile],
        )
        filled += rows
    return filled
