"""The v2 API: answers one request."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fleetsim.answers import list_records, one_record, router_part
from fleetsim.callers import Caller, authenticate, is_counted
from fleetsim.refusals import Refusal, method_not_allowed, not_found
from fleetsim.rendering import with_moving_hosts
from fleetsim.simulation import Simulation
from fleetsim.view import View
from fleetsim.wire import dump_page, longest_path, origin_of, parts_of, path_of, query_of
from fleetsim.writing import answer_write
from fleetsim.writing.actions import read_speed_test
from fleetsim.writing.readers import WriteContext

ROOT_PATH = "/api/v2"
_PARTS: dict[str, tuple[list[str], ...]] = {"routers": ([], ["configuration_manager"], ["lans"])}
"""What a path may end in after the id of a record."""


def json_answer(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response of the service."""
    return Response(dump_page(body), status, headers, media_type="application/json")


def refusal_answer(refusal: Refusal) -> Response:
    """Return a refusal in the service's format."""
    return json_answer(refusal.body, refusal.status, refusal.headers)


async def serve_v2(simulation: Simulation, request: Request) -> Response:
    """Answer one v2 request, with active faults applied."""
    path = path_of(request)
    parts = parts_of(path, ROOT_PATH)
    counted = is_counted(request.headers)
    name, more = longest_path(simulation.lists.resources, parts)
    known = name or "unknown"
    simulation.meter.count(known, counted=counted)
    try:
        if counted:
            simulation.meter.admit(time.monotonic())
        if not path.endswith("/"):
            return _redirect(request)
        return await simulation.faults.around(lambda: _answer(simulation, request, [name, *more]))
    except Refusal as refusal:
        return refusal_answer(refusal)


def _redirect(request: Request) -> Response:
    """Redirect to the path with its trailing slash; both calls count."""
    query = query_of(request)
    target = f"{origin_of(request)}{path_of(request)}/{'?' if query else ''}{query}"
    return RedirectResponse(target, 301 if request.method == "GET" else 308)


async def _answer(simulation: Simulation, request: Request, parts: list[str]) -> Response:
    """Authenticate, find the resource, and read or write it."""
    caller = authenticate(request.headers)
    if not parts[0] or parts[2:] not in _PARTS.get(parts[0], ([],)):
        raise not_found()
    if parts[2:] and request.method != "GET":
        raise method_not_allowed(path_of(request), request.method)
    body = await request.body()  # others may write while it arrives, so make the view afterwards
    view = simulation.view_of(caller, origin_of(request))
    if request.method == "GET":
        read = _read(simulation, request, caller, view, parts)
        return json_answer(with_moving_hosts(view, read))
    written = await answer_write(
        simulation,
        caller,
        view,
        path=path_of(request),
        method=request.method,
        parts=parts,
        body=body,
    )
    if written.body is None:
        return Response(status_code=written.status)
    return json_answer(written.body, written.status)


def _read(
    simulation: Simulation, request: Request, caller: Caller, view: View, parts: list[str]
) -> dict[str, Any]:
    """Return a list, one record, or a part of one."""
    resource = simulation.lists.resources[parts[0]]
    query, address = query_of(request), f"{view.origin}{path_of(request)}"
    if parts[2:]:
        return router_part(view, parts[1], parts[2], query, address)
    if parts[0] == "speed_test" and parts[1:]:
        return read_speed_test(WriteContext(simulation, caller, view), parts[1])
    if not resource.is_listed:
        raise method_not_allowed(path_of(request), request.method)
    if parts[1:]:
        return one_record(view, resource, parts[1], query)
    return list_records(view, resource, query, address)
