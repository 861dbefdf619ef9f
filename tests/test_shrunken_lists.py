"""A list that has lost most of its records closes no versions until a person accepts it."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from fleetlake import cli
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import ListShrank, UsageError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.audit_trail import EventKind, read_events
from fleetlake.lake.loads import ShrinkRule, Whole
from fleetlake.loading.ingest import ingest
from fleetlake.loading.outcome import Outcome
from fleetlake.loading.quarantine import acknowledge_quarantined
from tests.support.cases import use_rows
from tests.support.loads import commit
from tests.support.sim import KEYS, NOW, Sim, loaded_sim
from tests.test_lake import load_of

BATTERIES = ENDPOINTS["batteries"]
ROUTERS = ENDPOINTS["routers"]
ACCEPTED = Whole(shrink=ShrinkRule(is_accepted=True))

Records = list[dict[str, Any]]
Change = Callable[[Records], Records]


class Changed(httpx.AsyncBaseTransport):
    """The simulated service, with the records of some lists changed in transit.

    `answers` is the number of responses changed per list; `asked` counts all of them.
    """

    def __init__(self, sim: Sim, answers: int = 1000, **changes: Change) -> None:
        self._inner, self._changes, self._left = sim.transport, changes, answers
        self.asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        name = request.url.path.strip("/").split("/")[-1]
        # A client requests a page of one record to read the service's clock.
        if name not in self._changes or request.url.params.get("limit") == "1":
            return response
        self.asked += 1
        if self.asked > self._left:
            return response
        answer = json.loads(await response.aread())
        answer["data"] = self._changes[name](answer["data"])
        answer.get("meta", {})["next"] = None
        return httpx.Response(200, json=answer, headers={"date": response.headers["date"]})


def nothing(_records: Records) -> Records:
    return []


def first(count: int) -> Change:
    return lambda records: records[:count]


def unreadable(records: Records) -> Records:
    return [{**record, "id": None} for record in records]


def load(sim: Sim, *names: str, **changes: Change) -> list[Outcome]:
    return sim.ingest(*names, transport=Changed(sim, **changes))


def current(sim: Sim, name: str = "routers") -> set[Any]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return {id_ for (id_,) in lake.rows(f"select id from raw.{name} where valid_to is null")}


def ids(sim: Sim, name: str = "routers") -> set[int]:
    return {int(record["id"]) for record in sim.truth(name)}


@pytest.fixture(scope="module")
def loaded(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service with ten routers, loaded into a lake to copy."""
    folder = tmp_path_factory.mktemp("fleet")
    return loaded_sim(folder, empty_lake, "routers", "batteries", routers=10, days=1)


@pytest.fixture
def fleet(loaded: Sim, tmp_path: Path) -> Sim:
    """Return a service with ten routers, loaded into this test's own lake."""
    shutil.copytree(loaded.folder / "lake", tmp_path / "lake")
    return Sim(loaded.app, tmp_path)


@pytest.mark.proof
def test_an_emptied_list_closes_nothing_and_is_reported_at_each_load(fleet: Sim) -> None:
    outcomes = [load(fleet, "routers", routers=nothing)[0] for _ in range(3)]

    assert current(fleet) == ids(fleet)
    for outcome in outcomes:
        assert isinstance(outcome.error, ListShrank)
        assert "routers no longer lists 10 of 10 records" in outcome.error.what
        assert "--accept-shrunk routers" in outcome.error.remedy
        assert outcome.error.exit_code == 6


def test_a_list_that_was_empty_once_is_requested_again_and_is_not_an_error(fleet: Sim) -> None:
    service = Changed(fleet, answers=1, routers=nothing)

    [outcome] = fleet.ingest("routers", transport=service)

    assert outcome.error is None
    assert (outcome.added, outcome.changed, service.asked) == (0, 0, 2)
    assert current(fleet) == ids(fleet)


