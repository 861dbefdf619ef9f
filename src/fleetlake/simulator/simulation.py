"""One running simulation: the world, the clock, what was written, and the calls counted."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fleetlake.simulator.callers import Caller
from fleetlake.simulator.clock import Clock
from fleetlake.simulator.faults import Faults
from fleetlake.simulator.ledger import Ledger
from fleetlake.simulator.meter import Meter
from fleetlake.simulator.options import SimulatorOptions
from fleetlake.simulator.organisation import ROOT, subtree
from fleetlake.simulator.push import Pusher, Sender, send_over_http
from fleetlake.simulator.refusals import validation
from fleetlake.simulator.scenarios import PLAIN, SCENARIOS, Scenario
from fleetlake.simulator.seeding import seed_rules
from fleetlake.simulator.units import DAY
from fleetlake.simulator.view import View
from fleetlake.simulator.world import World


@dataclass
class Simulation:
    """Everything a request can touch."""

    options: SimulatorOptions
    clock: Clock
    world: World
    faults: Faults
    ledger: Ledger
    meter: Meter
    send: Sender
    scenario: Scenario = PLAIN

    def play(self, name: object) -> None:
        """Switch to a named scenario, or back to none.

        Raises: Refusal (validation) for an unknown name.
        """
        if name is not None and (not isinstance(name, str) or name not in SCENARIOS):
            raise validation("scenario", f"one of {', '.join(SCENARIOS)}, or null")
        self.scenario = PLAIN if name is None else SCENARIOS[name]
        self.faults.change({**dict.fromkeys(self.faults.settings(), 0.0), **self.scenario.faults})
        self.meter.limit_per_minute = self.scenario.limit_per_minute

    @cached_property
    def pusher(self) -> Pusher:
        """Return what pushes alerts, from the start of the clock on."""
        return Pusher(self, self.send, self.clock.started_at)

    def view(self, account: int, origin: str, *, sees_people: bool = True) -> View:
        """Return what an account sees now, addressed by `origin` (scheme and host)."""
        accounts = subtree(account)
        fleet = self.world.fleet
        now = self.clock.now()
        everyone = np.arange(fleet.size, dtype=np.int64)
        owned = np.isin(fleet.belonging.account_at(everyone, np.full(fleet.size, now)), accounts)
        deleted = self.ledger.table("routers").deleted
        if deleted:
            owned &= ~np.isin(fleet.router_id, list(deleted))
        return View(
            world=self.world,
            ledger=self.ledger,
            now=now,
            origin=origin,
            accounts=frozenset(accounts),
            owned=owned,
            sees_people=sees_people,
            scenario=self.scenario,
        )

    def view_of(self, caller: Caller, origin: str) -> View:
        """Return what a caller sees now."""
        return self.view(caller.account, origin, sees_people=caller.sees_people)

    def truth(self, origin: str) -> View:
        """Return the view of everything that ever happened up to now.

        It stays as it is while clients write, since reading all of it takes a while.
        """
        return replace(self.view(ROOT, origin).whole(), ledger=self.ledger.snapshot())


def start_simulation(options: SimulatorOptions, send: Sender = send_over_http) -> Simulation:
    """Return a simulation whose history begins `options.days` before its clock starts."""
    clock = Clock(options.clock_start(), options.speed)
    started_at = clock.started_at - round(options.days * DAY)
    world = World(options.seed, options.routers, started_at, clock.started_at)
    ledger = Ledger(world.draws)
    if options.rules:
        seed_rules(ledger, started_at)
    faults = Faults(seed=options.seed)
    simulation = Simulation(options, clock, world, faults, ledger, Meter(), send)
    simulation.play(options.scenario)
    return simulation
