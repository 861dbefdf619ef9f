"""The lists that the simulator serves: its own, and those that files describe."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from fleetsim.blocks import Array, Block
from fleetsim.definition import Collection, Lists, Resource, SeriesRead
from fleetsim.described.described_files import ALWAYS, DescribedList, read_described
from fleetsim.described.described_values import (
    DescribedRecords,
    Owners,
    Targets,
    is_nullable,
    value_columns,
)
from fleetsim.identifiers import group_ids
from fleetsim.rendering import records
from fleetsim.resources import RESOURCES
from fleetsim.resources.accounts import ACCOUNT_IDS, PRODUCT_IDS
from fleetsim.resources.samples import has_visible_samples
from fleetsim.units import NEVER
from fleetsim.v3.collections import AREAS, COLLECTIONS
from fleetsim.v3.documents import OWNER, Document, Link, item
from fleetsim.view import View

_SERIES_CURSORS: Final = frozenset({"timeuuid", "action id"})
_TYPES = 3
"""Types of records of a list whose records have several."""

_TO_MANY, _NEVER_VANISH = 3, 2
_STABLE: Final[dict[str, Callable[[View], Array]]] = {
    "account": lambda _view: ACCOUNT_IDS,
    "group": lambda view: group_ids(np.arange(view.world.fleet.groups)),
    "net_device": lambda view: view.world.net_device_id,
    "product": lambda _view: PRODUCT_IDS,
    "router": lambda view: view.world.fleet.router_id[
        view.world.fleet.registrations.since <= view.world.started_at
    ],
    "user": lambda view: np.array([person.id for person in view.world.people]),
}
"""Ids by the names of relations, which are the same at all times of a simulation."""


def served_lists(places: Iterable[Any]) -> Lists:
    """Return the simulator's lists with those that files describe.

    Raises: ValueError if a file is wrong, or a list has the path of another or no such source.
    """
    given = read_described(places)
    names = [one.name for one in given]
    optional = [one for one in read_described(ALWAYS) if one.name not in names]
    every = {one.name: one for one in (*optional, *given)}
    if len(every) < len(optional) + len(given):
        raise ValueError(f"two tables describe {max(names, key=names.count)}")
    making = _Making(every)
    for one in every.values():
        making.add(one)
    own: dict[str, Resource | Collection] = {f"{name}_v3": one for name, one in COLLECTIONS.items()}
    own |= COLLECTIONS
    return Lists(
        {**RESOURCES, **making.resources},
        {**COLLECTIONS, **making.collections},
        {**own, **RESOURCES, **making.made},
    )


class _Making:
    """Lists while they are made; a source is looked up when a request needs it."""

    def __init__(self, every: Mapping[str, DescribedList]) -> None:
        self.every = every
        self.resources: dict[str, Resource] = {}
        self.collections: dict[str, Collection] = {}
        self.made: dict[str, Resource | Collection] = {}
        self._records: dict[str, DescribedRecords] = {}

    def add(self, one: DescribedList) -> None:
        if one.source and one.source not in {**RESOURCES, **COLLECTIONS, **self.every}:
            raise ValueError(f"{one.name}: there is no list {one.source}")
        sources = {other.source for other in self.every.values()}
        owners = partial(self._owners, one) if one.source else None
        self._records[one.name] = DescribedRecords(one, owners, one.name in sources)
        path = "/".join(part for part in one.path.split("/") if part not in AREAS)
        if path in (RESOURCES if one.api == "v2" else COLLECTIONS):
            raise ValueError(f"{one.name}: the simulator serves {path} itself")
        if one.api == "v2":
            self.made[one.name] = self.resources[path] = self._resource(one)
        else:
            self.made[one.name] = self.collections[path] = self._collection(one)

    def _resource(self, one: DescribedList) -> Resource:
        made = self._records[one.name]
        columns = tuple(value_columns(one, self._targets(one)))
        keys = [name for name in one.key if name in {column.name for column in columns}]
        resource = Resource(
            name=one.name,
            columns=columns,
            key=keys[0] if len(one.key) == 1 and keys else "",
            one_of=tuple(dict.fromkeys((one.parameter, one.filter))) if one.source else (),
            owner=one.filter,
            largest_page=one.page_size,
            id_paging=one.cursor == "id after",
        )
        if one.cursor not in _SERIES_CURSORS:
            order = tuple(column.name for column in resource.shown)
            return replace(resource, rows=made.now, order_by=order)
        cursor = next((c.field.replace(".", "__") for c in one.columns if c.kind == "timeuuid"), "")
        if not cursor:
            raise ValueError(f"{one.name}: cursor {one.cursor} needs a column of kind timeuuid")
        order = (cursor,) if one.cursor == "timeuuid" else ()
        series = partial(_series, made)
        return replace(resource, series=series, cursor=cursor, order_by=order)

    def _collection(self, one: DescribedList) -> Collection:
        made = self._records[one.name]
        names = tuple(column.field for column in one.columns)
        return Collection(
            ids=lambda view: made.now(view)["id"].tolist(),
            items=partial(self._items, one),
            filters=(*names, *one.related, *filter(None, [one.filter])),
            required=one.filter,
            largest_page=one.page_size,
        )

    def _items(self, one: DescribedList, view: View, ids: Sequence[int]) -> list[Document]:
        """Return items of v3; an attribute that is null is missing in every other one."""
        block = self._records[one.name].now(view)
        block = block.take(np.flatnonzero(np.isin(block["id"], ids)))
        columns = [c for c in value_columns(one, self._targets(one)) if not c.hidden]
        nullable = {c.field for c in one.columns if is_nullable(one, c)}
        rows = records(view, columns, block) if columns else [{} for _ in range(len(block))]
        found = []
        owners, numbers = block["owner"].tolist(), block["number"].tolist()
        for attributes, owner, number in zip(rows, owners, numbers, strict=True):
            for name in nullable if number % 2 else ():
                if attributes.get(name) is None:
                    attributes.pop(name, None)
            if not columns:
                attributes["name"] = f"{one.stem} {number}"
            kind = f"{one.path.rpartition('/')[2]}{f'_{number % _TYPES}' if one.is_typed else ''}"
            id_ = f"{one.stem}-{owner}-{number}" if one.source else f"{one.stem}-{number}"
            links: dict[str, Link | Sequence[Link]] = {
                name: self._link(one, view, name, owner, number) for name in one.related
            }
            for name in one.related_many:
                count = number % _TO_MANY
                links[name] = [
                    self._link(one, view, name.removesuffix("s"), owner, number + more)
                    for more in range(count)
                ]
            document = item(view.origin, kind, id_, attributes, links)
            found.append({**document, OWNER: str(owner)} if one.source else document)
        return found

    def _link(self, one: DescribedList, view: View, name: str, owner: Any, number: int) -> Link:
        if one.source and name in (one.filter, one.partition.removesuffix("_id")):
            return f"{name}s", str(owner)
        ids = self._targets(one)(view, name)
        linked = f"{name}-{number % 9}" if ids is None else str(ids[number % len(ids)])
        return f"{name}s", linked

    def _targets(self, one: DescribedList) -> Targets:
        def find(view: View, name: str) -> Array | None:
            if name in _STABLE:
                return _STABLE[name](view)
            target = self.every.get(f"{name}s")
            if target and target.api == one.api == "v2" and not target.source:
                block = self._records[target.name].now(view)
                return block["id"][block["number"] < _NEVER_VANISH]
            return None

        return find

    def _owners(self, one: DescribedList, view: View) -> Owners:
        """Return the ids of the source of a required filter."""
        fleet = view.world.fleet
        if one.source == "routers":
            rows = np.flatnonzero(view.remembered)
            spans = fleet.registrations
            return Owners(fleet.router_id[rows], spans.since[rows], spans.until[rows])
        if one.source == "net_devices":
            rows = np.arange(fleet.net_device_ids.size)
            ids = view.world.net_device_id[has_visible_samples(view, rows)]
        else:
            source = self.made.get(one.source) or RESOURCES.get(one.source)
            if isinstance(source, Resource):
                ids = np.asarray(source.by_name[source.key].read(view, source.snapshot(view)))
            else:
                collection = source or COLLECTIONS[one.source]
                ids = np.array([one["id"] for one in collection.everything(view)], dtype=object)
        return Owners(ids, np.zeros(len(ids), np.int64), np.full(len(ids), NEVER))


def _series(made: DescribedRecords, view: View, read: SeriesRead) -> Iterator[Block]:
    """Yield the records of a span in one block."""
    yield made.between(view, read.since, read.until)
