"""One request, one checked response: each kind has its own error, and none shows a secret."""

import asyncio
import gc
import json
import logging
import ssl
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina

from fleetlake.decoding.arrow import Page, read_page
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Api
from fleetlake.errors import (
    CredentialsRefused,
    EndpointUnavailable,
    PageUnreadable,
    RequestRejected,
    ServiceError,
    SettingsError,
    Throttled,
    Unreachable,
)
from fleetlake.service.client import Client
from fleetlake.service.route import tls_context
from fleetlake.settings import Settings

KEYS = {
    "portal_api_id": "PORTALID-1f0c",
    "portal_api_key": "PORTALKEY-77aa41",
    "mgr_api_id": "MGRID-9d",
    "mgr_api_key": "MGRID-9d-KEY-b04ce1a2",  # starts with another key
}
ACCOUNTS = ENDPOINTS["accounts"]
EMPTY = {"data": [], "meta": {"limit": 500, "next": None}}
ONE = {"data": [{"id": "1"}], "meta": {"limit": 500, "next": None}}

Answer = Callable[[httpx.Request], httpx.Response]


class Service:
    """Returns the responses in turn and repeats the last one. Records the requests."""

    def __init__(self, *answers: Answer | httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return httpx.Response(
                answer.status_code, headers=answer.headers, content=answer.content
            )
        return answer(request)


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Settings]:
    def make(**changes: Any) -> Settings:
        values = {
            "base_url": "https://svc.example/api/v2/",
            "state": tmp_path / "state",
            "lake": tmp_path / "lake",
            "calls_per_minute": 0,
            "retry_attempts": 5,
            **KEYS,
            **changes,
        }
        return Settings(**values)

    return make


