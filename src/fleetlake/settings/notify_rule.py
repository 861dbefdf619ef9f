"""A place that is told about findings: its address, and which findings it is told of, and when."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from fleetlake.settings.name_lists import Names


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError("is not a time zone, such as Europe/Paris") from None
    return name


ZoneName = Annotated[str, AfterValidator(_zone)]
HOURS = r"^([01]?\d|2[0-3])-([01]?\d|2[0-3])$"
"""Hours of a day, such as 22-7."""


class Severity(StrEnum):
    """How urgent a finding is, most urgent first."""

    URGENT = "urgent"
    SOON = "soon"
    WATCH = "watch"

    @property
    def rank(self) -> int:
        """1 for urgent, as in the mart."""
        return [*Severity].index(self) + 1


class NotifyRule(BaseModel):
    """A place to tell, `url` as Apprise writes it. Empty `reasons` and `groups` mean all."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: SecretStr
    severity: Severity = Severity.URGENT
    reasons: Names = ()
    groups: Names = ()
    wait_minutes: float = Field(10, ge=0, le=24 * 60)
    again_hours: float = Field(6, ge=0, le=24 * 366)
    digest_hours: float = Field(0, ge=0, le=24 * 31)
    quiet: str | None = Field(None, pattern=HOURS)
    time_zone: ZoneName = "UTC"

    def is_quiet(self, now: datetime) -> bool:
        """Return whether an instant is within the quiet hours, by the rule's own time zone.

        >>> from datetime import UTC, datetime
        >>> rule = NotifyRule(url="json://host", quiet="22-7")
        >>> [rule.is_quiet(datetime(2026, 6, 15, hour, tzinfo=UTC)) for hour in (21, 22, 6, 7)]
        [False, True, True, False]
        """
        if not self.quiet:
            return False
        begin, end = map(int, self.quiet.split("-"))
        hour = now.astimezone(ZoneInfo(self.time_zone)).hour
        return begin <= hour < end if begin <= end else hour >= begin or hour < end
