"""The values that a setting may have, and its text in the form that is used."""

import re
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from fleetlake.machine.project import in_project


class ClockTrust(StrEnum):
    """Which clocks a load trusts."""

    CHECKED = "checked"  # the earlier of the service's clock and this machine's
    SERVICE = "service"  # only the service's


def in_project_folder(value: object) -> object:
    """Return a relative folder as one below the project; URLs and other values as they are."""
    if isinstance(value, str) and "://" not in value:
        return str(in_project(Path(value)))
    return in_project(value) if isinstance(value, Path) else value


def comma_separated(value: str) -> tuple[str, ...]:
    """Return the parts of a text that may be empty, without spaces.

    >>> comma_separated("a, b,"), comma_separated("")
    (('a', 'b'), ())
    """
    return tuple(part.strip() for part in value.split(",") if part.strip())


def memory_size(value: str) -> str:
    """Return the text of a size. Raises: ValueError if it is none.

    >>> memory_size(" 8GB ")
    '8GB'
    """
    if not re.fullmatch(r"(?i)\d+(\.\d+)?\s*[kmgt]i?b", value.strip()):
        raise ValueError("must be a size, such as 1500MB or 8GB")
    return value.strip()


def root_url(value: str) -> str:
    """Return the root URL of a service. Raises: ValueError if it is none, or has more parts.

    >>> root_url("https://host/api/v2/")
    'https://host/api/v2/'
    """
    parts = urlsplit(value.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError("must be an http or https address")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must not contain a user, password, query or fragment")
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
