"""Reading the body of a list response: checking the envelope, decoding the records.

`PageReader.read` is the order of tries. The fast reader decodes a page directly into typed structs
and accepts only records exactly as the endpoint row declares them, with the unknown members of
earlier pages. If it refuses a page, the lenient one reads the page record by record: it repairs
what it can, keeps unknown members and unusable values as `extra`, and rejects only records without
their key or time. A page is never refused for single bad records, and a body that is not a page is
never read as an empty page.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import Any, TypeVar

import msgspec

from fleetlake.decoding.bounds import (
    MAX_RECORDS,
    has_deep_text,
    has_long_text,
    has_many_records,
    kept_reason,
    kept_text,
    may_have_many_records,
    refuse_beyond_bounds,
    refuse_many_members,
    set_deep_aside,
)
from fleetlake.decoding.structs import (
    CONSTANT,
    MAY_BE_EMPTY,
    MISSING,
    LearnedMembers,
    constant_at,
    envelope,
    fast_decoder,
    is_beyond_fast_reader,
)
from fleetlake.decoding.timeuuid import are_timeuuids
from fleetlake.decoding.values import json_text, link_query, read_value, relation_id
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Api, Endpoint, Mode
from fleetlake.errors import PageUnreadable
from fleetlake.text.plain import one_line

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


PAGES = Counter[str]()
"""How many pages this process has read fast, or record by record: as sent, repaired, or shallow.

