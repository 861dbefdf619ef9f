"""Locks of a lake: one load of a stream at a time, one commit of the catalog at a time.

A stream that can be sharded has a lock for each part, so that a shard excludes only loads of
the same ids. In a folder, the locks are operating-system locks on files; in a shared lake they
are PostgreSQL's. Locks of a killed process are released.

A lock belongs to a connection, so the database releases the locks of a process that died. A process
has one connection for stream locks and one for commit locks, so that a commit waiting for another
machine does not block the release of streams.
"""

import atexit
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import FleetlakeError, LakeBusy, LakeError, StreamBusy
from fleetlake.lake_address import LakeAddress, SharedLake
from fleetlake.machine.file_locks import LockTaken, file_lock
from fleetlake.machine.io_faults import not_writable
from fleetlake.planning.shards import WHOLE, Shard

_TOO_LONG = "55P03"
"""PostgreSQL's code for a lock that was not available in time."""


class _Session:
    """A connection and the locks it holds; locks of the same session do not exclude each other."""

    def __init__(self, lake: SharedLake) -> None:
        self.connection = lake.connect()
        self.held: set[str] = set()
        self.in_use = Lock()

    def ask(self, sql: str, *values: object) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return cursor.fetchone()[0] if sql.startswith("SELECT") else None


_sessions: dict[tuple[SharedLake, str], _Session] = {}
_making = Lock()


@contextmanager
def advisory_lock(lake: SharedLake, name: str, *, seconds: float, purpose: str) -> Iterator[None]:
    """Hold a lock by name, waiting up to `seconds`. Raises: LockTaken, LakeError."""
    session = _session(lake, purpose)
    with _lost(lake, purpose), session.in_use:
        if name in session.held or not _acquire(session, name, seconds):
            raise LockTaken
        session.held.add(name)
    try:
        yield
    finally:
        with session.in_use, suppress(Exception):  # a lost connection has already released it
            session.held.discard(name)
            session.ask("SELECT pg_advisory_unlock(hashtextextended($1, 0))", name)


