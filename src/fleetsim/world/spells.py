"""Spells of time: arrays of [start, end) that may not happen, drawn within a service day.

The service day of a router is a UTC day with an offset. Every spell begins and ends within one
service day, so a UTC day overlaps only with spells of two service days: its own and the previous
one.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.units import DAY, NEVER, Flags, Ints

_SATURDAY = 5


@dataclass(frozen=True)
class Spells:
    """Intervals in microseconds; both ends are NEVER for a spell that does not happen."""

    start: Ints
    end: Ints

    @property
    def happens(self) -> Flags:
        """Return which spells happen."""
        return self.start < NEVER

    def only(self, keep: Flags) -> "Spells":
        """Return the spells; those not in `keep` do not happen."""
        return Spells(np.where(keep, self.start, NEVER), np.where(keep, self.end, NEVER))

    def holds(self, instant: Ints) -> Flags:
        """Return whether each instant lies within its spell."""
        return np.asarray((self.start <= instant) & (instant < self.end))

    def overlap(self, start: Ints, end: Ints) -> Ints:
        """Return how many microseconds of [start, end) lie within each spell."""
        common = np.minimum(self.end, end) - np.maximum(self.start, start)
        return np.asarray(np.maximum(common, 0))

    def touches(self, other: "Spells", margin: int) -> Flags:
        """Return which spells come within `margin` of the other's."""
        apart = (self.start >= other.end + margin) | (other.start >= self.end + margin)
        return np.asarray(self.happens & other.happens & ~apart)


def none_like(instants: Ints) -> Spells:
    """Return spells of the given shape that never happen."""
    never = np.full(np.shape(instants), NEVER, dtype=np.int64)
    return Spells(never, never)


def day_start(day: Ints, shift: Ints) -> Ints:
    """Return the instant at which a service day begins."""
    return np.asarray(day * DAY + shift)


def is_weekend(day: Ints) -> Flags:
    """Return which days since 1970 (a Thursday) are a Saturday or Sunday."""
    return np.asarray((day + 3) % 7 >= _SATURDAY)


def service_day(instant: Ints, shift: Ints) -> Ints:
    """Return the service day an instant belongs to."""
    return np.asarray((instant - shift) // DAY)
