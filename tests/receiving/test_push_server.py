"""The receiver as a server: slow and greedy clients, TLS, kills, stops, and what it writes down."""

import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fleetlake.receiving import push_server
from fleetlake.receiving.child_process import KeptProcess
from fleetlake.receiving.intake import open_intake
from fleetlake.receiving.push_app import create_app
from fleetlake.receiving.push_server import (
    Certificate,
    PushProtocol,
    PushServer,
    ServerOptions,
    server_config,
)
from fleetlake.serving.bounded_protocol import ANSWER_PART_BYTES, HEADER_BYTES
from fleetlake.serving.web_server import listen
from tests.support.leaks import scan
from tests.support.processes import command, environment, fleetlake
from tests.support.pushing import BODY, OTHER, SECRET, settings, signature, signed, stored, until

pytestmark = pytest.mark.proof


class Few(PushProtocol):
    """A connection of a server that takes few."""

    header_seconds = answer_seconds = 60
    max_connections = 8
    max_strangers = 2


class Impatient(Few):
    """A connection that soon gives up. A busy machine may be too slow for it."""

    header_seconds = answer_seconds = 0.3


class Choosy(Few):
    """A connection that comes from an allowed network if it comes from 127.0.0.2."""

    sources = (ip_network("127.0.0.2"),)


@asynccontextmanager
async def serving(
    folder: Path, protocol: type[PushProtocol] = Few, **changes: Any
) -> AsyncIterator[int]:
    """Serve a receiver with small limits from this process; yield its port."""
    intake = open_intake(settings(folder, **changes))
    config = server_config(create_app(lambda: intake), ServerOptions(), None)
    config.http, config.timeout_keep_alive = protocol, 1
    server = uvicorn.Server(config)
    listener = listen("127.0.0.1", 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # few answers fill it
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await until(lambda: asyncio.sleep(0.01, server.started))
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def exchange(
    port: int, *parts: bytes, pause: float = 0.0, sender: str = "127.0.0.1"
) -> bytes:
    """Send parts with pauses between them; return all that is answered until the server closes.

    The server may close, and the connection be reset, while parts are still being sent.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(sender, 0))

    async def send() -> None:
        with suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)

    sending = asyncio.create_task(send())
    answer = b""
    with suppress(ConnectionError):
        async with asyncio.timeout(120):
            while more := await reader.read(1000):
                answer += more
    await sending
    writer.close()
    return answer


async def push(port: int, body: bytes = BODY) -> int:
    async with httpx.AsyncClient(timeout=120) as client:
        url = f"http://127.0.0.1:{port}/push"
        return (await client.post(url, content=body, headers=signed(body))).status_code


def test_a_client_that_sends_headers_slowly_is_cut_off_and_others_are_answered(tmp_path):
    async def attack() -> tuple[list[bytes], int]:
        async with serving(tmp_path, Impatient) as port:
            drip = [b"POST /push HTTP/1.1\r\n", *([b"X-Drip: 1\r\n"] * 20)]
            drips = [asyncio.create_task(exchange(port, *drip, pause=0.1)) for _ in range(5)]
            code = await until(partial(push_if_possible, port))
            return await asyncio.gather(*drips), code

    answers, code = asyncio.run(attack())

    assert code == 200
    assert {answer.split(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 408 Request Timeout"}
    assert stored(tmp_path) == [BODY]


def test_a_connection_without_a_request_is_closed(tmp_path):
    async def connect() -> bytes:
        async with serving(tmp_path, Impatient) as port:
            return await exchange(port)

    assert asyncio.run(connect()) == b""


def test_headers_that_never_end_are_cut_off(tmp_path):
    async def attack() -> bytes:
        async with serving(tmp_path) as port:
            # One byte over the limit: with more, the reset connection could swallow the answer.
            start = b"POST /push HTTP/1.1\r\nX: "
            return await exchange(port, start, b"x" * (HEADER_BYTES + 1 - len(start)))

    assert asyncio.run(attack()).startswith(b"HTTP/1.1 431 ")


CHUNKED = b"POST /push HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"


def test_headers_after_a_body_that_never_end_are_cut_off(tmp_path):
    async def attack() -> bytes:
        async with serving(tmp_path) as port:
            start = CHUNKED + b"X-PORTAL-Signature: " + b"0" * 64 + b"\r\n\r\n1\r\nx\r\n0\r\nX: "
            return await exchange(port, start, b"x" * (HEADER_BYTES + 1), pause=0.1)

    assert asyncio.run(attack()).startswith(b"HTTP/1.1 431 ")


def test_a_signature_after_the_body_does_not_count(tmp_path):
    async def attack() -> bytes:
        async with serving(tmp_path) as port:
            body = b"\r\n%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
            after = f"X-PORTAL-Signature: {signature(BODY)}\r\n\r\n".encode()
            return await exchange(port, CHUNKED + body + after)

    assert asyncio.run(attack()).startswith(b"HTTP/1.1 403 ")
    assert stored(tmp_path) == []


def test_one_connection_too_many_gets_503_while_all_others_have_asked_something(tmp_path):
    async def attack() -> tuple[bytes, int]:
        async with serving(tmp_path) as port:
            asked = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
            for _, writer in asked:
                head = f"POST /push HTTP/1.1\r\nX-PORTAL-Signature: {signature(BODY)}\r\n"
                writer.write(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode())
            await asyncio.sleep(0.1)  # the server reads what was sent
            refused = await exchange(port)
            for reader, writer in asked:
                writer.write(BODY)
                assert (await reader.read(100)).startswith(b"HTTP/1.1 200 ")
                writer.close()
            return refused, await push(port)

    refused, code = asyncio.run(attack())

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert code == 200


def test_silent_connections_give_way_to_a_new_one_the_longest_silent_first(tmp_path):
    async def attack() -> tuple[list[bytes], int]:
        async with serving(tmp_path) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
            codes = {await push(port) for _ in range(3)}
            ended = [await reader.read() for reader, _ in silent[:1]]
            for _, writer in silent[1:]:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            ended += [await reader.read(12) for reader, _ in silent[1:]]
            for _, writer in silent:
                writer.close()
            return ended, *codes

    ended, code = asyncio.run(attack())

    assert code == 200
    assert ended == [b"", *[b"HTTP/1.1 200"] * 7]


def test_clients_that_do_not_read_their_answers_are_cut_off(tmp_path, caplog):
    async def attack() -> int:
        async with serving(tmp_path, Impatient) as port:
            held = [greedy(port) for _ in range(8)]
            try:
                return await until(partial(push_if_possible, port))
            finally:
                for client in held:
                    client.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the receiver's kind
        assert runner.run(attack()) == 200
    assert caplog.text == ""


def greedy(port: int) -> socket.socket:
    """Return a connection that asks much more than its buffers take, and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    with suppress(BlockingIOError):
        client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000)
    return client


