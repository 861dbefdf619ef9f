"""A small memory of generated days: walking pages of one day generates it once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from fleetsim.blocks import Block

_ROWS_KEPT = 6_000_000


@dataclass
class BlockCache:
    """Blocks by key, the least recently used dropped once they hold too many rows.

    Blocks are a function of their key, so what is forgotten is generated alike again.
    """

    rows_kept: int = _ROWS_KEPT
    _blocks: OrderedDict[Hashable, Block] = field(default_factory=OrderedDict)
    _rows: int = 0

    def get_fresh(self, key: Hashable, make: Callable[[], Block]) -> Block:
        """Return the same columns as `get` in a block of their own.

        For rows whose derived columns depend on the time: those must not be remembered.
        """
        return Block(self.get(key, make).arrays)

    def get(self, key: Hashable, make: Callable[[], Block]) -> Block:
        """Return the block of a key, made if it is not remembered."""
        if key in self._blocks:
            self._blocks.move_to_end(key)
            return self._blocks[key]
        block = make()
        self._blocks[key] = block
        self._rows += len(block)
        while self._rows > self.rows_kept and len(self._blocks) > 1:
            self._rows -= len(self._blocks.popitem(last=False)[1])
        return block
