"""Push destinations, as the service lists them, and the states they are in. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

FAILED_LATELY = timedelta(days=1)
"""A destination whose last error is younger counts as unreachable.

The service shows when a push failed last, but not whether one has succeeded since. It repeats
failed pushes within a day.
"""


FAILURE_ALERTS = ("http_destination_suspended", "http_push_failure")
"""Types of the alerts that the service raises if it cannot push."""


class PushState(StrEnum):
    """The delivery states of the service contract."""

    ACTIVE = "active"
    UNREACHABLE = "unreachable"
    SUSPENDED = "suspended"
    DISABLED = "disabled"


@dataclass(frozen=True, kw_only=True)
class PushDestination:
    """Where the service pushes alerts to. Times are UTC; the secret is never shown."""

    destination_id: str
    account_id: int | None
    name: str
    url: str
    is_enabled: bool
    is_suspended: bool
    last_error_at: datetime | None
    last_error_text: str | None
    updated_at: datetime | None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the destination in a row of the raw table, or of a page."""
        return cls(
            destination_id=row["destination_config_id"],
            account_id=row["account_id"],
            name=row["name"] or "",
            url=row["endpoint_url"] or "",
            is_enabled=row["enabled"] is not False,
            is_suspended=row["suspended"] is True,
            last_error_at=row["last_error_at"],
            last_error_text=row["last_error_text"],
            updated_at=row["updated_at"],
        )

    def state(self, now: datetime) -> PushState:
        """Return the state at an instant of the service's clock, UTC."""
        if not self.is_enabled:
            return PushState.DISABLED
        if self.is_suspended:
            return PushState.SUSPENDED
        failed = self.last_error_at
        is_failing = failed is not None and now - failed < FAILED_LATELY
        return PushState.UNREACHABLE if is_failing else PushState.ACTIVE


def remedy_of(state: PushState, destination_id: str) -> str:
    """Return the command that helps a destination in a state; "" if it needs none.

    >>> remedy_of(PushState.SUSPENDED, "7f0e")
    'fleetlake alerts destinations resume 7f0e'
    """
    words = {
        PushState.UNREACHABLE: "resume {}",
        PushState.SUSPENDED: "resume {}",
        PushState.DISABLED: "change {} --enable",
    }.get(state)
    return f"fleetlake alerts destinations {words.format(destination_id)}" if words else ""
