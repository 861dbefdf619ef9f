"""Responses are limited in bytes and seconds."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina

from fleetlake.errors import CredentialsRefused, PageUnreadable, ServiceError, Unreachable
from fleetlake.service.bodies import REFUSAL_BYTES, whole_answer
from fleetlake.service.client import Client, _uncounted
from fleetlake.settings import Settings

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

Write = Callable[[asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def as_many_tries_as_set() -> Iterator[None]:
    with stamina.set_testing(True, attempts=1_000, cap=True):
        yield


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., bytes]:
    """Return a function that calls a service that responds with `write`, and returns the body."""

    def get(write: Write, **changes: Any) -> bytes:
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                await write(writer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.transport.abort()
                ended.set()

        async def go() -> bytes:
            ended.clear()
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            settings = Settings(
                base_url=f"http://127.0.0.1:{port}/",
                state=tmp_path / "state",
                lake=tmp_path / "lake",
                calls_per_minute=0,
                answer_megabytes=1,
                **{"retry_attempts": 1, **changes},
                portal_api_id="portal-id",
                portal_api_key="portal-key",
                mgr_api_id="admin-id",
                mgr_api_key="admin-key",
            )
            async with server, Client(settings) as client:
                try:
                    return await client.get("accounts/", {}, bytes)
                finally:
                    await client.__aexit__(None, None, None)
                    await ended.wait()

        return asyncio.run(asyncio.wait_for(go(), 120))

    return get


def saying(answer: bytes) -> Write:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return write


def without_end(start: bytes, more: bytes, *, pause: float = 0.0) -> Write:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(pause)

    return write


def packed(body: bytes, coding: str) -> bytes:
    return OK + f"Content-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)], ids=["gzip", "zlib"]
)
def test_a_small_response_that_unpacks_to_a_large_one_is_refused_before_it_uses_memory(
    ask, coding, pack
):
    bomb = packed(pack(bytes(50_000_000)), coding)
    tracemalloc.start()

    with pytest.raises(PageUnreadable, match="unpacks to more than 1,000,000 bytes"):
        ask(saying(bomb))

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("start", "more"),
    [(OK + b"\r\n", b"x" * 50_000), (CHUNKED, b"c8\r\n" + b"x" * 200 + b"\r\n")],
    ids=["plain", "in small chunks"],
)
def test_an_endless_body_is_refused_at_the_maximum_size(ask, start, more):
    with pytest.raises(PageUnreadable, match="more than 1,000,000 bytes"):
        ask(without_end(start, more))


def test_a_body_of_the_maximum_size_is_read(ask):
    body = b"x" * 1_000_000

    assert ask(saying(OK + b"Content-Length: 1000000\r\n\r\n" + body)) == body


def test_an_error_response_with_an_endless_body_keeps_its_status(ask):
    with pytest.raises(CredentialsRefused, match="401: xxx") as failure:
        ask(without_end(b"HTTP/1.1 401 No\r\n\r\n", b"x" * 50_000))

    assert len(str(failure.value)) < 500


def test_only_the_start_of_an_error_body_is_read():
    taken = []

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                taken.append(b"x" * 1_000)
                yield taken[-1]

    refusal = asyncio.run(whole_answer(httpx.Response(500, stream=Endless()), 64_000_000))

    assert len(refusal.content) == REFUSAL_BYTES
    assert len(taken) * 1_000 < REFUSAL_BYTES + 2_000


DRIBBLES = {
    "body": (OK + b"\r\n", b"x"),
    "chunks": (CHUNKED, b"1\r\nx\r\n"),
    "chunk extensions": (CHUNKED + b"1;", b"x"),
    "head": (OK + b"X-Name: ", b"x"),
    "words in between": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
}


@pytest.mark.parametrize(("start", "more"), DRIBBLES.values(), ids=DRIBBLES)
def test_a_response_that_arrives_byte_by_byte_times_out(ask, start, more):
    with pytest.raises(Unreachable, match=r"incomplete after 1\.2 s"):
        ask(without_end(start, more, pause=0.01), timeout_seconds=0.3)


def test_all_attempts_for_a_page_end_at_the_time_limit_even_in_mid_response(ask):
    with pytest.raises(Unreachable, match=r"within 0\.3 s, over all attempts"):
        ask(
            without_end(OK + b"\r\n", b"x", pause=0.01),
            retry_attempts=1_000,
            retry_seconds=0.3,
        )


def test_a_wait_that_the_service_asks_for_ends_at_the_time_limit_and_its_429_is_named(
    ask,
):
    answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 99999999999999999999\r\nContent-Length: 0\r\n\r\n"
    with stamina.set_testing(False), pytest.raises(Unreachable, match="over all att") as failure:
        ask(saying(answer), retry_attempts=9, retry_seconds=1)

    assert "The last one: GET http" in failure.value.what
    assert "returned 429" in failure.value.what
    assert "Lower FLEETLAKE_CALLS_PER_MINUTE" in failure.value.remedy


def test_time_waiting_for_our_own_limits_does_not_count_towards_the_page_time_limit():
    async def go() -> None:
        async with asyncio.timeout(0.02) as deadline:
            with _uncounted(deadline):
                await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await asyncio.sleep(5)

    asyncio.run(go())


def test_a_call_is_made_even_if_the_call_limit_delays_it_past_the_page_time_limit(ask, monkeypatch):
    async def hold_back(_limit: object) -> None:
        await asyncio.sleep(1.1)

    monkeypatch.setattr("fleetlake.service.rate_limit.CallLimit.wait_turn", hold_back)
    answer = OK + b"Content-Length: 5\r\n\r\nhello"

    assert ask(saying(answer), retry_seconds=1) == b"hello"


def raw_deflate(body: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(body) + packing.flush()


READ = {
    "gzip": packed(gzip.compress(b"hello"), "GZIP"),
    "gzip of two members": packed(gzip.compress(b"he") + gzip.compress(b"llo"), "gzip"),
    "gzip with bytes behind": packed(gzip.compress(b"hello") + bytes(9), "gzip"),
    "gzip by its old name": packed(gzip.compress(b"hello"), "x-gzip"),
    "deflate": packed(zlib.compress(b"hello"), "deflate"),
    "deflate without its header": packed(raw_deflate(b"hello"), "deflate"),
    "identity": packed(b"hello", "identity"),
}


@pytest.mark.parametrize("answer", READ.values(), ids=READ)
def test_a_compressed_response_is_read(ask, answer):
    assert ask(saying(answer)) == b"hello"


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip, gzip", "x" * 5_000])
def test_an_unrequested_content_coding_is_a_clear_error(ask, coding):
    with pytest.raises(PageUnreadable, match="not requested") as failure:
        ask(saying(packed(b"hello", coding)))

    assert len(str(failure.value)) < 500


@pytest.mark.parametrize("body", [gzip.compress(b"hello")[:-9], b"hello"], ids=["cut", "not gzip"])
def test_a_compressed_response_that_is_cut_short_is_an_error(ask, body):
    with pytest.raises(PageUnreadable):
        ask(saying(packed(body, "gzip")))


def test_a_compressed_error_body_that_cannot_be_unpacked_keeps_its_status(ask):
    answer = packed(b"hello", "gzip").replace(b"200 OK", b"401 No")

    with pytest.raises(CredentialsRefused):
        ask(saying(answer))


@pytest.mark.parametrize("length", [b"-1", b"1e9", b"9" * 40, b"5, 6", b"7"])
def test_a_wrong_content_length_is_an_error_and_never_a_shorter_response(ask, length):
    answer = OK + b"Content-Length: " + length + b"\r\n\r\nhello"

    with pytest.raises(ServiceError):
        ask(saying(answer))
