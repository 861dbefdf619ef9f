"""Fleet-wide streams, generated one UTC day at a time: alerts and activity logs."""

from collections.abc import Callable, Iterator

import numpy as np

from fleetlake.simulator.blocks import Block
from fleetlake.simulator.resource import Series
from fleetlake.simulator.units import DAY, Ints
from fleetlake.simulator.view import View
from fleetlake.simulator.world import World

Generate = Callable[[World, Ints, int, bool], Block]
"""World, routers, UTC day and whether to include what concerns no router."""

_FEW = 2000


def daily_series(name: str, generate: Generate, keep: Callable[[View, Block], Block]) -> Series:
    """Return a series made of whole days; `keep` drops what the caller may not see.

    A question about a few devices generates those alone; any other reads the fleet's day.
    """

    def series(
        view: View,
        devices: Ints | None,
        since: int,
        until: int,
        /,
        *,
        newest_first: bool,
        want: int,
    ) -> Iterator[Block]:
        del want  # a day is cheap, and the next page needs it too
        world = view.world
        first = max(since, world.started_at) // DAY
        last = min(until - 1, view.now) // DAY
        days = range(first, last + 1)
        for day in reversed(days) if newest_first else days:
            yield keep(view, _day(world, name, generate, devices, day))

    return series


def _day(world: World, name: str, generate: Generate, devices: Ints | None, day: int) -> Block:
    """Return one day of some devices, or of the whole fleet."""
    if devices is not None and len(devices) < _FEW:
        return generate(world, devices, day, False)
    everyone = np.arange(world.routers, dtype=np.int64)
    block = world.recent.get((name, day), lambda: generate(world, everyone, day, True))
    if devices is None:
        return block
    return block.take(np.flatnonzero(np.isin(block["router"], devices)))


def in_scope(view: View, block: Block) -> Block:
    """Return the rows whose account the caller may see."""
    if view.scope.all():
        return block
    by_router = view.scope[block["router"]] & (block["router"] >= 0)
    by_account = (block["router"] < 0) & np.isin(block["account"], list(view.accounts))
    return block.take(np.flatnonzero(by_router | by_account))
