"""The client: one request in, one checked response out.

The client sends the four key headers, keeps to the call limit before the service refuses, and
turns every bad response into an error that says what the caller can do. It never follows a
redirect: the keys go only to the configured host, and a redirected call would count twice.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypeVar

import httpx
import orjson

from fleetlake.endpoints import own_services
from fleetlake.endpoints.model import Api, Service
from fleetlake.errors import (
    CredentialsRefused,
    EndpointUnavailable,
    PageUnreadable,
    RequestRejected,
    ServiceError,
    Throttled,
    Unreachable,
    WriteUnknown,
)
from fleetlake.machine.loopback import is_loopback
from fleetlake.service.bodies import (
    ACCEPTED_CODINGS,
    BodyRefused,
    http_date,
    is_v3_limit,
    message_in,
    retry_after,
    whole_answer,
)
from fleetlake.service.clock import Clock
from fleetlake.service.gate import NOT_URGENT, Gate
from fleetlake.service.rate_limit import call_limit
from fleetlake.service.retry import with_retries
from fleetlake.service.route import proxies, proxy_secrets, tls_context
from fleetlake.service.translation import v2_page
from fleetlake.settings import WRONG_KEYS, Settings
from fleetlake.text.plain import one_line
from fleetlake.text.redaction import starred

Answer = TypeVar("Answer")

FIRST_CONTACT_ATTEMPTS = 3
"""Maximum attempts before the first response, so that a wrong address is reported quickly."""

CLOCK_PROBES = 3
"""Maximum requests to learn the service's clock, if the first dates look wrong."""

MAX_SEARCHED = 65_536
"""Maximum bytes of a response that are searched for its message; a whole page would take long."""
LONGEST_ECHO = 4_096

V3 = "application/vnd.api+json"
EXPIRES_SOON = timedelta(hours=48)
"""Records that the service deletes within this time are requested before all others."""

MEGABYTE = 1_000_000
ANSWER_FACTOR = 4
"""Time for a whole response, as a multiple of FLEETLAKE_TIMEOUT_SECONDS, the time without data.

A slow line can still deliver a large page, but a trickle of bytes cannot block a load.
"""

_OF_ALL = {
    "User-Agent": "fleetlake",
    "Accept-Encoding": ACCEPTED_CODINGS,
    "Connection": "keep-alive",
    "Cache-Control": "no-cache",  # a cache in between would repeat old records and an old date
}
"""The headers of all requests."""

_UNAVAILABLE = {403, 404, 405}


@contextmanager
def _uncounted(deadline: asyncio.Timeout) -> Iterator[None]:
    """Stop the clock of a page's deadline within the block.

    The deadline limits all attempts, the waits between them and their bodies. Time during which
    fleetlake itself delays a call, for the call limit or for other calls, does not count: it says
    nothing about the service, and may be far longer than a page takes.
    """
    loop = asyncio.get_running_loop()
    ends_at = deadline.when()
    assert ends_at is not None
    left = ends_at - loop.time()
    deadline.reschedule(None)
    try:
        yield
    finally:
        deadline.reschedule(loop.time() + left)


