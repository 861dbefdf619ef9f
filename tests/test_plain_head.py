"""A head that we read ourselves is read as h11 reads it, and anything odd is left to h11."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.service.plain_head import LARGEST_PLAIN_HEAD, plain_head, plain_request

PARTS = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 429 Too Many\r\n", b"HTTP/1.1 100 Continue\r\n"),
        *(
            b"HTTP/1.0 200 OK\r\n",
            b"HTTP/1.1 200\r\n",
            b"HTTP/1.1 200 OK\n",
            b"HTTP/1.1 204 No\r\n",
        ),
        *(b"Content-Length: 5\r\n", b"content-length:3 \r\n", b"Content-Length: 5, 5\r\n"),
        *(b"Content-Length: +5\r\n", b"Content-Length: 5\n", b"Content-Length : 5\r\n"),
        *(b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Date: Mon\r\n"),
        *(b"Connection: keep-alive\r\n", b"Connection: keep-alive, close\r\n"),
        *(b"X-Name: a:b\r\n", b"X-Empty:\r\n", b" folded\r\n", b"\tfolded\r\n", b"X: \xff\r\n"),
        *(b"X: a\x00b\r\n", b"X: a\rb\r\n", b"no colon\r\n", b": no name\r\n", b"X Y: z\r\n"),
        *(b"\r\n", b"\n", b"hello", b"Upgrade: h2c\r\n", b"Set-Cookie: a=b; c\r\n"),
    ]
)
HEADS = st.lists(PARTS, max_size=8).map(b"".join) | st.binary(max_size=60)
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"


def read_by_h11(received: bytes) -> tuple[h11.Response, int]:
    """Return what h11 reads, and the bytes of the body that belong to the response."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(received)
    head = connection.next_event()
    body = 0
    while isinstance(event := connection.next_event(), h11.Data):
        body += len(event.data)
    return head, body


@given(middle=HEADS, tail=HEADS)
def test_a_head_that_we_read_is_read_by_h11_in_the_same_way(middle, tail):
    for received in (middle + tail, PLAIN + middle + b"\r\n" + tail):
        ours = plain_head(received)
        if ours is None:
            continue
        theirs, body = read_by_h11(received)

        assert isinstance(theirs, h11.Response)
        assert (ours.status, ours.fields) == (theirs.status_code, theirs.headers.raw_items())
        assert min(ours.length, len(received) - ours.size) == body


@pytest.mark.parametrize(
    "head",
    [
        PLAIN.replace(b"5", b"99"),
        b"HTTP/1.1 503 \r\ncontent-length:\t0\r\nRetry-After: 7\r\nX-Empty:\r\n",
        PLAIN + b"Connection: Keep-Alive\r\nDate: Mon, 23 Nov 2026 16:00:00 GMT\r\n",
        b"HTTP/1.1 200\r\nA: b:c d\r\nCONTENT-LENGTH: 007\r\n",
    ],
)
def test_a_plain_head_is_read_without_h11(head):
    ours = plain_head(head + b"\r\n" + b"x" * 200)

    assert ours is not None
    assert ours.size == len(head) + 2


ODD = {
    "unfinished": PLAIN,
    "two lengths": PLAIN + PLAIN.partition(b"\n")[2] + b"\r\n",
    "conflicting lengths": PLAIN + b"Content-Length: 6\r\n\r\n",
    "a list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
    "a signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
    "a huge length": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
    "no length": b"HTTP/1.1 200 OK\r\nDate: Mon\r\n\r\n",
    "chunked": PLAIN + b"Transfer-Encoding: chunked\r\n\r\n",
    "closing": PLAIN + b"Connection: close\r\n\r\n",
    "closing as well": PLAIN + b"Connection: keep-alive, close\r\n\r\n",
    "interim": PLAIN.replace(b"200 OK", b"100 Continue") + b"\r\n",
    "without a body": PLAIN.replace(b"200 OK", b"204 No Content") + b"\r\n",
    "HTTP/1.0": PLAIN.replace(b"1.1", b"1.0") + b"\r\n",
    "bare line feeds": (PLAIN + b"\r\n").replace(b"\r\n", b"\n"),
    "one bare line feed": PLAIN + b"X: a\nContent-Length: 6\r\n\r\n",
    "a bare carriage return": PLAIN + b"X: a\rb\r\n\r\n",
    "folded": PLAIN + b"X: a\r\n b\r\n\r\n",
    "a space before the colon": PLAIN + b"X : a\r\n\r\n",
    "not ASCII": PLAIN + b"X: \xc3\xa9\r\n\r\n",
    "a NUL": PLAIN + b"X: a\x00\r\n\r\n",
    "too long": PLAIN + b"X: " + b"a" * LARGEST_PLAIN_HEAD + b"\r\n\r\n",
}


@pytest.mark.parametrize("received", ODD.values(), ids=ODD)
def test_an_odd_head_is_left_to_h11(received):
    assert plain_head(received + b"hello") is None


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ([(b"Host", b"x\r\nEvil: 1")], b""),
        ([(b"Host", b"x"), (b"A b", b"c")], b""),
        ([(b"Host", b"x"), (b"A", b"\xff")], b""),
        ([(b"Host", b"x"), (b"Content-Length", b"4")], b"abc"),
        ([(b"Host", b"x"), (b"Content-Length", b"3")], b""),
        ([(b"Host", b"x"), (b"Transfer-Encoding", b"chunked")], b"abc"),
        ([], b""),
    ],
)
def test_an_odd_request_is_left_to_h11(fields, content):
    assert plain_request("GET", b"/", fields, content) is None


def test_a_line_break_in_a_request_is_left_to_h11():
    host = [(b"Host", b"x")]

    assert plain_request("GET", b"/ HTTP/1.1\r\nX: y", host, b"") is None
    assert plain_request("GET / HTTP/1.1\r\nX: y\r\nGET", b"/", host, b"") is None
    for name, value in [(b"A\r\nB", b"c"), (b"A: b\r\nC", b"d"), (b"A", b"b\r\nC: d")]:
        assert plain_request("GET", b"/", [*host, (name, value)], b"") is None
        assert plain_request("GET", b"/", [(name, value), *host], b"") is None


def test_a_plain_request_is_what_h11_would_send():
    fields = [(b"Host", b"x"), (b"X-Key", b"a b"), (b"Empty", b""), (b"Content-Length", b"3")]
    connection = h11.Connection(h11.CLIENT)
    events = [
        h11.Request(method="PUT", target="/a?b=%20", headers=fields),
        h11.Data(data=b"abc"),
        h11.EndOfMessage(),
    ]

    sent = b"".join(connection.send(event) or b"" for event in events)
    assert plain_request("PUT", b"/a?b=%20", fields, b"abc") == sent
