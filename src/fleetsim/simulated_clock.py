"""The simulated clock: it runs at any speed, or is frozen until a client advances it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fleetsim.units import DAY, SECOND

LONGEST_RUN = 3660 * DAY
"""Maximum simulated time after the start, because every simulated day makes responses slower."""


FASTEST = 1_000_000_000
"""The highest speed, in simulated seconds per wall second."""


@dataclass
class SimulatedClock:
    """Simulated time in microseconds since 1970, UTC.

    `speed` is simulated seconds per wall second; 0 freezes the clock. The clock stops
    `LONGEST_RUN` after its start.
    """

    started_at: int
    speed: float = 1.0
    wall: Callable[[], float] = time.monotonic
    _wall_start: float = field(init=False)
    _advanced: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._wall_start = self.wall()

    def now(self) -> int:
        """Return the simulated instant."""
        elapsed = (self.wall() - self._wall_start) * self.speed
        return self.started_at + min(self._advanced + round(elapsed * SECOND), LONGEST_RUN)

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises: ValueError for a step back, which would make served records vanish, and for a step
        past the clock's end.
        """
        if seconds < 0:
            raise ValueError("the clock only moves forward")
        if self.now() + seconds * SECOND > self.started_at + LONGEST_RUN:
            raise ValueError(f"the clock ends {LONGEST_RUN // DAY} days after it started")
        self._advanced += round(seconds * SECOND)

    def run_at(self, speed: float) -> None:
        """Continue from the current instant at another speed; 0 freezes the clock.

        Raises: ValueError for a speed out of range.
        """
        require_speed(speed)
        self._advanced, self._wall_start = self.now() - self.started_at, self.wall()
        self.speed = speed


def require_speed(speed: float) -> None:
    """Raise ValueError for a speed out of range."""
    if not 0 <= speed <= FASTEST:
        raise ValueError(f"speed must be between 0 and {FASTEST:,}")
