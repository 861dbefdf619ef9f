"""Time units and array types: every instant is an int of microseconds since 1970, UTC."""

from typing import Final

import numpy as np
import numpy.typing as npt

MILLISECOND: Final = 1000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

NULL: Final = -(2**63)
"""The value of an integer column where the service returns null."""

NEVER: Final = 2**62
"""An instant after all others: the start of a spell that does not happen."""

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
