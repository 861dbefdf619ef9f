"""The receiver's answers: 200 for what is on disk, and for everything else a refusal."""

import asyncio
import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from errno import ENOSPC
from ipaddress import ip_network
from pathlib import Path

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from fleetlake.errors import UsageError
from fleetlake.receiving import intake
from fleetlake.receiving.intake import DISCARDED_BYTES, BodyReader
from fleetlake.receiving.journal import JournalLimits, open_journal
from fleetlake.receiving.journal_table import JournalTable, PushedMessage
from fleetlake.receiving.push_app import create_app
from fleetlake.receiving.push_secrets import REFUSAL_STATUS, PushRefusal, PushSecrets
from fleetlake.receiving.push_server import PushProtocol, require_addresses
from fleetlake.serving.bounded_protocol import HEADER_BYTES
from fleetlake.serving.web_server import listen
from tests.support.pushing import (
    BODY,
    OTHER,
    SECRET,
    SENDER,
    Running,
    answers,
    settings,
    signature,
    signed,
    stored,
    until,
)

SUMMARY = b'[{"type":"a"},{"type":"b"}]'


@pytest.mark.parametrize("secret", [SECRET, OTHER])
@pytest.mark.parametrize(
    "body",
    [SUMMARY, b"", b"\x00\xff" * 70_000, b"SQLite format 3\x00" * 9],
    ids=["alerts", "empty", "large", "a database"],
)
def test_a_message_signed_with_any_secret_is_stored_byte_for_byte(tmp_path, secret, body):
    answer = answers(tmp_path, lambda receiver: receiver.push(body, secret))

    assert (answer.status_code, answer.text) == (200, "stored\n")
    assert stored(tmp_path) == [body]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([], BODY),
        ([("X-PORTAL-Signature", "")], BODY),
        ([("X-PORTAL-Signature", "é".encode())], BODY),
        ([("X-PORTAL-Signature", signature(BODY)[:-1])], BODY),
        ([("X-PORTAL-Signature", signature(BODY, "guess"))], BODY),
        ([("X-PORTAL-Signature", signature(BODY, ""))], BODY),
        ([("X-PORTAL-Signature", signature(BODY))], BODY + b" "),
        ([("X-PORTAL-Signature", signature(b""))], b"  "),
        ([("X-PORTAL-Signature", SECRET)], BODY),
        ([("X-PORTAL-Signature", signature(BODY))] * 2, BODY),
        ([("X-PORTAL-Signature", f"{signature(BODY)},{signature(BODY)}")], BODY),
        ([("X-PORTAL-Signature", f"sha256={signature(BODY)}")], BODY),
        ([("Authorization", signature(BODY))], BODY),
    ],
)
def test_a_forged_message_gets_403_and_is_not_stored(tmp_path, headers, body):
    answer = answers(tmp_path, lambda receiver: receiver.send(content=body, headers=headers))

    assert answer.status_code == 403
    assert stored(tmp_path) == []


def test_without_any_secret_every_message_is_refused(tmp_path):
    none = PushSecrets(settings(tmp_path, push_secrets=""))

    answer = answers(tmp_path, lambda receiver: receiver.push(BODY, ""), secrets=none)

    assert answer.status_code == 403


def test_a_replayed_message_gets_200_and_is_stored_once(tmp_path):
    async def thrice(receiver):
        codes = [(await receiver.push()).status_code for _ in range(3)]
        return codes, receiver.intake.counts.registry.get_sample_value

    codes, count = answers(tmp_path, thrice)

    assert codes == [200, 200, 200]
    assert count("fleetlake_push_messages_total") == 1
    assert count("fleetlake_push_repeats_total") == 2
    assert stored(tmp_path) == [BODY]


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_message_over_the_limit_gets_413_and_one_at_the_limit_is_stored(tmp_path, is_announced):
    def sent(body: bytes):
        async def chunks():
            for start in range(0, len(body), 100):
                yield body[start : start + 100]

        return lambda receiver: receiver.send(
            content=body if is_announced else chunks(), headers=signed(body)
        )

    codes = [
        answers(tmp_path, sent(b"x" * size), bodies=BodyReader(1000)).status_code
        for size in (1000, 1001)
    ]

    assert codes == [200, 413]
    assert stored(tmp_path) == [b"x" * 1000]


