"""Occurrences: what happened to which router and when, collected and sorted as arrays."""

from dataclasses import dataclass, field

import numpy as np

from fleetsim.blocks import Block
from fleetsim.draws import Draws
from fleetsim.registrations import Registrations
from fleetsim.timeuuids import order_key, tail_from_bits
from fleetsim.units import DAY, SECOND, Flags, Ints

COLUMNS = ("detected", "router", "account", "kind", "slot", "value")


@dataclass
class Occurrences:
    """Collects occurrences of one UTC day. `router` is -1 for those of an account.

    Occurrences before `started_at`, when the world begins, are left out, even if they precede
    something in the world (such as the ignition before a first trip).
    """

    draws: Draws
    day: int
    started_at: int
    registrations: Registrations
    _parts: list[tuple[Ints, ...]] = field(default_factory=list)

    def add(
        self,
        keep: Flags,
        detected: Ints,
        router: Ints,
        kind: int | Ints,
        *,
        account: int | Ints = -1,
        slot: int | Ints = -1,
        value: int | Ints = 0,
    ) -> None:
        """Add one occurrence for each kept element; arrays are broadcast together."""
        chosen = np.flatnonzero(keep)
        if len(chosen) == 0:
            return
        columns = (detected, router, account, kind, slot, value)
        shape = np.shape(keep)
        self._parts.append(
            tuple(
                np.broadcast_to(np.asarray(c, dtype=np.int64), shape).ravel()[chosen]
                for c in columns
            )
        )

    def block(self, stream: str) -> Block:
        """Return the occurrences created on the day, ascending by (time, tail).

        A record is created 50 ms to 2.5 s after its occurrence is detected.
        """
        nothing = np.zeros((len(COLUMNS), 0), dtype=np.int64)
        return self._sorted(
            stream, np.concatenate([nothing, *(np.stack(part) for part in self._parts)], axis=1)
        )

    def _sorted(self, stream: str, table: Ints) -> Block:
        """Return the day's rows in order, with creation time and uuid tail."""
        named = dict(zip(COLUMNS, table, strict=True))
        keys = [named[name] for name in ("router", "account", "kind", "detected", "slot")]
        delay = self.draws.between(SECOND // 20, 5 * SECOND // 2, f"{stream}/delay", *keys)
        time = named["detected"] + delay.astype(np.int64)
        tail = tail_from_bits(self.draws.bits(f"{stream}/uuid", *keys))
        first, last = max(self.day * DAY, self.started_at), (self.day + 1) * DAY
        router = named["router"]
        there = (router < 0) | self.registrations.holds(np.maximum(router, 0), time)
        today = np.flatnonzero((time >= first) & (time < last) & there)
        order = today[np.lexsort((order_key(tail[today]), time[today]))]
        arrays = {name: values[order] for name, values in named.items()}
        return Block({"time": time[order], "tail": tail[order], **arrays})
