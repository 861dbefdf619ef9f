"""How long a page may take: all its tries, the waits between them and the bodies they read.

What we hold a call back for ourselves, the call limit and the calls under way, does not count:
that is no trouble of the service, and may take far longer than a page.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Patience:
    """Seconds that may pass within `run`, except while they do not count."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run a block for as long as there is patience. Raises: TimeoutError when it ends."""
        async with self._timeout:
            yield

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Let time pass that does not count."""
        loop = asyncio.get_running_loop()
        ends_at = self._timeout.when()
        assert ends_at is not None
        left = ends_at - loop.time()
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._timeout.reschedule(loop.time() + left)
