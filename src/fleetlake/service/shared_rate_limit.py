"""The call limit of machines that share a lake, kept in the lake's database.

The database has one row per call of the last minute, and one row that counts the day's calls. They
are read only under a lock, which the database releases when a process dies. The database's clock
dates the calls.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fleetlake.errors import BudgetSpent
from fleetlake.lake_address import SharedLake
from fleetlake.service.rate_limit import CLOCK_STEP_SECONDS, SECONDS_A_DAY, SPAN_SECONDS, CallLimit
from fleetlake.settings import Settings

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
