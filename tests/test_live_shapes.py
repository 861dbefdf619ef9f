"""The shapes of the live service: each member in its column, and the fast reader on every page."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetlake.decoding.arrow import EXTRA, read_page
from fleetlake.decoding.records import PAGES, reader_of
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake import open_lake
from fleetlake.monitoring.status import lake_status
from fleetsim.live_shapes import info_of_type_only
from tests.support.cases import REQUESTED
from tests.support.sim import KEYS, NOW, Sim, new_sim
from tests.test_load import key_of
from tests.test_records import a_page

COMPARED = {name: e for name, e in REQUESTED.items() if name != "batteries"}
"""Each load of batteries reads them at a later moment."""

HISTORIES = [e for e in REQUESTED.values() if e.mode is Mode.HISTORY and e.name in COMPARED]
HOST = re.compile(rb'https?://([^/"]+)/api/v[23]/')


@pytest.fixture(scope="module")
def pages() -> Counter[str]:
    """Return how many pages each reader has read."""
    return Counter()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, pages: Counter[str]) -> Sim:
    """Return a service with live shapes of which every list was loaded once."""
    reader_of.cache_clear()
    PAGES.clear()
    sim = new_sim(tmp_path_factory.mktemp("live"), scenario="live-shapes")
    outcomes = sim.ingest()
    pages.update(PAGES)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    return sim


def test_the_fast_reader_reads_every_page_of_strict_json(live: Sim, pages: Counter[str]) -> None:
    assert live.calls("routers") > 0
    assert pages["fast"] > 60
    assert pages["as sent"] == pages["shallow"] == 0


def test_lists_that_begin_with_an_empty_page_or_end_with_an_empty_link_are_read_whole(
    live: Sim,
) -> None:
    headers = live.settings().keys()
    first = live.ask("GET", "/api/v2/groups/?id__gt=0", headers=headers).json()
    last = live.ask("GET", "/api/v2/groups/?id__gt=1&limit=500", headers=headers).json()
    with open_lake(live.settings().lake, read_only=True) as lake:
        counts = {
            name: lake.rows(f"select count(distinct id) from raw.{name} where valid_to is null")
            for name in ("groups", "device_apps", "routers")
        }

    assert (first["data"], "offset=0" in first["meta"]["next"]) == ([], True)
    assert (len(last["data"]) > 0, last["meta"]["next"]) == (True, "")
    assert counts == {name: [(len(live.truth(name)),)] for name in counts}


def test_lists_of_v3_are_served_in_live_shapes_too(live: Sim) -> None:
    accepted = "application/vnd.api+json"
    headers = {"Authorization": f"Bearer {KEYS['v3_token']}", "Accept": accepted}
    found = live.ask("GET", "/api/v3/beta/asset_endpoints", headers=headers).json()
    bought = live.ask("GET", "/api/v3/beta/subscriptions", headers=headers).json()

    first = found["data"][0]
    assert (found["links"]["next"], "self" in first["links"]) == (None, True)
    assert isinstance(first["relationships"]["subscriptions"]["data"], list)
    assert isinstance(bought["data"][0]["attributes"]["quantity"], float)


def test_no_member_is_left_without_a_column(live: Sim) -> None:
    with open_lake(live.settings().lake, read_only=True) as lake:
        left = {
            name: lake.rows(
                f"select {EXTRA}::varchar from raw.{name} where {EXTRA} is not null limit 1"
            )
            for name in REQUESTED
        }
        assert lake.rows("select member from meta.schema_drift") == []

    assert {name: rows for name, rows in left.items() if rows} == {}


def test_each_column_has_the_value_that_the_service_had(live: Sim) -> None:
    assert different(live, are_cells_in_both_bases=True) == {}


@pytest.mark.proof
def test_far_times_and_hostile_numbers_are_in_the_columns_as_the_service_had_them(
    tmp_path: Path,
) -> None:
    sim = new_sim(tmp_path, scenario="hostile-values", days=1)
    outcomes = sim.ingest()

    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert different(sim) == {}
    with open_lake(sim.settings().lake, read_only=True) as lake:
        [(huge, far)] = lake.rows(
            "select count(*) filter (period > 1e12), count(*) from raw.net_device_usage_samples"
        )
        [(early,)] = lake.rows("select count(*) from raw.alerts where detected_at < '2000-01-01'")
        assert lake.rows("select * from meta.quarantine") == []
    assert 0 < huge < far / 8
    assert early > 0


def different(sim: Sim, *, are_cells_in_both_bases: bool = False) -> dict[str, Any]:
    """Return a record of each table whose columns differ from the service's truth."""
    differences = {}
    with open_lake(sim.settings().lake, read_only=True) as lake:
        for name, endpoint in COMPARED.items():
            wanted = truth_of(sim, endpoint, are_cells_in_both_bases=are_cells_in_both_bases)
            names = compared(endpoint)
            current = "where valid_to is null" if endpoint.mode is Mode.HISTORY else ""
            listed = ", ".join(f'"{column}"' for column in (*endpoint.key, *names))
            rows = lake.rows(f"select {listed} from raw.{name} {current}")
            depth = len(endpoint.key)
            found = {row[:depth]: row[depth:] for row in rows}
            odd = [key for key, row in found.items() if row != wanted.get(key)]
            if odd or not found:
                differences[name] = odd and (odd[0], names, found[odd[0]], wanted.get(odd[0]))
    return differences


