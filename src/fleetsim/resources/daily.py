"""Fleet-wide streams, generated one UTC day at a time: alerts and activity logs."""

from collections.abc import Callable, Iterator

import numpy as np

from fleetsim.blocks import Block, concatenate
from fleetsim.definition import Series, SeriesRead
from fleetsim.timeuuids import order_key
from fleetsim.units import DAY, Flags, Ints
from fleetsim.view import View
from fleetsim.world import World

Generate = Callable[[World, Ints, int, bool], Block]
"""Takes the world, routers, a UTC day and whether to include rows that are not about a router."""

WriteAnswer = Callable[[View, int], Block | None]
"""Returns the rows that clients' writes added to a UTC day, in the form of a generated block."""

_FEW = 2000


def daily_series(name: str, generate: Generate, written: WriteAnswer) -> Series:
    """Return a series made of whole days.

    A request about a few devices generates only their rows; any other uses the whole fleet's day.
    """

    def series(view: View, read: SeriesRead) -> Iterator[Block]:
        # Whatever the caller wants: a day is cheap, and the next page needs it too.
        first = max(read.since, view.world.started_at) // DAY
        last = min(read.until - 1, view.now) // DAY
        days = range(first, last + 1)
        for day in reversed(days) if read.newest_first else days:
            block = _generated(view.world, name, generate, read.devices, day)
            extra = written(view, day)
            yield block if extra is None else _merge(block, extra, read.devices)

    return series


def _generated(
    world: World, name: str, generate: Generate, devices: Ints | None, day: int
) -> Block:
    """Return one day of some devices, or of the whole fleet."""
    if devices is not None and len(devices) < _FEW:
        return generate(world, devices, day, False)
    everyone = np.arange(world.fleet.size, dtype=np.int64)
    block = world.cache.get((name, day), lambda: generate(world, everyone, day, True))
    if devices is None:
        return block
    return block.take(np.flatnonzero(np.isin(block["router"], devices)))


def _merge(block: Block, extra: Block, devices: Ints | None) -> Block:
    """Return generated and written rows together, in order."""
    if devices is not None:
        extra = extra.take(np.flatnonzero(np.isin(extra["router"], devices)))
    joined = concatenate([block, extra])
    return joined.take(np.lexsort((order_key(joined["tail"]), joined["time"])))


def in_scope(view: View, block: Block) -> Flags:
    """Return which rows are about a router, or else an account, that the caller may see."""
    by_router = (block["router"] >= 0) & view.remembered[block["router"]]
    by_account = (block["router"] < 0) & np.isin(block["account"], list(view.accounts))
    return np.asarray(by_router | by_account)
