"""The service's clock, and how far it is to be believed. Pure.

The service's clock decides what a load may call proven: a clock that runs ahead makes a load
claim hours in which records are still to come, and they are lost for good. So three witnesses
are heard: the `Date` of the service's answers, this machine's clock, and the times that records
carry. Loads read up to the earlier of the two clocks, and call proven what lies before the
newest record as well, for so far the service's time has certainly come.

A `Date` may be wrong by itself: a cache repeats an old one, one of several hosts has lost its
time server. So of several dates the slowest counts among those near this machine's clock, and
the nearest where none is.

`ClockTrust.SERVICE` believes the service alone, for simulators and replays whose clock runs
elsewhere.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from fleetlake.errors import ClockRefused
from fleetlake.planning.intervals import BEGINNING
from fleetlake.settings import ClockTrust
from fleetlake.text.wording import duration_in_words

TOLD_SKEW = timedelta(minutes=5)
"""Clocks that differ by more are told of. Time servers keep them within a second."""

REFUSED_SKEW = timedelta(days=1)
"""Clocks that differ by more stop a load: one of them is wrong, and nobody knows which."""

QUIET = timedelta(days=7)
"""How long a fleet may show no new time before the clocks alone are believed.

It is shorter than any retention of the service: what is asked for in vain must not look lost.
"""

_FIRST_YEAR, _LAST_YEAR = 2000, 2199
"""No service answers outside of these years."""

_BOOT = datetime(1970, 1, 1, tzinfo=UTC)
"""Where the monotonic clock is taken to start. Only differences are ever used."""


def machine_now() -> datetime:
    """Return this machine's clock, in UTC."""
    return datetime.now(UTC)


class Clock:
    """The time at the service, from the dates of its answers.

    `steady` gives seconds that never jump. `dates` is how many dates were read.
    """

    def __init__(self, trust: ClockTrust, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._trust = trust
        self._steady = steady
        self.dates = 0
        self._reference: timedelta | None = None  # what dates are held against
        self._ahead: timedelta | None = None  # the service's clock, against the steady one
        self._shown: datetime | None = None

    def read_date(self, date: datetime) -> None:
        """Take note of the `Date` of an answer that has just arrived."""
        self.dates += 1
        elapsed = timedelta(seconds=self._steady())
        ahead = date - _BOOT - elapsed
        if self.is_checked:
            self._reference = machine_now() - _BOOT - elapsed
        elif self._reference is None or ahead > self._reference:
            self._reference = ahead  # a later date than all others is no repeated one
        if self._ahead is None or self._is_better(ahead, self._ahead, self._reference):
            self._ahead = ahead

    def show(self, moment: datetime | None) -> None:
        """Take note of a time that the service itself put on a record."""
        if moment is not None and (self._shown is None or moment > self._shown):
            self._shown = moment

    @property
    def is_checked(self) -> bool:
        """True when this machine's clock counts too."""
        return self._trust is ClockTrust.CHECKED

    @property
    def skew(self) -> timedelta:
        """How far the service's clock is ahead of this machine's; negative where it is behind."""
        if self._ahead is None:
            return timedelta(0)
        return self._ahead - (machine_now() - _BOOT - timedelta(seconds=self._steady()))

    @property
    def is_doubtful(self) -> bool:
        """True when the two clocks differ by so much that the dates should be asked for again."""
        return self.is_checked and abs(self.skew) > TOLD_SKEW

    def now(self) -> datetime:
        """Return until when records may exist, in UTC: no later than the service's own time.

        A service that sends no date is taken to share this machine's clock. Raises:
        ClockRefused when the clocks differ by more than a day, or the date is no date.
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

    def shown_until(self) -> datetime | None:
        """Return until when records show that time has come; None where that is not asked.

        What lies behind the newest record is read again by the next load, which costs no call.
        Where nothing has happened for a week the two clocks are enough: a fleet may be quiet.
        """
        if not self.is_checked:
            return None
        return max(self._shown or BEGINNING, machine_now() - QUIET)

    def latest(self) -> datetime:
        """Return the later of the clocks that count, in UTC: nothing happened after that."""
        now = self.now()
        return now if not self.is_checked else max(now, now + self.skew, machine_now())

    @staticmethod
    def _is_better(ahead: timedelta, known: timedelta, reference: timedelta) -> bool:
        """Return whether a date tells the service's clock better than the one known so far."""
        is_near, was_near = (abs(one - reference) <= TOLD_SKEW for one in (ahead, known))
        if is_near and was_near:
            return ahead < known
        if is_near or was_near:
            return is_near
        return abs(ahead - reference) < abs(known - reference)


def skew_in_words(skew: timedelta) -> str:
    """Return how the service's clock stands to this machine's.

    >>> skew_in_words(timedelta(hours=-40))
    "the service's clock is 40 h behind this machine's"
    """
    which = "ahead of" if skew > timedelta(0) else "behind"
    return f"the service's clock is {duration_in_words(abs(skew))} {which} this machine's"


def _refused(skew: timedelta) -> ClockRefused:
    words = skew_in_words(skew)
    return ClockRefused(
        f"{words[0].upper()}{words[1:]}, so it is not known which records exist by now. "
        "Nothing was loaded.",
        remedy="Correct the clock that is wrong. For a simulator or a replay whose clock runs "
        "elsewhere, set FLEETLAKE_CLOCK=service.",
    )
