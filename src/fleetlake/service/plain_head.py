"""The head of a plain response, and of a request; h11 reads all other responses. Pure.

A head is plain if it is complete, short, ASCII, and frames its body by exactly one Content-Length.
Everything that servers and proxies might disagree on is left to h11: several lengths, chunked
bodies, interim (1xx) responses, bodies that end with the connection, folded lines, line breaks
without a carriage return, bytes beyond ASCII.
"""

import re
from dataclasses import dataclass

LARGEST_PLAIN_HEAD = 16 * 1024
"""Bytes; longer heads are h11's, which refuses those over its own limit."""

Fields = list[tuple[bytes, bytes]]

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PLAIN = re.compile(
    rb"HTTP/1\.1 (200|[45][0-9]{2})(?: [\t -~]*)?\r\n((?:" + _TOKEN + rb":[\t -~]*\r\n)+)\r\n"
)
_FIELD = re.compile(rb"([^:\r\n]+):([\t -~]*)\r\n")
_KEPT = b"connection"
_LENGTH = re.compile(rb"[0-9]{1,15}")
_NOT_PLAIN = {b"transfer-encoding", b"upgrade", b"trailer"}
_FRAMING = {b"content-length", b"transfer-encoding"}
_START = re.compile(rb"[A-Z]+ [!-~]+")
_SENDABLE = re.compile(_TOKEN + rb": (?:[!-~]+(?:[\t ]+[!-~]+)*)?")


@dataclass(frozen=True, slots=True)
class PlainHead:
    """The head of a response: `size` bytes, before a body of `length` bytes."""

    status: int
    fields: Fields
    length: int
    size: int


def plain_head(received: bytes) -> PlainHead | None:
    r"""Return the head that begins the bytes received; None if h11 must read them.

    >>> plain_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    PlainHead(status=200, fields=[(b'Content-Length', b'5')], length=5, size=38)
    """
    end = received.find(b"\r\n\r\n", 0, LARGEST_PLAIN_HEAD)
    found = _PLAIN.fullmatch(received, 0, end + 4) if end > 0 else None
    if found is None:
        return None
    fields = [(name, value.strip(b" \t")) for name, value in _FIELD.findall(found[2])]
    names = [name.lower() for name, _ in fields]
    if names.count(b"content-length") != 1 or not _NOT_PLAIN.isdisjoint(names):
        return None
    length = fields[names.index(b"content-length")][1]
    kept = [
        v.lower() == b"keep-alive" for n, (_, v) in zip(names, fields, strict=True) if n == _KEPT
    ]
    if not _LENGTH.fullmatch(length) or not all(kept):
        return None
    return PlainHead(int(found[1]), fields, int(length), end + 4)


def plain_request(method: str, target: bytes, fields: Fields, content: bytes) -> bytes | None:
    r"""Return a request as bytes for the wire; None if h11 must encode or refuse it.

    >>> plain_request("GET", b"/a?b=1", [(b"Host", b"x")], b"")
    b'GET /a?b=1 HTTP/1.1\r\nHost: x\r\n\r\n'
    """
    # Each part by itself: a line break within one must not make two valid lines.
    start, lines = b"%s %s" % (method.encode(), target), [b"%s: %s" % field for field in fields]
    if not _START.fullmatch(start) or not all(map(_SENDABLE.fullmatch, lines)):
        return None
    names = [name.lower() for name, _ in fields]
    sizes = [value for name, (_, value) in zip(names, fields, strict=True) if name in _FRAMING]
    if names.count(b"host") != 1 or sizes != ([b"%d" % len(content)] if content else []):
        return None
    return b"\r\n".join([b"%s HTTP/1.1" % start, *lines, b"", content])
