"""The records of a described list, as a function of seed and time.

Append and upsert lists have a record per owner about every six hours, or per fleet every two; an
upsert record ends within half a day. The other lists begin with some records and get more; two
records in three change every 36 hours. In a list read whole with its history, one record in three
vanishes, unless other lists are read by its ids.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from fleetsim.blocks import Array, Block
from fleetsim.described.described_files import DescribedList
from fleetsim.timeuuids import order_key, tail_from_bits
from fleetsim.units import DAY, HOUR, NEVER, SECOND, Ints
from fleetsim.view import View

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
