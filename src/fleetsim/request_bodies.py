"""Parsing of the JSON bodies that clients send."""

from typing import Any, Final

import orjson

from fleetsim.refusals import validation

DEEPEST: Final = 100
"""Maximum nesting of a body. Records nest bodies further, and the JSON writer stops at 254 levels,
so a deeper body could be stored but never listed."""


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body.

    Raises: orjson.JSONDecodeError for malformed JSON, Refusal (validation) for a value that is
    nested too deeply.
    """
    value = orjson.loads(body)
    if _depth_exceeds(value, DEEPEST):
        raise validation("body", f"nested more than {DEEPEST} levels deep", status=400)
    return value


def _depth_exceeds(value: Any, levels: int) -> bool:
    """Return whether objects and arrays nest deeper; without recursion, which has limits too."""
    level = [value]
    for _ in range(levels + 1):
        level = [part for item in level for part in _parts(item)]
        if not level:
            return False
    return True


def _parts(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