async def by_hand(receiver, messages, headers=(), *, path="/push"):
    """Return the status and headers of the answer to a request, taking its body from `messages`."""
    sent = []
    waiting = messages

    async def receive():
        if waiting:
            return waiting.pop(0)
        return await asyncio.get_running_loop().create_future()  # nothing more ever comes

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": list(headers),
        "client": SENDER,
    }
    with suppress(OSError):
        await receiver.app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    return start["status"], dict(start["headers"])


SIGNED = [(b"x-portal-signature", signature(BODY).encode())]


def part(body: bytes, *, more: bool) -> dict:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_truncated_message_is_not_stored_even_if_what_arrived_is_signed(tmp_path):
    messages = [part(BODY, more=True), {"type": "http.disconnect"}]

    status, headers = answers(tmp_path, lambda receiver: by_hand(receiver, messages, SIGNED))

    assert (status, headers[b"connection"]) == (400, b"close")
    assert stored(tmp_path) == []


def test_a_body_that_takes_too_long_gets_408_and_is_not_stored(tmp_path):
    status, headers = answers(
        tmp_path,
        lambda receiver: by_hand(receiver, [part(BODY, more=True)], SIGNED),
        bodies=BodyReader(1000, seconds=0.05),
    )

    assert (status, headers[b"connection"]) == (408, b"close")
    assert stored(tmp_path) == []


def test_bodies_in_memory_are_bounded_over_all_requests(tmp_path):
    async def ask(receiver):
        slow = asyncio.create_task(by_hand(receiver, [part(b"x" * 900, more=True)], SIGNED))
        await until(lambda: asyncio.sleep(0, receiver.intake.bodies.held))
        second = await receiver.push(b"y" * 200)
        slow.cancel()
        with suppress(asyncio.CancelledError):
            await slow
        return second, await receiver.push(b"z" * 200)

    second, third = answers(tmp_path, ask, bodies=BodyReader(1000, held_bytes=1000))

    assert (second.status_code, second.headers["retry-after"]) == (503, "1")
    assert third.status_code == 200
    assert stored(tmp_path) == [b"z" * 200]


LONG = [*SIGNED, (b"content-length", b"2000")]


@pytest.mark.parametrize(
    ("headers", "size", "answer", "left"),
    [
        ([], 2_000, (403, True), 0),
        ([], DISCARDED_BYTES + 1, (403, False), 0),
        (LONG, 2_000, (413, True), 0),
        ([*LONG, (b"expect", b"100-continue")], 2_000, (413, False), 1),
    ],
)
def test_the_rest_of_a_refused_message_is_read_up_to_a_limit_unless_its_sender_waits(
    tmp_path, headers, size, answer, left
):
    messages = [part(b"x" * size, more=False)]

    status, sent = answers(
        tmp_path,
        lambda receiver: by_hand(receiver, messages, headers),
        bodies=BodyReader(1000),
    )

    assert (status, b"connection" not in sent) == answer
    assert len(messages) == left


def test_the_signatures_of_the_messages_stored_last_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "REMEMBERED", 2)

    async def ask(receiver):
        for body in (b"1", b"2", b"3", b"3", b"2", b"1"):
            assert (await receiver.push(body)).status_code == 200
        return receiver.intake.counts.registry.get_sample_value("fleetlake_push_repeats_total")

    assert answers(tmp_path, ask) == 2
    assert stored(tmp_path) == [b"1", b"2", b"3", b"1"]


