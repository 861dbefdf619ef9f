"""Pushing to a receiver in this process, and looking at what it stored."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from fleetlake.receiving.intake import Intake, open_intake
from fleetlake.receiving.push_app import create_app
from fleetlake.settings import Settings
from tests.support.journals import bodies

SECRET = "s3cret-of-one-destination-4711"
OTHER = "s3cret-of-another-0815"
BODY = b'{"type":"failover_event","router":7}'
SENDER = ("192.0.2.7", 4711)


def signature(body: bytes, secret: str = SECRET) -> str:
    """Return what the service contract says, spelled out anew."""
    return hmac.new(secret.encode(), body or b" ", hashlib.sha256).hexdigest()


def signed(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    """Return the headers of a push."""
    return {"X-PORTAL-Signature": signature(body, secret)}


@dataclass
class Running:
    """A receiver in this process."""

    app: Starlette
    intake: Intake

    async def send(
        self, method: str = "POST", path: str = "/push", *, sender: Any = SENDER, **request: Any
    ) -> httpx.Response:
        """Return the answer to one request."""
        transport = httpx.ASGITransport(app=self.app, client=sender, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as client:
            return await client.request(method, path, **request)

    async def push(
        self, body: bytes = BODY, secret: str = SECRET, **request: Any
    ) -> httpx.Response:
        """Push a signed message."""
        return await self.send(content=body, headers=signed(body, secret), **request)


@asynccontextmanager
async def running(
    folder: Path, *, drainer: Any = None, metrics: Any = ("false",), **changes: Any
) -> AsyncIterator[Running]:
    """Run a receiver whose journal is in the folder; `changes` replace parts of its intake."""
    opened = open_intake(settings(folder))
    intake = replace(opened, **changes)
    if intake.journal is not opened.journal:
        await opened.journal.close()
    app = create_app(lambda: intake, drainer=drainer, metrics=metrics)
    async with app.router.lifespan_context(app):
        yield Running(app, intake)


def settings(folder: Path, **changes: Any) -> Settings:
    """Return settings with two secrets and a journal in the folder."""
    values = {
        "push_secrets": f"{OTHER},{SECRET}",
        "push_secrets_file": folder / "push-secrets",
        "push_journal": folder / "push-journal",
        "lake": folder / "lake",
        **changes,
    }
    return Settings(**values)


def answers(folder: Path, ask: Callable[[Running], Awaitable[Any]], **options: Any) -> Any:
    """Run a receiver, ask it, stop it, and return the answer."""

    async def run() -> Any:
        async with running(folder, **options) as receiver:
            return await ask(receiver)

    return asyncio.run(run())


async def until(is_true: Callable[[], Awaitable[Any]]) -> Any:
    """Return what becomes true, asking again and again, for two minutes at most."""
    async with asyncio.timeout(120):
        while not (found := await is_true()):  # noqa: ASYNC110 - what is asked raises no event
            await asyncio.sleep(0)
        return found


def stored(folder: Path) -> list[bytes]:
    """Return the bodies in the journal of a folder."""
    return bodies(folder / "push-journal")
