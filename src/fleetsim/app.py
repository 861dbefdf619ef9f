"""The application: v2, v3, the control plane and a page for people."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from html import escape

import numpy as np
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetsim import stamps
from fleetsim.callers import KEY_PAIRS, PORTAL_ID, PORTAL_KEY, V3_TOKEN
from fleetsim.causes import CAUSES
from fleetsim.control import serve_control
from fleetsim.described import served_lists
from fleetsim.options import SimulatorOptions
from fleetsim.push import Sender
from fleetsim.refusals import method_not_allowed, not_found
from fleetsim.resources import RESOURCES
from fleetsim.scenarios import SCENARIOS
from fleetsim.simulation import Simulation, start_simulation
from fleetsim.units import SECOND
from fleetsim.v2 import refusal_answer, serve_v2
from fleetsim.v3 import serve_v3
from fleetsim.wire import path_of
from fleetsim.wire_words import InVendorWords

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left;"
    "vertical-align:top}code,pre{background:#f3f3f3;padding:.1rem .3rem}pre{padding:.6rem}"
)


def front_page(simulation: Simulation) -> str:
    """Return the page as HTML."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Fleet service simulator</title>",
        f"<style>{_STYLE}</style><h1>Fleet service simulator</h1>",
        "<p>This is a simulator: its devices, people and places are fictitious.</p>",
        _table("Fleet and clock", _fleet(simulation)),
        _table("Faults", _faults(simulation)),
        _table(
            "Calls", {name: str(count) for name, count in sorted(simulation.meter.calls.items())}
        ),
        _connecting(),
        _links(),
    ]
    return "\n".join(parts)


def _table(title: str, rows: dict[str, str]) -> str:
    """Return a heading and a table of two columns."""
    cells = (f"<tr><th>{escape(k)}<td>{escape(v)}" for k, v in rows.items())
    return f"<h2>{title}</h2><table>{''.join(cells) or '<tr><td>none yet'}</table>"


def _fleet(simulation: Simulation) -> dict[str, str]:
    fleet = simulation.world.fleet
    now = simulation.clock.now()
    there = fleet.registrations.holds(np.arange(fleet.size), now)
    return {
        "routers": f"{int(there.sum())}, of which {int(fleet.is_vehicle[there].sum())} in vehicles",
        "batteries": str(int(fleet.has_battery[there].sum())),
        "seed": str(simulation.world.seed),
        "history since": stamps.to_datetime(simulation.world.started_at).isoformat(" ", "seconds"),
        "now": stamps.to_datetime(now).isoformat(" ", "seconds"),
        "speed": f"{simulation.clock.speed:g} (0 is frozen)",
    }


def _faults(simulation: Simulation) -> dict[str, str]:
    limit = simulation.meter.limit_per_minute
    return {
        "scenario": simulation.scenario.about,
        "calls per minute": "unlimited" if limit is None else str(limit),
        **{name: f"{value:g}" for name, value in simulation.faults.settings().items()},
    }


def _connecting() -> str:
    """Return the credentials, which are fixed and public."""
    pairs = {identity: f"{key} ({caller.role})" for identity, (key, caller) in KEY_PAIRS.items()}
    example = (
        f'curl -H "X-PORTAL-API-ID: {PORTAL_ID}" -H "X-PORTAL-API-KEY: {PORTAL_KEY}" \\\n'
        '     -H "X-MGR-API-ID: admin-id" -H "X-MGR-API-KEY: admin-key" \\\n'
        '     "&lt;this address&gt;api/v2/routers/?limit=2"'
    )
    return f"{_table('Connecting', {**pairs, 'v3 bearer token': V3_TOKEN})}<pre>{example}</pre>"


def _links() -> str:
    """Return the names of resources, truths and scenarios."""
    truth = ", ".join(f"<a href=/sim/truth/{name}>{name}</a>" for name in CAUSES)
    return (
        f"<h2>Resources</h2><p>{', '.join(RESOURCES)}</p>"
        f"<h2>What really happened</h2><p>{truth}, and every resource by its name.</p>"
        f"<h2>Scenarios</h2><p>{', '.join(SCENARIOS)}</p>"
        "<p><a href=/sim/state>/sim/state</a></p></html>"
    )


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

    async def front(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return refusal_answer(method_not_allowed(path_of(request), request.method))
        return HTMLResponse(front_page(simulation))

    async def control(request: Request) -> Response:
        return await serve_control(simulation, request)

    async def nothing(_request: Request) -> Response:
        return refusal_answer(not_found())

    app = Starlette(lifespan=lifespan)
    app.router.default = _Roots(
        {"/api/v2": v2, "/api/v3": v3, "/sim/": control}, front, nothing, app.router.default
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
    front: Answer
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
        if path == "/":
            return self.front
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
