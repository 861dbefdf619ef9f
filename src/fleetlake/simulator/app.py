"""The application: v2, v3, the control plane and a page for people."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from email.utils import formatdate

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fleetlake.simulator.control import serve_control
from fleetlake.simulator.front import front_page
from fleetlake.simulator.options import SimulatorOptions
from fleetlake.simulator.push import Sender, send_over_http
from fleetlake.simulator.refusals import not_found
from fleetlake.simulator.simulation import Simulation, start_simulation
from fleetlake.simulator.units import SECOND
from fleetlake.simulator.v2 import refusal_answer, serve_v2
from fleetlake.simulator.v3 import serve_v3

SERVER = "fleetlake-simulator"
"""What the service calls itself in every answer, so that nobody takes it for the real one."""

_TICK_S = 1.0
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def create_app(options: SimulatorOptions, send: Sender = send_over_http) -> Starlette:
    """Return the ASGI application of one simulation, which is `app.state.simulation`.

    It needs no lifespan; with one, due pushes are sent every second, otherwise whenever the
    clock is moved. `send` is what posts a pushed alert.
    """
    simulation = start_simulation(options, send)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        ticking = asyncio.create_task(_tick(simulation))
        yield
        ticking.cancel()

    async def v2(request: Request) -> Response:
        return _dated(simulation, await serve_v2(simulation, request))

    async def v3(request: Request) -> Response:
        return _dated(simulation, await serve_v3(simulation, request))

    async def front(_request: Request) -> Response:
        return HTMLResponse(front_page(simulation))

    async def control(request: Request) -> Response:
        return await serve_control(simulation, request)

    async def nothing(_request: Request) -> Response:
        return refusal_answer(not_found())

    routes = [
        Route("/api/v2{path:path}", v2, methods=METHODS),
        Route("/api/v3{path:path}", v3, methods=METHODS),
        Route("/", front, methods=["GET"]),
        Route("/sim/{path:path}", control, methods=METHODS),
        Route("/{path:path}", nothing, methods=METHODS),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.simulation = simulation
    return app


def _dated(simulation: Simulation, answer: Response) -> Response:
    """Return the answer with the simulated clock in its Date, as a service's own clock would be."""
    seconds = simulation.clock.now() // SECOND
    answer.headers["date"] = formatdate(seconds, usegmt=True)
    answer.headers["server"] = SERVER
    return answer


async def _tick(simulation: Simulation) -> None:
    """Send pushes as they become due, for as long as the server runs."""
    while True:
        await asyncio.sleep(_TICK_S)
        await simulation.pusher.settle()
