"""A cache of generated days, so that reading many pages of one day generates it once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from fleetsim.blocks import Block

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
