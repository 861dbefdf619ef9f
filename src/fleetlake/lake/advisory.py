"""Locks of a shared lake: PostgreSQL's advisory locks, which all machines see.

A lock belongs to a connection, so the database releases the locks of a process that died. A process
has one connection for stream locks and one for commit locks, so that a commit waiting for another
machine does not block the release of streams.
"""

import atexit
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from fleetlake.errors import FleetlakeError, LakeError
from fleetlake.lake_address import SharedLake
from fleetlake.machine.file_locks import LockTaken

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
