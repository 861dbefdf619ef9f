"""Stateless random numbers: each is a hash of the seed, a stream name and counters.

Any (device, day) can be drawn without drawing another. So records are never stored, and the order
of requests cannot change a response. The hash is splitmix64's finaliser.
"""

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from fleetsim.units import Flags, Ints, Reals, Words

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@lru_cache(maxsize=1024)
def _stream_key(seed: int, stream: str) -> np.uint64:
    """Return the 64-bit key of one named stream under one seed."""
    digest = blake2b(f"{seed}/{stream}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "big"))


def _mix(words: Words) -> Words:
    """Scramble each word so that neighbouring counters give unrelated results."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True)
class Draws:
    """All randomness of one world."""

    seed: int

    def bits(self, stream: str, *counters: npt.ArrayLike) -> Words:
        """Return 64 random bits for each combination of the broadcast integer counters."""
        words: Words = np.asarray(_stream_key(self.seed, stream))
        with np.errstate(over="ignore"):  # wrapping around at 2**64 is intended
            for counter in counters:
                steps = np.asarray(counter, dtype=np.int64).astype(np.uint64) * _STEP
                words = _mix(words + _STEP ^ steps)
        return words

    def unit(self, stream: str, *counters: npt.ArrayLike) -> Reals:
        """Return reals in [0, 1)."""
        whole = self.bits(stream, *counters) >> np.uint64(11)
        return np.asarray(whole * 2.0**-53, dtype=np.float64)

    def between(self, low: float, high: float, stream: str, *counters: npt.ArrayLike) -> Reals:
        """Return reals in [low, high)."""
        return low + (high - low) * self.unit(stream, *counters)

    def below(self, bound: int, stream: str, *counters: npt.ArrayLike) -> Ints:
        """Return integers in [0, bound)."""
        return (self.unit(stream, *counters) * bound).astype(np.int64)

    def chance(self, odds: float | Reals, stream: str, *counters: npt.ArrayLike) -> Flags:
        """Return True with the given odds."""
        return np.asarray(self.unit(stream, *counters) < odds)

    def normal(self, stream: str, *counters: npt.ArrayLike) -> Reals:
        """Return values that are nearly standard normal, between -3.5 and 3.5.

        The sum of four uniforms is enough for noise and needs no rejection loop.
        """
        words = self.bits(stream, *counters)
        total = np.zeros(np.shape(words))
        for shift in (0, 16, 32, 48):
            total = total + ((words >> np.uint64(shift)) & np.uint64(0xFFFF)) / 65536.0
        return np.asarray((total - 2.0) * np.sqrt(3.0))
