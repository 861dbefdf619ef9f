"""Record ids: ascending with gaps, so that they cannot be mistaken for row numbers."""

from dataclasses import dataclass

import numpy as np

from fleetsim.draws import Draws
from fleetsim.units import NULL, Flags, Ints


@dataclass(frozen=True)
class Identifiers:
    """The ids of one resource: the id of row n lies within `stride` of first + n * stride.

    `size` is the number of rows; only `rows` needs it.
    """

    draws: Draws
    resource: str
    first: int
    stride: int
    size: int = 0

    def of(self, rows: Ints) -> Ints:
        """Return the ids of rows."""
        gap = self.draws.below(self.stride, f"id/{self.resource}", rows)
        return np.asarray(self.first + rows * self.stride + gap)

    def rows(self, ids: Ints) -> Ints:
        """Return the row of each id; -1 if there is none.

        An id just past the last row fits the formula too, so rows are limited to `size` first.
        """
        rows = np.asarray((ids - self.first) // self.stride)
        known = (rows >= 0) & (rows < self.size) & (self.of(rows) == ids)
        return np.where(known, rows, -1)


def one_in(row: Ints, every: int, first: int) -> Flags:
    """Return which rows are `first` or a multiple of `every` after it.

    They are assigned, not drawn, so that even a small fleet has one.
    """
    return np.asarray(row % every == first)


def group_ids(rows: Ints) -> Ints:
    """Return the ids of group rows; -1 (no group) gives null."""
    return np.where(rows < 0, NULL, 20_003 + rows * 3 + rows % 2)
