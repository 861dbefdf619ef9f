"""The plan of a router's service day: power, connection and primary-WAN spells.

In a power cut a router without a battery is off at once; a battery lasts until its charge is 7%.
A vehicle runs on its battery after the day's last trip. A primary-WAN outage never coincides
with a spell offline, because a router that is off cannot fail over.

If a world has orders in which alerts tell of an outage, they take turns from router to router and
from day to day; otherwise, alerts tell of every outage as the first order has it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import WIRED, SimulatedFleet
from fleetsim.units import HOUR, MINUTE, NEVER, SECOND, Flags, Ints, Reals
from fleetsim.world import batteries, trips
from fleetsim.world.batteries import Ageing
from fleetsim.world.spells import Spells, day_start, none_like


@dataclass(frozen=True, kw_only=True)
class Telling:
    """How alerts tell of an outage.

    The loss is stamped `lost_after` the outage began, and the backup connects `up_after` the
    failover, or halfway to the end if that is sooner. The failover is repeated `repeats` times. If
    `backup_fails`, it does so in each outage that is long enough.
    """

    name: str
    lost_after: int = SECOND
    up_after: int = 2 * SECOND
    repeats: int = 0
    says_back: bool = True
    says_standby: bool = True
    backup_fails: bool = False


TELLINGS: Final = (
    Telling(name="in order"),
    Telling(
        name="two backups, and only the primary's return", says_standby=False, backup_fails=True
    ),
    Telling(name="the loss after the failover", lost_after=40 * SECOND),
    Telling(name="no loss", lost_after=NEVER),
    Telling(name="the loss long before", lost_after=-15 * MINUTE),
    Telling(name="the failover again and again", repeats=3),
    Telling(name="only the backup's standby", says_back=False),
    Telling(name="no end", says_back=False, says_standby=False),
    Telling(name="the backup minutes later", up_after=6 * MINUTE),
)


def told(number: Ints, member: str) -> Ints:
    """Return a member of tellings by their position."""
    return np.array([int(getattr(telling, member)) for telling in TELLINGS])[number]


POWER, LINK, REBOOT = range(3)
"""Why a router is offline."""

OUTAGE_REASONS = ("carrier lost", "dhcp lease lost", "ip verify failed", "cable unplugged")
CABLE = 3
"""The reason that only a wired WAN can have."""

_OUTAGE_ODDS = 0.34
_SHORTEST_OUTAGE = MINUTE
NOTICED_AFTER = 11 * SECOND
"""The time from the failure of a backup to the next failover."""

_LONG_OUTAGE = 15 * MINUTE
_FLAPPING_EVERY = 4
"""Where links flap: one wired site in so many."""
_FLAP = 18 * MINUTE
"""The length of each of the two outages around a midnight; in both, the backup fails too."""

_LATEST_END = 23 * HOUR + 50 * MINUTE
_LONGEST_CUT = 10 * HOUR
_BOOT = 2 * MINUTE


@dataclass(frozen=True)
class DayPlan:
    """One service day of each router, arrays of one shape."""

    on_battery: Spells
    drain_rate: Reals
    powered_off: Ints
    offline: Spells
    offline_cause: Ints
    outage: Spells
    failover_at: Ints
    second_failover_at: Ints
    """When the backup failed too and the other modem took over; NEVER if it did not fail."""
    outage_reason: Ints
    telling: Ints
    """The position in `TELLINGS` of how alerts tell of the outage."""


@dataclass(frozen=True)
class Planner:
    """Draws day plans; nothing begins before `started_at`.

    With `has_flapping`, some wired sites have an outage at the end of one service day and at the
    beginning of the next one, every other night: four failovers that follow each other closely.
    """

    draws: Draws
    fleet: SimulatedFleet
    ageing: Ageing
    started_at: int
    has_flapping: bool = False
    has_tellings: bool = False

    def plan(self, router: Ints, day: Ints) -> DayPlan:
        """Return the plans of routers on service days."""
        router, day = np.broadcast_arrays(router, day)
        cut = self._power_cut(router, day)
        on_battery = self._on_battery(router, day, cut)
        rate = self._drain_rate(router, day)
        powered_off = self._powered_off(router, on_battery, rate)
        offline, cause = self._offline(router, day, cut, on_battery, powered_off)
        outage = self._outage(router, day, offline)
        detection = self.draws.between(5 * SECOND, 30 * SECOND, "detection", router, day)
        failover_at = np.where(outage.happens, outage.start + detection.astype(np.int64), NEVER)
        return DayPlan(
            on_battery=on_battery,
            drain_rate=rate,
            powered_off=powered_off,
            offline=offline,
            offline_cause=cause,
            outage=outage,
            failover_at=failover_at,
            second_failover_at=self._second_failover(router, day, failover_at, outage),
            outage_reason=self._reason(router, day),
            telling=self._telling(router, day),
        )

    def _second_failover(self, router: Ints, day: Ints, failover_at: Ints, outage: Spells) -> Ints:
        """Return when the backup fails too, during an outage of a wired primary."""
        fleet = self.fleet
        length = np.where(outage.happens, outage.end - failover_at, 0)
        fails = fleet.habits.backup_fails[router] & (fleet.primary[router] == WIRED)
        fails |= self._flaps(router)
        fails |= (told(self._telling(router, day), "backup_fails") != 0) & (
            fleet.primary[router] == WIRED
        )
        share = self.draws.between(0.35, 0.65, "backup-fails", router, day)
        second = np.where(outage.happens, failover_at, 0) + (share * length).astype(np.int64)
        return np.where(fails & (length >= _LONG_OUTAGE), second, NEVER)

    def _telling(self, router: Ints, day: Ints) -> Ints:
        return np.asarray((router + day) % (len(TELLINGS) if self.has_tellings else 1))

    def _reason(self, router: Ints, day: Ints) -> Ints:
        """Return why the primary WAN fails; only a wired WAN can lose its cable."""
        reason = self.draws.below(len(OUTAGE_REASONS), "outage-reason", router, day)
        wired = self.fleet.primary[router] == WIRED
        return np.where(wired, reason, reason % CABLE)

    def _flaps(self, router: Ints) -> Flags:
        """Return which routers have a link that flaps."""
        chosen = self.fleet.primary[router] == WIRED
        return np.asarray(chosen & (router % _FLAPPING_EVERY == 0) & self.has_flapping)

    def _spell(
        self, router: Ints, day: Ints, happens: Flags, start: Reals, length: Reals
    ) -> Spells:
        """Return spells at offsets within the service day, only while the router is registered."""
        midnight = day_start(day, self.fleet.day_shift[router])
        begin = midnight + start.astype(np.int64)
        end = np.minimum(begin + length.astype(np.int64), midnight + _LATEST_END)
        return Spells(begin, end).only(happens & self._is_registered(router, begin))

    def _is_registered(self, router: Ints, begin: Ints) -> Flags:
        """Return which routers are registered at instants; none before the world begins."""
        registered = self.fleet.registrations.holds(router, begin)
        return np.asarray((begin >= self.started_at) & registered)

    def _power_cut(self, router: Ints, day: Ints) -> Spells:
        """Return power cuts at sites; sites with a battery have more of them."""
        odds = np.where(self.fleet.has_battery[router], 0.25, 0.05)
        odds = np.where(self.fleet.is_vehicle[router], 0.0, odds)
        length = 40 * MINUTE * np.exp(1.5 * self.draws.normal("cut-length", router, day))
        return self._spell(
            router,
            day,
            self.draws.chance(odds, "cut", router, day),
            self.draws.between(10 * MINUTE, 9 * HOUR, "cut-start", router, day),
            np.clip(length, 30 * SECOND, _LONGEST_CUT),
        )

    def _on_battery(self, router: Ints, day: Ints, cut: Spells) -> Spells:
        """Return when a router runs on battery: power cuts, or nights without ignition."""
        nights = self._parked_nights(router, day)
        at_site = self.fleet.has_battery[router] & ~self.fleet.is_vehicle[router]
        return Spells(
            np.where(at_site, cut.start, nights.start), np.where(at_site, cut.end, nights.end)
        )

    def _parked_nights(self, router: Ints, day: Ints) -> Spells:
        """Return hours on battery after the last trip of vehicles that have one."""
        fleet = self.fleet
        rides = fleet.has_battery[router] & fleet.is_vehicle[router]
        parked = none_like(router)
        if not rides.any():
            return parked
        who, when = router[rides], day[rides]
        legs = trips.day_legs(self.draws, fleet, who, when)
        start = legs.parked_from() + MINUTE
        length = self.draws.between(2 * HOUR, 9 * HOUR, "night-length", who, when)
        offset = (start - day_start(when, fleet.day_shift[who])).astype(np.float64)
        odds = self.draws.chance(0.7, "night", who, when) & legs.drives.any(axis=-1)
        spell = self._spell(who, when, odds, offset, length)
        begin, end = parked.start.copy(), parked.end.copy()
        begin[rides], end[rides] = spell.start, spell.end
        return Spells(begin, end)

    def _drain_rate(self, router: Ints, day: Ints) -> Reals:
        """Return percent of charge lost per hour on battery that day."""
        begin = day_start(day, self.fleet.day_shift[router])
        health = self.ageing.of(router).health(begin)
        return batteries.drain(self.draws, self.fleet.hardware[router], health)

    def _powered_off(self, router: Ints, on_battery: Spells, rate: Reals) -> Ints:
        """Return when the battery is empty: the first report that shows 7%, or NEVER."""
        empty = batteries.falls_to(on_battery, batteries.POWER_OFF_PCT, rate)
        empty = np.minimum(empty, NEVER)
        report = batteries.report_after(self.draws, router, empty)
        return np.where(on_battery.happens & (report < on_battery.end), report, NEVER)

    def _offline(
        self, router: Ints, day: Ints, cut: Spells, on_battery: Spells, powered_off: Ints
    ) -> tuple[Spells, Ints]:
        """Return each day's spell offline and its cause; a lack of power takes precedence."""
        power = self._without_power(router, cut, on_battery, powered_off)
        reboot = self.draws.chance(0.4, "reboot", router, day)
        length = 9 * MINUTE * np.exp(1.3 * self.draws.normal("link-length", router, day))
        other = self._spell(
            router,
            day,
            self.draws.chance(0.09, "link", router, day) & ~power.happens,
            self.draws.between(5 * MINUTE, 19 * HOUR, "link-start", router, day),
            np.where(reboot, 2 * MINUTE + length % MINUTE, np.clip(length, 20 * SECOND, 5 * HOUR)),
        )
        cause = np.where(power.happens, POWER, np.where(reboot, REBOOT, LINK))
        return Spells(np.minimum(power.start, other.start), np.minimum(power.end, other.end)), cause

    def _without_power(
        self, router: Ints, cut: Spells, on_battery: Spells, powered_off: Ints
    ) -> Spells:
        """Return how long routers are off because of a lack of power, including the boot."""
        carried = self.fleet.has_battery[router]
        start = np.where(carried, powered_off, cut.start)
        end = np.where(carried, on_battery.end, cut.end) + _BOOT
        return Spells(start, end).only(start < NEVER)

    def _outage(self, router: Ints, day: Ints, offline: Spells) -> Spells:
        """Return outages of the primary WAN, from a minute to many hours."""
        length = 9 * MINUTE * np.exp(1.6 * self.draws.normal("outage-length", router, day))
        length = np.clip(length, _SHORTEST_OUTAGE, 20 * HOUR)
        flaps = self._flaps(router)
        is_last = (day + router // _FLAPPING_EVERY) % 2 == 0  # of the evening, else of the morning
        flap_start = np.where(is_last, _LATEST_END - _FLAP, MINUTE)
        start = self.draws.between(0, 20 * HOUR, "outage-start", router, day)
        happens = self.draws.chance(_OUTAGE_ODDS, "outage", router, day)
        outage = self._spell(
            router,
            day,
            (happens | flaps) & ~self.fleet.is_access_point[router],
            np.where(flaps, flap_start.astype(np.float64), start),
            np.where(flaps, float(_FLAP), length),
        )
        return outage.only(~outage.touches(offline, 10 * MINUTE))
