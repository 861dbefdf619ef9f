"""Bodies that are nearly JSON, as JSON: what some services write that no strict reader takes."""

import json
from math import isfinite
from typing import Any

MOST_DIGITS = 400
"""A double has at most 309 digits before its point; Python itself refuses some thousands."""


_SPELLED_OUT = {0xDC00 + byte: rf"\\x{byte:02x}" for byte in range(0x80, 0x100)}
"""What stands for each byte that is no text, by the character that Python decodes it to."""


def strict_json(body: bytes) -> bytes:
    """Return the body as strict JSON: the service puts raw control characters in strings.

    Bytes that are no text are spelled out. Half a surrogate pair becomes a question mark, but in
    a member's name its escape: names must stay apart. NaN and the like become text, and so do
    numbers that no computer's number holds. Raises: ValueError if it is not JSON even so.
    """
    text = body.decode("utf-8", "surrogateescape")  # no UTF-8 decodes to such a character
    text = text if text.isascii() else text.translate(_SPELLED_OUT)
    answer = json.loads(
        text,
        strict=False,
        parse_constant=str,
        parse_float=_finite,
        parse_int=_whole,
        object_pairs_hook=_named_apart,
    )
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _named_apart(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose names are text; of two members of one name the last one counts."""
    return {name.encode("utf-8", "backslashreplace").decode(): value for name, value in members}


def _finite(text: str) -> float | str:
    return number if isfinite(number := float(text)) else text


def _whole(text: str) -> int | str:
    return int(text) if len(text) <= MOST_DIGITS else text