async def push_if_possible(port: int) -> int | None:
    """Return 200 if a push is stored, None if there is no connection left for it."""
    with suppress(httpx.HTTPError):
        return 200 if await push(port) == 200 else None
    return None


def test_strangers_do_not_take_the_connections_of_an_allowed_network(tmp_path):
    async def attack() -> tuple[bytes, bytes]:
        async with serving(tmp_path, Choosy, push_sources="127.0.0.2") as port:
            theirs = [
                await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
                for _ in range(6)
            ]
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for _, writer in theirs:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            answered = [await reader.read(12) for reader, _ in theirs]
            for _, writer in theirs + strangers:
                writer.close()
            return answered

    assert asyncio.run(attack()) == [b"HTTP/1.1 200"] * 6


def test_a_client_that_takes_a_large_answer_slowly_gets_it_all_and_a_silent_one_is_cut_off():
    class InASecond(Few):
        answer_seconds = 1  # for each part; a busy machine takes ten times as long for one as ours

    whole = b"x" * (20 * ANSWER_PART_BYTES)

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-length", str(len(whole)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": whole})

    async def take(port: int, *, is_slow: bool) -> int:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        taken = 0

        def take_part() -> int:
            wanted = ANSWER_PART_BYTES
            while wanted > 0 and (more := client.recv(wanted)):
                wanted -= len(more)
            return ANSWER_PART_BYTES - wanted

        if not is_slow:
            await asyncio.sleep(1.3)
        with client, suppress(ConnectionError):
            while more := await asyncio.to_thread(take_part):
                taken += more
                await asyncio.sleep(0.06)
        return taken

    async def serve() -> tuple[int, int]:
        config = server_config(app, ServerOptions(), None)
        config.http, config.lifespan = InASecond, "off"
        server, listener = uvicorn.Server(config), listen("127.0.0.1", 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await until(lambda: asyncio.sleep(0.01, server.started))
        port = listener.getsockname()[1]
        taken = await asyncio.gather(take(port, is_slow=True), take(port, is_slow=False))
        server.should_exit = True
        await task
        return taken[0], taken[1]

    slow, silent = asyncio.run(serve())

    assert slow > len(whole)
    assert silent < len(whole)


def test_what_is_no_http_is_refused(tmp_path):
    async def attack() -> bytes:
        async with serving(tmp_path) as port:
            return await exchange(port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")

    assert asyncio.run(attack()).startswith(b"HTTP/1.1 400 ")


def variables(folder: Path, **more: object) -> dict[str, str]:
    """Return the environment of a receiver whose secrets are those of `settings`."""
    return environment(
        folder,
        push_secrets=f"{OTHER},{SECRET}",
        push_secrets_file=folder / "push-secrets",
        push_journal=folder / "push-journal",
        **more,
    )


@contextmanager
def receiver(folder: Path, *words: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run `fleetlake receive`; yield its address and its process."""
    log = (folder / "receive.log").open("a")
    with (
        log,
        subprocess.Popen(
            command("receive", "--port", "0", "--no-drain", *words),
            env=variables(folder),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield process.stdout.readline().removeprefix("ready ").strip(), process
        finally:
            process.kill()


async def push_until_it_is_gone(url: str, round_: int, process, lifetime: int) -> list[bytes]:
    """Push with 16 clients, kill the receiver after some answers; return what got 200."""
    accepted: list[bytes] = []

    async def one(client: httpx.AsyncClient, worker: int) -> None:
        number = 0
        while True:
            body = json.dumps({"type": "x", "id": f"{round_}-{worker}-{number}"}).encode()
            answer = await client.post("/push", content=body, headers=signed(body))
            assert answer.status_code == 200
            accepted.append(body)
            number += 1
            if len(accepted) == lifetime:
                process.kill()

    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        done = await asyncio.gather(
            *(one(client, worker) for worker in range(16)), return_exceptions=True
        )
    assert {isinstance(error, httpx.TransportError) for error in done} == {True}
    return accepted


def test_after_kills_every_message_that_got_200_is_in_the_journal_once(tmp_path):
    chance, accepted = random.Random(3), []

    for number in range(4):
        with receiver(tmp_path, "--no-access-log") as (url, process):
            lifetime = chance.randrange(1, 400)
            accepted += asyncio.run(push_until_it_is_gone(url, number, process, lifetime))

    found = stored(tmp_path)
    assert len(accepted) > 4
    assert set(accepted) - set(found) == set()
    assert len(found) == len(set(found))


def test_a_full_disk_gets_503_and_after_it_has_space_200(tmp_path):
    with receiver(tmp_path) as (url, process), httpx.Client(base_url=url) as client:
        hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)[1]

        def pushed(body: bytes) -> int:
            return client.post("/push", content=body, headers=signed(body)).status_code

        codes = [pushed(b"before")]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (60, hard))
        codes += [pushed(b"x" * 100)]
        health = client.get("/healthz")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        while client.get("/healthz").status_code != 200:  # it tries again after a second
            pass
        codes += [pushed(b"after")]

    assert codes == [200, 503, 200]
    assert (health.status_code, health.json()) == (503, {"journal": "disk I/O error"})
    assert stored(tmp_path) == [b"before", b"after"]


def test_sigterm_answers_what_has_arrived_and_ends_with_success(tmp_path):
    head = (
        f"POST /push HTTP/1.1\r\nHost: x\r\nX-PORTAL-Signature: {signature(BODY)}\r\n"
        f"Content-Length: {len(BODY)}\r\n\r\n"
    ).encode()

    async def stop(url: str, process) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(head + BODY[:10])
        await writer.drain()
        await until(lambda: asyncio.sleep(0.05, httpx.get(f"{url}/healthz").status_code == 200))
        process.send_signal(signal.SIGTERM)
        await until(lambda: is_closed(url))
        writer.write(BODY[10:])
        answer = await reader.read()
        writer.close()
        return answer

    async def is_closed(url: str) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        except ConnectionError:
            return True
        writer.close()
        return False

    with receiver(tmp_path) as (url, process):
        answer = asyncio.run(stop(url, process))
        code = process.wait(120)

    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert code == 0
    assert stored(tmp_path) == [BODY]


def test_no_secret_is_in_journal_log_or_metrics_after_good_bad_and_crooked_requests(tmp_path):
    with receiver(tmp_path) as (url, process), httpx.Client(base_url=url) as client:
        client.post("/push", content=BODY, headers=signed())
        client.post("/push", content=b"x", headers=signed())
        client.post("/push", content=BODY, headers={"X-PORTAL-Signature": SECRET})
        client.post(f"/push?secret={SECRET}", content=BODY, headers={"Authorization": OTHER})
        client.post(f"/{SECRET}", content=OTHER)
        client.request("POST", "/push", headers={"X-PORTAL-Signature": OTHER, SECRET: OTHER})
        texts = client.get("/metrics").text + client.get("/healthz").text
        process.terminate()
        process.wait(60)  # its end writes the lines that wait for the disk

    log = (tmp_path / "receive.log").read_text()
    found = scan([tmp_path], texts=[SECRET, OTHER, signature(BODY)], ids=[])
    assert found.leaks == []
    assert found.files >= 3
    assert not [word for word in (SECRET, OTHER, signature(BODY)) if word in texts]
    assert log.count("POST /push") == 5
    assert "(other path) 404" in log


def write_certificate(folder: Path, name: str) -> Path:
    """Write a self-signed certificate for this machine with its key; return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file


def test_with_a_certificate_it_speaks_tls_1_2_and_1_3_only(tmp_path):
    cert = write_certificate(tmp_path, "localhost")

    def context(version: ssl.TLSVersion) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(cert))
        made.minimum_version = made.maximum_version = version
        return made

    with receiver(tmp_path, "--listen", "localhost", "--cert", str(cert)) as (url, _):
        codes = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with httpx.Client(verify=context(version), base_url=url) as client:
                body = version.name.encode()
                codes.append(client.post("/push", content=body, headers=signed(body)).status_code)

    assert url.startswith("https://localhost:")
    assert codes == [200, 200]
    assert stored(tmp_path) == [b"TLSv1_2", b"TLSv1_3"]


def shown_certificate(port: int) -> bytes:
    """Return the certificate that a new connection is shown."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=120) as plain,
        trusting.wrap_socket(plain) as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


def test_a_renewed_certificate_is_used_without_a_restart_and_files_that_do_not_fit_are_not(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(push_server, "CERTIFICATE_TICKS", 1)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def renewed() -> tuple[str, str]:
        text = write_certificate(tmp_path, "localhost").read_text()
        at = text.index("-----BEGIN CERTIFICATE")
        return text[at:], text[:at]

    async def run() -> list[bytes]:
        first, second = renewed(), renewed()
        cert.write_text(first[0])
        key.write_text(first[1])
        certificate = Certificate(cert, key)
        app = create_app(lambda: open_intake(settings(tmp_path)))
        config = server_config(app, ServerOptions(), certificate)
        server = PushServer(config, lambda: None, certificate)
        listener = listen("127.0.0.1", 0)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await until(lambda: asyncio.sleep(0.01, server.started))
        shown = partial(asyncio.to_thread, shown_certificate, listener.getsockname()[1])
        seen = [await shown()]
        cert.write_text(second[0])  # as a renewal does, which writes one file after the other
        await until(lambda: asyncio.sleep(0.01, "the old one stays" in caplog.text))
        seen.append(await shown())
        key.write_text(second[1])

        async def is_new() -> bool:
            return await shown() != seen[0]

        await until(is_new)
        seen.append(await shown())
        server.should_exit = True
        await task
        return [*seen, ssl.PEM_cert_to_DER_cert(second[0])]

    before, between, after, expected = asyncio.run(run())
    assert between == before
    assert after == expected != before


def test_a_foreign_asgi_server_takes_pushes_and_does_not_drain(tmp_path):
    words = ["uvicorn", "fleetlake.receiving:application", "--port", "0", "--workers", "1"]
    with (
        (tmp_path / "uvicorn.log").open("w+") as log,
        subprocess.Popen(
            [sys.executable, "-m", *words], env=variables(tmp_path), stdout=log, stderr=log
        ) as process,
    ):
        try:
            while not (found := re.search(r"running on (http://\S+)", Path(log.name).read_text())):
                assert process.poll() is None, Path(log.name).read_text()
                time.sleep(0.05)
            with httpx.Client(base_url=found[1], timeout=120) as client:
                answers = [
                    client.post("/push", content=BODY, headers=signed(BODY)).status_code,
                    client.post("/push", content=BODY, headers=signed(b"other")).status_code,
                    client.get("/healthz").json(),
                ]
        finally:
            process.terminate()

    assert answers == [200, 403, {"journal": "writable"}]
    assert stored(tmp_path) == [BODY]
    assert process.returncode == -signal.SIGTERM  # uvicorn raises it again after a clean stop
    assert "Finished server process" in Path(log.name).read_text()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--listen", "0.0.0.0"], "everyone on the network could read the alerts"),
        (["--cert", "missing.pem"], "cannot be used: No such file"),
        (["--key", "key.pem"], "--key needs --cert"),
        (["--listen", "192.0.2.1"], "Cannot listen on 192.0.2.1"),
    ],
)
def test_options_that_do_not_work_are_refused_in_plain_words(tmp_path, words, text):
    plain = {"plain_http": "true"} if "192.0.2.1" in words else {}

    done = fleetlake("receive", "--port", "0", *words, env=variables(tmp_path, **plain))

    assert done.returncode == 2
    assert text in done.stderr


def test_without_secrets_it_starts_and_says_what_to_do(tmp_path):
    env = variables(tmp_path) | {"FLEETLAKE_PUSH_SECRETS": ""}
    with subprocess.Popen(
        command("receive", "--port", "0", "--no-drain"),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.terminate()
        said = process.communicate()[1]

    assert ready.startswith("ready http://127.0.0.1:")
    assert "fleetlake alerts setup" in said


LIVING = """
import pathlib, signal
pathlib.Path("started").write_text("")
signal.pause()
"""


def test_the_child_of_a_killed_receiver_ends_too(tmp_path):
    (tmp_path / "drainer_for_test.py").write_text(LIVING)
    words = ["-m", "fleetlake.receiving.while_parent_lives", "drainer_for_test"]
    with subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    ) as process:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()

        assert process.wait(120) == -signal.SIGTERM


COUNTING = """
import pathlib, sys
file = pathlib.Path(sys.argv[1])
file.write_text(file.read_text() + "x" if file.exists() else "x")
"""


DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


def test_a_stop_waits_for_the_end_of_a_child_and_kills_one_that_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr("fleetlake.receiving.child_process.STOP_SECONDS", 0.1)
    file = tmp_path / "started"

    async def stopped() -> bool:
        kept = KeptProcess([sys.executable, "-c", DEAF, str(file)], os.environ)
        keeping = asyncio.create_task(kept.keep())
        await until(lambda: asyncio.sleep(0.05, file.exists()))
        await kept.stop()
        is_alive = kept.is_alive()
        await asyncio.wait_for(keeping, 120)
        return not is_alive

    assert asyncio.run(stopped())


def test_a_child_that_ends_is_started_again_and_a_stop_ends_it(tmp_path):
    file = tmp_path / "starts"

    async def keep() -> None:
        counting = [sys.executable, "-c", COUNTING, str(file)]
        kept = KeptProcess(counting, os.environ, first_wait_seconds=0.01)
        keeping = asyncio.create_task(kept.keep())
        await until(lambda: asyncio.sleep(0.05, file.exists() and len(file.read_text()) >= 3))
        await kept.stop()
        await keeping
        assert not kept.is_alive()

    asyncio.run(keep())
