"""Times in which trouble is expected: when, and of which groups or at which places."""

from datetime import date, datetime, time, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from fleetlake.settings.name_lists import Names
from fleetlake.settings.notify_rule import HOURS, ZoneName

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _known_days(value: tuple[str, ...]) -> tuple[str, ...]:
    days = tuple(day.lower() for day in value)
    if unknown := [day for day in days if day not in _DAYS]:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(_DAYS)}")
    return days


class MaintenanceWindow(BaseModel):
    """A time that recurs. Empty `groups`, `places` and `days` mean all; equal hours, the whole day.

    A window that passes midnight belongs to the day on which it begins.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hours: str = Field(pattern=HOURS)
    groups: Names = ()
    places: Names = ()
    days: Annotated[Names, AfterValidator(_known_days)] = ()
    first_day: date | None = None
    last_day: date | None = None
    time_zone: ZoneName = "UTC"

    def end_of(self, moment: datetime) -> datetime | None:
        """Return when the window that holds a moment ends; None outside of one.

        >>> from datetime import UTC
        >>> window = MaintenanceWindow(hours="22-4", days="sat")  # 2026-06-20 is a Saturday
        >>> [window.end_of(datetime(2026, 6, day, 3, tzinfo=UTC)) for day in (20, 21)]
        [None, datetime.datetime(2026, 6, 21, 4, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC'))]
        """
        for day in (-1, 0):
            starts_at, ends_at = self._on(moment, day)
            if starts_at <= moment < ends_at and self._has(starts_at.date()):
                return ends_at
        return None

    def next_after(self, moment: datetime) -> datetime | None:
        """Return when the window begins next, after a moment; None if it will not within a year.

        >>> from datetime import UTC
        >>> window = MaintenanceWindow(hours="22-4", days="sat")
        >>> window.next_after(datetime(2026, 6, 15, tzinfo=UTC)).isoformat()
        '2026-06-20T22:00:00+00:00'
        """
        for day in range(-1, 367):
            starts_at, _ = self._on(moment, day)
            if starts_at > moment and self._has(starts_at.date()):
                return starts_at
        return None

    def _on(self, moment: datetime, days: int) -> tuple[datetime, datetime]:
        """Return when the window begins and ends if it begins so many days after a moment's."""
        zone = ZoneInfo(self.time_zone)
        begin, end = map(int, self.hours.split("-"))
        day = moment.astimezone(zone).date() + timedelta(days=days)
        ends_on = day if begin < end else day + timedelta(days=1)
        return datetime.combine(day, time(begin), zone), datetime.combine(ends_on, time(end), zone)

    def _has(self, day: date) -> bool:
        is_after = self.first_day is None or day >= self.first_day
        is_before = self.last_day is None or day <= self.last_day
        return is_after and is_before and (not self.days or _DAYS[day.weekday()] in self.days)