def _acquire(session: _Session, name: str, seconds: float) -> bool:
    if seconds == 0:
        return bool(session.ask("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name))
    session.ask(f"SET lock_timeout = {round(seconds * 1000)}")
    try:
        session.ask("SELECT pg_advisory_lock(hashtextextended($1, 0))::text", name)
    except Exception as error:
        if getattr(error, "sqlstate", None) == _TOO_LONG:
            return False
        raise
    return True


def _session(lake: SharedLake, purpose: str) -> _Session:
    with _making:
        if (lake, purpose) not in _sessions:
            _sessions[lake, purpose] = _Session(lake)
        return _sessions[lake, purpose]


@contextmanager
def _lost(lake: SharedLake, purpose: str) -> Iterator[None]:
    """Drop a connection that failed, so that the next lock opens a new one."""
    try:
        yield
    except (LockTaken, FleetlakeError):
        raise
    except Exception:  # noqa: BLE001 - the driver is installed only where a lake is shared
        with suppress(Exception):
            _sessions.pop((lake, purpose)).connection.close()
    else:
        return
    raise LakeError(
        "The connection to the catalog of the shared lake was lost.",
        remedy="Run again once the database answers. Committed data is intact.",
    )


@atexit.register
def _close() -> None:
    for session in _sessions.values():
        session.connection.close()


COMMIT_LOCK_SECONDS = 120.0
UPGRADE_LOCK_SECONDS = 600.0
OPEN_LOCK_SECONDS = 5.0
OPEN_LOCK_POLL_SECONDS = 0.005
DRAIN_LOCK_SECONDS = 30.0
"""Far longer than the one commit for which a drain of pushed messages holds its lock."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait in all for loads, builds' commits, maintenance and backups to end.

    `on_busy` is called with what is waited for.
    """

    seconds: float = 0
    on_busy: Callable[[str], None] = lambda _: None


AT_ONCE = Patience()


@contextmanager
def stream_lock(
    lake: LakeAddress, stream: str, shard: Shard = WHOLE, *, until: float = 0
) -> Iterator[None]:
    """Hold the lock of a stream, or the locks of a shard's parts if the stream can be divided.

    Raises: StreamBusy if another process is loading any of these parts, and still is at `until`
    (monotonic); LakeError if the lock belongs to another user. A stream of pushed records is never
    busy for long, so its lock is waited for.
    """
    endpoint = ENDPOINTS[stream]
    if not endpoint.is_requested:
        with drain_lock(lake):
            yield
        return
    parts = [f"{stream}.{part}" for part in shard.parts] if endpoint.is_divisible else [stream]
    locks = (_lock(lake, name, seconds=_left(until)) for name in parts)
    busy = StreamBusy(
        f"Another process is loading {stream}.",
        remedy="Run again when it has ended. Nothing was changed.",
    )
    with _held(*locks, busy=busy):
        yield


def drain_lock(
    lake: LakeAddress, *, seconds: float = DRAIN_LOCK_SECONDS
) -> AbstractContextManager[None]:
    """Hold the commits of pushed records, which one process at a time makes.

    Raises: StreamBusy if another process holds it for longer than `seconds`.
    """
    busy = StreamBusy(
        f"Another process is writing pushed records to the lake in {lake}.",
        remedy="Run again. Nothing was changed.",
    )
    return _held(_lock(lake, "drain", seconds=seconds), busy=busy)


def announce_lock(lake: LakeAddress) -> AbstractContextManager[None]:
    """Hold the announcing of alerts. Raises: StreamBusy at once if another process announces."""
    busy = StreamBusy("Another process is announcing alerts.")
    return _held(_lock(lake, "announce"), busy=busy)


def notify_lock(lake: LakeAddress) -> AbstractContextManager[None]:
    """Hold the telling of findings. Raises: StreamBusy at once if another process tells them."""
    busy = StreamBusy("Another process is sending messages about findings.")
    return _held(_lock(lake, "notify"), busy=busy)


def upgrade_lock(lake: LakeAddress) -> AbstractContextManager[None]:
    """Hold the upgrade of a lake. Raises: LakeBusy if another process upgrades it for too long."""
    busy = LakeBusy(
        f"Another process is upgrading the lake in {lake}.", remedy="Wait for it, then run again."
    )
    lock = _lock(lake, "upgrade", seconds=UPGRADE_LOCK_SECONDS, purpose="upgrades")
    return _held(lock, busy=busy)


def export_lock(lake: LakeAddress, target: str) -> AbstractContextManager[None]:
    """Hold the lock of exports to a target. Raises: LakeBusy at once if one is running."""
    busy = LakeBusy(f"Another export to {target} is running.", remedy="Wait for it, or stop it.")
    return _held(_lock(lake, f"export-{target}"), busy=busy)


def commit_lock(lake: LakeAddress) -> AbstractContextManager[None]:
    """Hold the catalog's lock for one commit. Raises: LakeBusy after waiting for two minutes."""
    busy = LakeBusy(
        f"Another process has held the catalog of {lake} for two minutes.",
        remedy="Look for a stopped (suspended) fleetlake process and end it.",
    )
    lock = _lock(lake, "commit", seconds=COMMIT_LOCK_SECONDS, purpose="commits")
    return _held(lock, busy=busy)


def is_committing(lake: LakeAddress) -> bool:
    """Return whether a process of fleetlake commits just now. Raises: LakeError."""
    try:
        with _lock(lake, "commit", purpose="commits"):
            return False
    except LockTaken:
        return True


def files_lock(lake: LakeAddress, *, seconds: float) -> AbstractContextManager[None]:
    """Keep the lake's files as they are: a backup copies them, maintenance removes some.

    Raises: LakeBusy if the other one, or one of the same kind, still runs after `seconds`.
    """
    busy = LakeBusy(
        f"A backup or maintenance of the lake in {lake} is under way.",
        remedy="Run again when it has ended. Nothing was changed.",
    )
    return _held(_lock(lake, "files", seconds=seconds, purpose="files"), busy=busy)


def build_lock(lake: LakeAddress, *, seconds: float) -> AbstractContextManager[None]:
    """Hold the building of the lake's marts, on all machines that share the lake.

    Raises: LakeBusy if another build still runs after `seconds`.
    """
    lock = _lock(lake, "build", seconds=seconds, purpose="builds")
    return _held(lock, busy=another_build(lake))


def another_build(lake: LakeAddress) -> LakeBusy:
    """Return the error for a build that has to wait for too long."""
    return LakeBusy(
        f"Another build of the lake in {lake} is still running.",
        remedy="Wait for it, or stop it, and run again. Nothing was changed.",
    )


@contextmanager
def quiet_lake(lake: LakeAddress, patience: Patience = AT_ONCE) -> Iterator[None]:
    """Keep loads, drains, maintenance and backups away.

    Loads that begin while this waits for others are skipped, so that it gets its turn.

    Raises: LakeBusy if one is running and patience ends; a drain is waited for in any case, as in
    `stream_lock`.
    """
    until = time.monotonic() + patience.seconds
    locks: list[Callable[..., AbstractContextManager[None]]] = [
        lambda until: files_lock(lake, seconds=_left(until)),
        *(partial(stream_lock, lake, name) for name in ENDPOINTS),
    ]
    with ExitStack() as held:
        for lock in locks:
            try:
                held.enter_context(lock(until=0))
            except LakeBusy as busy:
                if not _left(until):
                    raise
                patience.on_busy(busy.what)
                held.enter_context(lock(until=until))
        yield


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


@contextmanager
def all_locks(lake: LakeAddress, patience: Patience = AT_ONCE) -> Iterator[None]:
    """Keep builds' commits away too. Raises: LakeBusy like `quiet_lake`."""
    with quiet_lake(lake, patience), commit_lock(lake):
        yield


@contextmanager
def open_lock(lake: LakeAddress) -> Iterator[None]:
    """Hold a lock while this process opens or closes the catalog in a folder.

    The lock only saves other processes a wait. A process that cannot get it continues without it.
    """
    with ExitStack() as held:
        if isinstance(lake, Path) and (folder := lake / "locks").is_dir():
            lock = folder / "door.lock"  # earlier releases use this file name too
            with suppress(LockTaken, LakeError, OSError):
                held.enter_context(
                    file_lock(lock, seconds=OPEN_LOCK_SECONDS, poll_seconds=OPEN_LOCK_POLL_SECONDS)
                )
        yield


@contextmanager
def _held(*locks: AbstractContextManager[object], busy: LakeError) -> Iterator[None]:
    """Hold some locks. Raises: `busy` if another process holds one of them for too long."""
    with ExitStack() as held:
        try:
            for lock in locks:
                held.enter_context(lock)
        except LockTaken:
            raise busy from None
        yield


def _lock(
    lake: LakeAddress, name: str, *, seconds: float = 0, purpose: str = "streams"
) -> AbstractContextManager[object]:
    if isinstance(lake, SharedLake):
        return advisory_lock(lake, f"fleetlake {name}", seconds=seconds, purpose=purpose)
    return file_lock(_folder(lake) / f"{name}.lock", seconds=seconds)


def _folder(lake: Path) -> Path:
    folder = lake / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable("lake", folder, error, setting="FLEETLAKE_LAKE") from None
    return folder
