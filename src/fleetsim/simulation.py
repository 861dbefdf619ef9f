"""One running simulation: the world, the clock, what clients wrote, and the call counts."""

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from fleetsim.alert_types import ALERT_TYPES
from fleetsim.callers import Caller
from fleetsim.definition import Lists
from fleetsim.faults import BodyShape, Faults
from fleetsim.ledger import Fields, Ledger
from fleetsim.options import SimulatorOptions
from fleetsim.organisation import ACCOUNTS, ROOT, subtree
from fleetsim.push import HttpSender, Pusher, PushFaults, Sender
from fleetsim.refusals import too_many_calls, validation
from fleetsim.rules import DESTINATIONS, RULES
from fleetsim.scenarios import PLAIN, SCENARIOS, Scenario
from fleetsim.simulated_clock import SimulatedClock
from fleetsim.units import DAY, NEVER
from fleetsim.view import View
from fleetsim.wire_words import WireWords
from fleetsim.world import World

_WINDOW_S = 60.0


@dataclass
class Meter:
    """Calls by resource; `limit_per_minute` is in wall time, and None means no limit."""

    calls: Counter[str] = field(default_factory=Counter)
    counted_calls: int = 0
    limit_per_minute: int | None = None
    _admitted: deque[float] = field(default_factory=deque)
    _refused: int = 0

    def count(self, resource: str, *, counted: bool) -> None:
        """Count one call."""
        self.calls[resource] += 1
        self.counted_calls += counted

    def admit(self, at: float) -> None:
        """Admit a call at a wall time in seconds.

        Raises: Refusal (429) if the minute's calls are used up. Every second refusal has
        Retry-After, because the live service does not always send it.
        """
        if self.limit_per_minute is None:
            return
        while self._admitted and self._admitted[0] <= at - _WINDOW_S:
            self._admitted.popleft()
        if len(self._admitted) < self.limit_per_minute:
            self._admitted.append(at)
            return
        self._refused += 1
        wait = int(self._admitted[0] + _WINDOW_S - at) + 1 if self._admitted else int(_WINDOW_S)
        raise too_many_calls(retry_after=wait if self._refused % 2 else None)


def seed_rules(ledger: Ledger, started_at: int) -> None:
    """Add one rule for all alert types in the whole account tree, and a disabled destination."""
    stamp = {"account": ACCOUNTS[ROOT].id, "created_at": started_at, "updated_at": started_at}
    ledger.writes_to(DESTINATIONS).created[ledger.next_serial()] = {
        **stamp,
        "tail": ledger.next_tail(),
        "name": "Operations room",
        "endpoint": {"url": "https://hooks.meridian.example/alerts"},
        "authentication": {"secret": "not-a-real-secret"},
        "enabled": False,
        "suspended": False,
        "last_error_at": None,
        "last_error_text": None,
    }
    rule: Fields = {
        **stamp,
        "tail": ledger.next_tail(),
        "associated_accounts": [ACCOUNTS[ROOT].id],
        "associated_groups": [],
        "email_destinations": [],
        "filter_criteria": {"alert_type__in": list(ALERT_TYPES)},
        "http_destinations": [],
        "schedule": None,
        "settings": None,
        "last_summary_ts": None,
        "valid_from": started_at,
        "valid_to": NEVER,
    }
    ledger.writes_to(RULES).created[ledger.next_serial()] = rule


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
    lists: Lists
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


def start_simulation(
    options: SimulatorOptions, lists: Lists, send: Sender | None = None
) -> Simulation:
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
    send, push = send or HttpSender(), PushFaults(seed=options.seed)
    simulation = Simulation(options, clock, world, faults, ledger, Meter(), send, push, lists)
    simulation.play(options.scenario)
    return simulation
