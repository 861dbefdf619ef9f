"""The positions and depths of brackets and commas in JSON that is not decoded yet.

Only pages that a decoder rejected, or that could take too much memory, are scanned. Such a page may
be malicious: one Python step per bracket of ten megabytes would take many seconds, during which no
other response is read. So NumPy processes `PART_BYTES` at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

PART_BYTES = 65_536

COMMA = ord(",")
_OPENING, _CLOSING, _QUOTE = b"[{", b"]}", ord('"')

Numbers = npt.NDArray[np.int64]


def _table(kind: type[Any], values: dict[int, int]) -> npt.NDArray[Any]:
    """Return a lookup table by byte, with 0 for bytes without a value."""
    table = np.zeros(256, kind)
    for byte, value in values.items():
        table[byte] = value
    return table


_STEPS = _table(np.int64, dict.fromkeys(_OPENING, 1) | dict.fromkeys(_CLOSING, -1))
_IS_SIGN = _table(np.bool_, dict.fromkeys([*_OPENING, *_CLOSING, COMMA, _QUOTE], 1))


@dataclass(frozen=True, slots=True)
class Part:
    """The brackets and commas outside strings in one part of some JSON, in order.

    Each has its position in the JSON, its byte, and the depth after it.
    """

    places: Numbers
    signs: npt.NDArray[np.uint8]
    depths: Numbers


def outline(json: bytes) -> Iterator[Part]:
    r"""Yield the outline of JSON, part by part; the JSON need not be strict.

    >>> [part] = outline(b'{"a": ["[,\\"", 1]}')
    >>> part.places.tolist(), bytes(part.signs), part.depths.tolist()
    ([0, 6, 13, 16, 17], b'{[,]}', [1, 2, 2, 1, 0])
    """
    # Hide escapes, which could look like the end of a string. Escaped backslashes go first.
    plain = json.replace(rb"\\", b"..").replace(rb"\"", b"..")
    depth, is_in_text = 0, False
    for start in range(0, len(plain), PART_BYTES):
        count = min(PART_BYTES, len(plain) - start)
        part = np.frombuffer(plain, np.uint8, count, start)
        places = np.flatnonzero(_IS_SIGN[part])
        signs = part[places]
        is_quote = signs == _QUOTE
        in_text = np.logical_xor.accumulate(is_quote) ^ is_in_text
        is_in_text ^= bool(is_quote.sum() % 2)
        is_outside = ~(in_text | is_quote)
        places, signs = places[is_outside] + start, signs[is_outside]
        if places.size:
            depths = depth + np.cumsum(_STEPS[signs])
            depth = int(depths[-1])
            yield Part(places, signs, depths)


def deepest(json: bytes) -> int:
    """Return how deep JSON nests."""
    return max((int(part.depths.max()) for part in outline(json)), default=0)
