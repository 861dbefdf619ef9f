"""How large, wide and deep one record may be: what is beyond goes to quarantine, not its page.

A record that a service sends by mistake, or somebody on purpose, must cost neither the memory of
the machine nor the records beside it. The checks are made for pages as they usually are: they
count what is quick to count, and look closely only where that count is large.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from fleetlake.decoding.outline import COMMA, Numbers, deepest, outline

MOST_DEPTH = 200
"""Objects and lists within each other. The contract's deepest record has six.

Decoders give up at some 1,000. A text must have 400 characters to be deeper than this, so most
need no look.
"""

MOST_MEMBERS = 1_000
"""Members of a record that have no column; a release of the service brings a few."""

MOST_RECORD_BYTES = 4_000_000
"""Bytes of one record: the largest known, configurations of a device, have some 100,000."""

MOST_RECORDS = 5_000
"""Records of one page, ten times what is asked for."""

KEPT_CHARACTERS = 1_000_000
"""How much of a record is kept in quarantine; of a longer one, its start and its digest."""

REASON_CHARACTERS = 300

LARGE_PAGE_BYTES = 1_000_000
FEW_OBJECTS = 100_000
"""Pages that are smaller, or hold fewer objects, cannot cost much memory however they are cut."""

_LIST_DEPTH = 2
"""A page is an object, and within it the list of records."""

_USUAL_DEPTH = 10
"""As deep as records are that nobody made to be deep."""

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_LIST_START = re.compile(rb'"data"\s*+:\s*+\[')


def kept_text(raw: str) -> str:
    """Return a record's JSON as quarantine keeps it: whole, or its start and what identifies it."""
    if len(raw) <= KEPT_CHARACTERS:
        return raw
    digest = hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()
    return f"{raw[:KEPT_CHARACTERS]} (cut here: {len(raw):,} characters in all, SHA-256 {digest})"


def kept_reason(reason: str) -> str:
    """Return why a record is not kept, without all of a long value."""
    return reason if len(reason) <= REASON_CHARACTERS else f"{reason[:REASON_CHARACTERS]}…"


def is_deep(json: bytes, most: int = MOST_DEPTH) -> bool:
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
    # Brackets are left over where it may be deep, and where a text holds some.
    return bool(left) and deepest(json) > most


def has_many_records(body: bytes) -> bool:
    """Return whether a page has more records than one may, without decoding them."""
    if len(body) <= LARGE_PAGE_BYTES or body.count(b",") <= FEW_OBJECTS:
        return False
    return next(islice(_records(body), MOST_RECORDS, None), None) is not None


def may_have_many_records(body: bytes) -> bool:
    """Return whether a page may hold so many objects that decoding them all takes much memory."""
    return len(body) > LARGE_PAGE_BYTES and body.count(b"{") > FEW_OBJECTS


def set_deep_aside(body: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return a page without its deep records, and these by the text that stands for each now.

    A decoder gives up a whole page for one of them: it goes down a level by a call of itself. A
    page of more records than one may have is refused anyway, so it is not looked at to its end.
    """
    parts: list[bytes] = []
    aside: dict[bytes, bytes] = {}
    done = 0
    for start, end, depth in islice(_records(body), MOST_RECORDS):
        if depth > MOST_DEPTH:
            stand_in = f'"a deep record {len(aside)}"'.encode()
            aside[stand_in] = body[start:end].strip()
            parts += [body[done:start], stand_in]
            done = end
    return b"".join([*parts, body[done:]]), aside


def has_deep_text(columns: Iterable[tuple[int, Iterable[str | None]]]) -> bool:
    """Return whether JSON columns, each with its depth in the record, make a record too deep."""
    return any(
        text.count("{") + text.count("[") > MOST_DEPTH - depth
        and is_deep(text.encode(), MOST_DEPTH - depth)
        for depth, texts in columns
        for text in [text for text in filter(None, texts) if len(text) > 2 * (MOST_DEPTH - depth)]
    )


def has_long_text(body: bytes, columns: Iterable[Iterable[object]]) -> bool:
    """Return whether a page's columns hold a text that is larger than a record may be."""
    return len(body) > MOST_RECORD_BYTES and any(
        isinstance(value, str) and len(value) > MOST_RECORD_BYTES
        for values in columns
        for value in values
    )


def refuse_beyond_bounds(record: bytes, *, is_set_aside: bool) -> None:
    """Raise ValueError for a record that is larger or deeper than one may be."""
    if len(record) > MOST_RECORD_BYTES:
        raise ValueError(f"{len(record):,} bytes; a record has at most {MOST_RECORD_BYTES:,}")
    if is_set_aside or is_deep(record):
        raise ValueError(f"nested deeper than {MOST_DEPTH} levels")


def refuse_many_members(unknown: Mapping[str, object]) -> None:
    """Raise ValueError for a record with more members than one may have that have no column."""
    inner = sum(len(value) for value in unknown.values() if isinstance(value, dict))
    if (count := len(unknown) + inner) > MOST_MEMBERS:
        raise ValueError(f"{count:,} members without a column; at most {MOST_MEMBERS:,}")


def _records(body: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where each record of a page starts and ends, and how deep it is."""
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
    """Return the first of these numbers, which ascend, from `at` on; None where none follows."""
    place = int(np.searchsorted(found, at))
    return int(found[place]) if place < found.size else None
