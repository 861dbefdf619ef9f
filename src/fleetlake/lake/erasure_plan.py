"""What an erasure is about: the device, person or account, all that belongs to it, and its names.

An account takes its sub-accounts, users and routers with it, a router its interfaces, as far as
their latest version says so. An interface that moved to another router stays with that one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetlake.endpoints import ENDPOINTS, FOLDER, NOT_DESCRIBED
from fleetlake.endpoints.columns import Privacy
from fleetlake.endpoints.model import Endpoint
from fleetlake.endpoints.relations import (
    Thing,
    identifiers,
    is_known_by_value,
    mentions,
    naming_columns,
    role,
    telling_columns,
    thing_of_type,
    types_of,
)
from fleetlake.errors import LakeError
from fleetlake.lake.connection import Lake
from fleetlake.lake.current import listed_ids
from fleetlake.lake.tables import not_described
from fleetlake.lake.tombstones import Tombstones
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.word_windows import as_words

SHORTEST = 5
"""Characters from which a name or identifier is looked for in texts; shorter ones mean anything."""

Things = Mapping[Thing, frozenset[int]]


@dataclass(frozen=True, kw_only=True)
class ErasurePlan:
    """The ids to erase, by kind of thing, and the words that told them from others."""

    things: Things
    values: frozenset[str]

    def pairs(self) -> list[tuple[Thing, int]]:
        """Return each thing with its id."""
        return [(thing, id_) for thing, ids in self.things.items() for id_ in sorted(ids)]

    def all_values(self) -> set[str]:
        """Return the words, with those by which texts name the ids."""
        named = {as_words(text) for thing, id_ in self.pairs() for text in mentions(thing, id_)}
        return {*self.values, *named}


def plan_erasure(lake: Lake, wanted: Iterable[tuple[Thing, int]]) -> ErasurePlan:
    """Return what must be erased with the wanted things."""
    things: dict[Thing, frozenset[int]] = {thing: frozenset() for thing in Thing}
    for thing, id_ in wanted:
        things[thing] |= {id_}
    grown = True
    while grown:
        members = {thing: things[thing] | _members(lake, thing, things) for thing in Thing}
        grown = members != things
        things = members
    return ErasurePlan(things=things, values=frozenset(_values(lake, things)))


def require_described(lake: Lake) -> None:
    """Raise LakeError if the lake has rows of a list that is described nowhere.

    Whose they are is not known.
    """
    for table in not_described(lake):
        raise LakeError(
            f"raw.{table} has rows, and {NOT_DESCRIBED}: they may be of what is to be erased.",
            remedy=f"Restore the file in `{FOLDER}` that described {table}, or use the release "
            "that loads it. Nothing was erased.",
        )


def plan_of_tombstones(lake: Lake, tombstones: Tombstones) -> ErasurePlan:
    """Return what a lake holds of things that were erased before, as far as tombstones tell."""
    things: dict[Thing, set[int]] = {thing: set() for thing in Thing}
    values: set[str] = set()
    for endpoint in ENDPOINTS.values():
        for thing, id_ in _named_things(lake, endpoint):
            if tombstones.has(thing, id_):
                things[thing].add(int(id_))
        if is_known_by_value(endpoint):
            for column in identifiers(endpoint):
                held = _distinct(lake, endpoint, column.name)
                values |= {as_words(value) for (value,) in held if tombstones.has_value(value)}
    return ErasurePlan(
        things={thing: frozenset(ids) for thing, ids in things.items()}, values=frozenset(values)
    )


def is_held(lake: Lake, thing: Thing, id_: int) -> bool:
    """Return whether any row belongs to a thing; its own list is looked at first."""
    alone = ErasurePlan(things={thing: frozenset([id_])}, values=frozenset())
    for endpoint in sorted(ENDPOINTS.values(), key=lambda e: e.name != thing.listing.name):
        where = condition(lake, endpoint, alone)
        if where and lake.rows(f"select 1 from raw.{quoted(endpoint.name)} where {where} limit 1"):
            return True
    return False


def condition(lake: Lake, endpoint: Endpoint, plan: ErasurePlan) -> str | None:
    """Return the SQL condition of the rows that belong to what is erased; None if none can."""
    parts = [
        f"{quoted(name)} in ({_listed(ids)})"
        for thing, ids in plan.things.items()
        if ids
        for name in naming_columns(endpoint, thing)
    ]
    parts += _role_conditions(endpoint, "object", plan.things)
    parts += _listed_conditions(lake, endpoint, plan)
    if is_known_by_value(endpoint) and plan.values:
        parts += _value_conditions(lake, endpoint, plan.values)
    return " or ".join(f"({part})" for part in parts) or None


def _listed_conditions(lake: Lake, endpoint: Endpoint, plan: ErasurePlan) -> Iterator[str]:
    """Yield the condition of the rows that only rows to erase list: those of other things stay."""
    fan_out = endpoint.fan_out
    if fan_out is None or not fan_out.listed_in:
        return
    if where := condition(lake, ENDPOINTS[fan_out.source], plan):
        others = listed_ids(lake, fan_out, f"valid_to is null and not coalesce({where}, false)", [])
        if ids := {*listed_ids(lake, fan_out, where, [])} - {*others}:
            yield f"{quoted(fan_out.partition)} in ({', '.join(map(literal, sorted(ids)))})"


def actor_condition(endpoint: Endpoint, plan: ErasurePlan) -> str | None:
    """Return the SQL condition of the rows in which something erased acted; None if none can."""
    return " or ".join(_role_conditions(endpoint, "actor", plan.things)) or None


def _named_things(lake: Lake, endpoint: Endpoint) -> Iterator[tuple[Thing, Any]]:
    """Yield each thing that the rows of an endpoint belong to, or act upon, or that acts."""
    for thing in Thing:
        for name in naming_columns(endpoint, thing):
            yield from ((thing, id_) for (id_,) in _distinct(lake, endpoint, name))
    for columns in (role(endpoint, "object"), role(endpoint, "actor")):
        if columns:
            for id_, kind in _distinct(lake, endpoint, columns.id, columns.type):
                thing_acting = thing_of_type(kind)
                if thing_acting:
                    yield thing_acting, id_


def _distinct(lake: Lake, endpoint: Endpoint, *names: str) -> list[tuple[Any, ...]]:
    listed = ", ".join(map(quoted, names))
    return lake.rows(f"select distinct {listed} from raw.{quoted(endpoint.name)}")


def _members(lake: Lake, thing: Thing, things: Things) -> frozenset[int]:
    """Return the things whose latest version belongs to one of those to erase."""
    listing = thing.listing
    [key] = map(quoted, listing.key)
    found: set[int] = set()
    for owner, ids in things.items():
        for name in naming_columns(listing, owner):
            if not ids or name in listing.key:
                continue
            found |= set(
                lake.values(
                    f"select {key} from raw.{quoted(listing.name)} group by {key} having "
                    f"arg_max({quoted(name)}, (valid_to is null, valid_from)) in ({_listed(ids)})"
                )
            )
    return frozenset(found)


def _values(lake: Lake, things: Things) -> Iterator[str]:
    """Yield the words that tell the things from all others: no other record has them."""
    for endpoint in ENDPOINTS.values():
        own = [
            f"{quoted(name)} in ({_listed(ids)})"
            for thing, ids in things.items()
            if ids
            for name in naming_columns(endpoint, thing)
        ]
        listed = next((t for t in Thing if t.listing is endpoint), None)
        columns = telling_columns(listed) if listed else identifiers(endpoint)
        if not own or not columns:
            continue
        is_own = " or ".join(own)
        for expression in _telling(listed, [c.name for c in columns], endpoint):
            of = f"select {expression} as told from raw.{quoted(endpoint.name)}"
            for value in lake.values(
                f"select distinct told from ({of} where {is_own}) where told is not null "
                f"except {of} where not coalesce({is_own}, false)"
            ):
                yield from _spellings(value)


def _telling(listed: Thing | None, names: Sequence[str], endpoint: Endpoint) -> Iterator[str]:
    """Yield SQL of the values to look for; of a person's names only all of them together."""
    is_name = {c.name for c in endpoint.columns if c.privacy is Privacy.NAME}
    own_names = [name for name in names if name in is_name]
    if listed is Thing.USER and own_names:
        names = [name for name in names if name not in is_name]
        for order in (own_names, own_names[::-1]):
            yield " || ' ' || ".join(map(quoted, order))
    yield from map(quoted, names)


