"""What a simulation is started with."""

from dataclasses import dataclass
from datetime import UTC, datetime

from fleetlake.simulator.scenarios import SCENARIOS
from fleetlake.simulator.stamps import from_datetime


@dataclass(frozen=True, kw_only=True)
class SimulatorOptions:
    """The seed, size and clock of one simulated fleet.

    Records are a function of (seed, routers, days, now): equal options give equal answers.
    `now` is where the clock starts (the wall clock's time if None); the fleet's history begins
    `days` before it. `speed` is simulated seconds per wall second, 0 frozen. `rules` False
    starts without alert rules, and so without alerts, as a new account does.
    """

    routers: int = 50
    seed: int = 1
    days: float = 14
    port: int = 0
    now: datetime | None = None
    speed: float = 1.0
    scenario: str | None = None
    rules: bool = True

    def __post_init__(self) -> None:
        if self.routers < 1 or self.days <= 0 or self.speed < 0:
            raise ValueError("routers must be 1 or more, days above 0, speed 0 or more")
        if self.scenario is not None and self.scenario not in SCENARIOS:
            raise ValueError(f"scenario must be one of {', '.join(SCENARIOS)}")

    def clock_start(self) -> int:
        """Return the instant at which the simulated clock starts."""
        return from_datetime(self.now or datetime.now(UTC))
