"""Repairing bodies that are almost JSON, as some services send them."""

import json
from math import isfinite
from typing import Any

MAX_DIGITS = 400
"""A double has at most 309 digits before its point; Python rejects texts of a few thousand."""


_BYTE_ESCAPES = {0xDC00 + byte: rf"\\x{byte:02x}" for byte in range(0x80, 0x100)}
"""Escape for each byte that is not text, by the character that Python decodes it to."""


def strict_json(body: bytes) -> bytes:
    """Return the body as strict JSON: the service puts raw control characters in strings.

    Bytes that are not UTF-8 are escaped. Half a surrogate pair becomes a question mark; in a
    member's name it becomes an escape, because names must stay distinct. NaN, infinities and
    numbers too large for a double become text. Raises: ValueError if the result is not JSON.
    """
    text = body.decode("utf-8", "surrogateescape")  # UTF-8 never decodes to such a character
    text = text if text.isascii() else text.translate(_BYTE_ESCAPES)
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
    """Return an object with valid names; of several members with one name, the last one counts."""
    return {name.encode("utf-8", "backslashreplace").decode(): value for name, value in members}


def _finite(text: str) -> float | str:
    return number if isfinite(number := float(text)) else text


def _whole(text: str) -> int | str:
    return int(text) if len(text) <= MAX_DIGITS else text
