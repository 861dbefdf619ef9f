"""The wire: every response is complete or an error, and belongs to its own request.

The services are scripted byte by byte, so nothing here depends on a real HTTP server.
"""

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar
from unittest.mock import patch

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fleetlake.service import transport as wire
from fleetlake.service.transport import Wire

Result = TypeVar("Result")
Service = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HANGS_AFTER_SECONDS = 30.0
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


async def asked(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def answering(*answers: bytes, closes: bool = True) -> Service:
    """Return a service that responds to a connection's requests with these responses in turn."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await asked(reader)
            writer.write(answer)
            await writer.drain()
        if closes:
            writer.close()
        else:
            await reader.read()

    return serve


def talk(
    service: Service,
    say: Callable[[httpx.AsyncClient], Awaitable[Result]],
    *,
    seconds: float = 30,
    server_tls: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
) -> tuple[Result, int]:
    """Return the result of calling the service, and the number of connections used."""

    async def run() -> tuple[Result, int]:
        connections = 0

        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            try:
                await service(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(count, "127.0.0.1", 0, ssl=server_tls)
        port = server.sockets[0].getsockname()[1]
        root = f"{'https' if server_tls else 'http'}://127.0.0.1:{port}"
        async with (
            server,
            httpx.AsyncClient(transport=Wire(tls=tls), base_url=root, timeout=seconds) as client,
        ):
            return await say(client), connections

    async def run_to_its_end() -> tuple[Result, int]:
        # Not `asyncio.timeout`: the server would wait for connections that are left open.
        task = asyncio.create_task(run())
        await asyncio.wait([task], timeout=HANGS_AFTER_SECONDS)
        assert task.done(), "the exchange does not end"
        return task.result()

    return asyncio.run(run_to_its_end())


async def ask(client: httpx.AsyncClient) -> bytes:
    return (await client.get("/")).content


async def ask_twice(client: httpx.AsyncClient) -> list[bytes]:
    return [await ask(client), await ask(client)]


async def ask_three_times(client: httpx.AsyncClient) -> list[bytes]:
    return [await ask(client) for _ in range(3)]


def test_one_connection_serves_request_after_request():
    answers, connections = talk(answering(HELLO, HELLO), ask_twice)

    assert answers == [b"hello", b"hello"]
    assert connections == 1


def test_concurrent_requests_use_separate_connections():
    async def ask_at_once(client: httpx.AsyncClient) -> list[bytes]:
        return await asyncio.gather(*(ask(client) for _ in range(3)))

    answers, connections = talk(answering(HELLO, closes=False), ask_at_once)

    assert answers == [b"hello"] * 3
    assert connections == 3


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PACKED = gzip.compress(b"hello")
WHOLE = {
    "with its length": HELLO,
    "in chunks": CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "to the end of the connection": b"HTTP/1.1 200 OK\r\n\r\nhello",
    "packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(PACKED), PACKED),
    "after a word in between": b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + HELLO,
    "from an old server": b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
}


@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
def test_a_response_is_complete_with_any_framing(answer):
    assert talk(answering(answer), ask) == (b"hello", 1)


def plain(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


HEAD_BYTES = len(plain(b"")) + 5  # of a body whose length has six digits
LARGE = {
    "one byte less than the buffer": wire.BUFFER_BYTES - HEAD_BYTES - 1,
    "as large as the buffer": wire.BUFFER_BYTES - HEAD_BYTES,
    "one byte more than the buffer": wire.BUFFER_BYTES - HEAD_BYTES + 1,
    "larger than a buffer that is kept": wire.LARGEST_KEPT_BUFFER + 1,
}


@pytest.mark.parametrize("size", LARGE.values(), ids=LARGE)
def test_a_large_response_is_complete_and_no_byte_of_it_is_in_the_next(size):
    large = (b"0123456789abcdef" * (size // 16 + 1))[:size]

    answers, connections = talk(answering(plain(large), HELLO, plain(large)), ask_three_times)

    assert answers == [large, b"hello", large]
    assert connections == 1


@pytest.mark.parametrize("size", LARGE.values(), ids=LARGE)
def test_a_large_response_that_ends_early_is_an_error(size):
    async def ask_in_vain(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            await ask(client)

    talk(answering(plain(bytes(size))[:-1]), ask_in_vain)


UNKEPT = {
    "said": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
    "of an old server": WHOLE["from an old server"],
    "that was the end": WHOLE["to the end of the connection"],
}


@pytest.mark.parametrize("answer", UNKEPT.values(), ids=UNKEPT)
def test_a_connection_that_the_service_closes_is_not_reused(answer):
    assert talk(answering(answer), ask_twice) == ([b"hello", b"hello"], 2)


def test_status_and_headers_are_received_unchanged():
    answer = b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"

    response, _ = talk(answering(answer), lambda client: client.get("/"))

    assert (response.status_code, response.headers["retry-after"]) == (429, "7")


def test_method_address_headers_and_body_are_sent_unchanged():
    heard = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await asked(reader) + await reader.readexactly(4))
        writer.write(HELLO)

    talk(serve, lambda c: c.post("/a b/?x=%7B&y=1,2", content=b"body", headers={"X-Key": "k"}))

    [request] = heard
    assert request.startswith(b"POST /a%20b/?x=%7B&y=1,2 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX-Key: k\r\n" in request
    assert request.endswith(b"\r\n\r\nbody")


BROKEN = {
    "cut in its body": (HELLO[:-1], httpx.RemoteProtocolError),
    "cut in a chunk": (CHUNKED + b"5\r\nhel", httpx.RemoteProtocolError),
    "cut before its last chunk": (CHUNKED + b"5\r\nhello\r\n", httpx.RemoteProtocolError),
    "cut in its head": (b"HTTP/1.1 200 OK\r\nContent-", httpx.RemoteProtocolError),
    "nothing at all": (b"", httpx.RemoteProtocolError),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", httpx.RemoteProtocolError),
    "packed badly": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        httpx.DecodingError,
    ),
}


@pytest.mark.parametrize(("answer", "error"), BROKEN.values(), ids=BROKEN)
def test_an_incomplete_response_is_an_error_and_never_a_shorter_response(answer, error):
    async def ask_in_vain(client: httpx.AsyncClient) -> None:
        with pytest.raises(error):
            await ask(client)

    talk(answering(answer), ask_in_vain)


def test_a_connection_with_unsolicited_bytes_is_closed():
    was_read, was_hung_up = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(HELLO)
        if not was_read.is_set():
            await was_read.wait()
            writer.write(HELLO.replace(b"hello", b"wrong"))
            with suppress(ConnectionError):
                await reader.read()
            was_hung_up.set()

    async def ask_again(client: httpx.AsyncClient) -> list[bytes]:
        first = await ask(client)
        was_read.set()
        await was_hung_up.wait()
        return [first, await ask(client)]

    assert talk(serve, ask_again) == ([b"hello", b"hello"], 2)


@pytest.mark.parametrize("ending", ["announced by the service", "of the client"])
def test_a_connection_is_closed_at_its_end(ending):
    was_hung_up = asyncio.Event()
    is_announced = ending == "announced by the service"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        last = b"OK\r\nConnection: close\r\n" if is_announced else b"OK\r\n"
        writer.write(HELLO.replace(b"OK\r\n", last))
        with suppress(ConnectionError):
            await reader.read()
        was_hung_up.set()

    async def ask_once(client: httpx.AsyncClient) -> bytes:
        answer = await ask(client)
        if not is_announced:
            await client.aclose()
        await asyncio.wait_for(was_hung_up.wait(), HANGS_AFTER_SECONDS / 3)
        return answer

    assert talk(serve, ask_once) == (b"hello", 1)


def test_a_reset_connection_is_an_error_and_the_next_request_opens_a_new_one():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await asked(reader) and not served:
            served.append(writer)
            writer.write(HELLO[:-2])
            await writer.drain()
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            writer.transport.abort()
        else:
            writer.write(HELLO)

    async def ask_again(client: httpx.AsyncClient) -> bytes:
        with pytest.raises(httpx.ReadError):
            await ask(client)
        return await ask(client)

    served: list[asyncio.StreamWriter] = []

    assert talk(serve, ask_again) == (b"hello", 2)


def test_unsolicited_bytes_do_not_answer_the_next_request():
    foreign = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nforeign"

    answers, connections = talk(answering(HELLO + foreign, HELLO), ask_twice)

    assert answers == [b"hello", b"hello"]
    assert connections == 2


def test_an_abandoned_response_does_not_answer_the_next_request():
    may_answer = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await asked(reader)
        if b"/late" in request:
            await may_answer.wait()
            writer.write(HELLO.replace(b"hello", b"stale"))
        else:
            may_answer.set()
            writer.write(HELLO)

    async def give_up(client: httpx.AsyncClient) -> bytes:
        late = asyncio.create_task(client.get("/late"))
        await asyncio.sleep(0.01)  # the request is sent; the next one ends the waits response
        late.cancel()
        return await ask(client)

    assert talk(serve, give_up) == (b"hello", 2)


def test_a_silent_service_times_out():
    async def ask_in_vain(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.ReadTimeout):
            await ask(client)

    talk(answering(b"", closes=False), ask_in_vain, seconds=0.05)


def test_a_connection_that_takes_too_long_is_a_connect_timeout():
    async def connect_in_vain() -> str:
        async with httpx.AsyncClient(transport=Wire(), timeout=0.05) as client:
            loop = asyncio.get_running_loop()
            with (
                patch.object(loop, "create_connection", lambda *_, **__: asyncio.sleep(30)),
                pytest.raises(httpx.ConnectTimeout) as failure,
            ):
                await client.get("http://service.test/")
        return str(failure.value)

    assert asyncio.run(connect_in_vain()) == "no connection within 0.05 s"


def test_a_header_that_cannot_be_sent_is_a_client_error():
    async def ask_in_vain(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.LocalProtocolError):
            await client.get("/", headers={"X-Key": "a\nb"})

    talk(answering(HELLO), ask_in_vain)


def test_a_slow_response_is_accepted_while_it_makes_progress():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        for byte in HELLO:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.01)

    assert talk(serve, ask, seconds=0.3)[0] == b"hello"  # it takes longer than that in total


def test_a_connection_that_was_idle_for_long_is_closed_and_not_reused(monkeypatch):
    monkeypatch.setattr(wire, "KEPT_SECONDS", -1.0)
    was_hung_up = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(HELLO)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        was_hung_up.set()

    async def ask_again(client: httpx.AsyncClient) -> list[bytes]:
        answers = await ask_twice(client)
        await asyncio.wait_for(was_hung_up.wait(), HANGS_AFTER_SECONDS / 3)
        return answers

    assert talk(serve, ask_again) == ([b"hello", b"hello"], 2)


def test_a_connection_is_kept_from_its_last_response_on_not_from_its_first(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(wire, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def ask_now_and_then(client: httpx.AsyncClient) -> list[bytes]:
        answers = []
        for _ in range(3):
            answers.append(await ask(client))
            now[0] += wire.KEPT_SECONDS
        return answers

    assert talk(answering(HELLO, HELLO, HELLO), ask_now_and_then) == ([b"hello"] * 3, 1)


def test_a_closed_port_is_a_connection_error():
    async def run() -> None:
        async with httpx.AsyncClient(transport=Wire()) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://127.0.0.1:9/")

    asyncio.run(run())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a key and a certificate for this machine that it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "service.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path


def served_with(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_a_service_with_a_trusted_certificate_is_reached_over_tls(certificate):
    trusting = ssl.create_default_context(cafile=certificate)

    answers, connections = talk(
        answering(HELLO, HELLO), ask_twice, server_tls=served_with(certificate), tls=trusting
    )

    assert (answers, connections) == ([b"hello", b"hello"], 1)


def test_a_large_response_over_tls_is_complete(certificate):
    large = b"0123456789abcdef" * 200_000
    trusting = ssl.create_default_context(cafile=certificate)

    answers, connections = talk(
        answering(plain(large), HELLO), ask_twice, server_tls=served_with(certificate), tls=trusting
    )

    assert (answers, connections) == ([large, b"hello"], 1)


def test_an_untrusted_certificate_ends_the_connection_before_any_key_is_sent(certificate):
    heard = []

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())

    async def ask_in_vain(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get("/", headers={"X-Key": "secret"})

    talk(serve, ask_in_vain, server_tls=served_with(certificate), tls=ssl.create_default_context())

    assert not any(heard)
