"""The journal of pushed messages: one SQLite table, and what proves that it is whole.

Messages are numbered without gaps. A message stays until the lake has it; then it is deleted, its
bytes included. `journal` is one row: the journal's id, the newest number, and up to which number
messages were deleted. So a message that disappears in any other way is noticed.

SQLite takes a damaged or removed write-ahead log for one that ended earlier. The file
`acknowledged` holds the newest number that a sender got an answer for. It is not flushed, so after
a power failure it may be older; it is never newer than what was flushed.

Receivers and drains may share the table. Each of their writes and checkpoints holds `writer.lock`:
SQLite before 3.51.3 may damage a database if a commit meets another process's checkpoint.
"""

import os
import platform
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from fleetlake.errors import LakeError
from fleetlake.machine.atomic_files import flush_folder
from fleetlake.machine.file_locks import LockTaken, file_lock
from fleetlake.machine.io_faults import io_fault
from fleetlake.machine.ownership import open_own, require_own
from fleetlake.text.wording import counted

JOURNAL_FILE = "journal.sqlite"
ACKNOWLEDGED_FILE = "acknowledged"
LOCK_FILE = "writer.lock"

LOCK_SECONDS = 10.0
LOCK_POLL_SECONDS = 0.001
READER_SECONDS = 1.0
"""How long a deletion, which holds the lock, waits for readers to let go of the deleted bytes."""

_CREATED = ("pragma auto_vacuum = incremental", "pragma journal_mode = wal")
_OPENED = ("pragma synchronous = full", "pragma secure_delete = on")
_SCHEMA = (
    "create table messages (number integer primary key, received, body blob, checksum)",
    "create table journal (id text, newest integer, deleted integer)",
)
_MESSAGES = "select number, received, body, checksum from messages"
_NEWEST_BYTES = 20

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class JournalDamaged(LakeError):
    """The journal cannot be read, or lacks messages."""


class JournalUnavailable(OSError):
    """SQLite could not use the journal: a full disk, an I/O error, a lock. The text says which."""


@dataclass(frozen=True, kw_only=True)
class PushedMessage:
    """A message as it was sent, and when it arrived (UTC)."""

    body: bytes
    received_at: datetime


@dataclass(frozen=True)
class Position:
    """The number up to which a lake has a journal, and where that journal was (`place_of`)."""

    number: int
    place: str | None = None


_START = Position(0)


@dataclass(frozen=True, kw_only=True)
class MessageBatch:
    """Messages of a journal after a number, in the order of their arrival; `until` is the last one.

    `losses` says what is missing or damaged, each as the end of a sentence about the journal.
    `deleted` is the number up to which messages were deleted before. `has_more` is true if another
    message was there and did not fit.
    """

    journal_id: str
    messages: list[PushedMessage]
    until: int
    deleted: int
    losses: list[str]
    has_more: bool


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Messages that a lake does not have yet: how many, their bytes, and the oldest one's time."""

    journal_id: str | None
    messages: int
    bytes: int
    since: datetime | None


class JournalTable:
    """The writing end of the journal in a folder. Blocks; use it in one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection: sqlite3.Connection | None = None
        self._files: list[tuple[int, int]] = []

    def append(self, messages: Sequence[PushedMessage]) -> None:
        """Store messages in one commit; they are on disk on return.

        Raises: OSError, JournalDamaged or LakeError; then none of them counts as stored.
        """
        with self._locked() as connection:
            with _committing(connection):
                [(newest,)] = connection.execute("select newest from journal")
                connection.executemany(
                    "insert into messages values (?, ?, ?, ?)", _rows(messages, newest)
                )
                newest += len(messages)
                connection.execute("update journal set newest = ?", [newest])
            self._require_same_files()
            _write_acknowledged(self.folder, newest)

    def probe(self) -> None:
        """Write one page and wait until it is on disk. Raises: as `append`."""
        with self._locked() as connection:
            with _committing(connection):
                connection.execute("update journal set newest = newest")
            self._require_same_files()

    def delete_until(self, number: int) -> bool:
        """Delete the messages up to a number, and their bytes from the disk.

        Returns False if a reader kept the write-ahead log, which then holds their bytes until the
        next deletion. Raises: as `append`.
        """
        with self._locked() as connection:
            with _committing(connection):
                connection.execute("delete from messages where number <= ?", [number])
                connection.execute(
                    "update journal set deleted = max(deleted, ?), newest = max(newest, ?)",
                    [number, number],
                )
            [(pages,)] = connection.execute("pragma page_count")
            [(free,)] = connection.execute("pragma freelist_count")
            if 2 * free > pages:
                connection.executescript("pragma incremental_vacuum")  # to its end
            [(is_busy, _, _)] = connection.execute("pragma wal_checkpoint(truncate)")
        return not is_busy

    def close(self) -> None:
        """Close the connection; the next call opens another one."""
        if self._connection is not None:
            with suppress(sqlite3.Error):  # every message was committed
                self._connection.close()
        self._connection = None

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock of the writers. An error closes the connection, which undoes its write."""
        try:
            with file_lock(
                self.folder / LOCK_FILE, seconds=LOCK_SECONDS, poll_seconds=LOCK_POLL_SECONDS
            ):
                try:
                    with _translated(self.folder):
                        yield self._connected()
                except BaseException:
                    self.close()
                    raise
        except LockTaken:
            raise JournalUnavailable("another process keeps writing to the journal") from None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            file = self.folder / JOURNAL_FILE
            require_own(file, "journal", otherwise=_OTHERWISE, kind="file")
            if not file.exists():  # SQLite gives its other files the mode of this one
                os.close(open_own(file, os.O_CREAT | os.O_EXCL | os.O_RDWR))
            self._connection = sqlite3.connect(
                file, isolation_level=None, check_same_thread=False, timeout=READER_SECONDS
            )
            _prepare(self._connection, _acknowledged(self.folder))
            flush_folder(self.folder)
            self._files = self._found_files()
        return self._connection

    def _require_same_files(self) -> None:
        """Refuse to acknowledge what went into files that have no name any more."""
        found: list[tuple[int, int]] = []
        with suppress(FileNotFoundError):
            found = self._found_files()
        if found != self._files:
            raise FileNotFoundError("a file of the journal was removed")

    def _found_files(self) -> list[tuple[int, int]]:
        found = [(self.folder / f"{JOURNAL_FILE}{suffix}").stat() for suffix in ("", "-wal")]
        return [(one.st_dev, one.st_ino) for one in found]


