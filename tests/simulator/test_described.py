"""Lists that endpoint files describe: served as the service serves its own, and as the truth."""

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.endpoints import read_own
from tests.simulator.sections import section
from tests.support.service import BEARER, HOST, Record, Service, is_validation, start

DESCRIBED = Path(__file__).parent / "described.toml"


@pytest.fixture(scope="module")
def described() -> Service:
    return started()


def started(**options: object) -> Service:
    return start(**{"routers": 8, "days": 3, "endpoints": (DESCRIBED,), **options})


def v3(service: Service, path: str) -> Record:
    page: Record = service.ask("GET", f"/api/v3/{path}", headers=BEARER).json()
    return page


def walk_v3(service: Service, path: str) -> list[Record]:
    found: list[Record] = []
    while path:
        page = v3(service, path)
        found += page["data"]
        path = (page["links"]["next"] or "").removeprefix(f"{HOST}/api/v3/")
    return found


def lines(records: list[Record]) -> list[str]:
    """Return records as sorted texts, with one host and without the id that the truth adds."""
    bare = [{name: value for name, value in r.items() if name != "_device"} for r in records]
    return sorted(json.dumps(r, sort_keys=True).replace("//us0.", "//") for r in bare)


def queries(service: Service, name: str) -> list[dict[str, str]]:
    """Return the queries that read a whole list, each by its own cursor."""
    routers = service.router_ids()
    oldest_first = {"order_by": "created_at_timeuuid"}
    match name:
        case "depots":
            return [{"id__gt": "0"}]
        case "site/visits":
            return [{"router__in": ",".join(routers), **oldest_first}]
        case "readings":
            return [{"router": id_, **oldest_first} for id_ in routers]
        case "badges":
            depots = [record["id"] for record in service.walk("depots/?id__gt=0")]
            return [{"depot__in": ",".join(depots)}]
    return [{}]


@section("Simulator: described lists")
@pytest.mark.parametrize(
    "path", ["depots", "site/visits", "readings", "badges", "audits", "outings"]
)
def test_described_list_of_v2_is_the_truth_by_its_cursor(described: Service, path: str):
    hour_ago = "2026-06-15T17:00:00+00:00"  # newer records may not be visible yet
    name = path.rpartition("/")[2]
    walks = [
        list(described.walk(f"{path}/?{urlencode({'limit': 500, **query})}"))
        for query in queries(described, path)
    ]

    served = lines([record for walk in walks for record in walk])
    truth = described.truth(name)
    settled = truth if name in ("depots", "badges") else described.truth(name, until=hour_ago)
    if name == "audits":
        settled = [r for r in settled if r["action"]["timestamp"] >= "2026-06-13T18"]
    assert len(served) == len(set(served)) > 20
    assert set(lines(settled)) <= set(served) <= set(lines(truth))


@section("Simulator: described lists")
def test_described_list_of_v3_is_the_truth_page_by_page(described: Service):
    vaults = [one["id"] for one in walk_v3(described, "vaults?page[size]=50")]
    path = f"beta/lockers?filter[vault]={','.join(vaults)}&page[size]=50"

    lockers = walk_v3(described, path)

    assert lines(lockers) == lines(described.truth("lockers"))
    assert len(v3(described, path)["data"]) == 20  # the file's page_size
    assert v3(described, f"beta/lockers/{lockers[7]['id']}")["data"] == lockers[7]
    assert {link["relationships"]["vault"]["data"]["id"] for link in lockers} == set(vaults)


@section("Simulator: described lists")
def test_required_filter_is_required_and_a_page_has_as_many_records_as_described(described):
    assert is_validation(described.get("site/visits/"))
    assert is_validation(described.get("readings/?router__in=1"))
    assert described.ask("GET", "/api/v3/beta/lockers", headers=BEARER).status_code == 409
    assert len(described.records("depots/?id__gt=0&limit=500")) == 25
    assert described.get("depots").status_code == 301
    [record] = described.records("depots/?limit=1")
    assert described.page(f"depots/{record['id']}/") == record


@section("Simulator: described lists")
def test_described_lists_are_the_same_for_the_same_options_and_change_with_time():
    names = ("depots", "badges", "outings", "lockers", "visits", "audits")

    def truths(service: Service) -> dict[str, list[str]]:
        return {name: lines(service.truth(name)) for name in names}

    def ids(service: Service, name: str) -> set[str]:
        return {record["id"] for record in service.truth(name)}

    one, other = started(), started()
    before, vaults = truths(one), ids(one, "exchange_sites")
    assert truths(other) == before
    assert truths(started(seed=8))["depots"] != before["depots"]
    one.advance(days=8)
    other.advance(days=3)
    other.advance(days=5)
    after = truths(one)
    assert truths(other) == after
    assert set(before["visits"]) < set(after["visits"])
    assert set(before["audits"]) < set(after["audits"])
    assert all(set(before[name]) - set(after[name]) for name in ("depots", "outings", "lockers"))
    assert vaults - ids(one, "exchange_sites")
    assert ids(one, "exchange_sites") - vaults


@section("Simulator: described lists")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('[a]\nabout = "A."\nfeilds = []\n', ":3: there is no key feilds"),
        ('[a]\nabout = "A."\nfields = "id"\n', ":3: fields must be a TOML list"),
        ('[a]\nabout = "A."\nfields = ["nonsense"]\n', ":3: the kind of nonsense is not known"),
        ('[a]\nabout = "A."\napi = "v4"\n', ":3: the simulator serves v2 and v3"),
        ("[a]\n[a.columns.b]\nkind = 5\n", ":3: kind must be a TOML str"),
        ("[a]\nabout = \n", "(at line 2"),
        ('[routers]\nabout = "A."\n', "the simulator serves routers itself"),
        ('[a]\n[a.per]\nparameter = "b"\nsource = "bs"\npartition = "b"\n', "there is no list bs"),
    ],
)
def test_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, fault: str):
    (tmp_path / "own.toml").write_text(text)

    result = CliRunner().invoke(
        app, ["simulate", "--endpoints", str(tmp_path)], env={"COLUMNS": "300"}
    )

    assert result.exit_code == 2
    assert fault in result.output


def test_the_pipeline_reads_the_same_file():
    assert read_own([DESCRIBED])[1] == []
