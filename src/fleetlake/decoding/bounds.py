"""Limits on the size, width and depth of one record; a record over a limit is quarantined.

A faulty or malicious record must neither exhaust the memory nor spoil the other records of its
page. The checks are cheap for ordinary pages: they count what is quick to count, and look closely
only if that count is high.

Only pages that a decoder rejected, or that could take too much memory, are scanned. Such a page may
be malicious: one Python step per bracket of ten megabytes would take many seconds, during which no
other response is read. So NumPy processes `PART_BYTES` at a time.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
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


MAX_DEPTH = 200
"""Maximum nesting of objects and lists. The deepest record of the contract has six levels.

Decoders fail at about 1,000 levels. A text over this limit has at least 400 characters, so most
texts need no check.
"""

MAX_MEMBERS = 1_000
"""Maximum members without a column per record; a new release of the service adds a few."""

MAX_RECORD_BYTES = 4_000_000
"""Maximum bytes of one record: the largest known, a device's configuration, has about 100,000."""

MAX_RECORDS = 5_000
"""Maximum records of one page, ten times the requested number."""

KEPT_CHARACTERS = 1_000_000
"""Maximum characters of a quarantined record; a longer one is cut, and its digest is added."""

REASON_CHARACTERS = 300

LARGE_PAGE_BYTES = 1_000_000
FEW_OBJECTS = 100_000
"""Smaller pages, or pages with fewer objects, cannot take much memory."""

_LIST_DEPTH = 2
"""Depth of the list of records in a page."""

_USUAL_DEPTH = 10
"""Maximum nesting of ordinary records."""

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_LIST_START = re.compile(rb'"data"\s*+:\s*+\[')


def kept_text(raw: str, *, most: int = KEPT_CHARACTERS) -> str:
    """Return a record's JSON for quarantine: whole, or its start and its digest."""
    if len(raw) <= most:
        return raw
    digest = hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()
    return f"{raw[:most]} (cut here: {len(raw):,} characters in all, SHA-256 {digest})"


def kept_reason(reason: str) -> str:
    """Return why a record was rejected, with a long value cut."""
    return reason if len(reason) <= REASON_CHARACTERS else f"{reason[:REASON_CHARACTERS]}…"


def is_deep(json: bytes, most: int = MAX_DEPTH) -> bool:
    """Return whether valid JSON nests deeper than a record may.

    >>> is_deep(b"[" * 200 + b"]" * 200), is_deep(b"[" * 201 + b"]" * 201)
    (False, True)
    """
    if len(json) <= 2 * most:
        return False
    left = json.translate(_AS_LISTS, _NO_BRACKETS)
    for _ in range(_USUAL_DEPTH):
        if not left:
            return False
        left = left.replace(b"[]", b"")
    # Brackets remain if the text may be deep, or if a string contains some.
    return bool(left) and deepest(json) > most


def has_many_records(body: bytes) -> bool:
    """Return whether a page has more records than allowed, without decoding them."""
    if len(body) <= LARGE_PAGE_BYTES or body.count(b",") <= FEW_OBJECTS:
        return False
    return next(islice(_records(body), MAX_RECORDS, None), None) is not None


def may_have_many_records(body: bytes) -> bool:
    """Return whether a page has so many objects that decoding all of them may cost much memory."""
    return len(body) > LARGE_PAGE_BYTES and body.count(b"{") > FEW_OBJECTS


def set_deep_aside(body: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return a page with a placeholder for each deep record, and the records by placeholder.

    One such record would make a recursive decoder reject the whole page. A page with too many
    records is rejected anyway, so it is not searched to the end.
    """
    parts: list[bytes] = []
    aside: dict[bytes, bytes] = {}
    done = 0
    for start, end, depth in islice(_records(body), MAX_RECORDS):
        if depth > MAX_DEPTH:
            stand_in = f'"a deep record {len(aside)}"'.encode()
            aside[stand_in] = body[start:end].strip()
            parts += [body[done:start], stand_in]
            done = end
    return b"".join([*parts, body[done:]]), aside


def has_deep_text(columns: Iterable[tuple[int, Iterable[str | None]]]) -> bool:
    """Return whether a JSON column nests too deeply; each comes with its depth in the record."""
    for depth, texts in columns:
        most = MAX_DEPTH - depth
        long = [text for text in texts if text is not None and len(text) > 2 * most]
        if any(t.count("{") + t.count("[") > most and is_deep(t.encode(), most) for t in long):
            return True
    return False


def has_long_text(body: bytes, columns: Iterable[Iterable[object]]) -> bool:
    """Return whether a page's columns contain a text larger than a record may be."""
    return len(body) > MAX_RECORD_BYTES and any(
        isinstance(value, str) and len(value) > MAX_RECORD_BYTES
        for values in columns
        for value in values
    )


def refuse_beyond_bounds(record: bytes, *, is_set_aside: bool) -> None:
    """Raise ValueError for a record over the limits of size or depth."""
    if len(record) > MAX_RECORD_BYTES:
        raise ValueError(f"{len(record):,} bytes; a record has at most {MAX_RECORD_BYTES:,}")
    if is_set_aside or is_deep(record):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def refuse_many_members(unknown: Mapping[str, object]) -> None:
    """Raise ValueError for a record with too many members that have no column."""
    inner = sum(len(value) for value in unknown.values() if isinstance(value, dict))
    if (count := len(unknown) + inner) > MAX_MEMBERS:
        raise ValueError(f"{count:,} members without a column; at most {MAX_MEMBERS:,}")


def _records(body: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the start, end and depth of each record of a page."""
    lists = np.array([match.end() - 1 for match in _LIST_START.finditer(body)], np.int64)
    start, depth, is_inside = 0, 0, False
    for part in outline(body):
        at_list = part.depths == _LIST_DEPTH
        first, last = np.searchsorted(lists, [part.places[0], part.places[-1] + 1])
        starts = np.flatnonzero(at_list & np.isin(part.places, lists[first:last]))
        ends = np.flatnonzero(at_list & (part.signs == COMMA) | (part.depths < _LIST_DEPTH))
        at = 0
        while (found := _first(ends if is_inside else starts, at)) is not None:
            if is_inside:
                depth = max(depth, int(part.depths[at : found + 1].max()) - _LIST_DEPTH)
                end = int(part.places[found])
                is_inside = bool(part.depths[found] == _LIST_DEPTH)
                if is_inside or body[start:end].strip():
                    yield start, end, depth
            else:
                is_inside = True
            start, depth, at = int(part.places[found]) + 1, 0, found + 1
        if is_inside and at < part.depths.size:
            depth = max(depth, int(part.depths[at:].max()) - _LIST_DEPTH)


def _first(found: Numbers, at: int) -> int | None:
    """Return the first of these ascending numbers that is at least `at`, or None."""
    index = int(np.searchsorted(found, at))
    return int(found[index]) if index < found.size else None
