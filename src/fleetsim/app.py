"""The application: v2, v3 and the control plane."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetsim.control import serve_control
from fleetsim.described import served_lists
from fleetsim.options import SimulatorOptions
from fleetsim.push import Sender
from fleetsim.refusals import not_found
from fleetsim.simulation import Simulation, start_simulation
from fleetsim.units import SECOND
from fleetsim.v2 import refusal_answer, serve_v2
from fleetsim.v3 import serve_v3
from fleetsim.wire import path_of
from fleetsim.wire_words import InVendorWords

SERVER = "fleetlake-simulator"
"""The `server` header of every response; it identifies the simulator."""

_TICK_S = 1.0
_LOG = logging.getLogger(__name__)

Answer = Callable[[Request], Awaitable[Response]]


def create_app(options: SimulatorOptions, send: Sender | None = None) -> Starlette:
    """Return the ASGI application of one simulation, which is `app.state.simulation`.

    It works without ASGI lifespan events. With them, due pushes are sent every second; otherwise,
    when the clock is moved. `send` posts a pushed alert, by default over HTTP.
    """
    simulation = start_simulation(options, served_lists(options.endpoints), send)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        ticking = asyncio.create_task(_tick(simulation))
        yield
        ticking.cancel()

    async def v2(request: Request) -> Response:
        return _dated(simulation, await serve_v2(simulation, request))

    async def v3(request: Request) -> Response:
        return _dated(simulation, await serve_v3(simulation, request))

    async def control(request: Request) -> Response:
        return await serve_control(simulation, request)

    async def nothing(_request: Request) -> Response:
        return refusal_answer(not_found())

    app = Starlette(lifespan=lifespan)
    app.router.default = _Roots(
        {"/api/v2": v2, "/api/v3": v3, "/sim/": control}, nothing, app.router.default
    )
    app.state.simulation = simulation
    if options.vendor_words:
        app.add_middleware(InVendorWords, simulation.words)
    return app


@dataclass(frozen=True)
class _Roots:
    """Routes by the root of the path, for any method, so that each refusal has a JSON body.

    The framework's own routes answer an unknown method with plain text, and match no path with a
    newline. `others` handles requests other than HTTP.
    """

    answers: Mapping[str, Answer]
    nothing: Answer
    others: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the client has disconnected."""
        if scope["type"] != "http":
            await self.others(scope, receive, send)
            return
        request = Request(scope, receive)
        with contextlib.suppress(ClientDisconnect):
            answer = await self._find(path_of(request))(request)
            await answer(scope, receive, send)

    def _find(self, path: str) -> Answer:
        found = (answer for root, answer in self.answers.items() if path.startswith(root))
        return next(found, self.nothing)


def _dated(simulation: Simulation, answer: Response) -> Response:
    """Return the response with the simulated time in its Date header."""
    seconds = simulation.clock.now() // SECOND
    answer.headers["date"] = formatdate(seconds, usegmt=True)
    answer.headers["server"] = SERVER
    return answer


async def _tick(simulation: Simulation) -> None:
    """Send pushes when they are due, as long as the server runs.

    An unexpected error is logged, and pushing continues with the next tick.
    """
    while True:
        await asyncio.sleep(_TICK_S)
        try:
            await simulation.pusher.settle()
        except Exception:  # noqa: BLE001 - one error must not stop later pushes
            _LOG.exception("Pushing alerts failed. The next attempt is in one second.")
