"""Current rows of the raw tables, which a load needs to know before it calls the service."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, FanOut, Mode, Moved
from fleetlake.endpoints.relations import Thing, naming_columns
from fleetlake.lake.connection import Lake
from fleetlake.planning.intervals import Interval
from fleetlake.settings import load_settings
from fleetlake.text.quoting import literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa


def is_current(endpoint: Endpoint) -> str:
    """Return the SQL condition for current rows.

    These are the open versions of a list kept as history, and all rows of any other table.
    """
    return "valid_to is null" if endpoint.mode is Mode.HISTORY else "true"


def same_key(endpoint: Endpoint) -> str:
    """Return the SQL condition that a stored row `t` and a row `b` of a batch are one record's."""
    return " and ".join(f"t.{quoted(name)} = b.{quoted(name)}" for name in endpoint.key)


def current_keys(
    lake: Lake, endpoint: Endpoint, *, profile: str | None = None, within: Interval | None = None
) -> set[tuple[Any, ...]]:
    """Return the keys of current rows, of one account or of all.

    `within` limits the event time, if the endpoint has one.
    """
    bounds, parameters = [is_current(endpoint)], list[Any]()
    if profile is not None:
        bounds.append("account_profile = ?")
        parameters.append(profile)
    if within is not None and endpoint.event_time:
        event = quoted(endpoint.event_time)
        bounds.append(f"{event} >= ? and {event} < ?")
        parameters += [within.start, within.end]
    listed = ", ".join(map(quoted, endpoint.key))
    return set(
        lake.rows(
            f"select {listed} from raw.{endpoint.name} where {' and '.join(bounds)}", parameters
        )
    )


def lacks_current(lake: Lake, endpoint: Endpoint, keys: "pa.Table", *, profile: str) -> bool:
    """Return whether an account has current rows whose keys are not among these."""
    others = f"not exists (select 1 from batch b where {same_key(endpoint)})"
    with lake.view("batch", keys):
        found = lake.rows(
            f"select 1 from raw.{endpoint.name} t where {is_current(endpoint)} "
            f"and account_profile = ? and {others} limit 1",
            [profile],
        )
    return bool(found)


def fan_out_ids(lake: Lake, profile: str, endpoint: Endpoint) -> list[Any]:
    """Return the ids for which the endpoint must be read: the current ones, in order."""
    if endpoint.fan_out is None:
        return []
    source = ENDPOINTS[endpoint.fan_out.source]
    if endpoint.fan_out.listed_in:
        current = f"{is_current(source)} and account_profile = ?"
        return listed_ids(lake, endpoint.fan_out, current, [profile])
    return sorted(id_ for id_, *_ in current_keys(lake, source, profile=profile))


def listed_ids(lake: Lake, fan_out: FanOut, where: str, parameters: Sequence[str]) -> list[str]:
    """Return the ids that rows of a fan-out's source list in their columns, in order."""
    lists = " union all ".join(
        f"select json_extract_string({quoted(name)}, '$[*]') as ids "
        f"from raw.{quoted(fan_out.source)} where {where}"
        for name in fan_out.listed_in
    )
    return lake.values(
        f"select distinct unnest(ids) as id from ({lists}) order by id",
        [*parameters] * len(fan_out.listed_in),
    )


def listed_groups(lake: Lake) -> frozenset[str]:
    """Return the names of all groups, in lower case."""
    sql = "select lower(name) from raw.groups where valid_to is null and name is not null"
    return frozenset(lake.values(sql))


def group_names(lake: Lake, listing: Endpoint) -> dict[Any, str]:
    """Return the name of the group of each device in a list, in lower case; of no other list."""
    if not (named := naming_columns(listing, Thing.ROUTER)):
        return {}
    found = lake.rows(
        f"select t.id, lower(g.name) from raw.{listing.name} t "
        f"join raw.routers r on r.id = t.{quoted(named[0])} and r.valid_to is null "
        "join raw.groups g on g.id = r.group_id and g.valid_to is null "
        f"where {is_current(listing).replace('valid_to', 't.valid_to')} and g.name is not null"
    )
    return dict(found)


def last_moves(lake: Lake, moved: Moved) -> dict[Any, datetime | None]:
    """Return when each id of a bulk list last changed, according to the list."""
    found = lake.rows(f"select {quoted(moved.id)}, {quoted(moved.at)} from raw.{moved.endpoint}")
    return dict(found)


def last_events(lake: Lake, urged_by: Iterable[Moved], *, since: datetime) -> dict[Any, datetime]:
    """Return when something last happened to each id according to lists, from `since` on."""
    either = load_settings().words.either
    lists = " union all ".join(
        f"select {quoted(one.id)} as id, {quoted(one.at)} as moved_at from raw.{one.endpoint} "
        f"where {quoted(one.at)} >= $since"
        + (f" and type in ({', '.join(map(literal, either(one.types)))})" if one.types else "")
        for one in urged_by
    )
    sql = f"select id, max(moved_at) from ({lists}) where id is not null group by id"
    return dict(lake.rows(sql, {"since": since})) if lists else {}


def records_by_id(
    lake: Lake, profile: str, endpoint: Endpoint, *, since: datetime
) -> dict[Any, int]:
    """Return how many records each id of a fan-out has from `since` on."""
    if endpoint.fan_out is None:
        return {}
    found = lake.rows(
        f"select {quoted(endpoint.fan_out.partition)}, count(*) from raw.{endpoint.name} "
        f"where {quoted(str(endpoint.event_time))} >= ? and account_profile = ? group by all",
        [since, profile],
    )
    return dict(found)


def changing_since(lake: Lake, profile: str, endpoint: Endpoint) -> datetime | None:
    """Return the event time of the oldest record that may still change."""
    if endpoint.changes_until is None:
        return None
    return lake.instant(
        f"select min({quoted(str(endpoint.event_time))}) from raw.{endpoint.name} "
        f"where {quoted(endpoint.changes_until)} is null and account_profile = ?",
        [profile],
    )