_OTHERWISE = "set FLEETLAKE_PUSH_JOURNAL to another folder"


def _prepare(connection: sqlite3.Connection, acknowledged: int) -> None:
    """Create the tables of a new journal; never use a number again that was acknowledged."""
    for pragma in (*_CREATED, *_OPENED):
        connection.execute(pragma)
    with _committing(connection):
        if not _has_tables(connection):
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("insert into journal values (?, 0, 0)", [str(uuid4())])
        connection.execute(
            "update journal set newest = ? where newest < ?", [acknowledged, acknowledged]
        )


@contextmanager
def _committing(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block does; an error leaves the transaction to be undone by the caller."""
    connection.execute("begin immediate")
    yield
    connection.execute("commit")


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours. Raises: JournalDamaged, JournalUnavailable."""
    try:
        yield
    except sqlite3.Error as error:
        is_damage = getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE
        if is_damage and io_fault(error, folder) is None:
            raise _damaged(folder, f"is damaged: {error}") from None
        raise JournalUnavailable(str(error)) from None


def _damaged(folder: Path, what: str) -> JournalDamaged:
    return JournalDamaged(
        f"The journal of pushed messages in {folder} {what}.",
        remedy="Stop its receivers, move the folder away as a whole, and start them again. "
        f"`sqlite3 {JOURNAL_FILE} .recover` prints what a damaged journal still holds. Polls read "
        "the same alerts.",
    )


def _has_tables(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("select 1 from sqlite_master where name = 'journal'").fetchone())


def _rows(messages: Iterable[PushedMessage], newest: int) -> Iterator[tuple[int, int, bytes, int]]:
    for number, message in enumerate(messages, newest + 1):
        received = (message.received_at - _EPOCH) // _MICROSECOND
        yield number, received, message.body, _checksum(number, received, message.body)


def _checksum(number: int, received: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(b"%d %d" % (number, received)))


def _write_acknowledged(folder: Path, newest: int) -> None:
    file = open_own(folder / ACKNOWLEDGED_FILE, os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, b"%0*d" % (_NEWEST_BYTES, newest))
    finally:
        os.close(file)


def _acknowledged(folder: Path) -> int:
    """Return the newest number that is known to have been acknowledged, 0 if none is."""
    with suppress(FileNotFoundError, ValueError):
        return int((folder / ACKNOWLEDGED_FILE).read_bytes())
    return 0


def place_of(folder: Path) -> str:
    """Return what a lake calls a journal's folder: the machine, and the path on it."""
    return f"{platform.node()}:{folder.resolve()}"


def has_journal(folder: Path) -> bool:
    """Return whether a folder holds a journal."""
    return (folder / JOURNAL_FILE).exists()


def journal_bytes(folder: Path) -> int:
    """Return the size of a journal's files."""
    size = 0
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError, NotADirectoryError):
            size += (folder / f"{JOURNAL_FILE}{suffix}").stat().st_size
    return size


