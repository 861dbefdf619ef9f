"""Bodies of answers, taken in as they arrive and never larger than they may be.

A service, or what answers in its place, may send without end, or send a little that unpacks to
gigabytes. So bytes are counted as they come and as they are unpacked, whatever a header says.
"""

import zlib
from dataclasses import dataclass
from itertools import count

import httpx

REFUSAL_BYTES = 64 * 1024
"""How much of an answer other than 200 is read: it is only quoted, and an excerpt is enough."""

ACCEPTED_CODINGS = "gzip, deflate"
"""What is asked for. Every coding here is one whose unpacked size can be bounded."""

_IDENTITY = {"", "identity"}
_GZIP = {"gzip", "x-gzip"}
_GZIP_BITS = zlib.MAX_WBITS | 16
_GZIP_START = b"\x1f\x8b"


class BodyRefused(Exception):
    """A body that is too large, or packed in a way that cannot be unpacked."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How many bytes an answer may have, both on the wire and unpacked."""

    answer_bytes: int = 64_000_000  # a hundred times a usual page; more is set, not expected

    def of(self, status: int) -> int:
        """Return how many bytes of an answer with this status are read at most."""
        return self.answer_bytes if status == httpx.codes.OK else REFUSAL_BYTES


DEFAULT_BOUNDS = Bounds()


async def whole_answer(response: httpx.Response, bounds: Bounds) -> httpx.Response:
    """Return an answer whose body was not read yet with its body, unpacked.

    A refusal's body is cut where it is too long. Raises: BodyRefused for a body of a good answer
    that is larger than allowed or cannot be unpacked, and what the transport raises.
    """
    most, is_good = bounds.of(response.status_code), response.status_code == httpx.codes.OK
    assert isinstance(response.stream, httpx.AsyncByteStream)
    packed = bytearray()
    async for chunk in response.stream:
        packed += chunk
        if len(packed) > most:
            break
    if is_good and len(packed) > most:
        raise BodyRefused(f"has more than {most:,} bytes")
    coding = response.headers.get("content-encoding", "").strip().lower()
    try:
        body = unpacked(bytes(packed if len(packed) <= most else packed[:most]), coding, most=most)
    except BodyRefused as reason:
        if is_good:
            raise
        body = f"a body that {reason}".encode()  # the status says more than the body would
    kept = [(n, v) for n, v in response.headers.raw if n.lower() not in _OF_THE_WIRE]
    return httpx.Response(response.status_code, headers=kept, content=body)


_OF_THE_WIRE = {b"content-encoding", b"content-length", b"transfer-encoding"}
"""Headers that no longer hold for a body that was unpacked."""


def unpacked(packed: bytes, coding: str, *, most: int) -> bytes:
    """Return the bytes that were packed, unpacking no more than `most` and one of them.

    Raises: BodyRefused.

    >>> unpacked(b"abc", "identity", most=10)
    b'abc'
    """
    if coding in _IDENTITY or not packed:
        return packed
    try:
        if coding in _GZIP:
            return _gunzipped(packed, most)
        if coding == "deflate":
            return _inflated(packed, most)
    except zlib.error as error:
        raise BodyRefused(f"cannot be unpacked as {coding} ({error})") from None
    raise BodyRefused(f"is packed as {coding[:60]!r}, which was not asked for")


MOST_MEMBERS = 100
"""Members of a gzip body: a service writes one, and each costs a copy of all behind it."""


def _gunzipped(packed: bytes, most: int) -> bytes:
    """Return what the members of a gzip file hold; bytes behind the last are no part of it."""
    body = bytearray()
    for number in count():
        if number and not packed.startswith(_GZIP_START):
            break
        if number == MOST_MEMBERS:
            raise BodyRefused(f"has more than {MOST_MEMBERS} gzip members")
        member = zlib.decompressobj(_GZIP_BITS)
        body += _bounded(member, packed, most - len(body))
        packed = member.unused_data
        if not packed:
            break
    return bytes(body)


def _inflated(packed: bytes, most: int) -> bytes:
    """Return what a deflate body holds; some services leave out the header of zlib's format."""
    try:
        return _bounded(zlib.decompressobj(), packed, most)
    except zlib.error:
        return _bounded(zlib.decompressobj(-zlib.MAX_WBITS), packed, most)


def _bounded(unpacking: "zlib._Decompress", packed: bytes, most: int) -> bytes:
    body = unpacking.decompress(packed, max(most, 0) + 1)
    if len(body) > most:
        raise BodyRefused(f"unpacks to more than {most:,} bytes")
    if not unpacking.eof:
        raise BodyRefused("is cut: its packed body does not end")
    return body
