"""Limits on the size, width and depth of one record; a record over a limit is quarantined.

A faulty or malicious record must neither exhaust the memory nor spoil the other records of its
page. The checks are cheap for ordinary pages: they count what is quick to count, and look closely
only if that count is high.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from fleetlake.decoding.outline import COMMA, Numbers, deepest, outline

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
