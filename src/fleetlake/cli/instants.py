"""Points in time as people type them."""

from datetime import UTC, datetime

FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


def in_utc(moment: datetime) -> datetime:
    """Return a time with its zone; a time without one is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
