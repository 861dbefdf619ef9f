"""Access to the lake for the streams of one run: one thread, one commit at a time."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from fleetlake.lake.commit import commit_load, commit_proofs
from fleetlake.lake.connection import Lake
from fleetlake.lake.known_keys import KnownKeys
from fleetlake.lake.loads import Committed, Load
from fleetlake.lake_address import LakeAddress
from fleetlake.service.clock import Clock

Result = TypeVar("Result")


class LakeThread:
    """Commits the loads of one run while the next pages are being read.

    A load without changes is not committed separately: `commit_proofs` commits what it proves at
    the end of the run. `totals` counts what each endpoint's loads have changed so far.
    """

    def __init__(self, lake: Lake, thread: ThreadPoolExecutor, clock: Clock) -> None:
        self._lake, self._thread, self._clock = lake, thread, clock
        self._waiting: list[Load] = []
        self._keys = KnownKeys()
        self.totals: dict[str, Committed] = defaultdict(lambda: Committed(0, 0, 0))

    @property
    def path(self) -> LakeAddress:
        """The address of the lake."""
        return self._lake.path

    async def do(self, work: Callable[[Lake], Result]) -> Result:
        """Run blocking work on the lake's thread and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(work, self._lake))

    async def commit(self, load: Load) -> Committed:
        """Commit a load. A started commit is finished even if the run is being stopped.

        Nothing is proven beyond the newest record time. Raises: LakeError.
        """
        limit = self._clock.provable_until()
        sure, left = (load, None) if limit is None else load.split_at(limit)
        keys = self._keys
        commit = self.do(lambda lake: commit_load(lake, sure, keys=keys, only_changes=True))
        done = await asyncio.shield(commit)
        if done.is_nothing:
            self._waiting.append(load.waiting())
        elif left is not None:
            self._waiting.append(left)
        self.totals[load.endpoint.name] = self.totals[load.endpoint.name].plus(done)
        return done

    async def commit_proofs(self, *, also: Callable[[Lake], None] | None = None) -> None:
        """Commit the proofs of loads without changes, up to the newest record time.

        `also` makes the other writes at the end of the run, in the same transaction.
        """
        limit = self._clock.provable_until()
        proofs = [load if limit is None else load.proven_before(limit) for load in self._waiting]
        await self.do(lambda lake: commit_proofs(lake, proofs, also=also))
