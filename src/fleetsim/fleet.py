"""The devices: constant facts about each router, as arrays over the fleet."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fleetsim.belonging import CHANGES_GROUP, Belonging, assign_kinds
from fleetsim.draws import Draws
from fleetsim.habits import Habits, assign_habits, far_region, is_far
from fleetsim.identifiers import Identifiers
from fleetsim.moves import Moves, assign_moves
from fleetsim.organisation import (
    ACCESS_POINT,
    ACCOUNTS,
    CARRIERS,
    PRODUCTS,
    ROUTER_ACCOUNTS,
    SITE_BATTERY,
    SITE_PLAIN,
    SITE_PLUS,
    VEHICLE_BATTERY,
    VEHICLE_PLAIN,
)
from fleetsim.places import HOME_REGIONS, LATITUDES, LONGITUDES, UTC_OFFSETS, wrapped
from fleetsim.registrations import Registrations, assign_registrations, registration_rows
from fleetsim.roads import Roads
from fleetsim.units import DAY, SECOND, Flags, Ints, Reals

SLOTS_PER_ROUTER = 4
WIRED, MODEM_ONE, MODEM_TWO, LAN = range(SLOTS_PER_ROUTER)
"""The net devices of a router, in the order of their ids."""

DEPOTS = 12
_ROUTERS_PER_ORPHAN = 40
ROUTERS_PER_GROUP_SPLIT = 4000


@dataclass(frozen=True)
class SimulatedFleet:
    """Constant facts, one array element per router; groups and accounts are row numbers."""

    size: int
    router_id: Ints
    product: Ints
    belonging: Belonging
    is_vehicle: Flags
    is_access_point: Flags
    has_battery: Flags
    has_gnss: Flags
    region: Ints
    latitude: Reals
    longitude: Reals
    utc_offset: Ints
    day_shift: Ints
    primary: Ints
    backup: Ints
    other_backup: Ints
    carrier: Ints
    installed_at: Ints
    group_splits: int
    habits: Habits
    moves: Moves
    registrations: Registrations
    router_ids: Identifiers
    net_device_ids: Identifiers
    roads: Roads | None = None
    """How vehicles drive if they drive as people do; they drive by timetable without."""

    @property
    def groups(self) -> int:
        """Return the number of groups: one per account, product and split."""
        return len(ACCOUNTS) * len(PRODUCTS) * self.group_splits

    @property
    def site(self) -> Ints:
        """Return, per router, the row of the router whose site, name and SIM cards it has."""
        return self.registrations.rows.follows

    @property
    def hardware(self) -> Ints:
        """Return, per router, the row of the router whose device it is."""
        return self.registrations.rows.hardware

    @cached_property
    def hardware_id(self) -> Ints:
        """Return the first id of each router's device, from which its MAC addresses derive."""
        return np.asarray(self.router_id[self.hardware])

    def after_installing(self, router: Ints, delay: int) -> Ints:
        """Return `delay` after each router was installed; no delay if it was registered again."""
        later = np.where(self.registrations.since[router] > 0, 0, delay)
        return np.asarray(self.installed_at[router] + later)

    def in_bay_of(self, rows: Ints, device: Ints) -> Ints:
        """Return the devices in the same bays of other routers; `rows` maps routers to others."""
        router, slot = np.divmod(device, SLOTS_PER_ROUTER)
        lone = self.moves.is_drawer(device)
        return np.where(lone, device, rows[np.where(lone, 0, router)] * SLOTS_PER_ROUTER + slot)

    def arrived_at(self, device: Ints, instant: Ints) -> Ints:
        """Return when each device last moved or was registered by an instant; 0 if never."""
        lone = self.moves.is_drawer(device)
        since = self.registrations.since[np.where(lone, 0, device // SLOTS_PER_ROUTER)]
        return np.maximum(self.moves.moved_at(device, instant), since)

    def carrier_of(self, router: Ints, slot: Ints, instant: Ints) -> Ints:
        """Return the carrier of the modem that is in a slot at each instant."""
        device = self.moves.bay_of(router * SLOTS_PER_ROUTER + slot, instant)
        return self.moves.carrier_of(device, instant)


def build_fleet(
    draws: Draws, routers: int, clock_start: int, *, has_roads: bool = False
) -> SimulatedFleet:
    """Return the fleet of a seed; products repeat in a cycle, so small fleets have all of them.

    A router that is registered again has its own row, drawn like the row that it follows.
    """
    rows = registration_rows(routers)
    router, size = rows.follows, len(rows.follows)
    product = _assign_products(router)
    is_vehicle = np.isin(product, (VEHICLE_BATTERY, VEHICLE_PLAIN))
    account = np.array(ROUTER_ACCOUNTS)[draws.below(len(ROUTER_ACCOUNTS), "account", router)]
    splits = 1 + routers // ROUTERS_PER_GROUP_SPLIT
    region, latitude, longitude = _place(draws, router, is_vehicle)
    cellular_primary = is_vehicle | draws.chance(0.15, "cellular-primary", router)
    primary = np.where(cellular_primary & (product != ACCESS_POINT), MODEM_ONE, WIRED)
    router_ids = Identifiers(draws, "routers", 1_000_003, 7, size)
    backup = np.where(primary == WIRED, MODEM_ONE, MODEM_TWO)
    carrier = draws.below(len(CARRIERS), "carrier", router)
    interfaces = size * SLOTS_PER_ROUTER + orphans(routers)
    site_shift = draws.below(DAY // SECOND, "day-shift", router) * SECOND
    day_shift = np.where(is_vehicle, -UTC_OFFSETS[region], site_shift)
    registrations = assign_registrations(draws, rows, day_shift, clock_start)
    habits, roads = assign_habits(router), None
    if has_roads:
        vehicle = (np.cumsum(is_vehicle) - 1)[rows.follows]
        roads = Roads(draws.seed, vehicle, latitude, longitude, day_shift)
        habits = roads.habits(habits, is_vehicle)
    return SimulatedFleet(
        size=size,
        router_id=router_ids.of(np.arange(size)),
        product=product,
        belonging=_belonging(draws, router, account, product, splits),
        is_vehicle=is_vehicle,
        is_access_point=product == ACCESS_POINT,
        has_battery=np.isin(product, (SITE_BATTERY, VEHICLE_BATTERY)),
        has_gnss=is_vehicle | draws.chance(0.5, "site-gnss", router),
        region=region,
        latitude=latitude,
        longitude=longitude,
        utc_offset=UTC_OFFSETS[region],
        day_shift=day_shift,
        primary=primary,
        backup=backup,
        carrier=carrier,
        installed_at=np.maximum(_installed_at(draws, router), registrations.since),
        group_splits=splits,
        other_backup=MODEM_ONE + MODEM_TWO - backup,
        habits=habits,
        moves=_assign_moves(draws, carrier, backup, product, routers),
        registrations=registrations,
        router_ids=router_ids,
        net_device_ids=Identifiers(draws, "net_devices", 5_000_011, 11, interfaces),
        roads=roads,
    )


def orphans(routers: int) -> int:
    """Return the number of spare modems: one, and one more per forty routers."""
    return 1 + routers // _ROUTERS_PER_ORPHAN


def _assign_moves(draws: Draws, carrier: Ints, backup: Ints, product: Ints, routers: int) -> Moves:
    """Return how modems move; a router's two modems have different carriers at first.

    Modems of routers after the first `routers`, which are registered later, do not move.
    """
    router = np.arange(len(carrier), dtype=np.int64)
    of_slot = (carrier[:, None] + (np.arange(SLOTS_PER_ROUTER) == MODEM_TWO)) % len(CARRIERS)
    in_drawers = np.full(orphans(routers), carrier[0])
    other = MODEM_ONE + MODEM_TWO - backup
    bays = router[:, None] * SLOTS_PER_ROUTER + np.stack([backup, other], axis=1)
    bays = np.where((product == ACCESS_POINT)[:, None], -1, bays)
    first_carrier = np.concatenate([of_slot.ravel(), in_drawers])
    return assign_moves(draws, first_carrier, bays[:routers], len(in_drawers), len(CARRIERS))


def _assign_products(router: Ints) -> Ints:
    """Return products: of 25 routers, 7 have batteries, 10 are vehicles, 1 is an access point."""
    pattern = np.array([SITE_PLAIN, VEHICLE_BATTERY, SITE_PLUS, VEHICLE_PLAIN, SITE_PLAIN] * 5)
    pattern[[2, 12]] = SITE_BATTERY
    pattern[24] = ACCESS_POINT
    return np.asarray(pattern[router % len(pattern)])


def _belonging(draws: Draws, router: Ints, account: Ints, product: Ints, splits: int) -> Belonging:
    """Return the routers' accounts and groups; one router in fifty is in no group (-1).

    A router's other account is the next one, and its other group is that account's group for the
    same product. A router that changes only its group alternates between a group and none.
    """
    kind = assign_kinds(router)
    other = np.array(ROUTER_ACCOUNTS)[(account + 1) % len(ROUTER_ACCOUNTS)]
    split = draws.below(splits, "group-split", router)
    own, others = ((a * len(PRODUCTS) + product) * splits + split for a in (account, other))
    ungrouped = draws.chance(0.02, "ungrouped", router)
    group = np.where(ungrouped, -1, own)
    regrouped = np.where(ungrouped, own, -1)
    elsewhere = np.where(ungrouped, -1, others)
    return Belonging(
        draws=draws,
        kind=kind,
        account=account,
        other_account=other,
        group=group,
        other_group=np.where(kind == CHANGES_GROUP, regrouped, elsewhere),
    )


def _place(draws: Draws, router: Ints, is_vehicle: Flags) -> tuple[Ints, Reals, Reals]:
    """Return region and home: a vehicle's is its depot, a site's is near the region's centre."""
    depot = draws.below(DEPOTS, "depot", router)
    region = np.where(is_vehicle, depot % HOME_REGIONS, draws.below(HOME_REGIONS, "region", router))
    depot = np.where(is_far(router), DEPOTS + far_region(router), depot)
    region = np.where(is_far(router), HOME_REGIONS + far_region(router), region)
    drawn_for = np.where(is_vehicle, -1 - depot, router)
    spread = np.where(is_far(router), 0.2, 1.0)  # near enough for routes to cross the antimeridian
    latitude = LATITUDES[region] + spread * draws.between(-0.3, 0.3, "home-lat", drawn_for)
    longitude = LONGITUDES[region] + spread * draws.between(-0.35, 0.35, "home-lon", drawn_for)
    return region, latitude, wrapped(longitude)


def _installed_at(draws: Draws, router: Ints) -> Ints:
    """Return when each router was first registered: over three years from 2022, to the second."""
    seconds = draws.below(3 * 365 * DAY // SECOND, "installed", router)
    return np.asarray((1_640_995_200 + seconds) * SECOND)
