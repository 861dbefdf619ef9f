"""Fuzzing: requests drawn from a seed cause no failure, no hang and no lost record.

`make fuzz-simulator N=20000` sends more. A finding names its request; FUZZ_SEED repeats it.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulator.properties import fuzz
from tests.simulator.sections import section
from tests.support.asgi import Request, ask
from tests.support.fuzzing import Fuzzer
from tests.support.service import BEARER, HOST, Service, keys

COUNT = int(os.environ.get("FUZZ_REQUESTS", "400"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))

WALKS = {
    "groups/?id__gt=0&limit=3": "id",
    "routers/?id__gt=0&limit=4": "id",
    "net_devices/?id__gt=0&limit=9": "id",
    "router_lans/?id__gt=0&limit=3": "id",
    "net_device_health/?id__gt=0&limit=9": "id",
    "net_device_metrics/?id__gt=0&limit=9": "id",
    "alert_rules/?limit=2": "alert_config_id",
    "alert_push_destinations/?limit=1": "destination_config_id",
    "alerts/?limit=20": "created_at_timeuuid",
    "router_alerts/?limit=20&order_by=created_at_timeuuid": "created_at_timeuuid",
    "activity_logs/?limit=10": "action",
    "router_state_samples/?router__in=1000003,1000013,1000020&limit=30": "created_at_timeuuid",
}
OFFSET_WALKS = {"users/?limit=4": "id", "accounts/?limit=2": "id", "groups/?limit=5": "id",
                "routers/?limit=4": "id", "failovers/?limit=9": "uuid"}  # fmt: skip
V3_WALKS = ("users?page[size]=3", "asset_endpoints?page[size]=4")


def _fields(headers: dict[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    pairs = {"host": HOST.removeprefix("http://"), **headers}
    return tuple((name.lower().encode(), value.encode()) for name, value in pairs.items())


@section("Errors")
def test_no_request_makes_the_simulator_fail_or_hang(make_service, caplog):
    service = make_service(days=2, routers=30)

    with caplog.at_level(logging.WARNING):
        wrong = asyncio.run(fuzz(service.app, SEED, COUNT))

    assert wrong == []
    assert [record.getMessage() for record in caplog.records] == []


async def walk(
    service: Service, path: str, key: str, between: Callable[[], Any] | None = None
) -> list[str]:
    """Return the keys of the records of all pages; `between` runs after each page."""
    found, headers = [], _fields(BEARER if path.startswith("/api/v3") else keys())
    while path:
        answer = await ask(service.app, Request("GET", path.encode(), headers))
        assert answer.status == 200, answer.body
        page = answer.json()
        found += [r[key]["id"] if key == "action" else r[key] for r in page["data"]]
        link = page["links"].get("next") if "links" in page else page["meta"]["next"]
        path = (link or "").removeprefix(HOST)
        if between is not None:
            await between()
    return found


def writes(service: Service, fuzzer: Fuzzer, methods: tuple[str, ...]) -> Callable[[], Any]:
    """Return a function that makes some writes with the given methods."""

    async def write() -> None:
        for _ in range(3):
            request = fuzzer.write()
            if request.method in methods:
                fuzzer.learn(request, await ask(service.app, request))

    return write


async def walk_while_others_write(
    service: Service, path: str, key: str, seed: int, methods: tuple[str, ...]
) -> None:
    """Compare a walk during writes with walks before and after it."""
    fuzzer = Fuzzer(seed)
    for name in ("groups", "users", "alert_rules", "alert_push_destinations"):
        request = Request("GET", f"/api/v2/{name}/?limit=20".encode(), _fields(keys()))
        fuzzer.learn(request, await ask(service.app, request))
    before = await walk(service, path, key)
    during = await walk(service, path, key, writes(service, fuzzer, methods))
    after = await walk(service, path, key)

    assert len(during) == len(set(during)), f"{path}: repeated"
    assert set(before) & set(after) <= set(during), f"{path}: lost"


@pytest.mark.proof
@section("Endpoints: General conventions")
def test_walk_by_id_or_cursor_loses_and_repeats_nothing_while_others_write_and_delete(make_service):
    service = make_service(days=1, routers=25)
    paths = {f"/api/v2/{path}": key for path, key in WALKS.items()}
    paths |= {f"/api/v3/beta/{path}": "id" for path in V3_WALKS}
    methods = ("POST", "PUT", "PATCH", "DELETE")

    for number, (path, key) in enumerate(paths.items()):
        asyncio.run(walk_while_others_write(service, path, key, SEED + number, methods))


@section("Endpoints: General conventions")
@pytest.mark.parametrize("path", OFFSET_WALKS)
def test_walk_by_offset_loses_and_repeats_nothing_while_others_create(make_service, path):
    service = make_service(days=1, routers=25)
    key, methods = OFFSET_WALKS[path], ("POST", "PUT", "PATCH")

    asyncio.run(walk_while_others_write(service, f"/api/v2/{path}", key, SEED, methods))
