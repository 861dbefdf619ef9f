"""Response bodies, read up to a size limit.

A faulty or fake service may send endless data, or a few bytes that unpack to gigabytes. So bytes
are counted as they arrive and as they are unpacked, whatever the headers say.
"""

import email.utils
import json
import zlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count

import httpx

from fleetlake.endpoints.model import Api

MAX_SECONDS = 86_400


def is_v3_limit(response: httpx.Response, api: Api) -> bool:
    """Return whether a 409 means the call limit: in v3, one without a list of errors does."""
    if api is not Api.V3 or response.status_code != httpx.codes.CONFLICT:
        return False
    try:
        answer = response.json()
    except ValueError:
        return True
    return not (isinstance(answer, dict) and isinstance(answer.get("errors"), list))


def message_in(body: str) -> str:
    """Return the message in an error body, or the whole body if it has none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip() or "an empty body"
    exception = answer.get("exception") if isinstance(answer, dict) else None
    if isinstance(exception, dict):
        errors = json.dumps(answer["errors"]) if answer.get("errors") else ""
        return f"{exception.get('message')} {errors}".strip()
    if isinstance(answer, dict) and (faults := _faults(answer.get("errors"))):
        return faults
    message = answer.get("message") if isinstance(answer, dict) else None
    return str(message or body)


def _faults(errors: object) -> str:
    """Return the texts of the errors that a JSON:API body lists; "" if it lists none."""
    if not isinstance(errors, list):
        return ""
    named = [e.get("detail") or e.get("title") for e in errors if isinstance(e, dict)]
    return "; ".join(str(name) for name in named if name)


def retry_after(response: httpx.Response) -> timedelta | None:
    """Return the wait that the service asks for, in seconds or as a date; None without one."""
    asked = response.headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit():
        return timedelta(seconds=min(int(asked), MAX_SECONDS))
    moment = http_date(asked)
    return max(moment - datetime.now(UTC), timedelta(0)) if moment else None


@lru_cache(maxsize=8)  # the date of a service changes once a second, and parsing one takes 20 us
def http_date(header: str) -> datetime | None:
    """Return the instant of an HTTP date, or None if it is not a valid date."""
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except (ValueError, OverflowError):  # a year or zone may have any number of digits
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


REFUSAL_BYTES = 64 * 1024
"""Maximum bytes read of a response other than 200, which is only quoted."""

ACCEPTED_CODINGS = "gzip, deflate"
"""The codings requested; the unpacked size of both can be limited while unpacking."""

_IDENTITY = {"", "identity"}
_GZIP = {"gzip", "x-gzip"}
_GZIP_BITS = zlib.MAX_WBITS | 16
_GZIP_START = b"\x1f\x8b"


class BodyRefused(Exception):
    """A body that is too large, or that cannot be unpacked."""


async def whole_answer(response: httpx.Response, most_bytes: int) -> httpx.Response:
    """Return a streamed response with its whole body, unpacked.

    A good one has at most `most_bytes`, on the wire and unpacked; the body of an error response is
    cut to `REFUSAL_BYTES`. Raises: BodyRefused if the body of a 200 response is over the limit or
    cannot be unpacked; errors of the transport.
    """
    is_good = response.status_code == httpx.codes.OK
    most = most_bytes if is_good else REFUSAL_BYTES
    assert isinstance(response.stream, httpx.AsyncByteStream)
    packed = await _received(response.stream, most)
    if is_good and len(packed) > most:
        raise BodyRefused(f"has more than {most:,} bytes")
    coding = response.headers.get("content-encoding", "").strip().lower()
    try:
        body = unpacked(packed[:most], coding, most=most)
    except BodyRefused as reason:
        if is_good:
            raise
        body = f"a body that {reason}".encode()  # the status says more than the body would
    kept = [(n, v) for n, v in response.headers.raw if n.lower() not in _OF_THE_WIRE]
    return httpx.Response(response.status_code, headers=kept, content=body)


async def _received(stream: httpx.AsyncByteStream, most: int) -> bytes:
    """Return the bytes of a body, up to the first chunk over the limit."""
    chunks, size = [], 0
    async for chunk in stream:
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            break
    return b"".join(chunks)


_OF_THE_WIRE = {b"content-encoding", b"content-length", b"transfer-encoding"}
"""Headers that are wrong once the body is unpacked."""


def unpacked(packed: bytes, coding: str, *, most: int) -> bytes:
    """Return the unpacked bytes, unpacking at most one byte more than `most`.

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
    raise BodyRefused(f"is packed as {coding[:60]!r}, which was not requested")


MAX_MEMBERS = 100
"""Maximum members of a gzip body: services write one, and each costs a copy of the rest."""


def _gunzipped(packed: bytes, most: int) -> bytes:
    """Return the content of the members of a gzip file; trailing bytes are ignored."""
    body = bytearray()
    for number in count():
        if number and not packed.startswith(_GZIP_START):
            break
        if number == MAX_MEMBERS:
            raise BodyRefused(f"has more than {MAX_MEMBERS} gzip members")
        member = zlib.decompressobj(_GZIP_BITS)
        body += _bounded(member, packed, most - len(body))
        packed = member.unused_data
        if not packed:
            break
    return bytes(body)


def _inflated(packed: bytes, most: int) -> bytes:
    """Return the content of a deflate body; some services omit the zlib header."""
    try:
        return _bounded(zlib.decompressobj(), packed, most)
    except zlib.error:
        return _bounded(zlib.decompressobj(-zlib.MAX_WBITS), packed, most)


def _bounded(unpacking: "zlib._Decompress", packed: bytes, most: int) -> bytes:
    body = unpacking.decompress(packed, max(most, 0) + 1)
    if len(body) > most:
        raise BodyRefused(f"unpacks to more than {most:,} bytes")
    if not unpacking.eof:
        raise BodyRefused("is truncated: its packed body does not end")
    return body
