"""Records of described lists, as a function of seed and time: which there are, and their values."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np

from fleetsim.blocks import Array, Block
from fleetsim.described.described_files import DescribedColumn, DescribedList
from fleetsim.organisation import CARRIERS
from fleetsim.rendering import render_column
from fleetsim.resource_columns import (
    ANY_ID,
    EXACT,
    EXACT_IN,
    EXACT_RANGE,
    ColumnKind,
    ResourceColumn,
    json,
)
from fleetsim.stamps import TimestampFormat
from fleetsim.timeuuids import order_key, tail_from_bits
from fleetsim.units import DAY, HOUR, NEVER, NULL, SECOND, Ints, Words
from fleetsim.view import View

Targets = Callable[[View, str], Array | None]
"""Returns ids of a list that relations of a name point to; None if no list has them."""

_FORMATS: Final[tuple[TimestampFormat, ...]] = ("micros_offset", "seconds_offset", "micros_z")
_WORDS: Final = {
    "carrier": CARRIERS,
    "status": ("active", "pending", "failed"),
    "state": ("online", "offline", "pending"),
    "role": ("administrator", "full access user", "read only user"),
}
_DIGITS: Final = {"iccid": 19, "imei": 15, "imsi": 15}
_CHANGING: Final = frozenset({"status", "state", "version"})
_CHANGING_KINDS: Final = frozenset({"integer", "real", "flag"})
_NULLABLE_ONE_IN, _NULL_ONE_IN = 3, 8
_SERVED: Final = {
    "id": ColumnKind.ID,
    "relation": ColumnKind.RELATION,
    "real": ColumnKind.REAL,
    "flag": ColumnKind.FLAG,
    "text": ColumnKind.TEXT,
    "time": ColumnKind.TIME,
    "timeuuid": ColumnKind.UUID,
}
"""Kinds of columns; those of other kinds are served as JSON, and not filtered."""

_OPS: Final = {
    **dict.fromkeys((ColumnKind.RELATION, ColumnKind.TEXT, ColumnKind.ID), EXACT_IN),
    ColumnKind.TIME: EXACT_RANGE,
    ColumnKind.UUID: EXACT_RANGE | {"in"},
    ColumnKind.FLAG: EXACT,
}


def value_columns(described: DescribedList, targets: Targets) -> Iterator[ResourceColumn]:
    """Yield the columns of a list. Of a nested field, only the outer object is part of a record."""
    nested: dict[str, list[ResourceColumn]] = {}
    fields = list(described.columns)
    if described.filter and described.filter not in {one.field for one in fields}:
        fields.append(DescribedColumn(field=described.filter, kind="relation"))
    for one in fields:
        made = _Values(described, one, targets).column(is_described=one in described.columns)
        if "." in one.field:
            nested.setdefault(one.field.partition(".")[0], []).append(made)
        yield made
    for outer, parts in nested.items():
        yield json(outer, partial(_object, parts))


def _object(parts: list[ResourceColumn], view: View, block: Block) -> list[dict[str, Any]]:
    """Return nested members as one object a row."""
    names = [part.name.partition("__")[2] for part in parts]
    values = [list(render_column(view, part, block)) for part in parts]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def is_nullable(described: DescribedList, one: DescribedColumn) -> bool:
    """Return whether some values of a field are null."""
    times = (described.event_time, described.changes_until, "created_at", "updated_at")
    if one.name in {*described.key, *times} or one.field == described.filter:
        return False
    number = crc32(f"null/{described.name}.{one.field}".encode())
    return number % _NULLABLE_ONE_IN == _NULLABLE_ONE_IN - 1


@dataclass(frozen=True)
class _Values:
    """The values of one field."""

    described: DescribedList
    one: DescribedColumn
    targets: Targets

    def column(self, *, is_described: bool) -> ResourceColumn:
        """Return the column of a resource; it is hidden if it is no member of the record itself."""
        field, described = self.one.field, self.described
        kind = _SERVED.get(self.one.kind, ColumnKind.JSON)
        is_owner = field == described.filter
        ops = _OPS.get(kind, frozenset())
        return ResourceColumn(
            kind,
            field.replace(".", "__"),
            (lambda _view, block: block["owner"]) if is_owner else self._read,
            ANY_ID if field == "id" and described.cursor == "id after" else ops,
            to=described.source if is_owner else f"{field}s",
            time_format=_FORMATS[crc32(field.encode()) % len(_FORMATS)],
            hidden="." in field or not is_described or (is_owner and described.is_stamped),
        )

    def _read(self, view: View, block: Block) -> Any:
        """Return the raw values of the rows of a block."""
        changes = self.one.kind in _CHANGING_KINDS or self.one.field.rpartition("_")[2] in _CHANGING
        version = block["version"] if changes else np.zeros(len(block), np.int64)
        stream = f"{self.described.name}/{self.one.field}"
        bits = view.world.draws.bits(stream, block["key"], block["number"], version)
        is_null = (bits >> np.uint64(40)) % np.uint64(_NULL_ONE_IN) == 0
        if not is_nullable(self.described, self.one):
            is_null[:] = False
        match self.one.kind:
            case "time":
                return np.where(is_null, NULL, self._times(view, block, bits))
            case "id" | "relation":
                return np.where(is_null, NULL, self._ids(view, block, bits))
            case "real":
                values = (bits % np.uint64(20_000)).astype(np.float64) / 100 - 100
                return np.where(is_null, np.nan, values)
            case "flag" | "timeuuid":  # a UUID is rendered from the block's time and tail
                return bits % np.uint64(3) != 0
        made: list[Any] = [_plain(self.one, word) for word in bits.tolist()]
        if self.one.name in self.described.key:
            made = block["id"].tolist()
            if self.one.kind == "text":
                made = [f"{self.described.stem}-{id_}" for id_ in made]
        return [None if null else value for null, value in zip(is_null, made, strict=True)]

    def _times(self, view: View, block: Block, bits: Words) -> Array:
        if self.one.name == self.described.changes_until:
            return np.where(block["ends"] <= view.now, block["ends"], NULL)
        if self.one.name in (self.described.event_time, "created_at"):
            return block["time"]
        if self.one.name == "updated_at":
            return block["changed"]
        return np.asarray(block["time"] + (bits % np.uint64(8 * HOUR)).astype(np.int64))

    def _ids(self, view: View, block: Block, bits: Words) -> Array:
        """Return the record's own id, or of another record."""
        name = self.one.field.removesuffix("_id")
        if self.one.kind == "id" and name == self.one.field:
            return block["id"]
        ids = self.targets(view, name)
        known = np.arange(1, 10) * 1_000 if ids is None or len(ids) == 0 else ids
        return np.asarray(known[(bits % np.uint64(len(known))).astype(np.int64)])


