"""Columns of version-1 UUIDs: how to build them from an instant and eight bytes, and their order.

The order is Cassandra's: the embedded 60-bit time first, then the other eight bytes, each
compared as a signed byte. The smallest UUID of an instant ends in eight bytes of 0x80.
"""

from uuid import UUID

import numpy as np

from fleetsim.units import Ints, Words

_GREGORIAN_TICKS = 0x01B21DD213814000
"""Ticks of 100 ns from 1582-10-15 to 1970-01-01."""

_SIGN_BITS = 0x8080808080808080
_HEX = np.array([f"{byte:02x}" for byte in range(256)], dtype="S2")
_DASHED = ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24))


def tail_from_bits(bits: Words) -> Words:
    """Return random bits with the two variant bits every version-1 UUID carries."""
    return (bits & np.uint64(0x3FFF_FFFF_FFFF_FFFF)) | np.uint64(0x8000_0000_0000_0000)


def order_key(tail: Words) -> Words:
    """Return the key that sorts tails as signed bytes when compared as unsigned words."""
    return tail ^ np.uint64(_SIGN_BITS)


def ticks_of(instants: Ints) -> Ints:
    """Return the embedded 100 ns ticks of instants in microseconds."""
    return instants * 10 + _GREGORIAN_TICKS


def instant_of(ticks: int) -> int:
    """Return the microsecond in which the ticks lie."""
    return (ticks - _GREGORIAN_TICKS) // 10


def to_text(instants: Ints, tails: Words) -> list[str]:
    """Return the canonical text of each (instant, tail) pair.

    >>> to_text(np.array([0]), np.array([0x8080808080808080], dtype=np.uint64))
    ['13814000-1dd2-11b2-8080-808080808080']
    """
    ticks = ticks_of(instants).astype(np.uint64)
    head = (ticks & np.uint64(0xFFFFFFFF)) << np.uint64(32)
    head |= (ticks >> np.uint64(32) & np.uint64(0xFFFF)) << np.uint64(16)
    head |= ticks >> np.uint64(48) | np.uint64(0x1000)
    octets = np.stack([head, tails], axis=1).astype(">u8").view(np.uint8)
    digits = _HEX[octets].view("S1").reshape(-1, 32)
    text = np.full((len(digits), 36), b"-", dtype="S1")
    for first, last, offset in _DASHED:
        text[:, offset : offset + last - first] = digits[:, first:last]
    return [str(value) for value in text.view("S36").ravel().astype("U36").tolist()]


def parse(text: str) -> tuple[int, int]:
    """Return (ticks, order key) of a UUID text, comparable as a tuple.

    Raises: ValueError if it is not a version-1 UUID.
    """
    value = UUID(text)
    if (value.int >> 76) & 0xF != 1:
        raise ValueError(f"{text!r} is not a time-based uuid")
    return value.time, (value.int & 0xFFFF_FFFF_FFFF_FFFF) ^ _SIGN_BITS
