"""JSON output with raw control characters, as the live service sends them."""

from typing import Any, Final

import orjson

_STAND_INS: Final = {"\ue009": b"\t", "\ue00a": b"\n", "\ue01b": b"\x1b"}
"""Private-use characters that represent control characters until the body is written.

The JSON writer would escape the real ones, and a strict parser would then accept the page.
"""
_ENCODED: Final = {stand_in.encode(): raw for stand_in, raw in _STAND_INS.items()}
_ESCAPED: Final = {b"\t": b"\\t", b"\n": b"\\n", b"\x1b": b"\\u001b"}
_MARK: Final = b"\xee"
"""The first byte of every stand-in: searching for one byte is fast."""

TAB, NEWLINE, ESCAPE = _STAND_INS


def dump_page(value: Any) -> bytes:
    """Return JSON in which control characters inside strings are raw bytes (observed)."""
    body = orjson.dumps(value)
    if _MARK in body:
        for stand_in, raw in _ENCODED.items():
            body = body.replace(stand_in, raw)
    return body


def dump_line(value: Any) -> bytes:
    """Return one line of strict JSON, ending in a newline."""
    body = orjson.dumps(value)
    if _MARK in body:
        for stand_in, raw in _ENCODED.items():
            body = body.replace(stand_in, _ESCAPED[raw])
    return body + b"\n"
