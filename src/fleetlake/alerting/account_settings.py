"""The alert rules and push destinations of one account: reading them, and changing them once.

The service may fail after a change was made. So after an unknown outcome the list is read: if it
shows the change, that is the outcome. If it does not, a change whose repetition does no harm is
sent again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import httpx

from fleetlake.alerting.alert_rule import AlertRule, fields_with_types
from fleetlake.alerting.push_destinations import PushDestination
from fleetlake.endpoints import ALERT_RULES, PUSH_DESTINATIONS
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import PushTestFailed, UsageError, WriteUnknown
from fleetlake.reading.pages import read_pages
from fleetlake.service.client import Client
from fleetlake.service.clock import machine_now
from fleetlake.service.writes import send_write
from fleetlake.settings import Settings, VendorWords

ATTEMPTS = 3
"""Times that a change is sent, at most, if its outcome is unknown and the list does not show it."""

TEST_PATH = "test_alert_push_destinations/"

Found = TypeVar("Found")


@dataclass(frozen=True)
class PushTest:
    """The result of a test message, in the service's words."""

    is_delivered: bool
    details: str

    def failure(self, url: str, *, remedy: str) -> PushTestFailed:
        """Return the error for a test message that a destination did not take."""
        return PushTestFailed(
            f"The service could not deliver a test message to {url}: "
            f"{self.details or 'it gives no reason'}.",
            remedy=remedy,
        )


