"""Points in time as people type them."""

from datetime import UTC, datetime
from typing import Any

import typer

FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z")


def instant(text: str) -> datetime:
    """Return a time with its zone; a time without one is UTC.

    Raises: typer.BadParameter saying how a time is written.

    >>> instant("2026-06-15T12:00:00")
    datetime.datetime(2026, 6, 15, 12, 0, tzinfo=datetime.timezone.utc)
    """
    for form in FORMATS:
        try:
            moment = datetime.strptime(text, form)  # noqa: DTZ007 - the next line adds the zone
        except ValueError:
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise typer.BadParameter(
        f"{text!r} is not a time. Write it as 2026-06-15, 2026-06-15T12:00:00 or "
        "2026-06-15T12:00:00+02:00."
    )


def day(text: str) -> datetime:
    """Return the beginning of a day. Raises: typer.BadParameter saying how a day is written."""
    try:
        return datetime.strptime(text, FORMATS[0]).replace(tzinfo=UTC)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day. Write it as 2026-06-15.") from None


TIME: dict[str, Any] = {"parser": instant, "metavar": "TIME"}
"""Keyword arguments of an option that takes a time."""
