"""The simulated clock: wall speed, faster, slower, or frozen until somebody moves it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fleetlake.simulator.units import SECOND


@dataclass
class Clock:
    """Simulated time in microseconds since 1970, UTC.

    `speed` is simulated seconds per wall second; 0 freezes the clock.
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
        return self.started_at + self._advanced + round(elapsed * SECOND)

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises: ValueError for a step back, since served records would vanish.
        """
        if seconds < 0:
            raise ValueError("the clock only moves forward")
        self._advanced += round(seconds * SECOND)
