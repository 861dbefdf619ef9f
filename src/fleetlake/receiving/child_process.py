"""Child processes of the receiver: one that drains the journal, and one that measures the lake.

They keep the lake, which may be slow, locked or away, out of the process that answers. With `-P`,
Python imports nothing from the working folder, into which others may have put modules.
"""

import asyncio
import logging
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from fleetlake.lake_address import LakeAddress
from fleetlake.machine.child_environment import lake_access, plain_environment
from fleetlake.settings import PREFIX, SECRET_SETTINGS

DRAINER = (
    *(sys.executable, "-P", "-m"),
    "fleetlake.receiving.while_parent_lives",
    "fleetlake.receiving.drain",
)
"""Command of the process that brings the journal into the lake until SIGTERM."""

METRICS = (sys.executable, "-P", "-m", "fleetlake", "metrics")

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
STEADY_SECONDS = 60.0
"""After running so long, a process that ends is started again without a longer wait."""

STOP_SECONDS = 30.0
METRICS_SECONDS = 60.0
"""How old the lake's metrics may be, and how long measuring may take."""

_NOT_FOR_CHILDREN = frozenset({*SECRET_SETTINGS, "profiles", "exports"})


def child_environment(lake: LakeAddress) -> dict[str, str]:
    """Return the variables that a process needs to read the settings and to reach the lake.

    Left out are the keys of the service, the secrets of pushes and whatever is not fleetlake's.
    """
    own = {name: value for name, value in os.environ.items() if _is_for_children(name)}
    return plain_environment() | lake_access(lake) | own


def _is_for_children(variable: str) -> bool:
    name = variable.upper()
    setting = name.removeprefix(PREFIX).partition("__")[0].lower()
    return name.startswith(PREFIX) and setting not in _NOT_FOR_CHILDREN


class KeptProcess:
    """A process that is started again when it ends, after waits that double up to a minute."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
    ) -> None:
        self._command = command
        self._environment = environment
        self._first_wait = first_wait_seconds
        self._process: Process | None = None
        self._stopping = asyncio.Event()

    def is_alive(self) -> bool:
        """Return whether the process runs now."""
        return self._process is not None and self._process.returncode is None

    async def keep(self) -> None:
        """Run the process, again and again, until `stop` is called."""
        wait = self._first_wait
        while not self._stopping.is_set():
            began = time.monotonic()
            how = await self._run()
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STEADY_SECONDS:
                wait = self._first_wait
            logging.getLogger(__name__).warning(
                "The process that drains the journal %s. Pushed messages stay in the journal; it "
                "starts again in %.0f s.",
                how,
                wait,
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    async def _run(self) -> str:
        """Run the process until it ends; return how it ended, in words."""
        try:
            # Its standard input is a pipe of ours: the process ends when we are gone.
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, env=self._environment, start_new_session=True
            )
        except OSError as error:  # no memory, process or file is left for it at the moment
            return f"cannot be started: {error.strerror}"
        if self._stopping.is_set():  # meanwhile
            self._process.terminate()
        return f"ended with code {await self._process.wait()}"

    async def stop(self) -> None:
        """Ask the process to end, and wait for that; kill it if it does not."""
        self._stopping.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class LakeMetrics:
    """The lake's metrics, as `fleetlake metrics` prints them, at most a minute old while asked for.

    A request gets the newest known text at once; measuring goes on beside it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._text = ""
        self._began = float("-inf")
        self._measuring: asyncio.Task[None] | None = None

    def text(self) -> str:
        """Return the newest known metrics, "" before the first; start measuring if they are old."""
        is_due = time.monotonic() - self._began > METRICS_SECONDS
        if is_due and (self._measuring is None or self._measuring.done()):
            self._began = time.monotonic()
            self._measuring = asyncio.create_task(self._measure())
        return self._text

    async def _measure(self) -> None:
        text = ""  # a lake that cannot be read has no figures, which an alert rule can see
        with suppress(OSError, TimeoutError):
            text = await self._measured()
        self._text = text

    async def _measured(self) -> str:
        """Return the figures, "" if the command fails. Raises: OSError, TimeoutError."""
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=self._environment
        )
        try:
            async with asyncio.timeout(METRICS_SECONDS):
                text, _ = await process.communicate()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return text.decode() if process.returncode == 0 else ""

    async def stop(self) -> None:
        """Stop measuring."""
        if self._measuring is not None:
            self._measuring.cancel()
            with suppress(asyncio.CancelledError):
                await self._measuring
