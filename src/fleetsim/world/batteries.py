"""Battery physics: charge over time on battery, ageing, and heat.

Every quantity has a closed form, so a threshold crossing is computed, not searched for. A battery
reports every 60 s; an alert is detected at the first report at or past the threshold.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.draws import Draws
from fleetsim.fleet import SimulatedFleet
from fleetsim.places import MEAN_TEMPS
from fleetsim.units import DAY, HOUR, MINUTE, NEVER, SECOND, Flags, Ints, Reals
from fleetsim.world.spells import Spells, day_start

NEW_PCT = 99.0
HEALTH_ALERT_PCT = 62
OVER_CURRENT_MA = 3200
OVER_TEMP_C = 50
OVER_VOLTAGE_MV = 8500
LOW_POWER_PCT = 20
POWER_OFF_PCT = 7

CHARGE_PCT_PER_HOUR = 25.0
FULL_PCT = 100.0
REPORT_PERIOD = MINUTE
OVERCHARGED_FROM_PCT = 97.0
SURGE_LENGTH = 5 * MINUTE
FADES = ("even", "slowing", "accelerating", "with a knee", "slowing, then accelerating")
_LEAST_HEALTH_PCT = 20.0
_WORN_OUT_STRIDE = 5
_HOTTEST_HOUR = 15


@dataclass(frozen=True)
class Ageing:
    """When batteries' health reaches 62%, and how it falls until then and after.

    Capacity fades as it does in published tests of cells: evenly, ever slower, ever faster, with
    a knee, or first slower and then faster. `bend`, from 0 to 1, says how much.
    """

    draws: Draws
    hardware: Ints
    worn_at: Ints
    life: Ints
    fade: Ints
    bend: Reals

    def of(self, router: Ints) -> "Ageing":
        """Return the ageing of some routers' batteries."""
        return Ageing(
            draws=self.draws,
            hardware=self.hardware[router],
            worn_at=self.worn_at[router],
            life=self.life[router],
            fade=self.fade[router],
            bend=self.bend[router],
        )

    def health(self, instant: Ints) -> Reals:
        """Return the present capacity in percent of the design capacity."""
        age = np.maximum(1 + (instant - self.worn_at) / self.life, 0)
        late = np.exp(np.minimum((age - 1) / (0.08 + 0.12 * self.bend), 4))
        knee, at_knee = 0.6 + 0.3 * self.bend, 0.65 - 0.35 * self.bend
        after = at_knee + (1 - at_knee) * (age - knee) / (1 - knee)
        shares = (
            age,
            age ** (0.45 + 0.25 * self.bend),
            age ** (1.5 + self.bend),
            np.where(age < knee, at_knee * age / knee, after),
            0.3 * np.sqrt(age) + 0.35 * age + 0.35 * late,
        )
        lost = (NEW_PCT - HEALTH_ALERT_PCT) * np.choose(self.fade, shares)
        return np.maximum(NEW_PCT - lost, _LEAST_HEALTH_PCT)

    def gauge(self, instant: Ints) -> Ints:
        """Return the health that batteries report: in whole percent, and off by a point or two.

        The error changes from day to day, and with each calibration after two months. It never
        hides on which side of 62% a battery is, so that its alert comes when it is worn out.
        """
        day, health = instant // DAY, self.health(instant)
        spread = self.draws.between(0.0, 1.2, "health-spread", self.hardware)
        error = spread * self.draws.normal("health-error", self.hardware, day)
        error += 0.7 * self.draws.normal("health-calibration", self.hardware, day // 60)
        room = 0.99 * np.abs(health - HEALTH_ALERT_PCT)
        return np.ceil(np.minimum(health + np.clip(error, -room, room), 100)).astype(np.int64)


def ageing(draws: Draws, router: Ints, started_at: int, ends_at: int) -> Ageing:
    """Return the ageing of batteries: two in seven reach 62% between the two instants."""
    span = ends_at - started_at
    # Assigned by position in the 25-router pattern, so that a small fleet has some too.
    worn = (router // 5) % _WORN_OUT_STRIDE == 0
    soon = started_at + draws.between(0.1, 0.9, "worn-soon", router) * span
    late = ends_at + draws.between(60 * DAY, 700 * DAY, "worn-late", router)
    worn_at = np.where(worn, soon, late).astype(np.int64)
    days = (NEW_PCT - HEALTH_ALERT_PCT) / draws.between(0.04, 0.3, "ageing", router)
    return Ageing(
        draws=draws,
        hardware=router,
        worn_at=worn_at,
        life=np.maximum((days * DAY).astype(np.int64), worn_at - started_at),
        fade=draws.below(len(FADES), "fade", router),
        bend=draws.unit("fade-bend", router),
    )


def report_after(draws: Draws, router: Ints, instant: Ints) -> Ints:
    """Return the first report at or after each instant, on the battery's own minute grid."""
    phase = draws.below(REPORT_PERIOD // SECOND, "battery-phase", router) * SECOND
    return np.asarray(phase - (phase - instant) // REPORT_PERIOD * REPORT_PERIOD)


def report_before(draws: Draws, router: Ints, instant: Ints) -> Ints:
    """Return the last report at or before each instant."""
    phase = draws.below(REPORT_PERIOD // SECOND, "battery-phase", router) * SECOND
    return np.asarray(phase + (instant - phase) // REPORT_PERIOD * REPORT_PERIOD)


def drain(draws: Draws, router: Ints, health: Reals) -> Reals:
    """Return percent of charge lost per hour on battery: a worn battery drains faster."""
    return np.asarray(draws.between(9.0, 15.0, "drain", router) * 90.0 / health)


def falls_to(spell: Spells, percent: float, rate: Reals) -> Ints:
    """Return when the charge would reach a percentage if the spell lasted."""
    hours = (100.0 - percent) / rate
    return spell.start + np.ceil(hours * HOUR).astype(np.int64)


@dataclass(frozen=True)
class Charge:
    """State of charge in percent, and what the battery is doing."""

    percent: Reals
    discharging: Flags
    charging: Flags


def charge(spell: Spells, off_from: Ints, rate: Reals, instant: Ints) -> Charge:
    """Return the charge at instants, given the latest spell on battery begun by then.

    `off_from` is when the router powered itself off, or NEVER. From then on, the charge stays
    constant until power returns.
    """
    drained_until = np.minimum(np.minimum(instant, spell.end), off_from)
    low = 100.0 - rate * np.maximum(drained_until - spell.start, 0) / HOUR
    gained = CHARGE_PCT_PER_HOUR * np.maximum(instant - spell.end, 0) / HOUR
    percent = np.where(spell.happens, np.minimum(low + gained, 100.0), 100.0)
    discharging = spell.holds(instant)
    return Charge(percent, discharging, ~discharging & (percent < FULL_PCT))


def surges(draws: Draws, router: Ints, day: Ints) -> Flags:
    """Return the service days on which charging begins with a current of 3.2 A or more."""
    return draws.chance(0.04, "surge", router, day)


def overcharges(draws: Draws, router: Ints, day: Ints) -> Flags:
    """Return the service days on which charging ends at 8.5 V or more."""
    return draws.chance(0.03, "overcharge", router, day)


def overvoltage_at(draws: Draws, router: Ints, spell: Spells, off_from: Ints, rate: Reals) -> Ints:
    """Return the first report at which an overcharging battery is full above 97%."""
    low = charge(spell, off_from, rate, spell.end).percent
    hours = np.maximum(OVERCHARGED_FROM_PCT - low, 0) / CHARGE_PCT_PER_HOUR
    at = np.minimum(spell.end, NEVER) + np.ceil(hours * HOUR).astype(np.int64)
    return report_after(draws, router, at)


@dataclass(frozen=True)
class Cycle:
    """A spell on battery and the recharging after it; `day` is its service day."""

    day: Ints
    spell: Spells


@dataclass(frozen=True)
class Electrics:
    """Current in mA (negative while discharging) and voltage in mV."""

    milliamps: Ints
    millivolts: Ints


def electrics(draws: Draws, router: Ints, cycle: Cycle, state: Charge, instant: Ints) -> Electrics:
    """Return current and voltage at instants, given the cycle they lie in."""
    day, spell = cycle.day, cycle.spell
    noise = draws.normal("gauge", router, instant)
    taper = np.clip((104 - state.percent) / 24, 0.1, 1.0)
    charging = draws.between(1700, 2500, "charge-ma", router) * taper + 20 * noise
    surging = surges(draws, router, day) & (instant < spell.end + SURGE_LENGTH)
    charging = np.where(surging, OVER_CURRENT_MA + 60 + 15 * noise, charging)
    load = -draws.between(600, 1200, "load-ma", router) + 30 * noise
    current = np.where(state.discharging, load, np.where(state.charging, charging, 0.0))
    volts = 6500 + 17.5 * state.percent + np.where(state.charging, 60, 0) + 4 * noise
    over = overcharges(draws, router, day) & state.charging
    over &= state.percent >= OVERCHARGED_FROM_PCT
    volts = np.where(over, OVER_VOLTAGE_MV + 30 + 4 * noise, volts)
    return Electrics(np.rint(current).astype(np.int64), np.rint(volts).astype(np.int64))


@dataclass(frozen=True)
class Warmth:
    """A day's temperature: mean and amplitude in degrees Celsius, hottest in mid-afternoon."""

    mean: Reals
    swing: Reals
    midnight: Ints

    def at(self, instant: Ints) -> Reals:
        """Return degrees Celsius at instants of that day."""
        hours = (instant - self.midnight) / HOUR
        turn = 2 * np.pi * (hours - _HOTTEST_HOUR) / 24
        return np.asarray(self.mean + self.swing * np.cos(turn))

    def rises_to(self, degrees: float) -> tuple[Flags, Ints]:
        """Return whether the day gets that hot, and when it first does."""
        cosine = (degrees - self.mean) / self.swing
        hours = _HOTTEST_HOUR - np.arccos(np.clip(cosine, -1, 1)) * 24 / (2 * np.pi)
        return np.abs(cosine) < 1, self.midnight + np.ceil(hours * HOUR).astype(np.int64)


def warmth(draws: Draws, fleet: SimulatedFleet, router: Ints, local_day: Ints) -> Warmth:
    """Return a local day's temperatures, from region, season, weather and cabinet ventilation."""
    season = -8.0 * np.cos(2 * np.pi * (local_day % 365.25 - 15) / 365.25)
    cabinet = np.where(draws.chance(0.2, "hot-cabinet", router), 13.0, 3.0)
    weather = 3.0 * draws.normal("weather", fleet.region[router], local_day)
    mean = MEAN_TEMPS[fleet.region[router]] + season + cabinet + weather
    swing = draws.between(6.0, 10.0, "warmth-swing", router)
    return Warmth(mean, swing, day_start(local_day, -fleet.utc_offset[router]))
