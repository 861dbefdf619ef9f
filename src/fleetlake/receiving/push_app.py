"""The ASGI application of the receiver: `POST /push`, `GET /healthz`, `GET /metrics`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import cache
from ipaddress import ip_address
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fleetlake.receiving.access_log import AccessLog
from fleetlake.receiving.child_process import METRICS, KeptProcess, LakeMetrics, child_environment
from fleetlake.receiving.intake import Intake, client_address, open_intake
from fleetlake.receiving.push_secrets import PushRefusal
from fleetlake.serving.host_names import host_name, is_local_name
from fleetlake.settings import load_settings

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Receiver:
    """The endpoints, and what lives as long as the server: the intake and its child processes."""

    def __init__(
        self,
        open_: Callable[[], Intake],
        drainer: Sequence[str] | None,
        metrics: Sequence[str],
        names: Collection[str],
    ) -> None:
        self._open = open_
        self._drainer_command = drainer
        self._metrics_command = metrics
        self._names = names
        self._intake: Intake | None = None
        self._drainer: KeptProcess | None = None
        self._metrics: LakeMetrics | None = None

    @asynccontextmanager
    async def running(self, _app: Starlette) -> AsyncIterator[None]:
        """Open the intake and start the drainer; at the end, finish what was accepted."""
        environment = child_environment(load_settings().lake)
        self._intake = self._open()
        self._metrics = LakeMetrics(self._metrics_command, environment)
        keeping = None
        if self._drainer_command:
            self._drainer = KeptProcess(self._drainer_command, environment)
            keeping = asyncio.create_task(self._drainer.keep())
        try:
            yield
        finally:
            await self._intake.journal.close()
            await self._metrics.stop()
            if self._drainer and keeping:
                await self._drainer.stop()
                await keeping

    @property
    def intake(self) -> Intake:
        """Return the open intake. Raises: RuntimeError if the server sent no lifespan events."""
        if self._intake is None:
            raise RuntimeError("fleetlake.receiving needs a server that supports ASGI lifespan")
        return self._intake

    async def push(self, request: Request) -> Response:
        """Store a pushed message; 200 means that it is on disk."""
        return await self.intake.answer(request)

    async def health(self, _request: Request) -> Response:
        """Return 200 if messages can be stored and the drainer, if there is one, runs."""
        fault = await self.intake.journal.fault()
        found = {"journal": fault or "writable"}
        is_well = fault is None
        if self._drainer:
            found["drainer"] = "running" if self._drainer.is_alive() else "stopped"
            is_well = is_well and self._drainer.is_alive()
        return JSONResponse(found, 200 if is_well else 503)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics of receiver and lake; only for direct requests from private addresses.

        They name no device and no person, but they show the size of a fleet.
        """
        if not _is_nearby(request):
            return await self.intake.refuse(request, PushRefusal.SOURCE, "not from here")
        if not is_local_name(host_name(request.scope), self._names):
            text = "name this host in FLEETLAKE_RECEIVER_NAMES, or use its IP address"
            return await self.intake.refuse(request, PushRefusal.HOST, text)
        own = self.intake.counts.text(
            self.intake.journal.folder,
            is_draining=self._drainer.is_alive() if self._drainer else None,
        )
        lake = self._metrics.text() if self._metrics else ""
        return PlainTextResponse(own + lake, media_type=METRICS_TYPE)

    async def unknown_path(self, request: Request, _: Exception) -> Response:
        """Return the answer to any other path."""
        return await self.intake.refuse(request, PushRefusal.PATH, "no such path")

    async def unknown_method(self, request: Request, error: Exception) -> Response:
        """Return the answer to a method that a path does not have."""
        allow = (getattr(error, "headers", None) or {}).get("Allow", "")
        return await self.intake.refuse(request, PushRefusal.METHOD, f"use {allow}", allow=allow)


def create_app(
    open_: Callable[[], Intake],
    *,
    drainer: Sequence[str] | None = None,
    metrics: Sequence[str] = METRICS,
    names: Collection[str] = (),
) -> Starlette:
    """Return the application. `open_` is called, and `drainer` is run, when the server starts.

    `names` are the host names by which Prometheus addresses it.
    """
    receiver = Receiver(open_, drainer, metrics, names)
    handlers: dict[Any, Any] = {404: receiver.unknown_path, 405: receiver.unknown_method}
    app = Starlette(
        routes=[
            Route("/push", receiver.push, methods=["POST"]),
            Route("/healthz", receiver.health),
            Route("/metrics", receiver.metrics),
        ],
        middleware=[Middleware(AccessLog)],
        exception_handlers=handlers,
        lifespan=receiver.running,
    )
    app.router.redirect_slashes = False  # a sender may not repeat a body after a redirect
    return app


@cache
def default_app() -> Starlette:
    """Return the application for the settings of this process, without a drainer."""
    return create_app(lambda: open_intake(load_settings()), names=load_settings().receiver_names)


def _is_nearby(request: Request) -> bool:
    """Return whether a request came directly, and from a private address."""
    try:
        address = ip_address(client_address(request))
    except ValueError:
        return False
    return address.is_private and "x-forwarded-for" not in request.headers