def test_headers_over_the_limit_get_431(tmp_path):
    async def ask(receiver):
        return await receiver.send(content=BODY, headers=signed() | {"X-Long": "x" * 17_000})

    assert answers(tmp_path, ask).status_code == 431
    assert stored(tmp_path) == []


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("GET", "/push", 405, "POST"),
        ("PUT", "/push", 405, "POST"),
        ("POST", "/", 404, None),
        ("POST", "/push/", 404, None),
        ("POST", "/push/x", 404, None),
        ("POST", "/metrics", 405, "GET, HEAD"),
        ("POST", "/healthz", 405, "GET, HEAD"),
    ],
)
def test_other_methods_and_paths_get_405_and_404(tmp_path, method, path, status, allowed):
    async def ask(receiver):
        return await receiver.send(method, path, content=BODY, headers=signed())

    answer = answers(tmp_path, ask)

    allow = answer.headers.get("allow")
    assert answer.status_code == status
    assert (allow and ", ".join(sorted(allow.split(", ")))) == allowed
    assert stored(tmp_path) == []


@pytest.mark.parametrize(
    ("sender", "status"),
    [
        (("192.0.2.7", 1), 200),
        (("::ffff:192.0.2.7", 1), 200),
        (("2001:db8::5", 1), 200),
        (("192.0.3.7", 1), 403),
        (("2001:db9::5", 1), 403),
        (None, 403),
        (("a socket", 1), 403),
    ],
)
def test_only_allowed_networks_may_push(tmp_path, sender, status):
    sources = [ip_network("192.0.2.0/24"), ip_network("2001:db8::/32")]

    answer = answers(tmp_path, lambda receiver: receiver.push(sender=sender), sources=sources)

    assert answer.status_code == status
    assert stored(tmp_path) == [BODY] * (status == 200)


def failing_journal(folder, **limits):
    class Full(JournalTable):
        def append(self, _: object) -> None:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    return open_journal(folder / "full", limits=JournalLimits(**limits), new_table=Full)


def test_a_full_disk_gets_503_with_the_time_to_try_again_and_health_says_why(tmp_path):
    async def ask(receiver):
        return await receiver.push(), await receiver.send("GET", "/healthz")

    pushed, health = answers(tmp_path, ask, journal=failing_journal(tmp_path))

    assert (pushed.status_code, pushed.headers["retry-after"]) == (503, "5")
    assert (health.status_code, health.json()) == (503, {"journal": os.strerror(ENOSPC)})
    assert stored(tmp_path) == []


def test_a_refused_message_that_is_sent_again_is_stored(tmp_path):
    disk = {"is_full": True}

    class Table(JournalTable):
        def append(self, messages: Sequence[PushedMessage]) -> None:
            if disk["is_full"]:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            super().append(messages)

    async def ask(receiver):
        first = await receiver.push()
        disk["is_full"] = False
        return first.status_code, (await receiver.push()).status_code

    journal = open_journal(
        tmp_path / "push-journal",
        limits=JournalLimits(pause_seconds=0),
        new_table=Table,
    )

    assert answers(tmp_path, ask, journal=journal) == (503, 200)
    assert stored(tmp_path) == [BODY]


def test_more_messages_than_may_wait_for_the_disk_get_503(tmp_path):
    async def ask(receiver):
        sent = [receiver.push(b"%d" % number) for number in range(20)]
        return [answer.status_code for answer in await asyncio.gather(*sent)]

    journal = open_journal(tmp_path / "push-journal", limits=JournalLimits(messages=2))

    codes = answers(tmp_path, ask, journal=journal)

    assert {*codes} == {200, 503}
    assert len(stored(tmp_path)) == codes.count(200)


@pytest.mark.parametrize(
    ("command", "state", "status"),
    [("cat", "running", 200), ("false", "stopped", 503), ("/no/such/command", "stopped", 503)],
)
def test_health_tells_whether_the_drainer_runs(tmp_path, command, state, status):
    async def ask(receiver):
        async def health():
            answer = await receiver.send("GET", "/healthz")
            return answer if answer.json()["drainer"] == state else None

        return await until(health)

    answer = answers(tmp_path, ask, drainer=[command])

    assert (answer.status_code, answer.json()["journal"]) == (status, "writable")


