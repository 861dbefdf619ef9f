"""Blocks: columnar rows, passed from resources to filters, paging and rendering."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fleetsim.units import Flags, Ints

Array = npt.NDArray[Any]
T = TypeVar("T")


class Block:
    """Columns of equal length. Values derived from them are computed once, on first use."""

    __slots__ = ("_kept", "arrays")

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        self._kept: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def take(self, index: Ints | Flags | slice) -> "Block":
        """Return the chosen rows, in the order of `index`."""
        return Block({name: values[index] for name, values in self.arrays.items()})

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, which is called at most once per block."""
        if name not in self._kept:
            self._kept[name] = compute()
        kept: T = self._kept[name]
        return kept


def concatenate(blocks: list[Block]) -> Block:
    """Return all rows of blocks that have the same columns."""
    names = blocks[0].arrays
    return Block({name: np.concatenate([part[name] for part in blocks]) for name in names})
