"""The call limit that all fleetlake processes share: of one user on one machine, or of one lake.

On one machine, a file keeps the times of the latest calls in a ring buffer. A call may start once
the call that is `calls_per_minute` positions back is a minute old. So no span of sixty seconds
contains more calls, whichever process makes them. The file is locked only while it is read or
written, never while a process waits, and a killed process leaves nothing to clean up. After the
ring, the file counts the day's calls.

Machines that share a lake keep the limit in the lake's database: one row per call of the last
minute, and one row that counts the day's calls. They are read only under a lock, which the database
releases when a process dies. The database's clock dates the calls.
"""

import asyncio
import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EACCES, EPERM
from pathlib import Path
from typing import Any

from fleetlake.errors import BudgetSpent, LakeError, SettingsError
from fleetlake.lake_address import SharedLake
from fleetlake.machine.io_faults import io_fault, not_writable
from fleetlake.machine.ownership import open_own, require_own
from fleetlake.machine.umask import apply_umask
from fleetlake.settings import Settings

MAX_CALLS_PER_MINUTE = 60_000
SPAN_SECONDS = 60.0
SECONDS_A_DAY = 86_400
CLOCK_STEP_SECONDS = 1.0
_COUNT = struct.Struct("<Q")
_INSTANT = struct.Struct("<d")
_DAY = struct.Struct("<QQ")
_DAY_OFFSET = _COUNT.size + MAX_CALLS_PER_MINUTE * _INSTANT.size


