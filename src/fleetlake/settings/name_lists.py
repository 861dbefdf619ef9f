"""Settings that are lists of names: also one text with commas, as in an environment variable."""

from typing import Annotated

from pydantic import BeforeValidator
from pydantic_settings import NoDecode


def comma_separated(value: str) -> tuple[str, ...]:
    """Return the parts of a text that may be empty, without spaces.

    >>> comma_separated("a, b,"), comma_separated("")
    (('a', 'b'), ())
    """
    return tuple(part.strip() for part in value.split(",") if part.strip())


def listed(value: object) -> object:
    """Return a text as the names in it, and any other value as it is."""
    return comma_separated(value) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(listed)]
"""Names, also as one text with commas."""
