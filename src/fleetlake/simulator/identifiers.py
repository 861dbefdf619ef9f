"""Record ids: ascending with gaps, so that nobody can guess them or compare them with row numbers."""

from dataclasses import dataclass

import numpy as np

from fleetlake.simulator.draws import Draws
from fleetlake.simulator.units import NULL, Ints


@dataclass(frozen=True)
class Identifiers:
    """The ids of one resource: row n has an id in [first + n * stride, first + (n + 1) * stride)."""

    draws: Draws
    resource: str
    first: int
    stride: int

    def of(self, rows: Ints) -> Ints:
        """Return the ids of rows."""
        gap = self.draws.below(self.stride, f"id/{self.resource}", rows)
        return np.asarray(self.first + rows * self.stride + gap)

    def rows(self, ids: Ints) -> Ints:
        """Return the row each id belongs to, -1 where there is none."""
        rows = np.asarray((ids - self.first) // self.stride)
        known = (rows >= 0) & (self.of(rows) == ids)
        return np.where(known, rows, -1)


def group_ids(rows: Ints) -> Ints:
    """Return the ids of group rows; -1 (no group) gives null."""
    return np.where(rows < 0, NULL, 20_003 + rows * 3 + rows % 2)