def _plain(one: DescribedColumn, word: int) -> Any:
    """Return a text, a number, ids, or a value of no certain type."""
    match one.kind:
        case "text":
            return text_of(one.field, word)
        case "integer":
            number = word % 100_000
            return number if number % 5 else float(number)
        case "ids":
            return [str(word % 97), str(word % 89)][: word % 3]
    return [f"tag {word % 7}", {"level": word % 5}][: word % 3]


def text_of(field: str, word: int) -> str:
    """Return a text such as a field of that name may hold.

    >>> text_of("assigned_imei", 7), text_of("mac_address", 171), text_of("local_domain", 7)
    ('000000000000007', '0000000000AB', 'local domain 7')
    """
    words = field.replace(".", "_").split("_")
    if words[-1] in _DIGITS:
        return f"{word % 10 ** _DIGITS[words[-1]]:0{_DIGITS[words[-1]]}d}"
    if words[-1] in _WORDS:
        return _WORDS[words[-1]][word % len(_WORDS[words[-1]])]
    if "mac" in words:
        return f"{word % 16**12:012X}"
    return f"{' '.join(words)} {word % 89}"


_SAMPLED: Final = frozenset({"append", "upsert"})
_EVERY_OF_OWNER, _EVERY_OF_FLEET = 6 * HOUR, 2 * HOUR
_FIRST_OF_OWNER, _FIRST_OF_FLEET = 2, 60
_MORE_OF_OWNER, _MORE_OF_FLEET = 4 * DAY, DAY
_BEGAN_WITHIN, _LIVES, _CHANGES_EVERY = 60 * DAY, 30 * DAY, 36 * HOUR
_VANISHING = 2  # of the remainders by 3
_LONGEST, _ID_BITS = 12 * HOUR, 20


@dataclass(frozen=True)
class Owners:
    """The ids that a required filter takes, and when each of them exists."""

    ids: Array
    since: Ints
    until: Ints


