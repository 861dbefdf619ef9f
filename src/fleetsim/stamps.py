"""Timestamps: the three formats that the service writes, and those that filters accept."""

from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np

from fleetsim.units import NULL, Ints

TimestampFormat = Literal["micros_offset", "seconds_offset", "micros_z"]
"""2026-06-06T12:59:12.462000+00:00, 2026-06-06T12:59:11+00:00, 2026-03-29T02:45:29.163359Z."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_text(instants: Ints, time_format: TimestampFormat) -> list[str | None]:
    """Return each instant's text, None for NULL. `seconds_offset` drops the fraction."""
    unit: Literal["s", "us"] = "s" if time_format == "seconds_offset" else "us"
    suffix = "Z" if time_format == "micros_z" else "+00:00"
    texts = np.datetime_as_string(instants.astype("datetime64[us]"), unit=unit).tolist()
    if (instants == NULL).any():
        return [None if text == "NaT" else text + suffix for text in texts]
    return [text + suffix for text in texts]


def parse(text: str) -> int:
    """Return the instant of an ISO 8601 text; UTC if it has no zone.

    Raises: ValueError. A plus sign sent as `+` arrives as a space and is refused, because the
    contract requires `%2b` (service contract, Conventions for all v2 records).
    """
    value = datetime.fromisoformat(text)
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def to_datetime(instant: int) -> datetime:
    """Return an instant as a datetime in UTC."""
    return _EPOCH + instant * _MICROSECOND


def from_datetime(value: datetime) -> int:
    """Return a datetime as an instant; a naive one is read as UTC."""
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND
