"""The control plane under /sim/: state, clock, faults, truth. No authentication."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fleetsim import stamps
from fleetsim.blocks import Block
from fleetsim.causes import CAUSES
from fleetsim.definition import Collection, Resource, SeriesRead
from fleetsim.faults import PREFIX
from fleetsim.refusals import Refusal, method_not_allowed, not_found, validation
from fleetsim.rendering import records
from fleetsim.scenarios import SCENARIOS, with_hostile_values
from fleetsim.simulation import Simulation
from fleetsim.units import Ints
from fleetsim.v2 import json_answer, refusal_answer
from fleetsim.v3.collections import assignments
from fleetsim.view import View
from fleetsim.wire import dump_line, origin_of, parse_json, parts_of, path_of

_ROWS_AT_ONCE = 2000
_DEVICES_AT_ONCE = 20


def truth_lines(
    view: View, resource: Resource, until: int, device: int | None = None
) -> Iterator[bytes]:
    """Yield NDJSON of every record created before `until`; snapshots are those of now.

    `device` limits a per-device series to the device with this id.
    """
    blocks = (
        _series(view, resource, until, device)
        if resource.rows is None
        else iter([resource.rows(view)])
    )
    for block in blocks:
        for first in range(0, len(block), _ROWS_AT_ONCE):
            part = block.take(slice(first, first + _ROWS_AT_ONCE))
            yield b"".join(_lines(view, resource, part))


def _lines(view: View, resource: Resource, block: Block) -> Iterator[bytes]:
    """Yield one line per row; per-device lists carry the device id in `_device`."""
    found = records(view, resource.shown, block)
    if view.scenario.exaggerates:
        found = [with_hostile_values(record) for record in found]
    owner = resource.owner or (resource.device if resource.per_device else "")
    if owner:
        devices = resource.by_name[owner].read(view, block).tolist()
        for record, device in zip(found, devices, strict=True):
            record["_device"] = str(device)
    return map(dump_line, found)


def _series(view: View, resource: Resource, until: int, device: int | None) -> Iterator[Block]:
    """Yield a series' blocks, oldest first; a per-device series device by device."""
    assert resource.series is not None
    since = view.world.started_at
    for devices in _device_batches(view, resource, device):
        read = SeriesRead(devices=devices, since=since, until=until, want=_ROWS_AT_ONCE)
        for block in resource.series(view, read):
            yield resource.keep(view, block.between(since, until))


def _device_batches(view: View, resource: Resource, device: int | None) -> Iterator[Ints | None]:
    """Yield device rows in batches, or None once for a series that is not per device."""
    if not resource.per_device:
        yield None
        return
    fleet = view.world.fleet
    of_interfaces = resource.by_name[resource.device].to == "net_devices"
    if device is not None:
        ids = fleet.net_device_ids if of_interfaces else fleet.router_ids
        rows = ids.rows(np.array([device]))
        yield rows[rows >= 0]
        return
    size = (fleet.net_device_ids if of_interfaces else fleet.router_ids).size
    for first in range(0, size, _DEVICES_AT_ONCE):
        yield np.arange(first, min(first + _DEVICES_AT_ONCE, size))


_LIMIT = "limit_per_minute"
_PUSHES = "pushes"
_ASSIGNMENTS = "asset_endpoint_subscriptions"
_BYTES_AT_ONCE = 1 << 16


async def serve_control(simulation: Simulation, request: Request) -> Response:
    """Answer one request to the control plane."""
    path = path_of(request)
    parts = parts_of(path, "/sim/")
    try:
        match request.method, parts:
            case "GET", ["state"]:
                return json_answer(state(simulation))
            case "POST", ["clock"]:
                return await _move_clock(simulation, await _body(request))
            case "PUT", ["faults"]:
                return _set_faults(simulation, await _body(request))
            case "GET", ["truth", name]:
                return _truth(simulation, request, name)
            case _, ["state" | "clock" | "faults"] | ["truth", _]:
                raise method_not_allowed(path, request.method)
    except Refusal as refusal:
        return refusal_answer(refusal)
    return refusal_answer(not_found())