@pytest.fixture(autouse=True)
def as_many_tries_as_set() -> Iterator[None]:
    """Never wait, and make as many attempts as the settings say."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


@pytest.fixture(autouse=True, scope="module")
def one_tls_context() -> Iterator[None]:
    """Load the authorities once: it takes 25 ms per client."""
    context = tls_context(["https://svc.example/"], has_proxy=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleetlake.service.client.tls_context", lambda *_, **__: context)
        yield


@pytest.fixture
def ask(settings: Callable[..., Settings]) -> Callable[..., Page]:
    """Return a function that requests a page of accounts, optionally after one good response."""

    def get(service: Service, *, is_known: bool = True, **changes: Any) -> Page:
        async def go() -> Page:
            transport = httpx.MockTransport(service)
            async with Client(settings(**changes), transport=transport) as client:
                if is_known:
                    answers, service.answers = service.answers, [httpx.Response(200, json=EMPTY)]
                    await client.get("accounts/", {"limit": "1"}, lambda _: None)
                    service.answers = answers
                    service.requests.clear()
                read = partial(read_page, ACCOUNTS)
                return await client.get("accounts/", {"limit": "500"}, read)

        return asyncio.run(go())

    return get


def says(status: int, text: str = "", **headers: str) -> httpx.Response:
    return httpx.Response(
        status, text=text, headers={k.replace("_", "-"): headers[k] for k in headers}
    )


VALIDATION = json.dumps(
    {
        "errors": [{"order_by": "no such field"}],
        "exception": {"type": "validation", "message": "bad or missing data"},
    }
)
FINAL = {
    400: RequestRejected,
    401: CredentialsRefused,
    403: EndpointUnavailable,
    404: EndpointUnavailable,
    405: EndpointUnavailable,
    409: RequestRejected,
    410: RequestRejected,
    418: RequestRejected,
    201: RequestRejected,
    204: RequestRejected,
    206: RequestRejected,
}
TRANSIENT = {
    408: Unreachable,
    429: Throttled,
    500: Unreachable,
    502: Unreachable,
    503: Unreachable,
    504: Unreachable,
    507: Unreachable,
}


@pytest.mark.parametrize(("status", "kind"), FINAL.items())
def test_a_permanent_error_response_is_raised_at_once(ask, status, kind):
    service = Service(says(status, VALIDATION))

    with pytest.raises(ServiceError) as failure:
        ask(service)

    assert type(failure.value) is kind
    assert len(service.requests) == 1
    assert str(status) in failure.value.what
    assert "https://svc.example/api/v2/accounts/" in failure.value.what
    assert failure.value.remedy


@pytest.mark.parametrize(("status", "kind"), TRANSIENT.items())
def test_a_transient_error_response_is_retried_until_the_time_limit(ask, status, kind):
    service = Service(says(status, "internal error shard-router-3"))

    with pytest.raises(ServiceError) as failure:
        ask(service)

    assert type(failure.value) is kind
    assert len(service.requests) == 5
    assert "internal error shard-router-3" in failure.value.what


CUT = json.dumps(ONE)[:-9]
BAD_BODIES = {
    "html": says(200, "<html><body>Sign in to this WiFi</body></html>"),
    "no data": says(200, '{"meta": {"limit": 500, "next": null}}'),
    "null": says(200, "null"),
    "nothing": says(200, ""),
    "cut": says(200, CUT),
    "an error body": says(200, VALIDATION),
}


@pytest.mark.parametrize("answer", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_is_not_a_page_is_retried_and_never_an_empty_page(ask, answer):
    service = Service(answer)

    with pytest.raises(PageUnreadable):
        ask(service)

    assert len(service.requests) == 5


PASSING = [
    *(says(status, "x") for status in TRANSIENT),
    *BAD_BODIES.values(),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("too slow"),
    httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
    httpx.DecodingError("incorrect header check"),
]


@pytest.mark.parametrize("trouble", range(len(PASSING)))
def test_the_page_is_complete_after_transient_errors(ask, trouble):
    def broken(_: httpx.Request) -> httpx.Response:
        if isinstance(PASSING[trouble], Exception):
            raise PASSING[trouble]
        answer = PASSING[trouble]
        return httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)

    service = Service(broken, broken, httpx.Response(200, json=ONE))

    page = ask(service)

    assert page.rows["id"].to_pylist() == [1]
    assert len(service.requests) == 3


def test_an_unreachable_service_fails_after_three_attempts_at_first_contact(ask):
    service = Service(httpx.ConnectError("[Errno 111] Connection refused"))

    with pytest.raises(Unreachable, match="Connection refused") as failure:
        ask(service, is_known=False)

    assert len(service.requests) == 3
    assert "https://svc.example" in failure.value.what


def test_fewer_than_three_attempts_can_be_set(ask):
    service = Service(httpx.ConnectError("refused"))

    with pytest.raises(Unreachable):
        ask(service, is_known=False, retry_attempts=1)

    assert len(service.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_error_and_its_target_gets_no_key(ask, status):
    service = Service(says(status, "", location="https://elsewhere.example/api/v2/accounts/"))

    with pytest.raises(RequestRejected, match=str(status)) as failure:
        ask(service)

    assert [r.url.host for r in service.requests] == ["svc.example"]
    assert "FLEETLAKE_BASE_URL" in failure.value.remedy


@pytest.mark.parametrize(
    "root",
    ["https://svc.example/api/v2/", "https://svc.example/api/v2", "HTTPS://svc.example/api/v2"],
)
def test_every_call_goes_below_the_root_url_with_a_trailing_slash(ask, root):
    service = Service(httpx.Response(200, json=EMPTY))

    ask(service, base_url=root)

    [request] = service.requests
    assert str(request.url) == "https://svc.example/api/v2/accounts/?limit=500"


def test_a_cookie_that_the_service_sets_is_not_sent_back(ask):
    service = Service(says(500, set_cookie="session=1"), httpx.Response(200, json=ONE))

    ask(service)

    assert ["cookie" in request.headers for request in service.requests] == [False, False]


def test_the_four_keys_are_sent_in_the_configured_headers(ask):
    service = Service(httpx.Response(200, json=EMPTY))

    ask(service, header_names="X-A, X-B,X-C , X-D")

    [request] = service.requests
    assert [request.headers[name] for name in ("x-a", "x-b", "x-c", "x-d")] == list(KEYS.values())


def test_a_plus_sign_in_a_filter_is_escaped_as_the_contract_requires(settings):
    service = Service(httpx.Response(200, json=EMPTY))

    async def go() -> None:
        async with Client(settings(), transport=httpx.MockTransport(service)) as client:
            at = {"created_at__gt": "2026-01-01T00:00:00+00:00"}
            await client.get("alerts/", at, lambda _: None)

    asyncio.run(go())

    assert b"%2B00" in service.requests[0].url.query.upper()


def test_missing_keys_are_named_before_any_call(ask):
    service = Service(httpx.Response(200, json=EMPTY))

    with pytest.raises(SettingsError) as failure:
        ask(service, portal_api_key="", mgr_api_key="")

    assert "FLEETLAKE_PORTAL_API_KEY, FLEETLAKE_MGR_API_KEY" in failure.value.what
    assert service.requests == []


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("7", timedelta(seconds=7)),
        ("0", timedelta(0)),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", timedelta(0)),
    ],
)
def test_retry_after_in_seconds_is_read(ask, header, wait):
    with pytest.raises(Throttled) as failure:
        ask(Service(says(429, retry_after=header)))

    assert failure.value.wait == wait


def test_retry_after_as_a_date_is_the_time_until_that_date(ask):
    then = datetime.now(UTC) + timedelta(seconds=40)

    with pytest.raises(Throttled) as failure:
        ask(Service(says(429, retry_after=format_datetime(then, usegmt=True))))

    assert timedelta(seconds=30) < failure.value.wait <= timedelta(seconds=40)


NO_DATES = [
    *["²".encode("latin-1"), b"\xff", b"Mon, 01 Jan 99999 00:00:00 GMT"],
    *[b"Mon, 01 Jan " + b"9" * 30 + b" 00:00:00 GMT", b"Mon, 01 Jan 2026 00:00:00 +" + b"9" * 30],
]


@pytest.mark.parametrize("header", [b"9" * 30, *NO_DATES])
def test_an_unreadable_retry_after_is_ignored(ask, header):
    answer = httpx.Response(429, headers=[(b"retry-after", header)])

    with pytest.raises(Throttled):
        ask(Service(answer))


@pytest.mark.parametrize("header", NO_DATES)
def test_a_response_with_an_unreadable_date_is_treated_like_one_without(ask, header):
    answer = httpx.Response(200, headers=[(b"date", header)], json=ONE)

    assert ask(Service(answer)).count == 1


def echoing(status: int, pattern: str) -> Answer:
    """Return a service that echoes what it was sent."""

    def answer(request: httpx.Request) -> httpx.Response:
        sent = " ".join(v for k, v in request.headers.items() if k.startswith("x-"))
        return httpx.Response(status, text=pattern.replace("SENT", sent))

    return answer


ECHOES = {
    "plain": "you sent SENT",
    "json message": '{"exception": "unauthorized", "message": "bad SENT", "success": false}',
    "json errors": '{"errors": [{"key": "SENT"}], "exception": {"type": "x", "message": "SENT"}}',
    **{
        f"cut after {n}": "x" * n + "SENT"
        for n in (92, 95, 98, 108, 111, 150, 165, 172, 176, 188, 192)
    },
    "json cut": '{"message": "' + "x" * 165 + 'SENT"}',
    "html": "<html>SENT",
    "page": '{"data": "SENT", "meta": {}}',
    "cut far behind blanks": " " * 65_450 + "SENT",
}


FORGED = "x.\r\nWhat to do: run y\u2028z\x1b[2J" + "!" * 500
FORGERIES = {
    "plain": FORGED,
    "exception": json.dumps({"exception": {"message": FORGED}}),
    "errors": json.dumps({"exception": {"message": "x"}, "errors": FORGED}),
    "detail": json.dumps({"errors": [{"detail": FORGED}]}),
    "message": json.dumps({"message": FORGED}),
    "JSON over several lines": json.dumps({"data": FORGED, "meta": {}}, indent=1),
}


@pytest.mark.parametrize("status", [200, 400, 503])
@pytest.mark.parametrize("body", FORGERIES.values(), ids=FORGERIES)
def test_an_error_body_is_quoted_on_one_short_line(ask, status, body):
    with pytest.raises(ServiceError) as failure:
        ask(Service(httpx.Response(status, text=body)))

    assert failure.value.what.splitlines() == [failure.value.what]
    assert "\x1b" not in failure.value.what
    assert len(failure.value.what) < 600


def leaks(text: str) -> list[str]:
    """Return the parts of keys, eight characters or more, that appear in a text."""
    return [
        key[start : start + 8]
        for key in KEYS.values()
        for start in range(max(len(key) - 7, 1))
        if key[start : start + 8] in text
    ]


@pytest.fixture
def ask_a_proxy(settings, monkeypatch):
    """Return a function that calls through a proxy, which refuses with `reason`."""

    def reported(login: str, reason: str) -> tuple[list[bytes], str]:
        heard = []

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readline())
            writer.write(f"HTTP/1.1 502 {reason}\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()

        async def go() -> str:
            proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
            port = proxy.sockets[0].getsockname()[1]
            monkeypatch.setenv("HTTPS_PROXY", f"http://{login}127.0.0.1:{port}")
            async with proxy, Client(settings(retry_attempts=1)) as client:
                with pytest.raises(Unreachable) as failure:
                    await client.get("accounts/", {}, lambda _: None)
            return str(failure.value)

        return heard, asyncio.run(go())

    return reported


def test_a_proxy_from_the_environment_is_used_for_a_remote_service(ask_a_proxy):
    heard, said = ask_a_proxy("", "Bad Gateway")

    assert heard == [b"CONNECT svc.example:443 HTTP/1.1\r\n"]
    assert "502 Bad Gateway" in said


def test_a_password_that_a_proxy_echoes_is_masked(ask_a_proxy):
    _, said = ask_a_proxy("fleet:s3cret-word@", "no such login: s3cret-word")

    assert "502 no such login: ***" in said


def test_no_body_stays_in_memory_until_a_garbage_collection(settings):
    sent: list[weakref.ref[httpx.Response]] = []

    def answer(_: httpx.Request) -> httpx.Response:
        response = httpx.Response(200, json=EMPTY)
        sent.append(weakref.ref(response))
        return response

    async def left_of_a_call() -> list[httpx.Response | None]:
        async with Client(settings(), transport=httpx.MockTransport(answer)) as client:
            await client.get("accounts/", {"limit": "1"}, lambda _: None)
            return [one() for one in sent]

    gc.disable()
    try:
        assert asyncio.run(left_of_a_call()) == [None]
    finally:
        gc.enable()


def test_requests_ask_for_uncached_responses(ask):
    service = Service(httpx.Response(200, json=EMPTY))

    ask(service)

    assert service.requests[0].headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 409, 429, 500])
@pytest.mark.parametrize("pattern", ECHOES.values(), ids=ECHOES)
def test_no_key_appears_in_an_error_or_a_log_even_if_the_service_echoes_it(
    ask, caplog, status, pattern
):
    caplog.set_level(logging.DEBUG)
    caplog.clear()

    with pytest.raises(ServiceError) as failure:
        ask(Service(echoing(status, pattern)))

    reported = f"{failure.value!r} {failure.value} {failure.value.remedy} {caplog.text}"
    assert leaks(reported) == []


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.LocalProtocolError, httpx.ProxyError])
def test_no_key_appears_in_a_transport_error(ask, caplog, error):
    caplog.set_level(logging.DEBUG)
    message = f"Illegal header value {KEYS['mgr_api_key'].encode()!r}"

    with pytest.raises(Unreachable) as failure:
        ask(Service(error(message)))

    assert leaks(f"{failure.value!r} {failure.value} {caplog.text}") == []


@pytest.mark.parametrize("charset", ["hex", "no-such-charset", "utf-7", "base64"])
def test_an_error_body_in_any_charset_is_read(ask, charset):
    answer = httpx.Response(
        400, content=b"abc", headers={"content-type": f"text/plain; charset={charset}"}
    )

    with pytest.raises(RequestRejected):
        ask(Service(answer))


def test_an_error_body_nested_too_deeply_to_parse_is_not_a_crash(ask):
    with pytest.raises(RequestRejected):
        ask(Service(says(400, "[" * 200_000)))


@pytest.mark.parametrize(
    "root", ["https://svc.example/", "HTTPS://svc.example/", "Https://svc.example/"]
)
def test_only_tls_1_2_or_newer_is_used_and_certificates_are_verified(settings, monkeypatch, root):
    contexts, make = [], httpx.AsyncClient
    monkeypatch.setattr("fleetlake.service.client.tls_context", tls_context)
    monkeypatch.setattr(
        httpx,
        "AsyncClient",
        lambda **given: contexts.append(given["verify"]) or make(**given),
    )

    async def go() -> None:
        async with Client(settings(base_url=root)):
            pass

    asyncio.run(go())

    [context] = contexts
    assert isinstance(context, ssl.SSLContext)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


def test_a_response_that_is_not_read_to_its_end_is_closed(ask):
    closed = []

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 50_000

        async def aclose(self) -> None:
            closed.append(self)

    with pytest.raises(CredentialsRefused):
        ask(Service(lambda _request: httpx.Response(401, stream=Endless())))

    assert len(closed) == 1


def test_calls_are_counted_by_path_including_failures(settings):
    service = Service(says(500), says(500), httpx.Response(200, json=EMPTY))

    async def go() -> dict[str, int]:
        async with Client(settings(), transport=httpx.MockTransport(service)) as client:
            await client.get("accounts/", {}, lambda _: None)
            await client.get("alerts/", {}, lambda _: None)
            return dict(client.calls)

    assert asyncio.run(go()) == {"accounts/": 3, "alerts/": 1}


def ask_the_time(settings: Settings, service: Service, *, asks: int = 1) -> datetime:
    async def go() -> datetime:
        async with Client(settings, transport=httpx.MockTransport(service)) as client:
            for _ in range(asks):
                await client.get("accounts/", {}, lambda _: None)
            return await client.service_now("accounts/", partial(read_page, ACCOUNTS))

    return asyncio.run(go())


def dated(moment: datetime, status: int = 200) -> httpx.Response:
    return httpx.Response(
        status, json=EMPTY, headers={"date": format_datetime(moment, usegmt=True)}
    )


@pytest.mark.parametrize("asks", [0, 1])
def test_the_services_clock_is_read_from_its_responses(settings, asks):
    then = datetime(2031, 5, 5, 5, 5, 5, tzinfo=UTC)

    now = ask_the_time(settings(clock="service"), Service(dated(then)), asks=asks)

    assert timedelta(0) <= now - then < timedelta(seconds=5)


@pytest.mark.parametrize("header", [{}, {"date": "yesterday"}])
def test_a_service_without_a_usable_date_uses_the_local_clock(settings, header):
    service = Service(httpx.Response(200, json=EMPTY, headers=header))

    now = ask_the_time(settings(), service)

    assert abs(now - datetime.now(UTC)) < timedelta(seconds=5)


def test_the_date_of_an_error_response_is_ignored(settings):
    then = datetime(2026, 5, 5, tzinfo=UTC)
    service = Service(dated(then), dated(then + timedelta(days=9), 502), dated(then))

    now = ask_the_time(settings(clock="service"), service, asks=2)

    assert now - then < timedelta(seconds=5)


def test_a_refused_v3_token_is_named_in_the_words_of_the_service(settings):
    said = {"errors": [{"status": "401", "title": "Unauthorized", "detail": "The token is old."}]}
    service = Service(httpx.Response(401, json=said))
    v3 = settings(v3_base_url="https://svc.example/api/v3", v3_token="TOKEN-5")

    async def ask() -> None:
        async with Client(v3, transport=httpx.MockTransport(service)) as client:
            await client.get("users", {}, lambda _: None, api=Api.V3)

    with pytest.raises(CredentialsRefused) as refused:
        asyncio.run(ask())

    assert refused.value.what.endswith("returned 401: The token is old.")
    assert refused.value.remedy == "Check FLEETLAKE_V3_TOKEN."