@asynccontextmanager
async def account_settings(
    settings: Settings, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator["AccountSettings"]:
    """Yield the rules and destinations of the account whose keys are set."""
    async with Client(settings, transport=transport) as client:
        yield AccountSettings(client, settings.words)


class AccountSettings:
    """The rules and destinations of one account at the service.

    Every method raises ServiceError as `send_write` does. Ids are full ids. Alert types are the
    contract's; the service gets and sends the vendor's.
    """

    def __init__(self, client: Client, words: VendorWords) -> None:
        self._client = client
        self._words = words

    def now(self) -> datetime:
        """Return the service's time, UTC, by its last response."""
        return machine_now() + self._client.clock.skew

    async def destinations(self) -> list[PushDestination]:
        """Return all push destinations, oldest first."""
        return [PushDestination.of_row(row) async for row in self._rows(PUSH_DESTINATIONS)]

    async def rules(self) -> list[AlertRule]:
        """Return all rules, oldest first."""
        rules = [AlertRule.of_row(row) async for row in self._rows(ALERT_RULES)]
        return [rule.with_types(self._words.neutral) for rule in rules]

    async def _rows(self, endpoint: Endpoint) -> AsyncIterator[dict[str, Any]]:
        async for page in read_pages(self._client, endpoint):
            for row in page.rows.to_pylist():
                yield row

    async def add_destination(
        self, *, name: str, url: str, secret: str, is_enabled: bool = True
    ) -> PushDestination:
        """Create a destination. Raises: UsageError if another one has the URL."""
        await self.refuse_shared_url(url)
        self._client.hide(secret)
        body = {
            "name": name,
            "endpoint": {"url": url},
            "authentication": {"secret": secret},
            "enabled": is_enabled,
        }

        async def find(_key: str) -> PushDestination | None:
            return next((d for d in await self.destinations() if d.url == url), None)

        # Two destinations cannot share a URL, so a repetition creates no second one.
        return await self._create(PUSH_DESTINATIONS, body, find, is_repeatable=True)

    async def change_destination(self, key: str, fields: Mapping[str, Any]) -> None:
        """Change fields of a destination, in the service's names. Raises: UsageError."""
        if "endpoint" in fields:
            await self.refuse_shared_url(fields["endpoint"]["url"], own=key)
        if "authentication" in fields:
            self._client.hide(fields["authentication"]["secret"])

        async def is_done() -> bool:
            shown = next((d for d in await self.destinations() if d.destination_id == key), None)
            return shown is not None and _shows(shown, fields)

        await self._change("PATCH", PUSH_DESTINATIONS, key, dict(fields), is_done)

    async def remove_destination(self, key: str) -> None:
        """Delete a destination."""

        async def is_done() -> bool:
            return all(d.destination_id != key for d in await self.destinations())

        await self._change("DELETE", PUSH_DESTINATIONS, key, None, is_done)

    async def test_destination(self, key: str) -> PushTest:
        """Let the service send a test message to a destination, and return what it reports."""
        answer = await send_write(self._client, "POST", TEST_PATH, {"destination_config_id": key})
        details = self._client.without_keys(str(answer.get("details") or ""))
        return PushTest(answer.get("success") is True, details)

    async def add_rule(self, fields: Mapping[str, Any]) -> AlertRule:
        """Create a rule, from fields in the service's names, with the contract's alert types."""
        known = {rule.rule_id for rule in await self.rules()}

        async def find(key: str) -> AlertRule | None:
            new = [rule for rule in await self.rules() if rule.rule_id not in known]
            return next((r for r in new if r.rule_id == key or (not key and r.holds(fields))), None)

        body = fields_with_types(fields, self._words.sent)
        return await self._create(ALERT_RULES, body, find, is_repeatable=False)

    async def change_rule(self, key: str, fields: Mapping[str, Any]) -> None:
        """Change fields of a rule, in the service's names, with the contract's alert types."""

        async def is_done() -> bool:
            shown = next((r for r in await self.rules() if r.rule_id == key), None)
            return shown is not None and shown.holds(fields)

        body = fields_with_types(fields, self._words.sent)
        await self._change("PATCH", ALERT_RULES, key, body, is_done)

    async def remove_rule(self, key: str) -> None:
        """Delete a rule."""

        async def is_done() -> bool:
            return all(rule.rule_id != key for rule in await self.rules())

        await self._change("DELETE", ALERT_RULES, key, None, is_done)

    async def _create(
        self,
        endpoint: Endpoint,
        body: dict[str, Any],
        find: Callable[[str], Awaitable[Found | None]],
        *,
        is_repeatable: bool,
    ) -> Found:
        """Create a record and return what `find` finds of it in the list; it is given the id.

        Without any response the record may still be created later, and a repetition could create
        a second one: unless that does no harm, the outcome stays unknown. Raises: WriteUnknown.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                record = await send_write(self._client, "POST", endpoint.path, body)
            except WriteUnknown as unknown:
                if (found := await find("")) is not None:
                    return found
                if attempt == ATTEMPTS or not (is_repeatable or unknown.was_answered):
                    raise
            else:
                if (found := await find(str(record.get(endpoint.key[0], "")))) is not None:
                    return found
                raise WriteUnknown(
                    f"The service created a record of {endpoint.name} and does not list it.",
                    remedy="List it again in a minute.",
                )
        raise AssertionError("the last attempt returns or raises")

    async def _change(
        self,
        method: str,
        endpoint: Endpoint,
        key: str,
        body: dict[str, Any] | None,
        is_done: Callable[[], Awaitable[bool]],
    ) -> None:
        """Change or delete a record; a repetition does no harm. Raises: WriteUnknown."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await send_write(self._client, method, f"{endpoint.path}{key}/", body)
            except WriteUnknown:
                if await is_done():
                    return
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    async def refuse_shared_url(self, url: str, *, own: str = "") -> None:
        """Raise UsageError if another destination of the account has a URL."""
        for other in await self.destinations():
            if other.url == url and other.destination_id != own:
                raise UsageError(
                    f"Destination {other.destination_id} ({other.name}) already has the URL {url}.",
                    remedy="Two destinations of an account cannot share a URL: change that one, "
                    "or choose another URL.",
                )


def _shows(destination: PushDestination, fields: Mapping[str, Any]) -> bool:
    """Return whether a destination has the values of a change.

    The service never shows a secret, so whether it was changed remains unknown.
    """
    own = {
        "name": destination.name,
        "endpoint": {"url": destination.url},
        "enabled": destination.is_enabled,
        "suspended": destination.is_suspended,
    }
    return all(name in own and own[name] == value for name, value in fields.items())