def state(simulation: Simulation) -> dict[str, Any]:
    """Return the clock, the call counts, and the active faults."""
    return {
        "now": stamps.to_datetime(simulation.clock.now()).isoformat(),
        "calls": dict(sorted(simulation.meter.calls.items())),
        "counted_calls": simulation.meter.counted_calls,
        "limit_per_minute": simulation.meter.limit_per_minute,
        "faults": simulation.faults.settings(),
        "push_faults": simulation.push_faults.settings(),
        "pushes": {**simulation.pusher.log.counts(), "waiting": simulation.pusher.waiting()},
        "scenario": next((n for n, s in SCENARIOS.items() if s is simulation.scenario), None),
        "started_at": stamps.to_datetime(simulation.world.started_at).isoformat(),
        "routers": simulation.world.routers,
        "seed": simulation.world.seed,
    }


async def _body(request: Request) -> dict[str, Any]:
    """Return the request's JSON object."""
    try:
        body = parse_json(await request.body())
    except orjson.JSONDecodeError as error:
        raise validation("body", str(error), status=400) from None
    if not isinstance(body, dict):
        raise validation("body", "must be an object", status=400)
    return body


async def _move_clock(simulation: Simulation, body: dict[str, Any]) -> Response:
    """Set the clock's speed or advance it, push due alerts, and return the time."""
    moves = {"advance_seconds": simulation.clock.advance, "speed": simulation.clock.run_at}
    name = "speed" if "speed" in body else "advance_seconds"
    number = body.get(name)
    if not isinstance(number, int | float) or isinstance(number, bool):
        raise validation(name, "must be a number", status=400)
    try:
        moves[name](number)
    except ValueError as error:
        raise validation(name, str(error), status=400) from None
    await simulation.pusher.settle()
    return json_answer(state(simulation))


def _set_faults(simulation: Simulation, body: dict[str, Any]) -> Response:
    """Set the named faults and the limit per minute; others stay unchanged.

    A `scenario` is applied first, so that the other members can refine it.
    """
    others = {name: value for name, value in body.items() if name not in ("scenario", _LIMIT)}
    pushes = {name: value for name, value in others.items() if name.startswith(PREFIX)}
    rates = {name: value for name, value in others.items() if name not in pushes}
    limit = body.get(_LIMIT)
    if limit is not None and (type(limit) is not int or limit < 0):
        raise validation(_LIMIT, "must be an integer or null", status=400)
    simulation.faults.check(rates)
    simulation.push_faults.check(pushes)
    if "scenario" in body:
        simulation.play(body["scenario"])
    simulation.faults.change(rates)
    simulation.push_faults.change(pushes)
    if _LIMIT in body:
        simulation.meter.limit_per_minute = limit
    return json_answer(state(simulation))


def _truth(simulation: Simulation, request: Request, name: str) -> Response:
    """Stream every record of one resource, every cause of a kind, or every pushed message.

    A v3 list is requested by its own name, except that v3's users are `users_v3`. The assignments
    of subscriptions, which no list has, are `asset_endpoint_subscriptions`.
    """
    until, device = _truth_limits(request)
    view = simulation.truth(origin_of(request))
    found = simulation.lists.by_name.get(name)
    if name == _PUSHES:
        lines: Iterator[bytes] = map(dump_line, simulation.pusher.log.lines())
    elif name in CAUSES:
        lines = map(dump_line, CAUSES[name](view, min(until, view.now)))
    elif isinstance(found, Resource) and found.is_listed:
        lines = truth_lines(view, found, min(until, view.now + 1), device)
    elif name == _ASSIGNMENTS:
        lines = map(dump_line, assignments(view))
    elif isinstance(found, Collection):
        lines = map(dump_line, found.everything(view))
    else:
        raise not_found()
    return StreamingResponse(_in_turn(lines), media_type="application/x-ndjson")


async def _in_turn(lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield lines in batches, and let other requests run in between.

    A separate thread is not an option: it would share the cache of days with other requests.
    """
    waiting, size = [], 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _BYTES_AT_ONCE:
            yield b"".join(waiting)
            waiting, size = [], 0
            await asyncio.sleep(0)
    yield b"".join(waiting)


def _truth_limits(request: Request) -> tuple[int, int | None]:
    """Return `until` as an instant and `device` as an id, both optional."""
    given = request.query_params
    try:
        until = stamps.parse(given.get("until", "9999-01-01"))
        device = int(given["device"]) if "device" in given else None
    except ValueError:
        raise validation("until", "until must be an ISO time, device an id", status=400) from None
    return until, None if device is None else max(-1, min(device, 2**62))