Repaired ones were not strict JSON; records that nest too deeply were taken out of shallow ones.
"""

Made = TypeVar("Made")


def opened(body: bytes, decode: Callable[[bytes], Made]) -> tuple[str, Made]:
    """Return what `decode` makes of a body as sent or, if it is not strict JSON, of a repaired one.

    Raises: what `decode` raises; ValueError if the body cannot be repaired.
    """
    try:
        body.decode()
        return "as sent", decode(body)
    except msgspec.ValidationError:
        raise
    except ValueError:  # msgspec's errors are ValueErrors too
        return "repaired", decode(strict_json(body))


class OddRecord(Exception):
    """A page decodes, but one of its records needs the lenient reader."""


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that cannot be stored: why, its JSON as received, and the id of the request."""

    reason: str
    raw: str
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The values of one page by column, in the service's order.

    `extra` maps row numbers to the members without a column, as JSON text. `next` is the query of
    the link to the next page, or None on the last page.
    """

    values: Mapping[str, Sequence[Any]]
    count: int
    limit: int
    next: Mapping[str, str] | None
    extra: dict[int, str] = field(default_factory=dict)
    rejects: tuple[RejectedRecord, ...] = ()
    reader: str = "fast"


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_ESCAPED_NUL = rb"\u0000"
"""The only form in which JSON can contain a NUL. No text column accepts one."""

MOST_IDS = 20_000
"""Relations that are remembered: each takes 250 bytes."""


class _Ids(dict[str | int | None, int | None]):
    """Cache of the ids at the end of relation URLs. A relation without an id raises ValueError."""

    def __missing__(self, relation: str | int | None) -> int | None:
        if len(self) >= MOST_IDS:
            self.clear()
        self[relation] = found = None if relation is None else relation_id(relation)
        return found


_IDS = _Ids()
"""What all readers remember: records of several endpoints name the same device."""


class PageReader:
    """The fast and the lenient reader of one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._learn(LearnedMembers())
        self._raw_page = msgspec.json.Decoder(envelope(endpoint.api, msgspec.Raw))
        self._timeuuids = [c.name for c in endpoint.columns if c.kind is Kind.TIMEUUID]
        self._reals = [c.name for c in endpoint.columns if c.kind is Kind.REAL]
        self._texts = {c.name: len(c.path) for c in endpoint.columns if c.kind is Kind.JSON}
        self._names = [c.name for c in endpoint.columns]
        # Both readers must write content the same way if it is compared between reads.
        self._json = _raw_texts if endpoint.mode is Mode.APPEND else _canonical_texts

    def _learn(self, learned: LearnedMembers) -> None:
        """Make the fast reader accept these members too."""
        self._learned = learned
        self._fast = fast_decoder(self._endpoint, learned)

    def read(self, body: bytes, make: Callable[[Decoded], Made]) -> Made:
        """Return what `make` makes of a page by the first reader that can read it.

        Raises: PageUnreadable if the body is not a list response.
        """
        with suppress(ValueError, OddRecord, OverflowError, RecursionError):  # Arrow's, msgspec's
            return make(self.fast(body))
        return make(self.lenient(body))

    def fast(self, body: bytes) -> Decoded:
        """Decode a page of records as declared, or as learned. Raises: ValueError, OddRecord."""
        if self._fast is None or _has_nul(body) or may_have_many_records(body):
            raise OddRecord
        page = self._fast.pages.decode(body)
        found = self._fast.columns(page.data)
        values = {column.name: found[column.path] for column in self._endpoint.columns}
        for column in self._endpoint.columns:
            if column.kind is Kind.RELATION:
                values[column.name] = list(map(_IDS.__getitem__, values[column.name]))
            elif column.kind is Kind.IDS:
                links = map(msgspec.json.decode, values[column.name])
                values[column.name] = [read_value(Kind.IDS, link) for link in links]
            elif column.kind is Kind.JSON:
                values[column.name] = self._json(values[column.name])
        if any(None in values[name] for name in self._endpoint.required):
            raise OddRecord
        if not all(are_timeuuids(values[name]) for name in self._timeuuids):
            raise OddRecord
        if any(not isfinite(v) for name in self._reals for v in values[name] if v is not None):
            raise OddRecord  # texts such as "nan" are not measurements
        unknown = self._unknown_texts([found[path] for path in self._learned.paths])
        texts = [(depth, values[name]) for name, depth in self._texts.items()]
        texts += [(len(p), column) for p, column in zip(self._learned.paths, unknown, strict=True)]
        if has_long_text(body, [*values.values(), *unknown]) or has_deep_text(texts):
            raise OddRecord
        extra = self._learned.objects(unknown)
        return Decoded(values, len(page.data), *self._paging(page), extra)

    def _unknown_texts(self, columns: list[Sequence[msgspec.Raw]]) -> list[list[str]]:
        """Return the learned members as JSON texts; a missing one is "". Raises: OddRecord."""
        is_canonical = self._endpoint.mode is not Mode.APPEND
        texts = [_canonical(raws) if is_canonical else _received(raws) for raws in columns]
        if any(map(is_beyond_fast_reader, texts)):
            raise OddRecord
        return texts

    def lenient(self, body: bytes) -> Decoded:
        """Decode a page record by record.

        Raises: PageUnreadable if the body is not a list response.
        """
        body = body.removeprefix(_BYTE_ORDER_MARK)
        if has_many_records(body):
            raise _no_page(self._endpoint, f"it has more than {MAX_RECORDS:,} records")
        deep: dict[bytes, bytes] = {}
        decode: Callable[[bytes], Any] = self._raw_page.decode
        try:
            try:
                reader, envelope = opened(body, decode)
            except RecursionError:
                body, deep = set_deep_aside(body)
                reader, envelope = "shallow", opened(body, decode)[1]
        except (ValueError, RecursionError) as error:
            raise _no_page(self._endpoint, error) from None
        rows: list[dict[str, Any]] = []
        extra: dict[int, str] = {}
        rejects: list[RejectedRecord] = []
        learned = self._learned
        for raw in envelope.data:
            text = bytes(memoryview(raw))
            try:
                refuse_beyond_bounds(text, is_set_aside=text in deep)
                row, left = self._values(msgspec.json.decode(raw))
            except (ValueError, RecursionError) as reason:
                received = deep.get(text, text).decode("utf-8", "backslashreplace")
                rejects.append(RejectedRecord(kept_reason(str(reason)), kept_text(received)))
                continue
            if left:
                extra[len(rows)] = json_text(left)
                learned = learned.plus(self._endpoint, left)
            rows.append(row)
        if learned != self._learned:
            self._learn(learned)
        values = {name: [row[name] for row in rows] for name in self._names}
        paging = self._paging(envelope)
        return Decoded(values, len(envelope.data), *paging, extra, tuple(rejects), reader)

    def _paging(self, page: Any) -> tuple[int, Mapping[str, str] | None]:
        """Return the page size in force and the query of the link to the next page."""
        if (count := len(page.data)) > MAX_RECORDS:
            raise _no_page(self._endpoint, f"it has {count:,} records")
        try:
            if self._endpoint.api is Api.V2:
                return page.meta.limit, link_query(page.meta.next)
            return self._endpoint.page_size, link_query(page.links.next)
        except ValueError as error:
            raise _no_page(self._endpoint, error) from None

    def _values(self, members: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return one record's values by column, and the remaining members.

        Raises: ValueError saying why the record cannot be stored.
        """
        if not isinstance(members, dict):
            raise ValueError("a record must be an object")
        if self._endpoint.api is Api.V3:
            _open_single_links(members)
        row: dict[str, Any] = {}
        faults: dict[str, str] = {}
        for column in self._endpoint.columns:
            value = take_member(members, column.path)
            try:
                row[column.name] = read_value(column.kind, value)
            except ValueError as fault:
                row[column.name] = None
                faults[column.name] = str(fault)
                _put(members, column.path, value)
        for name in sorted(self._endpoint.required):
            if row[name] is None:
                raise ValueError(f"{name}: {faults.get(name, 'missing')}")
        for name in CONSTANT[self._endpoint.api]:
            members.pop(name, None)
        left = members_left(self._endpoint, members)
        refuse_many_members(left)
        return row, left


reader_of = cache(PageReader)
"""The reader of an endpoint, built once."""


def _open_single_links(members: dict[str, Any]) -> None:
    """Turn a list with one link into the link: a to-one relationship may be sent so."""
    relationships = members.get("relationships")
    for relationship in relationships.values() if isinstance(relationships, dict) else ():
        links = relationship.get("data") if isinstance(relationship, dict) else None
        if isinstance(links, list) and len(links) == 1 and isinstance(links[0], dict):
            relationship["data"] = links[0]


def _has_nul(body: bytes) -> bool:
    """Return whether a page may have a NUL in a text. Few pages have any backslash."""
    return b"\\" in body and _ESCAPED_NUL in body


def _raw_texts(raws: Sequence[msgspec.Raw]) -> list[str | None]:
    """Return the texts as received, decoded in one call: they are many and short.

    Decoded JSON never contains a zero byte.
    """
    texts: list[str | None] = [*_received(raws)]
    return [None if text == "null" else text for text in texts] if "null" in texts else texts


def _received(raws: Sequence[msgspec.Raw]) -> list[str]:
    return b"\0".join(raws).decode().split("\0") if raws else []


def _canonical(raws: Sequence[msgspec.Raw]) -> list[str]:
    """Return the texts in the spelling of the lenient reader; a missing one stays ""."""
    return [json_text(msgspec.json.decode(raw)) if raw != MISSING else "" for raw in raws]


def _canonical_texts(raws: Sequence[msgspec.Raw]) -> list[str | None]:
    values = map(msgspec.json.decode, raws)
    return [None if value is None else json_text(value) for value in values]


def _no_page(endpoint: Endpoint, reason: object) -> PageUnreadable:
    return PageUnreadable(
        f"{endpoint.path} returned 200, but the body is not a page of records "
        f"({one_line(reason)}).",
        remedy="Another server may have answered instead of the service: check "
        "FLEETLAKE_BASE_URL. No record was taken from it.",
    )


def members_left(endpoint: Endpoint, members: dict[str, Any]) -> dict[str, Any]:
    """Return what remains of a record after the values of its columns were taken out."""
    emptied = {column.path[:-1] for column in endpoint.columns}
    emptied |= {(name,) for name in MAY_BE_EMPTY[endpoint.api]}
    return _without_empty(members, emptied, endpoint.api)


def take_member(members: dict[str, Any], path: tuple[str, ...]) -> Any:
    """Remove and return the member at `path`; None if it is missing."""
    *parents, last = path
    inner: Any = members
    for parent in parents:
        inner = inner.get(parent) if isinstance(inner, dict) else None
    return inner.pop(last, None) if isinstance(inner, dict) else None


def _put(members: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    inner = members
    for parent in parents:
        inner = inner.setdefault(parent, {})
    inner[last] = value


def _without_empty(
    members: dict[str, Any], parents: set[tuple[str, ...]], api: Api, path: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the rest of a record, without objects whose every member became a column."""
    left = {}
    for name, value in members.items():
        below = (*path, name)
        if below in parents or any(parent[: len(below)] == below for parent in parents):
            rest = _without_empty(value, parents, api, below) if isinstance(value, dict) else value
            for constant in constant_at(below, api) if isinstance(rest, dict) else ():
                rest.pop(constant, None)
            if rest not in ({}, None):
                left[name] = rest
        else:
            left[name] = value
    return left
