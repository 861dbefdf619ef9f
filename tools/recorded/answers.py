"""What the simulator answers to many requests, as a digest per request: the same in every release.

The same options serve the same fleet: benchmarks, bug reports and recorded runs rely on it. Per
fleet, a session reads the truth about every resource and cause, filters each list by values of its
own records, moves the clock, pushes, and sends odd requests. `answers.txt` has the digests; a test
compares them, and `python -m tools.recorded.answers` rewrites them after an intended change.
Floats are rounded to six digits: machines may differ in the last one.
"""

import asyncio
import hashlib
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fleetsim.causes import CAUSES
from fleetsim.definition import Resource
from fleetsim.resources import RESOURCES
from tests.support.asgi import Answer, Request, ask
from tests.support.fuzzing import JSON_TYPES, Fuzzer
from tests.support.service import BEARER, HOST, Service, keys, start

ANSWERS = Path(__file__).parents[2] / "tests/simulator/answers.txt"
FLEETS: tuple[dict[str, Any], ...] = (
    {"seed": 7, "routers": 24, "days": 1},
    {"seed": 19, "routers": 90, "days": 0.5, "scenario": "shard-hosts"},
    {"seed": 3, "routers": 12, "days": 9, "flapping": True},
)
FUZZED = 200
_SHOWN = 180
_DEVICES = 2
_PER_FILTER = 2
_HOURS = 7
Pairs = list[tuple[str, str]]
_LISTED = [name for name, resource in RESOURCES.items() if resource.is_listed]


def session(**options: Any) -> list[str]:
    """Return a line per request to a new service: digest, status and request."""
    service = start(**options)
    return asyncio.run(_session(service, options["seed"]))


async def _session(service: Service, seed: int) -> list[str]:
    found: list[str] = []

    async def note(request: Request) -> Answer:
        answer = await ask(service.app, request)
        found.append(_line(request, answer))
        return answer

    devices = {
        name: [r["id"] for r in await _records(service, f"{name}/?limit=500")]
        for name in ("routers", "net_devices")
    }
    for request in _truths(devices):
        await note(request)
    for name in _LISTED:
        base = _base(RESOURCES[name], devices)
        records = await _records(service, f"{name}/?{urlencode(base)}")
        for pairs in _questions(RESOURCES[name], base, records):
            await note(_v2(name, pairs))
    for name in service.app.state.simulation.lists.collections:
        await note(_v3(f"{name}?page[size]=3"))
    clock = {"advance_seconds": _HOURS * 3600}
    moved = Request("POST", b"/sim/clock", (), json.dumps(clock).encode())
    for request in (moved, *_truths(devices), Request("GET", b"/sim/state")):
        await note(request)
    fuzzer = Fuzzer(seed)
    for _ in range(FUZZED):
        request = fuzzer.request()
        fuzzer.learn(request, await note(request))
    found += [f"{_digest(sent)} push {sent[0]}" for sent in service.receiver.received]
    return found


def _truths(devices: dict[str, list[str]]) -> Iterator[Request]:
    """Yield requests of the truth about all resources and causes, of some devices if per device."""
    for name in (*RESOURCES, *CAUSES, "users_v3", "deletions", "pushes"):
        if name not in RESOURCES or not RESOURCES[name].per_device:
            yield Request("GET", f"/sim/truth/{name}".encode())
            continue
        for device in _spread(devices[_kind(RESOURCES[name])], _DEVICES):
            yield Request("GET", f"/sim/truth/{name}?device={device}".encode())


def _kind(resource: Resource) -> str:
    """Return the list of the devices whose records a resource has."""
    return "net_devices" if resource.by_name[resource.device].to == "net_devices" else "routers"


def _spread(found: list[Any], count: int) -> list[Any]:
    """Return so many items, from the whole list."""
    return found[:: max(1, len(found) // count)][:count]


def _base(resource: Resource, devices: dict[str, list[str]]) -> Pairs:
    """Return the parameters of a list's first page: its size and, if required, some devices."""
    pairs = [("limit", "7")]
    if resource.one_of:
        required = next((name for name in resource.one_of if "__in" in name), resource.one_of[0])
        ids = _spread(devices["net_devices" if "net_device" in required else "routers"], 6)
        pairs.append((required, ",".join(ids) if "__in" in required else ids[0]))
    return pairs


def _questions(resource: Resource, base: Pairs, records: list[dict[str, Any]]) -> Iterator[Pairs]:
    """Yield the parameters of requests: in each order, and filtered by values of the records."""
    yield base
    for order in resource.order_by:
        yield [*base, ("order_by", order)]
        yield [*base, ("order_by", f"-{order}")]
    for expanded in resource.expands:
        yield [*base, ("expand", expanded), ("fields", f"id,{expanded}")]
    for column in resource.columns:
        value = next((v for r in records[3:] if (v := _value(r, column.name)) is not None), None)
        if value is None or any(column.name == key.partition("__")[0] for key, _ in base):
            continue
        for op in islice(sorted(column.ops), _PER_FILTER):
            filtered = column.name if op == "exact" else f"{column.name}__{op}"
            yield [*base, (filtered, "true" if op == "isnull" else value)]


def _value(record: dict[str, Any], name: str) -> str | None:
    """Return a record's value as a filter takes it; of a relation, the id."""
    value: Any = record
    for part in name.split("__"):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        return None if not isinstance(value, bool) else str(value).lower()
    text = str(value)
    return text.rstrip("/").rpartition("/")[2] if text.startswith("http") else text


def _v2(name: str, pairs: Pairs) -> Request:
    target = f"/api/v2/{name}/?{urlencode(pairs, quote_via=quote)}"
    return Request("GET", target.encode(), _fields(keys()))


def _v3(path: str) -> Request:
    return Request("GET", f"/api/v3/{path}".encode(), _fields(BEARER))


def _fields(headers: dict[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    pairs = {"host": HOST.removeprefix("http://"), **headers}
    return tuple((name.lower().encode(), value.encode()) for name, value in pairs.items())


async def _records(service: Service, path: str) -> list[dict[str, Any]]:
    answer = await ask(service.app, Request("GET", f"/api/v2/{path}".encode(), _fields(keys())))
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def _line(request: Request, answer: Answer) -> str:
    """Return the digest of a response, its status, and the request on one line."""
    body = _parsed(answer)
    asked = f"{request.method} {request.target.decode('latin-1')}"
    if request.body:
        asked += f" {request.body[:_SHOWN]!r}"
    kind = answer.head.get("content-type", "")
    return f"{_digest([kind, body])} {answer.status} {ascii(asked[:_SHOWN])[1:-1]}"


def _parsed(answer: Answer) -> Any:
    """Return a body as values; NDJSON as a list of them, and what is no JSON as text."""
    kind = answer.head.get("content-type", "")
    if "ndjson" in kind:
        return [json.loads(line) for line in answer.body.splitlines()]
    is_json = kind in JSON_TYPES and answer.body
    return answer.json() if is_json else answer.body.decode("latin-1")


def _digest(value: Any) -> str:
    """Return eight hexadecimal digits that stand for a value."""
    return hashlib.sha256(json.dumps(_rounded(value)).encode()).hexdigest()[:8]


def _rounded(value: Any) -> Any:
    """Return a value with six digits of each float."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value


def dump() -> str:
    """Return the sessions of all fleets, a line per request."""
    lines = []
    for options in FLEETS:
        lines += [f"# {options}", *session(**options)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(dump())
    else:
        ANSWERS.write_text(dump(), encoding="utf-8")
        sys.stdout.write(f"{ANSWERS.name} is written.\n")