class CallLimit:
    """Limits calls to `calls_per_minute` in any sixty seconds; 0 means no limit.

    `calls_per_day` limits the calls of a day in UTC; 0 means no limit here too.
    """

    def __init__(
        self,
        folder: Path,
        *,
        account: str,
        calls_per_minute: int,
        calls_per_day: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if calls_per_minute > MAX_CALLS_PER_MINUTE:
            raise SettingsError(
                f"FLEETLAKE_CALLS_PER_MINUTE is {calls_per_minute}.",
                remedy=f"Use at most {MAX_CALLS_PER_MINUTE}, or 0 for no limit.",
            )
        self._calls_per_minute = calls_per_minute
        self._calls_per_day = calls_per_day
        self._clock = clock
        self._file = -1
        self._folder = folder
        if calls_per_minute or calls_per_day:
            # The name contains a digest, which identifies the account without naming it.
            digest = hashlib.sha256(account.encode()).hexdigest()[:16]
            self._file = _open(folder / f"calls-{digest}.ring")

    async def wait_turn(self) -> None:
        """Wait until a call may be made, and count it.

        Raises: BudgetSpent if the calls of the day are used up.
        """
        while (seconds := self._reserve()) > 0:  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _reserve(self) -> float:
        """Count a call and return 0, or return the seconds to wait."""
        if self._file < 0:
            return 0.0
        try:
            return self._reserve_in_file()
        except OSError as error:
            raise _not_writable(self._folder, error) from None

    def _reserve_in_file(self) -> float:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            now = self._clock()  # read under the lock, so that times in the ring ascend
            day, used = self._used_today(now)
            count = self._read(_COUNT, 0) or 0
            if self._calls_per_minute and count >= self._calls_per_minute:
                oldest = self._read(_INSTANT, self._offset(count - self._calls_per_minute)) or 0.0
                if oldest > now + CLOCK_STEP_SECONDS:
                    # The clock was set back, so the times in the ring are no longer valid.
                    self._forget(count)
                elif (wait := oldest + SPAN_SECONDS - now) > 0:
                    return wait
            os.pwrite(self._file, _INSTANT.pack(now), self._offset(count))
            os.pwrite(self._file, _COUNT.pack(count + 1), 0)
            os.pwrite(self._file, _DAY.pack(day, used + 1), _DAY_OFFSET)
            return 0.0
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _used_today(self, now: float) -> tuple[int, int]:
        """Return the day and its calls so far. Raises: BudgetSpent if they are used up."""
        today = int(now // SECONDS_A_DAY)
        stored = os.pread(self._file, _DAY.size, _DAY_OFFSET)
        day, used = _DAY.unpack(stored) if len(stored) == _DAY.size else (today, 0)
        used = used if day == today else 0
        if self._calls_per_day and used >= self._calls_per_day:
            raise BudgetSpent(
                f"All {self._calls_per_day:,} calls of this day are used.",
                remedy="The next run after midnight UTC continues from here. "
                "FLEETLAKE_CALLS_PER_DAY sets the limit.",
            )
        return today, used

    def _forget(self, count: float) -> None:
        """Mark the latest calls in the ring as made long ago."""
        for call in range(int(count) - self._calls_per_minute, int(count)):
            os.pwrite(self._file, _INSTANT.pack(0.0), self._offset(call))

    def _read(self, kind: struct.Struct, offset: int) -> int | float | None:
        stored = os.pread(self._file, kind.size, offset)
        return kind.unpack(stored)[0] if len(stored) == kind.size else None

    @staticmethod
    def _offset(call: float) -> int:
        return _COUNT.size + int(call) % MAX_CALLS_PER_MINUTE * _INSTANT.size


def _open(path: Path) -> int:
    apply_umask()
    try:
        require_own(path.parent, "state", otherwise="set FLEETLAKE_STATE to a folder of your own")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return open_own(path, os.O_RDWR | os.O_CREAT)
    except LakeError as error:
        raise SettingsError(error.what, remedy=error.remedy) from None
    except OSError as error:
        if error.errno not in {EACCES, EPERM} and io_fault(error):
            raise _not_writable(path.parent, error) from None
        raise SettingsError(
            f"The shared call limit cannot be stored in {path.parent}: {error.strerror}.",
            remedy="Make the folder writable, or set FLEETLAKE_STATE to a writable one.",
        ) from None


def _not_writable(folder: Path, error: OSError) -> LakeError:
    return not_writable("state", folder, error, setting="FLEETLAKE_STATE")


_LOCK = "SELECT pg_advisory_lock(hashtextextended('fleetlake calls', 0))::text"
_UNLOCK = "SELECT pg_advisory_unlock(hashtextextended('fleetlake calls', 0))"
_CALLS = "CREATE TABLE IF NOT EXISTS fleetlake_calls (account text, called_at float8)"
_DAYS = """
CREATE TABLE IF NOT EXISTS fleetlake_call_days (account text PRIMARY KEY, day bigint, used bigint)
"""


def call_limit(settings: Settings, account: str) -> "CallLimit | SharedCallLimit":
    """Return the limit shared by all processes that load this lake with these keys."""
    minute, day = settings.calls_per_minute, settings.calls_per_day
    if isinstance(settings.lake, SharedLake) and (minute or day):
        return SharedCallLimit(
            settings.lake, account=account, calls_per_minute=minute, calls_per_day=day
        )
    return CallLimit(settings.state, account=account, calls_per_minute=minute, calls_per_day=day)


class SharedCallLimit:
    """Limits the calls of all machines together, as `CallLimit` does for one machine."""

    def __init__(
        self, lake: SharedLake, *, account: str, calls_per_minute: int, calls_per_day: int
    ) -> None:
        self._account = hashlib.sha256(account.encode()).hexdigest()[:16]
        self._calls_per_minute = calls_per_minute
        self._calls_per_day = calls_per_day
        self._connection = lake.connect()
        with self._lock():
            self._run(_CALLS)
            self._run(_DAYS)

    async def wait_turn(self) -> None:
        """Wait until a call may be made, and count it.

        Raises: BudgetSpent if the calls of the day are used up.
        """
        while (seconds := self.reserve()) > 0:  # noqa: ASYNC110 - other machines set no event
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """Close the connection to the database."""
        self._connection.close()

    def reserve(self) -> float:
        """Count a call and return 0, or return the seconds to wait."""
        with self._lock():
            [now] = self._row("SELECT extract(epoch FROM clock_timestamp())::float8")
            # A call dated in the future was recorded before the clock was set back: ignore it.
            self._run(
                "DELETE FROM fleetlake_calls WHERE account = $1 "
                "AND (called_at <= $2 OR called_at > $3)",
                self._account,
                now - SPAN_SECONDS,
                now + CLOCK_STEP_SECONDS,
            )
            made, oldest = self._row(
                "SELECT count(*), min(called_at) FROM fleetlake_calls WHERE account = $1",
                self._account,
            )
            if 0 < self._calls_per_minute <= made:
                return float(oldest + SPAN_SECONDS - now)
            self._count_of_day(int(now // SECONDS_A_DAY))
            self._run(
                "INSERT INTO fleetlake_calls (account, called_at) VALUES ($1, $2)",
                self._account,
                now,
            )
            return 0.0

    def _count_of_day(self, today: int) -> None:
        """Count one of the day's calls. Raises: BudgetSpent if they are used up."""
        [used] = self._row(
            "INSERT INTO fleetlake_call_days AS d (account, day, used) VALUES ($1, $2, 1) "
            "ON CONFLICT (account) "
            "DO UPDATE SET day = $2, used = CASE WHEN d.day = $2 THEN d.used + 1 ELSE 1 END "
            "RETURNING used",
            self._account,
            today,
        )
        if 0 < self._calls_per_day < used:
            raise BudgetSpent(
                f"All {self._calls_per_day:,} calls of this day are used.",
                remedy="The next run after midnight UTC continues from here. "
                "FLEETLAKE_CALLS_PER_DAY sets the limit.",
            )

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self._row(_LOCK)
        try:
            yield
        finally:
            self._row(_UNLOCK)

    def _run(self, sql: str, *values: object) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)

    def _row(self, sql: str, *values: object) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return cursor.fetchone()