NO_OWNER: Final = Owners(np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, NEVER))


@dataclass(frozen=True)
class DescribedRecords:
    """What a described list holds; `owners` is None if it has no required filter."""

    described: DescribedList
    owners: Callable[[View], Owners] | None
    is_source: bool

    def now(self, view: View) -> Block:
        """Return the records that the service has now, by ascending id."""
        block = self.between(view, 0, view.now + 1)
        return block.take(np.argsort(block["id"], kind="stable"))

    def between(self, view: View, since: int, until: int) -> Block:
        """Return the records created in [since, until) that exist now, in order of time."""
        one, draws = self.described, view.world.draws
        owners = self.owners(view) if self.owners else NO_OWNER
        numbers = self._numbers(view, since, min(until, view.now + 1))
        owner = np.repeat(np.arange(len(owners.ids)), len(numbers))
        number = np.tile(numbers, len(owners.ids))
        key = np.array([crc32(str(id_).encode()) for id_ in owners.ids.tolist()], np.int64)[owner]
        unit = draws.unit(f"{one.name}/when", key, number)
        bits = draws.bits(f"{one.name}/tail", key, number)
        time = self._time(view, number, unit)
        ends, changed = self._ends(view, time, number, draws.unit(f"{one.name}/end", key, number))
        block = Block(
            {
                "time": time,
                "tail": tail_from_bits(bits),
                "id": (time // SECOND << _ID_BITS) + (bits >> np.uint64(44)).astype(np.int64),
                "owner": owners.ids[owner],
                "key": key,
                "number": number,
                "version": changed,
                "ends": ends,
                "changed": self._changed(time, ends, changed),
            }
        )
        kept = (time >= since) & (time < until) & (time <= view.now)
        if one.kind in _SAMPLED:
            kept &= (time >= view.world.started_at) & (time >= owners.since[owner])
            kept &= time < owners.until[owner]
            if view.retention and one.retention is not None:
                kept &= time >= view.now - one.retention
        elif one.kind == "history" and not self.is_source:
            kept &= ends > view.now
        index = np.flatnonzero(kept)
        return block.take(index[np.lexsort((order_key(block["tail"][index]), time[index]))])

    def _numbers(self, view: View, since: int, until: int) -> Ints:
        if self.described.kind in _SAMPLED:
            every = _EVERY_OF_OWNER if self.owners else _EVERY_OF_FLEET
            return np.arange(max(since, view.world.started_at) // every, until // every + 1)
        first, more = self._growth
        return np.arange(first + (view.now - view.world.started_at) // more + 1)

    @property
    def _growth(self) -> tuple[int, int]:
        """Return how many records a list begins with, and how often it gets another."""
        if self.owners:
            return _FIRST_OF_OWNER, _MORE_OF_OWNER
        return _FIRST_OF_FLEET, _MORE_OF_FLEET

    def _time(self, view: View, number: Ints, unit: Array) -> Ints:
        if self.described.kind in _SAMPLED:
            every = _EVERY_OF_OWNER if self.owners else _EVERY_OF_FLEET
            return np.asarray(number * every + (unit * every).astype(np.int64))
        first, more = self._growth
        began = view.world.started_at
        before = began - (unit * _BEGAN_WITHIN).astype(np.int64)
        after = began + (number - first) * more + (unit * more).astype(np.int64)
        return np.where(number < first, before, after)

    def _ends(self, view: View, time: Ints, number: Ints, unit: Array) -> tuple[Ints, Ints]:
        """Return when each record ends, or vanishes, and how many times it has changed."""
        if self.described.kind == "append":
            return np.full(len(time), NEVER), np.zeros(len(time), np.int64)
        if self.described.kind == "upsert":
            ends = time + (unit * _LONGEST).astype(np.int64)
            return ends, (ends <= view.now).astype(np.int64)
        ends = np.where(number % 3 == _VANISHING, time + _LIVES, NEVER)
        return ends, np.where(number % 3 == 0, 0, (view.now - time) // _CHANGES_EVERY)

    def _changed(self, time: Ints, ends: Ints, version: Ints) -> Ints:
        """Return when each record last changed."""
        if self.described.kind == "upsert":
            return np.where(version == 0, time, ends)
        return time + version * _CHANGES_EVERY
