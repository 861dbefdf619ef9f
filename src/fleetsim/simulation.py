"""One running simulation: the world, the clock, what clients wrote, and the call counts."""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from fleetsim.callers import Caller
from fleetsim.faults import Faults
from fleetsim.ledger import Ledger
from fleetsim.meter import Meter
from fleetsim.options import SimulatorOptions
from fleetsim.organisation import ROOT, subtree
from fleetsim.push import HttpSender, Pusher, PushFaults, Sender
from fleetsim.push.push_faults import BodyShape
from fleetsim.refusals import validation
from fleetsim.scenarios import PLAIN, SCENARIOS, Scenario
from fleetsim.seeding import seed_rules
from fleetsim.simulated_clock import SimulatedClock
from fleetsim.units import DAY
from fleetsim.view import View
from fleetsim.wire_words import WireWords
from fleetsim.world import World

_ORIGIN = "http://localhost"
"""The origin of URLs in pushed records, which have no request to take it from."""


@dataclass
class Simulation:
    """The state that a request can read or change."""

    options: SimulatorOptions
    clock: SimulatedClock
    world: World
    faults: Faults
    ledger: Ledger
    meter: Meter
    send: Sender
    push_faults: PushFaults
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
        self.push_faults.push_body = BodyShape.LIVE if self.scenario.is_live else BodyShape.IDS

    @cached_property
    def pusher(self) -> Pusher:
        """Return the pusher of alerts created since the clock started."""
        view = partial(self.view, ROOT, _ORIGIN)
        started_at = self.clock.started_at
        return Pusher(self.clock, view, self.send, self.push_faults, started_at, self.words)

    @cached_property
    def words(self) -> WireWords:
        """Return the vendor's words."""
        return WireWords(self.options.vendor_words)

    def view(self, account: int, origin: str, *, sees_people: bool = True) -> View:
        """Return what an account sees now, with URLs at `origin` (scheme and host)."""
        accounts = subtree(account)
        fleet = self.world.fleet
        now = self.clock.now()
        everyone = np.arange(fleet.size, dtype=np.int64)
        owned = np.isin(fleet.belonging.account_at(everyone, np.full(fleet.size, now)), accounts)
        deleted = self.ledger.writes_to("routers").deleted
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
            reads=self.meter.calls.total(),
        )

    def view_of(self, caller: Caller, origin: str) -> View:
        """Return what a caller sees now."""
        return self.view(caller.account, origin, sees_people=caller.sees_people)

    def truth(self, origin: str) -> View:
        """Return the view of everything that ever happened up to now.

        Later writes of clients do not change it, because reading all of it takes a while.
        """
        return replace(self.view(ROOT, origin).whole(), ledger=self.ledger.snapshot())


def start_simulation(options: SimulatorOptions, send: Sender | None = None) -> Simulation:
    """Return a simulation whose history begins `options.days` before its clock starts.

    `send` posts a pushed alert, by default over HTTP.
    """
    clock = SimulatedClock(options.clock_start(), options.speed)
    started_at = clock.started_at - round(options.days * DAY)
    world = World(
        options.seed,
        options.routers,
        started_at,
        clock.started_at,
        has_flapping=options.flapping,
        has_tellings=options.tellings,
        has_roads=options.roads,
    )
    ledger = Ledger(world.draws)
    if options.rules:
        seed_rules(ledger, started_at)
    faults = Faults(seed=options.seed)
    send, push_faults = send or HttpSender(), PushFaults(seed=options.seed)
    simulation = Simulation(options, clock, world, faults, ledger, Meter(), send, push_faults)
    simulation.play(options.scenario)
    return simulation