def test_metrics_count_messages_and_refusals_and_include_those_of_the_lake(tmp_path):
    async def ask(receiver):
        await receiver.push()
        await receiver.push()
        await receiver.push(secret="guess")
        await receiver.send("GET", "/nowhere")

        async def with_lake():
            text = (await metrics_of(receiver)).text
            return text if "lake_figure" in text else None

        return await until(with_lake)

    text = answers(tmp_path, ask, metrics=["echo", "lake_figure 1"])

    lines = text.splitlines()
    assert "fleetlake_push_messages_total 1.0" in lines
    assert f"fleetlake_push_bytes_total {len(BODY)}.0" in lines
    assert "fleetlake_push_repeats_total 1.0" in lines
    assert 'fleetlake_push_refusals_total{reason="signature"} 1.0' in lines
    assert 'fleetlake_push_refusals_total{reason="path"} 1.0' in lines
    assert "fleetlake_push_flush_seconds_count 1.0" in lines
    assert "lake_figure 1" in lines


async def metrics_of(receiver, sender=("127.0.0.1", 1), **headers):
    return await receiver.send("GET", "/metrics", sender=sender, headers=headers)


def test_metrics_are_only_for_direct_requests_from_private_addresses(tmp_path):
    async def ask(receiver):
        found = [
            await metrics_of(receiver),
            await metrics_of(receiver, ("10.1.2.3", 1)),
            await metrics_of(receiver, ("8.8.8.8", 1)),
            await metrics_of(receiver, **{"X-Forwarded-For": "10.1.2.3"}),
            await metrics_of(receiver, None),
        ]
        return [answer.status_code for answer in found]

    assert answers(tmp_path, ask) == [200, 200, 403, 403, 403]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("10.1.2.3:8710", 200),
        ("[fd00::7]:8710", 200),
        ("receiver:8710", 200),
        ("Alerts.Company.Example:8710", 200),
        ("site.example", 421),
        ("10.1.2.3.site.example:8710", 421),
        ("", 421),
    ],
)
def test_metrics_are_not_given_to_a_name_that_another_site_may_point_here(tmp_path, host, status):
    async def ask():
        app = create_app(
            lambda: intake.open_intake(settings(tmp_path)),
            metrics=("false",),
            names=["alerts.company.example"],
        )
        async with app.router.lifespan_context(app):
            return await Running(app, None).send(
                "GET", "/metrics", sender=("10.1.2.3", 1), headers={"Host": host}
            )

    answer = asyncio.run(ask())

    assert answer.status_code == status
    assert ("fleetlake_push_messages_total" in answer.text) == (status == 200)


def test_a_new_secret_in_the_file_counts_at_once_and_a_removed_one_no_longer(tmp_path):
    file = tmp_path / "push-secrets"

    def write(text: str) -> None:
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(text)

    async def ask(receiver):
        codes = [(await receiver.push(b"1", "new")).status_code]
        write("new\nnewer\n")
        codes += [(await receiver.push(b"2", name)).status_code for name in ("new", "newer")]
        write("newer\n")
        codes += [(await receiver.push(b"3", name)).status_code for name in ("new", "newer")]
        file.chmod(0o644)
        codes += [(await receiver.push(b"4", name)).status_code for name in ("newer", SECRET)]
        return codes

    assert answers(tmp_path, ask) == [403, 200, 200, 403, 200, 200, 200]
    # The same body signed with another secret is another message here, and one alert in the lake.
    assert stored(tmp_path) == [b"2", b"2", b"3", b"4", b"4"]


