"""One pushed message: checked, stored, answered. 200 means that it is on disk."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

from fleetlake.receiving.journal import Journal, JournalOverloaded, NotStored, open_journal
from fleetlake.receiving.journal_table import journal_bytes
from fleetlake.receiving.push_secrets import (
    REFUSAL_STATUS,
    RETRY_AFTER_SECONDS,
    PushRefusal,
    PushSecrets,
    Refused,
)
from fleetlake.settings import Settings

SECONDS = 15.0
SECONDS_PER_MEGABYTE = 5.0
"""Time for a body: enough for a slow line, too short to hold connections open on purpose."""

HELD_BYTES = 64 * 2**20
"""Bytes of bodies in memory at the same time; FLEETLAKE_PUSH_MEGABYTES allows none larger."""

DISCARDED_BYTES = 8 * 2**20
DISCARD_SECONDS = 2.0
"""What is read of a refused body, so that its sender gets the answer and no reset connection."""


class BodyReader:
    """Reads bodies of at most `most_bytes`, for all requests of a receiver.

    `held` is how many bytes of bodies are in memory.
    """

    def __init__(
        self, most_bytes: int, *, held_bytes: int = HELD_BYTES, seconds: float | None = None
    ) -> None:
        self._most_bytes = most_bytes
        self._held_limit = held_bytes
        self.held = 0
        megabytes = most_bytes / 2**20
        self._seconds = SECONDS + SECONDS_PER_MEGABYTE * megabytes if seconds is None else seconds

    @asynccontextmanager
    async def body_of(self, request: Request) -> AsyncIterator[bytes]:
        """Give the whole body of a request, which counts as held until the end of the block.

        Raises: Refused, also if all requests together hold too many bytes.
        """
        chunks: list[bytes] = []
        try:
            await self._read(request, chunks)
            chunks[:] = [b"".join(chunks)]
            yield chunks[0]
        finally:
            self.held -= sum(map(len, chunks))

    async def _read(self, request: Request, chunks: list[bytes]) -> None:
        """Add all parts of a body, and count each as held. Raises: Refused."""
        size = 0
        too_large = Refused(PushRefusal.TOO_LARGE, f"more than {self._most_bytes} bytes")
        if _announced(request) > self._most_bytes:
            raise too_large
        try:
            async with asyncio.timeout(self._seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > self._most_bytes:
                        raise too_large
                    if self.held + len(chunk) > self._held_limit:
                        raise Refused(PushRefusal.OVERLOADED, "too many messages at once")
                    self.held += len(chunk)
                    chunks.append(chunk)
        except TimeoutError:
            raise Refused(PushRefusal.TOO_SLOW, "the body took too long") from None
        except ClientDisconnect:
            raise Refused(PushRefusal.INCOMPLETE, "the body is incomplete") from None


def _announced(request: Request) -> int:
    """Return the announced length of a body, 0 if none is announced."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() else 0


async def discard(request: Request) -> bool:
    """Read and drop the rest of a refused body, up to a limit; return whether all of it was read.

    A sender that waits for `100 Continue` has not begun to send.
    """
    if "expect" in request.headers:
        return False
    dropped = 0
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            async for chunk in request.stream():
                dropped += len(chunk)
                if dropped > DISCARDED_BYTES:
                    return False
    except RuntimeError:  # Starlette's answer if the whole body was read before
        return True
    except (TimeoutError, ClientDisconnect):
        return False
    return True


BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the histogram of flushes, in seconds."""

disable_created_metrics()


class IntakeCounts:
    """Counts since the receiver started."""

    def __init__(self) -> None:
        self.registry = kept = CollectorRegistry()
        self.stored = Counter(
            "fleetlake_push_messages", "Messages stored and answered with 200.", registry=kept
        )
        self.stored_bytes = Counter(
            "fleetlake_push_bytes",
            "Size of the bodies of messages stored and answered with 200.",
            registry=kept,
        )
        self.repeated = Counter(
            "fleetlake_push_repeats",
            "Messages answered with 200 that were stored shortly before.",
            registry=kept,
        )
        self.refused = Counter(
            "fleetlake_push_refusals", "Requests refused, by reason.", ["reason"], registry=kept
        )
        for reason in PushRefusal:
            self.refused.labels(reason)
        self.flushes = Histogram(
            "fleetlake_push_flush_seconds",
            "Time to commit a group of messages to the journal.",
            buckets=BOUNDS,
            registry=kept,
        )
        self._journal = Gauge(
            "fleetlake_push_journal_bytes", "Size of the journal's files.", registry=kept
        )
        self.drainer = Gauge(
            "fleetlake_push_drainer_up",
            "1 while the process that drains the journal runs; missing with --no-drain.",
            registry=None,
        )

    def text(self, folder: Path, *, is_draining: bool | None) -> str:
        """Return the metrics of a receiver whose journal is in `folder`, in the text format."""
        self._journal.set(journal_bytes(folder))
        self.drainer.set(bool(is_draining))
        drainer = b"" if is_draining is None else generate_latest(self.drainer)
        return (generate_latest(self.registry) + drainer).decode()


HEADER_BYTES = 16 * 2**10
"""Maximum size of all headers of a request."""

REMEMBERED = 16_384
"""So many messages are recognised if their sender repeats them; the lake recognises the others."""


@dataclass(frozen=True, kw_only=True)
class Intake:
    """What `POST /push` needs."""

    journal: Journal
    secrets: PushSecrets
    sources: Sequence[IPv4Network | IPv6Network]
    bodies: BodyReader
    counts: IntakeCounts
    recent: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    """Signatures of the messages stored last."""

    async def answer(self, request: Request) -> PlainTextResponse:
        """Store the message of a request and return 200, or return why it is refused."""
        try:
            await self._store(request)
        except Refused as refused:
            return await self.refuse(request, refused.reason, str(refused))
        return PlainTextResponse("stored\n")

    async def refuse(
        self, request: Request, reason: PushRefusal, text: str, *, allow: str = ""
    ) -> PlainTextResponse:
        """Count a refusal and return the answer; the rest of the body is not needed any more."""
        self.counts.refused.labels(reason).inc()
        is_given_up = reason in {PushRefusal.TOO_SLOW, PushRefusal.INCOMPLETE}
        headers = {}
        if is_given_up or not await discard(request):
            headers["Connection"] = "close"
        if reason in RETRY_AFTER_SECONDS:
            headers["Retry-After"] = str(RETRY_AFTER_SECONDS[reason])
        if allow:
            headers["Allow"] = allow
        return PlainTextResponse(f"{text}\n", REFUSAL_STATUS[reason], headers)

    async def _store(self, request: Request) -> None:
        """Check and store a message. Raises: Refused."""
        if self.sources and not is_within(client_address(request), self.sources):
            raise Refused(PushRefusal.SOURCE, "not from here")
        headers = request.scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) > HEADER_BYTES:
            raise Refused(
                PushRefusal.HEADERS_TOO_LARGE, f"more than {HEADER_BYTES} bytes of headers"
            )
        signature = self.secrets.signature_in(headers)
        async with self.bodies.body_of(request) as body:
            self.secrets.require_signed(body, signature)
            if signature.digest in self.recent:
                self.counts.repeated.inc()
                return
            await self._append(body)
        self.recent[signature.digest] = None
        if len(self.recent) > REMEMBERED:
            self.recent.popitem(last=False)
        self.counts.stored.inc()
        self.counts.stored_bytes.inc(len(body))

    async def _append(self, body: bytes) -> None:
        try:
            await self.journal.append(body, datetime.now(UTC))
        except JournalOverloaded:
            raise Refused(PushRefusal.OVERLOADED, "too many messages at once") from None
        except NotStored:
            raise Refused(PushRefusal.NOT_STORED, "the message could not be stored") from None


def open_intake(settings: Settings) -> Intake:
    """Return an intake for these settings. Raises: SettingsError, LakeError."""
    counts = IntakeCounts()
    return Intake(
        secrets=PushSecrets(settings),
        journal=open_journal(settings.push_journal, on_flush=counts.flushes.observe),
        sources=settings.push_sources,
        bodies=BodyReader(settings.push_megabytes * 2**20),
        counts=counts,
    )


def client_address(request: Request) -> str:
    """Return the address of the sender; "" if the server does not know it."""
    return request.client.host if request.client else ""


def is_within(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Return whether an address belongs to one of the networks.

    >>> from ipaddress import ip_network
    >>> is_within("::ffff:192.0.2.7", [ip_network("192.0.2.0/24")]), is_within("", [])
    (True, False)
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    return any(found in network for network in networks)
