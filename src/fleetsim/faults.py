"""Injected faults: errors, refusals, broken connections and latency, each at its own rate.

Faults of pushes say how deliveries go wrong, and what the messages look like.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, MutableSequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

import httpx
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from fleetsim.refusals import too_many_calls, validation

ABORT: Final = "fleetlake.abort"
"""The scope extension through which the server offers to drop a connection."""

_LONGEST_LATENCY_MS: Final = 600_000.0


@dataclass
class DrawnFaults:
    """Active faults: each field without an underscore is one, drawn from a generator of its own."""

    seed: int
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - faults, not secrets

    def check(self, wanted: Mapping[str, Any]) -> None:
        """Refuse (validation) an unknown name or a value out of range."""
        for name, value in wanted.items():
            if name not in self.settings():
                raise validation(name, "no such fault")
            if not self.is_valid(name, value):
                raise validation(name, f"invalid value {value!r}", status=400)

    def is_valid(self, _name: str, value: object) -> bool:
        """Return whether a fault may have a value: a rate from 0 to 1."""
        return is_number(value, most=1)

    def change(self, wanted: Mapping[str, Any]) -> None:
        """Set the named faults, which `check` has accepted."""
        for name, value in wanted.items():
            setattr(self, name, type(getattr(self, name))(value))

    def settings(self) -> dict[str, Any]:
        """Return the active faults."""
        names = [one.name for one in fields(self) if one.name not in ("seed", "_random")]
        return {name: getattr(self, name) for name in names}

    def happens(self, name: str) -> bool:
        """Draw whether one fault happens now."""
        rate: float = getattr(self, name)
        return rate > 0 and self._random.random() < rate


def is_number(value: object, *, most: float) -> bool:
    """Return whether a JSON value is a number from 0 to `most`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


@dataclass
class Faults(DrawnFaults):
    """The active faults of calls: rates from 0 to 1, and a latency."""

    status_500: float = 0.0
    status_429: float = 0.0
    reset: float = 0.0
    truncate: float = 0.0
    html: float = 0.0
    no_data: float = 0.0
    latency_ms: float = 0.0

    def is_valid(self, name: str, value: object) -> bool:
        """Return whether a fault may have a value."""
        return is_number(value, most=_LONGEST_LATENCY_MS if name == "latency_ms" else 1)

    async def around(self, answer: Callable[[], Awaitable[Response]]) -> Response:
        """Return the response of `answer`, or what an active fault turns it into.

        Raises: Refusal (429), and the errors of `answer`.
        """
        if self.latency_ms > 0:
            await asyncio.sleep(self.latency_ms / 1000)
        error = self._error()
        if error is not None:
            return error
        if self.happens("reset"):
            return BrokenConnection()
        given = await answer()
        return self._spoil(given) if given.status_code == HTTPStatus.OK else given

    def _spoil(self, given: Response) -> Response:
        """Return a good response, or a truncated one, an HTML page, or one without a list."""
        if self.happens("truncate"):
            return BrokenConnection(bytes(given.body))
        if self.happens("html"):
            return HTMLResponse("<!doctype html><title>Back soon</title><p>Maintenance</p>")
        if self.happens("no_data"):
            return JSONResponse({"meta": {"limit": 500, "next": None}})
        return given

    def _error(self) -> Response | None:
        """Return an error response, or None if no fault happens.

        Raises: Refusal (429).
        """
        if self.happens("status_500"):
            return PlainTextResponse("internal error shard-router-3", status_code=500)
        if self.happens("status_429"):
            raise too_many_calls(retry_after=self._random.choice((1, None)))
        return None


class BrokenConnection(Response):
    """A response that never arrives complete: `body` is truncated, or nothing is sent."""

    def __init__(self, body: bytes | None = None) -> None:
        super().__init__(body, media_type="application/json")
        self.sends_something = body is not None

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send half of the body at most, then drop the connection."""
        drop = scope.get("extensions", {}).get(ABORT, {}).get("drop")
        if self.sends_something and drop is not None:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            half = bytes(self.body[: len(self.body) // 2])
            await send({"type": "http.response.body", "body": half, "more_body": True})
        if drop is None:
            # In process there is no connection to drop: raise what a client would see.
            raise (
                httpx.RemoteProtocolError("peer closed connection without a complete body")
                if self.sends_something
                else httpx.ReadError("connection reset by peer")
            )
        drop(graceful=self.sends_something)
        await asyncio.sleep(0.01)  # lets the server notice that its connection is gone


PREFIX: Final = "push_"
"""Names of these faults begin so."""

MOST_AT_ONCE: Final = 64


class BodyShape(StrEnum):
    """The shapes of a pushed alert. The service contract shows none in full."""

    IDS = "ids"  # `router` and `account` are integers, with `created_at_timeuuid`
    OBJECTS = "objects"  # both are objects, without `created_at_timeuuid`
    RELAY = "relay"  # as relays send it: other names, and times in seconds since 1970
    LIVE = "live"  # type, info and two objects: without an id, a text or a time


@dataclass
class PushFaults(DrawnFaults):
    """The active faults of pushes.

    `push_concurrency` is the number of simultaneous deliveries per destination; with one, pushes
    arrive in the order of simulated time.
    """

    push_duplicate: float = 0.0
    push_reset: float = 0.0
    push_timeout: float = 0.0
    push_truncate: float = 0.0
    push_reorder: bool = False
    push_concurrency: int = 1
    push_body: BodyShape = BodyShape.IDS

    def is_valid(self, name: str, value: object) -> bool:
        """Return whether a fault may have a value."""
        match name:
            case "push_reorder":
                return isinstance(value, bool)
            case "push_concurrency":
                return type(value) is int and 1 <= value <= MOST_AT_ONCE
            case "push_body":
                return value in [*BodyShape]
        return super().is_valid(name, value)

    def shuffle(self, messages: MutableSequence[Any]) -> None:
        """Put messages into a random order."""
        self._random.shuffle(messages)
