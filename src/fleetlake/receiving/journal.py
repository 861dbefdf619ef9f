"""The journal of pushed messages: a message is on disk when `append` returns.

Messages that arrive while the disk is busy are written and flushed together, so that a thousand a
second need far fewer flushes (group commit). Nothing waits for the lake here.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fleetlake.machine.atomic_files import flush_folder
from fleetlake.machine.io_faults import not_writable
from fleetlake.machine.ownership import require_own
from fleetlake.receiving.journal_table import JournalTable, JournalUnavailable, PushedMessage

logger = logging.getLogger(__name__)


class NotStored(Exception):
    """A message could not be written; the sender may send it again. The text says why."""


class JournalOverloaded(NotStored):
    """Too many messages, or too many bytes, wait for the disk."""


@dataclass(frozen=True, kw_only=True)
class JournalLimits:
    """How much may wait for the disk, and the pause after a write that failed."""

    messages: int = 4096
    bytes: int = 64 * 2**20
    pause_seconds: float = 1.0


@dataclass(frozen=True)
class _Waiting:
    message: PushedMessage
    stored: asyncio.Future[None]


class Journal:
    """The writing end of one journal. All calls come from one event loop.

    `on_flush` is told the seconds of each write with its flush.
    """

    def __init__(
        self, table: JournalTable, *, limits: JournalLimits, on_flush: Callable[[float], object]
    ) -> None:
        self.folder = table.folder
        self._table = table
        self._limits = limits
        self._on_flush = on_flush
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._waiting: list[_Waiting] = []
        self._count = self._bytes = 0  # waiting or being written
        self._flushing: asyncio.Task[None] | None = None
        self._is_closed = False
        self._fault: Exception | None = None
        self._paused_until = 0.0

    async def append(self, body: bytes, received_at: datetime) -> None:
        """Store a message; it is on disk on return. Raises: NotStored, then it must be resent."""
        if self._is_closed:
            raise NotStored("the receiver is stopping")
        if self._fault and time.monotonic() < self._paused_until:
            raise NotStored(_in_words(self._fault))
        size = self._bytes + len(body)
        if self._count and (self._count >= self._limits.messages or size > self._limits.bytes):
            raise JournalOverloaded(f"{self._count} messages wait for the disk")
        loop = asyncio.get_running_loop()
        waiting = _Waiting(PushedMessage(body=body, received_at=received_at), loop.create_future())
        self._waiting.append(waiting)
        self._count, self._bytes = self._count + 1, size
        if self._flushing is None:
            self._flushing = loop.create_task(self._flush_all())
        await waiting.stored

    async def _flush_all(self) -> None:
        """Write what waits, batch after batch, until nothing waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                messages = [one.message for one in batch]
                error = await loop.run_in_executor(self._thread, self._write, messages)
            except (RuntimeError, MemoryError) as fault:  # no thread or no memory is left
                error = fault
            self._count -= len(batch)
            self._bytes -= sum(len(one.message.body) for one in batch)
            for one in batch:
                if one.stored.done():
                    continue  # its request was cancelled
                if error is None:
                    one.stored.set_result(None)
                else:
                    one.stored.set_exception(NotStored(_in_words(error)))
        self._flushing = None

    def _write(self, messages: list[PushedMessage]) -> Exception | None:
        """Write messages in the journal's own thread; return the error, if any."""
        began = time.monotonic()
        error = self._tried(lambda: self._table.append(messages))
        if error is None:
            self._on_flush(time.monotonic() - began)
        return error

    def _tried(self, write: Callable[[], None]) -> Exception | None:
        """Return the error of a write, if any, and remember it; an error begins a pause."""
        try:
            write()
        except Exception as error:  # noqa: BLE001 - otherwise requests would wait for ever
            if self._fault is None:
                logger.warning(
                    "Messages cannot be stored in %s: %s.", self.folder, _in_words(error)
                )
            self._paused_until = time.monotonic() + self._limits.pause_seconds
            self._fault = error
        else:
            if self._fault is not None:
                logger.warning("Messages can be stored in %s again.", self.folder)
            self._fault = None
        return self._fault

    async def fault(self) -> str | None:
        """Return why messages cannot be stored now, None if they can.

        After a failed write, this tries the disk again, so that it also recovers without messages.
        """
        if self._fault and not self._is_closed and time.monotonic() >= self._paused_until:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._tried, self._table.probe)
        return _in_words(self._fault) if self._fault else None

    async def close(self) -> None:
        """Wait until everything accepted is on disk, then give up the journal."""
        self._is_closed = True
        if self._flushing is not None:
            await self._flushing
        self._thread.shutdown()
        self._table.close()


def open_journal(
    folder: Path,
    *,
    limits: JournalLimits | None = None,
    on_flush: Callable[[float], object] = lambda _: None,
    new_table: Callable[[Path], JournalTable] = JournalTable,
) -> Journal:
    """Return the journal in a folder; create it if there is none.

    While the disk is full, this succeeds, and messages are refused.

    Raises: LakeError if the folder belongs to another user or cannot be written, or if the journal
    is damaged.
    """
    require_own(folder, "journal", otherwise="set FLEETLAKE_PUSH_JOURNAL to a folder of your own")
    table = new_table(folder)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flush_folder(folder.parent)
        with suppress(JournalUnavailable):
            table.probe()
    except OSError as error:
        raise not_writable(
            "journal", folder.resolve(), error, setting="FLEETLAKE_PUSH_JOURNAL"
        ) from None
    return Journal(table, limits=limits or JournalLimits(), on_flush=on_flush)


def _in_words(error: Exception) -> str:
    return (
        (error.strerror if isinstance(error, OSError) else None)
        or str(error)
        or type(error).__name__
    )