class Client:
    """A client of the service; use it as an async context manager.

    `calls` counts the requests by path, retries included; `retries` counts those sent again, and
    `refusals` the responses that the call limit was exceeded.
    """

    def __init__(
        self, settings: Settings, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        services = own_services()
        self._roots: dict[str, str | None] = {name: one.root for name, one in services.items()}
        self._roots |= {Api.V2: settings.service_root(), Api.V3: settings.v3_root()}
        keys = settings.keys()
        token = settings.v3_token.get_secret_value()
        bearer = {"Authorization": f"Bearer {token}", "Accept": V3, "Content-Type": V3}
        tokens = {name: one.get_secret_value() for name, one in settings.service_tokens.items()}
        self._headers: dict[str, httpx.Headers] = {
            Api.V2: httpx.Headers({**_OF_ALL, **keys, "Accept": "application/json"}),
            Api.V3: httpx.Headers({**_OF_ALL, **bearer}),
        }
        for name in services:
            given = {"Authorization": f"Bearer {tokens[name]}"} if name in tokens else {}
            self._headers[name] = httpx.Headers({**_OF_ALL, **given, "Accept": "application/json"})
        self._secrets = [*keys.values(), token, *tokens.values()]
        self._attempts = settings.retry_attempts
        self._answer_seconds = settings.timeout_seconds * ANSWER_FACTOR
        # Without retries a page is one response, and may take as long as one response.
        self._page_seconds = settings.retry_seconds or self._answer_seconds
        self._retry_timeout = timedelta(seconds=settings.retry_seconds)
        self._answer_bytes = settings.answer_megabytes * MEGABYTE
        self._limit = call_limit(
            settings, f"{self._roots[Api.V2]} {settings.mgr_api_id.get_secret_value()}"
        )
        self._gate = Gate(settings.concurrency)
        # A proxy from the environment is for other hosts, not for this machine.
        is_local = settings.is_on_this_machine()
        is_local = is_local and all(is_loopback(service.root) for service in services.values())
        named = {} if is_local else proxies()
        has_proxy = bool(named)
        self._secrets += proxy_secrets(named.values())
        tls = tls_context(self._roots.values(), has_proxy=has_proxy)
        # It keeps cookies but sends none: it adds them only to the requests that it builds itself.
        self._http = httpx.AsyncClient(
            timeout=settings.timeout_seconds,
            limits=httpx.Limits(max_connections=settings.concurrency),
            verify=tls or False,
            trust_env=has_proxy,
            transport=transport,
        )
        self._has_answered = False
        self.clock = Clock(settings.clock)
        self.calls: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, trace)
        self._limit.close()

    async def get(
        self,
        path: str,
        parameters: Mapping[str, str],
        read: Callable[[bytes], Answer],
        *,
        api: Api = Api.V2,
        counted_as: str | None = None,
        expires_at: datetime | None = None,
        service: Service | None = None,
    ) -> Answer:
        """Return the result of `read` for the response body of `path`, relative to the API's root.

        `counted_as` is what its requests count as, by default the path. `expires_at` is when the
        service deletes the records; the most urgent calls go first. With `service`, the path is
        one of another service, and `read` gets its response as a page of v2. `read` may raise
        PageUnreadable, which is retried like a lost connection. Raises: ServiceError when retries
        end or cannot help.
        """
        failures: list[ServiceError] = []
        name = counted_as or path

        async def attempt() -> Answer:
            self.retries[name] += bool(failures)
            try:
                async with self._turn(deadline, expires_at):
                    response = await self._ask(path, parameters, api, name, service)
                return self._read(response, read, service)
            except ServiceError as error:
                failures.append(error)
                raise

        attempts = (
            self._attempts if self._has_answered else min(self._attempts, FIRST_CONTACT_ATTEMPTS)
        )
        deadline = asyncio.timeout(self._page_seconds)
        try:
            async with deadline:
                return await with_retries(attempt, attempts=attempts, within=self._retry_timeout)
        except TimeoutError:
            root = self._roots[service.name if service else api]
            raise self._too_late(f"{root}{path}", failures) from None

    def _read(
        self, response: httpx.Response, read: Callable[[bytes], Answer], service: Service | None
    ) -> Answer:
        """Return what `read` makes of a good response, and note its date."""
        try:
            # Not in a thread: the next responses arrive in the meantime anyway, and passing
            # pages between threads took a seventh of a load's CPU time.
            answer = read(
                v2_page(service, response, self.without_keys) if service else response.content
            )
        except PageUnreadable as error:
            what = f"{self.without_keys(error.what)} It begins: {self.excerpt(response)}"
            raise PageUnreadable(what, remedy=error.remedy) from None
        if service:
            return answer  # the clocks of other services say nothing about ours
        self._has_answered = True
        if date := http_date(response.headers.get("date", "")):
            self.clock.read_date(date)
        return answer

    def _too_late(self, url: str, failures: Sequence[ServiceError]) -> Unreachable:
        """Return the error for a page whose time is over; the last failure says why."""
        last = f" The last one: {failures[-1].what}" if failures else ""
        cause = failures[-1].remedy if failures else "Run again later; nothing was lost."
        return Unreachable(
            f"No valid response from {url} within {self._page_seconds:g} s, over all attempts."
            f"{last}",
            remedy=f"{cause} FLEETLAKE_RETRY_SECONDS sets the time for a page.",
        )

    @asynccontextmanager
    async def _turn(
        self, deadline: asyncio.Timeout, expires_at: datetime | None
    ) -> AsyncIterator[None]:
        """Hold a slot for a call, once the gate and the call limit allow one more."""
        async with AsyncExitStack() as held:
            with _uncounted(deadline):
                await held.enter_async_context(self._gate.admit(self._urgency(expires_at)))
                await self._limit.wait_turn()
            yield

    async def send_once(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send a write to v2, exactly once, and return its response, whatever its status.

        It waits for the call limit, and counts. Raises: Unreachable if there was no connection,
        WriteUnknown if there was one and no complete response.
        """
        url = f"{self._roots[Api.V2]}{path}"
        headers = {**self._headers[Api.V2], "Content-Type": "application/json"}
        request = httpx.Request(
            method, url, headers=headers, content=None if body is None else orjson.dumps(body)
        )
        async with self._gate.admit():
            await self._limit.wait_turn()
            self.calls[path] += 1
            try:
                async with asyncio.timeout(self._answer_seconds):
                    return await self._answer(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                raise self._lost(url, error) from None
            except (httpx.HTTPError, TimeoutError) as error:
                lost = self._lost(url, error)
                raise WriteUnknown(lost.what, remedy=_LOOK) from None

    def hide(self, secret: str) -> None:
        """Replace one more secret by stars in every text about the service's responses."""
        self._secrets.append(secret)

    async def service_now(self, probe: str, read: Callable[[bytes], object]) -> datetime:
        """Return the time up to which records may exist, in UTC, by the service's clock.

        The clock comes from the `Date` of responses. Before the first good response, one record
        of the path `probe` is requested, and again while the clock is doubtful: a cache may have
        repeated an old date. Raises: ClockRefused.
        """
        while not self._has_answered or (
            self.clock.is_doubtful and self.clock.dates < CLOCK_PROBES
        ):
            await self.get(probe, {"limit": "1"}, read)
        return self.clock.now()

    def _urgency(self, expires_at: datetime | None) -> float:
        if expires_at is None or not self._has_answered:
            return NOT_URGENT
        is_soon = expires_at - self.clock.now() < EXPIRES_SOON
        return expires_at.timestamp() if is_soon else NOT_URGENT

    async def _ask(
        self,
        path: str,
        parameters: Mapping[str, str],
        api: Api,
        name: str,
        service: Service | None,
    ) -> httpx.Response:
        asked = service.name if service else api
        url = f"{self._roots[asked]}{path}"
        self.calls[name] += 1
        began = time.monotonic()
        # Built here and not by httpx's client, which parses each address twice for this.
        request = httpx.Request("GET", url, params=parameters, headers=self._headers[asked])
        try:
            async with asyncio.timeout(self._answer_seconds):
                response = await self._answer(request)
        except BodyRefused as refused:
            raise PageUnreadable(f"The response from {url} {refused}.", remedy=_TOO_LARGE) from None
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._lost(url, error) from None
        if response.status_code == httpx.codes.OK:
            self._gate.answered(path, began)
            return response
        refusal = self._refusal(url, response, api, service)
        if isinstance(refusal, Throttled):
            self._gate.refused(began)
            self.refusals[name] += 1
        raise refusal

    def _lost(self, url: str, error: Exception) -> Unreachable:
        """Return the error for a response that did not arrive, or not completely."""
        reason = str(error) or _REASONS.get(type(error), type(error).__name__)
        if isinstance(error, TimeoutError):
            reason = f"it was incomplete after {self._answer_seconds:g} s"
        return Unreachable(
            f"No complete response from {url}: {one_line(self.without_keys(reason))}.",
            remedy="Check the address and the network, and run again later. Nothing was lost.",
        )

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request, with its whole body."""
        response = await self._http.send(request, stream=True)
        try:
            return await whole_answer(response, self._answer_bytes)
        finally:
            if _is_ahead(response.stream):
                await response.extensions["network_stream"].aclose()
            await response.aclose()
            # httpx has the stream refer to its response: the body would stay until Python looks
            # for such circles, and 300 of them together.
            response.stream = _NO_STREAM

    def _refusal(
        self, url: str, response: httpx.Response, api: Api, service: Service | None
    ) -> ServiceError:
        """Return the error for a status other than 200."""
        status = response.status_code
        what = f"GET {url} returned {status}: {self.excerpt(response).rstrip('.')}."
        root = "FLEETLAKE_V3_BASE_URL" if api is Api.V3 else "FLEETLAKE_BASE_URL"
        if service:
            root = f"root of [services.{service.name}]"
        if status == httpx.codes.UNAUTHORIZED:
            remedy = "Check FLEETLAKE_V3_TOKEN." if api is Api.V3 else WRONG_KEYS
            if service:
                remedy = f"Check FLEETLAKE_SERVICE_TOKENS__{service.name.upper()}."
            return CredentialsRefused(what, remedy=remedy)
        if status in _UNAVAILABLE:
            return EndpointUnavailable(
                what, remedy=f"The role of the keys may not read it, or {root} is wrong."
            )
        if status == httpx.codes.TOO_MANY_REQUESTS or is_v3_limit(response, api):
            return Throttled(
                what,
                remedy="Lower FLEETLAKE_CALLS_PER_MINUTE: other clients share the limit.",
                wait=retry_after(response),
            )
        if status == httpx.codes.REQUEST_TIMEOUT or status >= httpx.codes.INTERNAL_SERVER_ERROR:
            return Unreachable(what, remedy="The service has a problem; run again later.")
        if response.is_redirect:
            return RequestRejected(
                what, remedy=f"Set {root} to the root that answers without a redirect."
            )
        return RequestRejected(
            what, remedy="The service no longer accepts this request: report it."
        )

    def excerpt(self, response: httpx.Response) -> str:
        """Return the message of a response on one line, without keys."""
        start = response.content[:MAX_SEARCHED]
        body = self.without_keys(start.decode("utf-8", "replace"))
        if len(response.content) > MAX_SEARCHED:  # a key that is cut off is not recognised
            body = body[:-LONGEST_ECHO]
        # JSON may escape a key, and a key that is cut off is not recognised: redact once more.
        return one_line(self.without_keys(message_in(body)))

    def without_keys(self, text: str) -> str:
        """Return the text with every key replaced by stars: a service may echo what it receives."""
        return starred(text, self._secrets)


_NO_STREAM = httpx.ByteStream(b"")

_REASONS: dict[type[Exception], str] = {
    httpx.ConnectTimeout: "no connection in time",
    httpx.ReadTimeout: "no more data in time",
    httpx.ReadError: "the connection was lost",
}
"""Texts for the errors that httpx leaves without one."""


def _is_ahead(stream: object) -> bool:
    """Return whether bytes have arrived that do not belong to the response with this stream.

    On a connection that is reused, httpcore would take them for the next response. It does not
    report them; the buffer of h11 below it does.
    """
    while inner := getattr(stream, "_stream", None) or getattr(stream, "_httpcore_stream", None):
        stream = inner
    state = getattr(getattr(stream, "_connection", None), "_h11_state", None)
    return state is not None and bool(state.trailing_data[0])


_LOOK = "Check the list before you repeat the change: it may have been made."

_TOO_LARGE = (
    "No record was taken from it. A proxy or another server may have answered instead of the "
    "service. If its pages really are that large, raise FLEETLAKE_ANSWER_MEGABYTES."
)