def _spellings(value: str) -> Iterator[str]:
    """Yield the words of a value, and the value without what separates them: a bare MAC address.

    >>> list(_spellings("02:00:00:3D")), list(_spellings("eth0"))
    (['02 00 00 3d', '0200003d'], [])
    """
    words = as_words(value)
    if len(words.replace(" ", "")) >= SHORTEST:
        yield words
        if " " in words:
            yield words.replace(" ", "")


def _value_conditions(lake: Lake, endpoint: Endpoint, values: frozenset[str]) -> Iterator[str]:
    for column in identifiers(endpoint):
        name = quoted(column.name)
        held = lake.values(
            f"select distinct {name} from raw.{quoted(endpoint.name)} where {name} is not null"
        )
        known = [literal(value) for value in held if as_words(value) in values]
        if known:
            yield f"{name} in ({', '.join(known)})"


def _role_conditions(endpoint: Endpoint, name: str, things: Things) -> list[str]:
    columns = role(endpoint, name)
    if columns is None:
        return []
    return [
        f"(lower({quoted(columns.type)}) in ({', '.join(map(literal, types_of(thing)))}) "
        f"and try_cast({quoted(columns.id)} as bigint) in ({_listed(ids)}))"
        for thing, ids in things.items()
        if ids
    ]


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(str(int(id_)) for id_ in sorted(ids))
