"""The deadline of a page: all attempts, the waits between them and their response bodies.

Time during which fleetlake itself delays a call, for the call limit or for other calls, does not
count. It says nothing about the service, and may be far longer than a page takes.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Deadline:
    """A limit on the seconds that `run` may take, except while they do not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the block until the deadline. Raises: TimeoutError if the block takes longer."""
        async with self._timeout:
            yield

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Stop the clock of the deadline within the block."""
        loop = asyncio.get_running_loop()
        ends_at = self._timeout.when()
        assert ends_at is not None
        left = ends_at - loop.time()
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._timeout.reschedule(loop.time() + left)