def test_a_shrunken_list_of_several_pages_is_read_twice_and_not_a_third_time(
    fleet: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_rows(monkeypatch, replace(ENDPOINTS["firmwares"], page_size=5))
    fleet.ingest("firmwares")
    reads = []

    class SixOnly(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await fleet.transport.handle_async_request(request)
            if "firmwares" not in request.url.path or request.url.params["limit"] == "1":
                return response
            offset = int(request.url.params.get("offset", "0"))
            reads.append(offset)
            answer = json.loads(await response.aread())
            if offset:
                answer["data"], answer["meta"]["next"] = answer["data"][:1], None
            return httpx.Response(200, json=answer, headers={"date": response.headers["date"]})

    [outcome] = fleet.ingest("firmwares", transport=SixOnly())

    assert isinstance(outcome.error, ListShrank)
    assert reads == [0, 5] * 2
    assert current(fleet, "firmwares") == ids(fleet, "firmwares")


def test_records_that_arrive_in_a_shrunken_list_are_kept(fleet: Sim) -> None:
    def renamed_and_new(records: Records) -> Records:
        return [{**records[0], "name": "renamed"}, {**records[1], "id": "990001"}]

    [outcome] = load(fleet, "routers", routers=renamed_and_new)

    assert isinstance(outcome.error, ListShrank)
    assert (outcome.added, outcome.changed) == (2, 1)
    assert current(fleet) == {*ids(fleet), 990001}
    with open_lake(fleet.settings().lake, read_only=True) as lake:
        [(names,)] = lake.rows("select count(*) from raw.routers where name = 'renamed'")
    assert names == 1


@pytest.mark.proof
def test_new_records_do_not_make_up_for_missing_ones(fleet: Sim) -> None:
    def others(records: Records) -> Records:
        return [{**record, "id": f"99{record['id']}"} for record in records]

    outcomes = [load(fleet, "routers", routers=others)[0] for _ in range(3)]

    assert all(isinstance(outcome.error, ListShrank) for outcome in outcomes)
    assert current(fleet) > ids(fleet)

    [fewer] = load(fleet, "routers", routers=lambda records: others(records)[:4])

    assert "16 of 20 records" in str(fewer.error)  # six of the ten counted records are too many
    assert len(current(fleet)) == 20


def test_a_record_removed_while_others_are_missing_is_closed(fleet: Sim) -> None:
    load(fleet, "routers", routers=first(4))

    [outcome] = load(fleet, "routers", routers=first(3))

    assert "6 of 10 records" in str(outcome.error)
    assert len(current(fleet)) == 9


def test_an_accepted_list_closes_missing_records_and_is_no_longer_an_error(fleet: Sim) -> None:
    load(fleet, "routers", routers=first(4))

    service = Changed(fleet, routers=first(4))
    [accepted] = fleet.ingest("routers", transport=service, accept_shrunk=["routers"])
    [after] = load(fleet, "routers", routers=first(4))

    assert (accepted.error, accepted.changed) == (None, 6)
    assert (after.error, after.changed) == (None, 0)
    assert len(current(fleet)) == 4


def test_the_refusal_ends_when_the_records_reappear(fleet: Sim) -> None:
    load(fleet, "routers", routers=nothing)

    [back] = fleet.ingest("routers")

    assert (back.error, back.added, back.changed) == (None, 0, 0)
    with open_lake(fleet.settings().lake, read_only=True) as lake:
        assert lake.rows("select * from meta.absent") == []
        assert lake.rows("select count(*) from raw.routers") == [(10,)]


@pytest.mark.proof
def test_each_change_of_a_shrunken_list_is_one_event_and_not_one_per_load(fleet: Sim) -> None:
    for _ in range(3):
        load(fleet, "routers", routers=first(4))
    fleet.ingest("routers")
    for _ in range(2):
        service = Changed(fleet, routers=first(4))
        fleet.ingest("routers", transport=service, accept_shrunk=["routers"])

    with open_lake(fleet.settings().lake, read_only=True) as lake:
        found = read_events(lake)
    assert {(event.kind, event.endpoint, event.rows) for event in found} == {
        (EventKind.SHRUNK_LIST, "routers", 6)
    }
    assert [event.summary for event in found] == [
        "routers lost too many records at once; their versions stay open.",
        "Missing records of routers are no longer missing.",
        "A person accepted that these records of routers are gone.",
    ]


@pytest.mark.parametrize(
    ("left", "closed"), [(5, 5), (4, 0), pytest.param(9, 1, marks=pytest.mark.proof)]
)
def test_a_list_may_lose_half_of_its_records_at_once(fleet: Sim, left: int, closed: int) -> None:
    [outcome] = load(fleet, "routers", routers=first(left))

    assert (outcome.error is None) == bool(closed)
    assert len(current(fleet)) == 10 - closed


def test_the_accepted_loss_is_a_setting(fleet: Sim) -> None:
    settings = fleet.settings(shrink_pct=90)

    [outcome] = ingest(settings, ["routers"], transport=Changed(fleet, routers=first(1)))

    assert outcome.error is None
    assert len(current(fleet)) == 1


def test_a_small_fleet_may_lose_most_of_its_routers(make_sim: Any) -> None:
    sim = make_sim(routers=3, days=1)
    sim.ingest("routers")

    [outcome] = load(sim, "routers", routers=first(1))

    assert outcome.error is None
    assert len(current(sim)) == 1


def test_a_list_of_unreadable_records_is_not_an_empty_list(fleet: Sim) -> None:
    [outcome] = load(fleet, "routers", routers=unreadable)

    assert (outcome.error, outcome.quarantined) == (None, 10)
    assert current(fleet) == ids(fleet)


@pytest.mark.proof
def test_a_record_that_cannot_be_read_keeps_its_version_until_it_is_acknowledged(
    fleet: Sim,
) -> None:
    def with_one_unreadable(records: Records) -> Records:
        return [*unreadable(records[:1]), *records[1:]]

    load(fleet, "routers", routers=with_one_unreadable)
    held = current(fleet)
    with open_lake(fleet.settings().lake) as lake:
        acknowledge_quarantined(lake, "routers")
    load(fleet, "routers", routers=with_one_unreadable)

    assert held == ids(fleet)
    assert len(current(fleet)) == 9


def test_batteries_of_missing_routers_are_still_read(fleet: Sim) -> None:
    before = current(fleet, "batteries")

    outcomes = load(fleet, "routers", "batteries", routers=nothing)

    assert [type(o.error) for o in outcomes] == [ListShrank, type(None)]
    assert current(fleet, "batteries") == before != set()


def test_batteries_are_closed_with_their_routers_without_a_second_acceptance(fleet: Sim) -> None:
    service = Changed(fleet, routers=nothing)

    outcomes = fleet.ingest("routers", "batteries", transport=service, accept_shrunk=["routers"])

    assert [o.error for o in outcomes] == [None, None]
    assert current(fleet) == current(fleet, "batteries") == set()


def test_one_empty_walk_of_a_fan_out_closes_nothing(lake_path: Path) -> None:
    batteries = [{"id": str(number), "router": str(number)} for number in range(1, 21)]
    walks = [tuple(range(1, 7)), tuple(range(7, 21))]
    whole = {"whole": Whole(asked=walks)}
    with open_lake(lake_path) as lake:
        commit(lake, load_of(BATTERIES, *batteries, **whole))

        one_empty = commit(lake, load_of(BATTERIES, *batteries[6:], **whole))
        one_gone = commit(lake, load_of(BATTERIES, *batteries[:19], **whole))

        [(closed,)] = lake.rows("select count(*) from raw.batteries where valid_to is not null")
    assert (one_empty.changed, one_empty.unconfirmed, one_empty.held) == (0, 6, 20)
    assert (one_gone.changed, one_gone.unconfirmed) == (1, 0)
    assert closed == 1


def test_records_that_a_fan_out_no_longer_requests_are_closed_in_any_number(
    lake_path: Path,
) -> None:
    batteries = [{"id": str(number), "router": str(number)} for number in range(1, 21)]
    with open_lake(lake_path) as lake:
        commit(lake, load_of(BATTERIES, *batteries, whole=Whole(asked=[range(1, 21)])))

        done = commit(lake, load_of(BATTERIES, *batteries[:6], whole=Whole(asked=[range(1, 7)])))

    assert (done.changed, done.unconfirmed) == (14, 0)


def test_an_account_that_sees_nothing_any_more_does_not_affect_another(fleet: Sim) -> None:
    sub = {**KEYS, "mgr_api_id": "subaccount-id", "mgr_api_key": "subaccount-key"}

    [outcome] = ingest(fleet.settings(**sub), ["routers"], transport=fleet.transport)

    assert isinstance(outcome.error, ListShrank)
    assert current(fleet) == ids(fleet)


def test_a_missing_record_that_another_account_reads_passes_to_it_and_stays_open(
    lake_path: Path,
) -> None:
    routers = [{"id": str(n), "name": f"r{n}"} for n in range(1, 11)]
    whole = {"whole": Whole(), "seen_at": NOW}

    def held(lake: Lake) -> list[tuple[Any, ...]]:
        return lake.rows(
            "select id, name, account_profile, valid_to is null from raw.routers "
            "where id = 10 order by valid_from, valid_to nulls last"
        )

    with open_lake(lake_path) as lake:
        commit(lake, load_of(ROUTERS, *routers, profile="one", **whole))
        moved = {**routers[9], "name": "moved"}
        partial = commit(lake, load_of(ROUTERS, *routers[:3], profile="one", **whole))
        at_one = held(lake)

        commit(lake, load_of(ROUTERS, moved, profile="another", **whole))
        at_another = held(lake)
        again = commit(lake, load_of(ROUTERS, *routers[:3], profile="one", **whole))
        accepted = load_of(ROUTERS, *routers[:3], profile="one", seen_at=NOW, whole=ACCEPTED)
        closed = commit(lake, accepted)

        assert held(lake) == at_another
        waiting = lake.rows("select record_key from meta.absent")

    assert (partial.unconfirmed, at_one) == (7, [(10, "r10", "one", True)])
    assert at_another == [(10, "r10", "one", False), (10, "moved", "another", True)]
    assert (again.unconfirmed, closed.changed, waiting) == (6, 6, [])


@pytest.mark.proof
def test_devices_missing_from_a_bulk_list_are_still_requested(make_sim: Any) -> None:
    names = ("net_device_metrics", "net_device_usage_samples")
    sim = make_sim(routers=6, days=1)
    sim.ingest("routers", "net_devices", *names)

    [metrics, samples] = load(sim, *names, net_device_metrics=nothing)

    assert metrics.error is None
    assert samples.skipped == 0


@pytest.mark.parametrize(
    ("names", "accepted", "said"),
    [
        ([], "alerts", "loses no rows"),
        (["groups"], "routers", "not among the endpoints to load"),
        ([], "rooters", "no endpoint called"),
    ],
)
def test_only_a_list_that_is_loaded_and_kept_as_history_can_be_accepted(
    fleet: Sim, names: list[str], accepted: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        fleet.ingest(*names, accept_shrunk=[accepted])


def test_the_command_refuses_a_shrunken_list_until_it_is_named_as_accepted(
    fleet: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Changed(fleet, routers=first(4))
    monkeypatch.setattr("fleetlake.loading.ingest.ingest", partial(ingest, transport=service))
    monkeypatch.setattr("fleetlake.settings.load_settings", fleet.settings)
    run = partial(CliRunner().invoke, cli.app)

    refused = run(["ingest", "routers"])
    held = current(fleet)
    accepted = run(["ingest", "routers", "--accept-shrunk", "routers"])

    assert isinstance(refused.exception, ListShrank)
    assert held == ids(fleet)
    assert (accepted.exit_code, len(current(fleet))) == (0, 4)
