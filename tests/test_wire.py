"""The wire: every response is complete or an error, and belongs to its own request.

The services are scripted byte by byte, so nothing here depends on a real HTTP server.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

import pytest
import stamina
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fleetlake.errors import ServiceError, Unreachable
from fleetlake.service.client import Client
from fleetlake.settings import Settings

Result = TypeVar("Result")
Service = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HANGS_AFTER_SECONDS = 30.0
KEYS = dict.fromkeys(("portal_api_id", "portal_api_key", "mgr_api_id", "mgr_api_key"), "a-key")
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture(autouse=True)
def one_attempt() -> Iterator[None]:
    with stamina.set_testing(True, attempts=1):
        yield


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
    say: Callable[[Client], Awaitable[Result]],
    *,
    seconds: float = 30,
    server_tls: ssl.SSLContext | None = None,
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
        settings = Settings(
            base_url=f"{'https' if server_tls else 'http'}://127.0.0.1:{port}/",
            timeout_seconds=seconds,
            calls_per_minute=0,
            retry_attempts=1,
            **KEYS,
        )
        async with server, Client(settings) as client:
            return await say(client), connections

    async def run_to_its_end() -> tuple[Result, int]:
        # Not `asyncio.timeout`: the server would wait for connections that are left open.
        task = asyncio.create_task(run())
        await asyncio.wait([task], timeout=HANGS_AFTER_SECONDS)
        assert task.done(), "the exchange does not end"
        return task.result()

    return asyncio.run(run_to_its_end())


async def ask(client: Client) -> bytes:
    return await client.get("accounts/", {}, bytes)


async def ask_twice(client: Client) -> list[bytes]:
    return [await ask(client), await ask(client)]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


BROKEN = {
    "cut in its body": (HELLO[:-1], Unreachable),
    "cut in a chunk": (CHUNKED + b"5\r\nhel", Unreachable),
    "cut before its last chunk": (CHUNKED + b"5\r\nhello\r\n", Unreachable),
    "cut in its head": (b"HTTP/1.1 200 OK\r\nContent-", Unreachable),
    "nothing at all": (b"", Unreachable),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", Unreachable),
    "packed badly": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
        ServiceError,
    ),
}


@pytest.mark.parametrize(("answer", "error"), BROKEN.values(), ids=BROKEN)
def test_an_incomplete_response_is_an_error_and_never_a_shorter_response(answer, error):
    async def ask_in_vain(client: Client) -> None:
        with pytest.raises(error):
            await ask(client)

    talk(answering(answer), ask_in_vain)


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

    async def ask_again(client: Client) -> bytes:
        with pytest.raises(Unreachable, match="connection"):
            await ask(client)
        return await ask(client)

    served: list[asyncio.StreamWriter] = []

    assert talk(serve, ask_again) == (b"hello", 2)


def test_a_silent_service_times_out():
    async def ask_in_vain(client: Client) -> None:
        with pytest.raises(Unreachable, match="no more data in time"):
            await ask(client)

    talk(answering(b"", closes=False), ask_in_vain, seconds=0.05)


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


@pytest.fixture
def trusting(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the certificate, which clients trust."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return certificate


def test_a_service_with_a_trusted_certificate_is_reached_over_tls(trusting):
    answers, connections = talk(
        answering(HELLO, HELLO), ask_twice, server_tls=served_with(trusting)
    )

    assert (answers, connections) == ([b"hello", b"hello"], 1)


def test_an_untrusted_certificate_ends_the_connection_before_any_key_is_sent(certificate):
    heard = []

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())

    async def ask_in_vain(client: Client) -> None:
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(client)

    talk(serve, ask_in_vain, server_tls=served_with(certificate))

    assert not any(heard)