@pytest.mark.parametrize("proxies", ["*", "nginx", "10.0.0.O", "127.0.0.1, 10.0.0.1/8"])
def test_a_proxy_is_named_by_its_address_or_network(proxies):
    require_addresses("")
    require_addresses("127.0.0.1, 10.20.0.0/16,::1,")

    with pytest.raises(UsageError, match="not an address or a network"):
        require_addresses(proxies)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(socket.EAI_NONAME, "Name or service not known"), "There is no such address"),
        (UnicodeError("label too long"), "There is no such address"),
        (PermissionError(13, "Permission denied (while binding)"), "Permission denied."),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_in_plain_words(monkeypatch, error, text):
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_server", refuse)

    with pytest.raises(UsageError, match=f"Cannot listen on alerts.example, port 1: {text}"):
        listen("alerts.example", 1)


class Line:
    """The server's end of a connection: it notes what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.write = self.written.append

    def get_extra_info(self, _name: str) -> None:
        return None

    def set_write_buffer_limits(self, **_limits: int) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_lost_connection_gets_the_answer_of_none_of_its_requests():
    async def lose(*, after: int) -> int:
        """Return how many of three requests are answered if the connection is lost meanwhile."""
        free, line = [asyncio.Event() for _ in range(3)], Line()
        waiting = iter(free)

        async def answer(_scope, _receive, send):
            await next(waiting).wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"an answer"})

        connection = PushProtocol(
            config=Config(answer, log_config=None), server_state=ServerState(), app_state={}
        )
        connection.connection_made(line)
        connection.data_received(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" * 3)
        for event in free[:after]:
            event.set()
            await asyncio.sleep(0.01)
        connection.connection_lost(None)
        for event in free[after:]:
            event.set()
            await asyncio.sleep(0.01)
        return b"".join(line.written).count(b"an answer")

    assert [asyncio.run(lose(after=count)) for count in range(4)] == [0, 1, 2, 3]


class Impatient(PushProtocol):
    """A connection that soon gives up."""

    header_seconds = 0.02


def test_each_request_of_a_connection_has_its_time_for_headers():
    async def answer(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body"})

    async def written() -> bytes:
        line = Line()
        connection = Impatient(
            config=Config(answer, log_config=None), server_state=ServerState(), app_state={}
        )
        connection.connection_made(line)
        connection.data_received(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(lambda: asyncio.sleep(0.001, b"200 OK" in b"".join(line.written)))
        connection.data_received(b"GET /healthz HTTP/1.1\r\nhost")
        await until(lambda: asyncio.sleep(0.001, b"408" in b"".join(line.written)))
        connection.connection_lost(None)
        return b"".join(line.written)

    assert asyncio.run(asyncio.wait_for(written(), 120)).count(b"HTTP/1.1 ") == 2


GUIDE = Path(__file__).parents[2] / "docs/how-to/receive.md"


def test_the_guide_names_every_refusal_with_its_answer_and_the_limits_that_hold():
    text = GUIDE.read_text("utf-8")
    rows = re.findall(r"^\| ([\d, ]+) \| ([`\w, ]+) \|", text, re.MULTILINE)
    named = {
        (int(code), reason.strip("`"))
        for codes, reasons in rows
        for code, reason in zip(codes.split(", "), reasons.split(", "), strict=True)
    }
    limits = JournalLimits()

    assert named == {(REFUSAL_STATUS[reason].value, reason.value) for reason in PushRefusal}
    for promise in (
        f"headers took over {PushProtocol.header_seconds:g} s",
        f"the body over {intake.SECONDS:g} s and {intake.SECONDS_PER_MEGABYTE:g} s per MB",
        f"more than {intake.HEADER_BYTES // 2**10} KB of headers",
        f"more than {HEADER_BYTES // 2**10} KB after a chunked body",
        f"more than {limits.messages:,} messages or {limits.bytes // 2**20} MB wait for the disk",
        f"more than {PushProtocol.max_connections} connections have an unanswered request",
        f"({PushProtocol.max_strangers} from networks",
        f"take its answer within {PushProtocol.answer_seconds:g} s",
    ):
        assert promise in text.replace("\n", " ")
