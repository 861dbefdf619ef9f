"""Pushed alerts: received and checked, kept in a journal, and brought into the lake."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any


async def application(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Answer as the receiver; for any ASGI server: `uvicorn fleetlake.receiving:application`.

    The settings are read when the server starts. It does not drain the journal.
    """
    from fleetlake.receiving.push_app import default_app  # noqa: PLC0415 - readers need no Starlette

    await default_app()(scope, receive, send)
