"""The clock of the service, and how far loads trust it. Pure.

The service's clock decides which ranges a load marks as proven. If it is ahead, a load marks hours
whose records do not exist yet, and those records are lost. So three sources are compared: the
`Date` header of the responses, this machine's clock, and the times on the records. Loads read up
to the earlier of the two clocks. They mark as proven only what is also older than the newest
record, because the service's time has certainly passed that point.

A `Date` can be wrong: a cache repeats an old one, or one of several hosts has lost its time
server. Of several dates, the slowest one near this machine's clock is used; if none is near, the
nearest.

`ClockTrust.SERVICE` trusts only the service, for simulators and replays with their own clock.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from fleetlake.errors import ClockRefused
from fleetlake.planning.intervals import BEGINNING
from fleetlake.settings import ClockTrust
from fleetlake.text.wording import duration_in_words

REPORTED_SKEW = timedelta(minutes=5)
"""Larger differences between the clocks are reported. Time servers keep them within a second."""

REFUSED_SKEW = timedelta(days=1)
"""Larger differences stop a load: one clock is wrong, but which one is unknown."""

QUIET = timedelta(days=7)
"""Time without new records after which the clocks alone are trusted.

It is shorter than any retention of the service, so that an empty range does not look lost.
"""

_FIRST_YEAR, _LAST_YEAR = 2000, 2199
"""Dates outside these years are implausible."""

_BOOT = datetime(1970, 1, 1, tzinfo=UTC)
"""Arbitrary origin of the monotonic clock. Only differences are ever used."""


def machine_now() -> datetime:
    """Return this machine's clock, in UTC."""
    return datetime.now(UTC)


class Clock:
    """The time at the service, from the `Date` headers of its responses.

    `steady` returns seconds that never jump. `dates` counts the headers read.
    """

    def __init__(self, trust: ClockTrust, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._trust = trust
        self._steady = steady
        self.dates = 0
        self._reference: timedelta | None = None  # what dates are compared with
        self._ahead: timedelta | None = None  # the service's clock, relative to the steady one

    def read_date(self, date: datetime) -> None:
        """Record the `Date` of a response that has just arrived."""
        self.dates += 1
        elapsed = timedelta(seconds=self._steady())
        ahead = date - _BOOT - elapsed
        if self.is_checked:
            self._reference = machine_now() - _BOOT - elapsed
        elif self._reference is None or ahead > self._reference:
            self._reference = ahead  # a date later than all others is not a repeated one
        if self._ahead is None or self._is_better(ahead, self._ahead, self._reference):
            self._ahead = ahead

    @property
    def is_checked(self) -> bool:
        """True if this machine's clock is used too."""
        return self._trust is ClockTrust.CHECKED

    @property
    def skew(self) -> timedelta:
        """How far the service's clock is ahead of this machine's; negative if it is behind."""
        if self._ahead is None:
            return timedelta(0)
        return self._ahead - (machine_now() - _BOOT - timedelta(seconds=self._steady()))

    @property
    def is_doubtful(self) -> bool:
        """True if the clocks differ so much that another date should be requested."""
        return self.is_checked and abs(self.skew) > REPORTED_SKEW

    def now(self) -> datetime:
        """Return the time up to which records may exist, in UTC: never after the service's time.

        Without a `Date` header, the service is assumed to share this machine's clock. Raises:
        ClockRefused if the clocks differ by more than a day, or the date is implausible.
        """
        here = machine_now()
        if self._ahead is None:
            return here
        if self.is_checked and abs(self.skew) > REFUSED_SKEW:
            raise _refused(self.skew)
        elapsed = timedelta(seconds=self._steady())
        try:
            service = _BOOT + self._ahead + elapsed
        except OverflowError:
            raise _refused(self.skew) from None
        if not _FIRST_YEAR <= service.year <= _LAST_YEAR:
            raise _refused(self.skew)
        return min(service, here) if self.is_checked else service

    def latest(self) -> datetime:
        """Return the later of the clocks in use, in UTC: nothing has happened after that."""
        now = self.now()
        return now if not self.is_checked else max(now, now + self.skew, machine_now())

    @staticmethod
    def _is_better(ahead: timedelta, known: timedelta, reference: timedelta) -> bool:
        """Return whether a date is a better estimate of the service's clock than the known one."""
        is_near, was_near = (abs(one - reference) <= REPORTED_SKEW for one in (ahead, known))
        if is_near and was_near:
            return ahead < known
        if is_near or was_near:
            return is_near
        return abs(ahead - reference) < abs(known - reference)


def provable_until(clock: Clock, newest: datetime | None) -> datetime | None:
    """Return the time up to which records confirm the clock; None if that is not required.

    `newest` is the newest time that the service itself has put on a record. The next load reads
    everything after it again, which costs no extra call. After a week without records the two
    clocks suffice, because the fleet may be quiet.
    """
    return max(newest or BEGINNING, machine_now() - QUIET) if clock.is_checked else None


def skew_in_words(skew: timedelta) -> str:
    """Return the difference between the two clocks, in words.

    >>> skew_in_words(timedelta(hours=-40))
    "the service's clock is 40 h behind this machine's"
    """
    relation = "ahead of" if skew > timedelta(0) else "behind"
    return f"the service's clock is {duration_in_words(abs(skew))} {relation} this machine's"


def _refused(skew: timedelta) -> ClockRefused:
    words = skew_in_words(skew)
    return ClockRefused(
        f"{words[0].upper()}{words[1:]}, so it is unknown which records exist. Nothing was loaded.",
        remedy="Correct the clock that is wrong. For a simulator or replay with its own clock, "
        "set FLEETLAKE_CLOCK=service.",
    )
