"""Blocks: columnar rows, passed from resources to filters, paging and rendering."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fleetsim.units import Flags, Ints

Array = npt.NDArray[Any]
T = TypeVar("T")
V = TypeVar("V")


class Block:
    """Columns of equal length. Values derived from them are computed once, on first use."""

    __slots__ = ("arrays", "kept")

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        self.kept: dict[object, Any] = {}

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def take(self, index: Ints | Flags | slice) -> "Block":
        """Return the chosen rows, in the order of `index`."""
        return Block({name: values[index] for name, values in self.arrays.items()})

    def between(self, since: int, until: int) -> "Block":
        """Return the rows created in [since, until) of a block sorted by time."""
        first, last = np.searchsorted(self["time"], [since, until])
        return self.take(slice(int(first), int(last)))


def once(read: Callable[[V, Block], T]) -> Callable[[V, Block], T]:
    """Return the same reader, which computes its result at most once per block."""

    @wraps(read)
    def kept(view: V, block: Block) -> T:
        if read not in block.kept:
            block.kept[read] = read(view, block)
        found: T = block.kept[read]
        return found

    return kept


def attributes(read: Callable[[V, Block], object]) -> Callable[[str], Callable[[V, Block], Any]]:
    """Return a function that makes readers of single attributes of what `read` returns."""
    return lambda name: lambda view, block: getattr(read(view, block), name)


def concatenate(blocks: list[Block]) -> Block:
    """Return all rows of blocks that have the same columns."""
    names = blocks[0].arrays
    return Block({name: np.concatenate([part[name] for part in blocks]) for name in names})


_ROWS_KEPT = 6_000_000


@dataclass
class BlockCache:
    """A least-recently-used cache of blocks, bounded by their rows.

    A block is a function of its key, so an evicted block is later generated identically.
    """

    rows_kept: int = _ROWS_KEPT
    _blocks: OrderedDict[Hashable, Block] = field(default_factory=OrderedDict)
    _rows: int = 0

    def get_fresh(self, key: Hashable, make: Callable[[], Block]) -> Block:
        """Return the columns of `get` in a new block.

        Use it where derived columns depend on the time and must not be cached.
        """
        return Block(self.get(key, make).arrays)

    def get(self, key: Hashable, make: Callable[[], Block]) -> Block:
        """Return the block of a key, calling `make` on a miss."""
        if key in self._blocks:
            self._blocks.move_to_end(key)
            return self._blocks[key]
        block = make()
        self._blocks[key] = block
        self._rows += len(block)
        while self._rows > self.rows_kept and len(self._blocks) > 1:
            self._rows -= len(self._blocks.popitem(last=False)[1])
        return block