def test_only_5g_modems_have_5g_measurements(live: Sim) -> None:
    with open_lake(live.settings().lake, read_only=True) as lake:
        found = lake.rows(
            "select service_type, count(rsrp5g) = count(*), count(rsrp5g), "
            "count(rssnr) = count(*) from raw.net_device_metrics group by 1 order by 1"
        )

    assert ("5G", True) in [row[:2] for row in found]
    assert [row[2] for row in found if row[0] != "5G"] == [0, 0]
    assert [row[3] for row in found if row[0]] == [True, True]


def compared(endpoint: Endpoint) -> list[str]:
    """Return the columns to compare: not those whose text contains the host of the service."""
    stamped = endpoint.fan_out.partition if endpoint.fan_out and endpoint.fan_out.is_stamped else ""
    return [
        column.name
        for column in endpoint.columns
        if column.kind is not Kind.JSON
        and column.name not in {"resource_url", "links_self", stamped}
    ]


def truth_of(
    sim: Sim, endpoint: Endpoint, *, are_cells_in_both_bases: bool
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the values of each record of the service, by its key, as columns hold them."""
    records = [info_of_type_only(endpoint.name, record) for record in sim.truth(endpoint.name)]
    keys = [key_of(endpoint, record) for record in records]
    for record in records:
        record.pop("_device", None)
        cell = record.get("cell_id")
        if cell and are_cells_in_both_bases:
            record["cell_id"] = f"{cell} ({int(cell):#x})"
    parts = [records[first : first + 500] for first in range(0, len(records), 500)]
    pages = [read_page(endpoint, a_page(endpoint, part)) for part in parts]
    rows = [row for page in pages for row in page.rows.to_pylist()]
    return {
        key: tuple(row[name] for name in compared(endpoint))
        for key, row in zip(keys, rows, strict=True)
    }


def test_a_placeholder_that_a_list_serves_at_each_load_is_one_row_and_nothing_waits_for_it(
    live: Sim,
) -> None:
    live.ingest("configuration_managers")

    with open_lake(live.settings().lake, read_only=True) as lake:
        found = lake.rows(
            "select endpoint, raw like '%/routers/None/%', times_seen, resolved_at is not null "
            "from meta.quarantine"
        )

    assert found == [("configuration_managers", True, 2, True)]


class Hosts(httpx.AsyncBaseTransport):
    """Notes the hosts in the URLs of each list's first page, in each load."""

    def __init__(self, sim: Sim) -> None:
        self._inner = sim.transport
        self.loads: list[dict[str, list[bytes]]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        body, _, _ = (await response.aread()).partition(b'"meta"')
        self.loads[-1].setdefault(request.url.path, HOST.findall(body))
        return response


@dataclass(frozen=True)
class Reloaded:
    """A service that was loaded three times: its records and their hosts at each load."""

    sim: Sim
    served: list[dict[str, list[dict[str, Any]]]]
    hosts: list[dict[str, list[bytes]]]


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory: pytest.TempPathFactory) -> Reloaded:
    """Return a service that was loaded again two hours later, and once more at that time."""
    sim = new_sim(tmp_path_factory.mktemp("reloaded"), scenario="live-shapes")
    transport, served = Hosts(sim), []
    names = [endpoint.name for endpoint in HISTORIES]
    for hours in (0, 2, 0):
        sim.advance(hours * 3600)
        served.append({name: sim.truth(name) for name in names})
        transport.loads.append({})
        outcomes = sim.ingest(*names, transport=transport)
        assert [outcome.error for outcome in outcomes if outcome.error] == []
        for _ in range(5):  # each read moves the hosts of all others
            sim.ask("GET", "/api/v2/accounts/", headers=sim.settings().keys())
    return Reloaded(sim, served, transport.loads)


@pytest.mark.proof
def test_a_history_has_a_version_for_each_true_change_and_none_for_hosts_or_uptimes(
    reloaded: Reloaded,
) -> None:
    wanted, found = {}, {}
    with open_lake(reloaded.sim.settings().lake, read_only=True) as lake:
        for endpoint in HISTORIES:
            wanted[endpoint.name] = versions_of(endpoint, reloaded.served)
            rows = lake.rows(f"select {', '.join(endpoint.key)} from raw.{endpoint.name}")
            found[endpoint.name] = Counter(rows)

    assert {name: found[name] for name in found if found[name] != wanted[name]} == {}
    assert {len(found[name]) for name in ("routers", "net_devices")} == {6, 25}
    assert sum(found["users_v3"].values()) > len(found["users_v3"])  # two have logged in


@pytest.mark.proof
def test_hosts_and_uptimes_were_others_at_the_later_loads(reloaded: Reloaded) -> None:
    first, *later = reloaded.hosts
    linked = {path for path, hosts in first.items() if hosts}
    moved = {
        path for path in linked for load in later if load.get(path, first[path]) != first[path]
    }
    uptimes = [
        {record["id"]: record["uptime"] for record in served["net_devices"] if record["uptime"]}
        for served in reloaded.served
    ]
    grew = [id_ for id_, uptime in uptimes[0].items() if uptimes[1].get(id_, 0) > uptime]

    assert len(moved) > len(linked) * 2 / 3  # a few lists may get the same hosts by chance
    assert {path.split("/")[2] for path in moved} == {"v2", "v3"}
    assert len(grew) > 5


def test_status_finds_no_member_without_a_column_and_no_value_that_a_column_refused(
    live: Sim,
) -> None:
    with open_lake(live.settings().lake, read_only=True) as lake:
        found = lake_status(lake, now=NOW, calls_per_minute=500)
        assert lake.rows("select endpoint, member from meta.schema_drift") == []

    odd = {
        stream.endpoint: (stream.drifted, stream.misfits, stream.quarantined)
        for stream in found.streams
        if stream.drifted or stream.misfits or stream.quarantined
    }
    assert odd == {}


def versions_of(
    endpoint: Endpoint, served: list[dict[str, list[dict[str, Any]]]]
) -> Counter[tuple[Any, ...]]:
    """Return how many versions each record has, by what the service had at each load."""
    versions: Counter[tuple[Any, ...]] = Counter()
    current: dict[tuple[Any, ...], Any] = {}
    for load in served:
        before, current = current, {}
        for record in load[endpoint.name]:
            key = key_of(endpoint, record)
            current[key] = content_of(endpoint, record)
            versions[key] += before.get(key) != current[key]
    return versions


def content_of(endpoint: Endpoint, record: dict[str, Any]) -> Any:
    """Return what a change of starts a version: neither untracked members nor hosts."""
    kept = json.loads(json.dumps(record))
    for column in endpoint.columns:
        *parents, last = column.path
        inner = kept
        for parent in parents:
            inner = inner.get(parent) or {}
        if not column.is_tracked:
            inner.pop(last, None)
    return kept