@contextmanager
def _reading(folder: Path) -> Iterator[tuple[sqlite3.Connection, str, int, int] | None]:
    """Open one moment of a journal: its id, newest and deleted numbers; None if there is none.

    Raises: JournalDamaged, OSError, LakeError for a journal of another user.
    """
    file = folder / JOURNAL_FILE
    require_own(folder, "journal", otherwise=_OTHERWISE)
    if not has_journal(folder):
        yield None
        return
    require_own(file, "journal", otherwise=_OTHERWISE, kind="file")
    acknowledged = _acknowledged(folder)  # before the snapshot, which therefore has them all
    with (
        _translated(folder),
        closing(
            sqlite3.connect(
                f"file:{quote(str(file))}?mode=ro",
                uri=True,
                isolation_level=None,
                timeout=LOCK_SECONDS,
            )
        ) as connection,
    ):
        connection.execute("begin")
        if not _has_tables(connection):  # it is being created, or its content is lost
            yield None
            return
        [(id_, newest, deleted)] = connection.execute("select id, newest, deleted from journal")
        yield connection, id_, max(newest, acknowledged), deleted


def has_messages(folder: Path) -> bool:
    """Return whether a journal has anything for a drain. Raises: as `read_batch`."""
    with _reading(folder) as found:
        if found is None:
            return False
        connection, _, newest, deleted = found
        return newest > deleted or bool(connection.execute("select 1 from messages").fetchone())


def read_batch(
    folder: Path, positions: Mapping[str, Position], *, limit: int, max_bytes: int
) -> MessageBatch | None:
    """Return the messages after a lake's position: at most `limit`, with at most `max_bytes`.

    A single larger message is returned alone. Returns None if there is no journal.
    Raises: JournalDamaged, OSError, LakeError for a journal of another user.
    """
    with _reading(folder) as found:
        if found is None:
            return None
        connection, id_, newest, deleted = found
        after = positions.get(id_, _START).number
        messages: list[PushedMessage] = []
        losses: list[str] = []
        if after < deleted:
            losses.append(
                f"{_missing(after + 1, deleted)}, which went into another lake, or into this one "
                "before it was restored from a backup"
            )
        if after > newest:
            losses.append("is older than what was read from it, so it is read from its beginning")
            after = 0
        until = max(after, deleted)
        size, has_more = 0, False
        for number, received, body, checksum in connection.execute(
            f"{_MESSAGES} where number > ? order by number", [until]
        ):
            size += len(body)
            if len(messages) >= limit or (messages and size > max_bytes):
                has_more = True
                break
            if number > until + 1:
                losses.append(_missing(until + 1, number - 1))
            if checksum == _checksum(number, received, body):
                messages.append(
                    PushedMessage(body=body, received_at=_EPOCH + received * _MICROSECOND)
                )
            else:
                losses.append(f"is damaged: message {number:,} is not what was stored")
            until = number
        if not has_more and until < newest:
            losses.append(_missing(until + 1, newest))
            until = newest
    return MessageBatch(
        journal_id=id_,
        messages=messages,
        until=until,
        deleted=deleted,
        losses=losses,
        has_more=has_more,
    )


def read_waiting(folder: Path, positions: Mapping[str, Position]) -> Waiting:
    """Return what a journal holds that a lake does not have. Raises: as `read_batch`."""
    with _reading(folder) as found:
        if found is None:
            return Waiting(journal_id=None, messages=0, bytes=0, since=None)
        connection, id_, _, _ = found
        [(count, size, received)] = connection.execute(
            "select count(*), coalesce(sum(length(body)), 0), min(received) from messages "
            "where number > ?",
            [positions.get(id_, _START).number],
        )
    since = None if received is None else _EPOCH + received * _MICROSECOND
    return Waiting(journal_id=id_, messages=count, bytes=size, since=since)


def require_whole(folder: Path, positions: Mapping[str, Position], *, is_full: bool) -> None:
    """Check that a journal has each message that the lake does not have yet.

    `positions` were read from the lake before. With `is_full`, read every page and message, too.
    Raises: JournalDamaged; otherwise as `read_batch`.
    """
    with _reading(folder) as found:
        own = None if found is None else found[1]
        if any(at.place == place_of(folder) and id_ != own for id_, at in positions.items()):
            raise _damaged(folder, "is lost or was replaced, and with it what it had not handed on")
        if found is None:
            return
        connection, id_, newest, deleted = found
        if newest < positions.get(id_, _START).number:
            raise _damaged(folder, "is older than what the lake has read from it")
        [(count,)] = connection.execute("select count(*) from messages where number > ?", [deleted])
        if missing := newest - deleted - count:
            raise _damaged(folder, f"lacks {counted(missing, 'message')} that it had stored")
        if is_full:
            _require_readable(folder, connection)


def _require_readable(folder: Path, connection: sqlite3.Connection) -> None:
    [(fault,), *_] = connection.execute("pragma quick_check")
    if fault != "ok":
        raise _damaged(folder, f"is damaged: {fault}")
    for number, received, body, checksum in connection.execute(_MESSAGES):
        if checksum != _checksum(number, received, body):
            raise _damaged(folder, f"is damaged: message {number:,} is not what was stored")


def _missing(first: int, last: int) -> str:
    """Return which messages are missing.

    >>> _missing(3, 3), _missing(1_000, 1_001)
    ('lacks message 3', 'lacks messages 1,000 to 1,001')
    """
    return f"lacks message {first:,}" if first == last else f"lacks messages {first:,} to {last:,}"
