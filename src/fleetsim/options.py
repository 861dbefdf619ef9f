"""The options of a simulation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fleetsim.scenarios import SCENARIOS
from fleetsim.simulated_clock import require_speed
from fleetsim.stamps import from_datetime

_YEARS = range(1990, 9900)
_LONGEST_DAYS = 3660


@dataclass(frozen=True, kw_only=True)
class SimulatorOptions:
    """The seed, size and clock of one simulated fleet.

    Records are a function of (seed, routers, days, now): equal options give equal responses.
    `now` is the start of the clock (the wall clock's time if None); the fleet's history begins
    `days` before it. `speed` is simulated seconds per wall second; 0 means frozen. If `rules` is
    false, the account starts without alert rules, as a new account does, and so without alerts. If
    `flapping` is true, some wired sites fail over again and again around midnight. If
    `tellings` is true, alerts tell of failovers in many orders. If `roads` is true, vehicles drive
    as people do, and report in many ways. `vendor_words` are the vendor's
    words for those of the service contract. `endpoints` are files, or folders of files, that
    describe further lists.
    """

    routers: int = 50
    seed: int = 1
    days: float = 14
    port: int = 0
    now: datetime | None = None
    speed: float = 1.0
    scenario: str | None = None
    rules: bool = True
    flapping: bool = False
    tellings: bool = False
    roads: bool = False
    vendor_words: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if self.routers < 1 or not 0 < self.days <= _LONGEST_DAYS:
            raise ValueError(f"routers must be 1 or more, days above 0 and up to {_LONGEST_DAYS}")
        require_speed(self.speed)
        if self.now is not None and self.now.year not in _YEARS:
            raise ValueError(f"now must be in the years {_YEARS[0]} to {_YEARS[-1]}")
        if self.scenario is not None and self.scenario not in SCENARIOS:
            raise ValueError(f"scenario must be one of {', '.join(SCENARIOS)}")

    def clock_start(self) -> int:
        """Return the instant at which the simulated clock starts."""
        return from_datetime(self.now or datetime.now(UTC))
