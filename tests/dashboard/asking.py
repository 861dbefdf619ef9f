"""Requests to the dashboard's application, in process."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
from starlette.applications import Starlette

HOST = "http://127.0.0.1:8710"
NEEDED = {
    "router": 1_000_001,
    "day": "2026-11-18",
    "at": "2026-11-18T12:00:00Z",
    "table": "trips",
    "episode": "episode_id 3",
}
"""A value of each parameter that a panel needs."""


async def answer_of(
    app: Starlette,
    path: str,
    given: Mapping[str, object] | None = None,
    *,
    base: str = HOST,
    method: str = "GET",
    **more: Any,
) -> httpx.Response:
    """Return the application's answer to one request."""

    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=base) as client:
        texts = {name: str(value) for name, value in (given or {}).items()}
        return await client.request(method, path, params=texts, **more)


def ask(
    app: Starlette, path: str, given: Mapping[str, object] | None = None, **more: Any
) -> httpx.Response:
    """Return the application's answer to one request, in a loop of its own."""
    return asyncio.run(answer_of(app, path, given, **more))


def rows_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the rows of a panel's answer."""
    assert answer.status_code == 200, answer.text
    document = answer.json()
    names = [column["name"] for column in document["columns"]]
    return [
        dict(zip(names, values, strict=True))
        for values in zip(*(document["values"][name] for name in names), strict=True)
    ]
