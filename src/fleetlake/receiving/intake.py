"""One pushed message: checked, stored, answered. 200 means that it is on disk."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from fleetlake.receiving.intake_counts import IntakeCounts
from fleetlake.receiving.journal import Journal, JournalOverloaded, NotStored, open_journal
from fleetlake.receiving.push_body import BodyReader, discard
from fleetlake.receiving.push_refusals import RETRY_AFTER_SECONDS, STATUS, PushRefusal, Refused
from fleetlake.receiving.push_secrets import PushSecrets
from fleetlake.settings import Settings

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
        return PlainTextResponse(f"{text}\n", STATUS[reason], headers)

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
        with self.bodies.holding() as held:
            body = await self.bodies.read(request, held)
            await self.secrets.require_signed(body, signature)
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
    secrets = PushSecrets(settings)
    return Intake(
        journal=open_journal(settings.push_journal, on_flush=counts.flushes.observe),
        secrets=secrets,
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
