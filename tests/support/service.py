"""A plain client of the simulated service, in process. It shares no code with fleetlake's."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import Any
from uuid import UUID

import httpx
from starlette.applications import Starlette

from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions

NOW = datetime(2026, 6, 15, 18, tzinfo=UTC)
HOST = "http://service.test"
PORTAL = {"X-PORTAL-API-ID": "portal-id", "X-PORTAL-API-KEY": "portal-key"}
JSON_API = "application/vnd.api+json"
BEARER = {"Authorization": "Bearer simulator-token", "Accept": JSON_API}

Record = dict[str, Any]


def keys(role: str = "admin") -> dict[str, str]:
    """Return the four headers of one of the simulator's key pairs."""
    return {**PORTAL, "X-MGR-API-ID": f"{role}-id", "X-MGR-API-KEY": f"{role}-key"}


def last_segment(url: str) -> str:
    """Return the id a relation points to."""
    return url.rstrip("/").rpartition("/")[2]


def instant(text: str) -> datetime:
    """Return the time of a timestamp in any of the service's formats."""
    return datetime.fromisoformat(text)


def embedded(text: str) -> datetime:
    """Return the time inside a version-1 UUID."""
    ticks = UUID(text).time - 0x01B21DD213814000
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10)


def smallest_uuid(at: datetime) -> str:
    """Return the smallest time-based UUID of an instant, by the service's order."""
    microseconds = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    ticks = microseconds * 10 + 0x01B21DD213814000
    digits = f"{ticks & 0xFFFFFFFF:08x}{ticks >> 32 & 0xFFFF:04x}1{ticks >> 48:03x}{'80' * 8}"
    return str(UUID(digits))


@dataclass
class Receiver:
    """The receiver of pushes; it responds with `error` while that is set."""

    error: str | None = None
    received: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)

    async def send(self, url: str, body: bytes, headers: Any) -> str | None:
        self.received.append((url, body, dict(headers)))
        return self.error

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body, _ in self.received]


@dataclass
class Service:
    """A simulated service and a client of it."""

    app: Starlette
    receiver: Receiver

    def ask(self, method: str, path: str, *, role: str = "admin", **request: Any) -> httpx.Response:
        """Return the response to one request, with a role's keys unless headers are given."""
        request.setdefault("headers", keys(role))

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url=HOST) as client:
                return await client.request(method, path, **request)

        return asyncio.run(send())

    def get(self, path: str, **request: Any) -> httpx.Response:
        """Return the response to a v2 GET."""
        return self.ask("GET", f"/api/v2/{path}", **request)

    def page(self, path: str, **request: Any) -> Record:
        """Return the JSON of a v2 GET that succeeds."""
        answer = self.get(path, **request)
        assert answer.status_code == 200, answer.text
        found: Record = json.loads(answer.text, strict=False)
        return found

    def records(self, path: str, **request: Any) -> list[Record]:
        """Return the records of one page."""
        found: list[Record] = self.page(path, **request)["data"]
        return found

    def walk(self, path: str, **request: Any) -> Iterator[Record]:
        """Yield the records of all pages, by their `next` links."""
        while path:
            page = self.page(path, **request)
            yield from page["data"]
            path = (page["meta"]["next"] or "").removeprefix(f"{HOST}/api/v2/")

    def truth(self, name: str, **parameters: str) -> list[Record]:
        """Return the truth about a resource or cause."""
        answer = self.ask("GET", f"/sim/truth/{name}", params=parameters)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def write(
        self, method: str, path: str, body: Any = None, role: str = "admin"
    ) -> httpx.Response:
        """Return the response to a v2 write."""
        return self.ask(method, f"/api/v2/{path}", json=body, role=role)

    def advance(self, **time: float) -> None:
        """Move the clock."""
        seconds = timedelta(**time).total_seconds()
        answer = self.ask("POST", "/sim/clock", json={"advance_seconds": seconds})
        assert answer.status_code == 200, answer.text

    def state(self) -> Record:
        """Return the control plane's state."""
        found: Record = self.ask("GET", "/sim/state").json()
        return found

    def now(self) -> datetime:
        """Return the simulated time."""
        return instant(self.state()["now"])

    def router_ids(self) -> list[str]:
        """Return the ids of all routers."""
        return [record["id"] for record in self.walk("routers/?limit=500&id__gt=0&fields=id")]


class SharedService(Service):
    """A service that several tests read. It does not change, so the truth is requested once."""

    def ask(self, method: str, path: str, *, role: str = "admin", **request: Any) -> httpx.Response:
        """Return the response to one request. Fails if the request changed the service."""
        answer = super().ask(method, path, role=role, **request)
        assert method == "GET" or answer.status_code >= 400, (
            f"{method} {path} changed a shared service"
        )
        return answer

    def truth(self, name: str, **parameters: str) -> list[Record]:
        """Return the truth about a resource or cause; callers must not change the list."""
        key = (name, *sorted(parameters.items()))
        if key not in self._truths:
            self._truths[key] = super().truth(name, **parameters)
        return self._truths[key]

    @cached_property
    def _truths(self) -> dict[tuple[Any, ...], list[Record]]:
        return {}


def start(kind: type[Service] = Service, **options: Any) -> Service:
    """Start a service with a frozen clock."""
    chosen = {"routers": 50, "seed": 7, "days": 3, "now": NOW, "speed": 0.0, **options}
    receiver = Receiver()
    return kind(create_app(SimulatorOptions(**chosen), receiver.send), receiver)


@cache
def shared(**options: Any) -> Service:
    """Return the service of these options that the tests of this process share."""
    return start(SharedService, **options)


def complaint(answer: httpx.Response) -> tuple[int, str, str]:
    """Return a refusal's status, exception type and message."""
    exception = answer.json()["exception"]
    return answer.status_code, exception["type"], exception["message"]


def is_validation(answer: httpx.Response) -> bool:
    """Return whether a response is a validation failure, with either of its two statuses."""
    status, kind, message = complaint(answer)
    named = len(answer.json()["errors"]) > 0
    return (
        status in (400, 409) and (kind, message) == ("validation", "bad or missing data") and named
    )
