"""The view: what one caller sees at one instant."""

from dataclasses import dataclass, replace

from fleetsim.ledger import Ledger
from fleetsim.scenarios import PLAIN, Scenario
from fleetsim.units import Flags
from fleetsim.world import World


@dataclass(frozen=True, kw_only=True)
class View:
    """The world at `now`, seen through one caller's account and addressed by `origin`.

    `scope` marks the routers of the caller's account tree and `accounts` its accounts' rows.
    `settled` hides records that are not visible yet; truth sees everything. `scenario` sets
    the quirks of the answers.
    """

    world: World
    ledger: Ledger
    now: int
    origin: str
    accounts: frozenset[int]
    scope: Flags
    settled: bool = True
    retention: bool = True
    scenario: Scenario = PLAIN
    sees_people: bool = True

    def whole(self) -> "View":
        """Return the view of truth: main host, nothing hidden by lag or retention."""
        return replace(self, settled=False, retention=False, scenario=replace(PLAIN, shards=()))
