"""Lists of another service: described by files, they are loaded exactly once as ours are."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fleetlake.endpoints import forget_own, own_services, read_own
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.endpoint_files import read_files
from fleetlake.endpoints.model import WindowFilters
from fleetlake.endpoints.relations import Thing
from fleetlake.errors import LakeError
from fleetlake.lake import open_lake
from fleetlake.loading.ingest import ingest
from fleetlake.loading.outcome import Outcome
from fleetlake.planning.intervals import Interval
from fleetlake.privacy.erase import erase
from fleetlake.reading.pages import window_parameters
from fleetlake.service.client import Client
from tests.support.sim import KEYS, NOW, Sim
from tests.support.tickets import ENDPOINT_FILE, TOKEN, Tickets

NAMES = ("ticket_list", "ticket_visits")


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@pytest.fixture
def tickets(sim: Sim, tmp_path, monkeypatch) -> Iterator[Tickets]:
    """Stand in a project that describes the second service."""
    (tmp_path / "fleetlake.toml").touch()
    (tmp_path / "endpoints").mkdir()
    (tmp_path / "endpoints" / "tickets.toml").write_text(ENDPOINT_FILE)
    monkeypatch.chdir(tmp_path)
    opened = int(NOW.timestamp()) - 100
    return Tickets(
        sim.transport,
        tickets=[{"number": f"T{n}", "router": n, "opened": opened + n} for n in range(8)],
        visits=[
            {"visit": f"V{n}", "at": ms(NOW - timedelta(hours=n)), "by": "Jo"} for n in range(1, 9)
        ],
    )


def load(sim: Sim, tickets: Tickets, **more: object) -> list[Outcome]:
    settings = sim.settings(service_tokens={"tickets": TOKEN}, retry_seconds=0, **more)
    return ingest(settings, NAMES, transport=tickets)


def rows(sim: Sim, sql: str) -> list[tuple]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def test_its_lists_are_loaded_page_by_page_and_once(sim, tickets):
    first = load(sim, tickets)
    second = load(sim, tickets)

    assert [outcome.added for outcome in first] == [8, 8]
    assert [(outcome.added, outcome.changed) for outcome in second] == [(0, 0)] * 2
    assert rows(sim, "select count(*), count(distinct number) from raw.ticket_list") == [(8, 8)]
    assert rows(sim, "select min(opened) from raw.ticket_list") == [(NOW - timedelta(seconds=100),)]
    held = rows(sim, 'select visit, "at", _extra->>$$by$$ from raw.ticket_visits order by visit')
    assert held == [(f"V{n}", NOW - timedelta(hours=n), "Jo") for n in range(1, 9)]


def test_a_changed_ticket_has_two_versions_and_a_closed_one_ends(sim, tickets):
    load(sim, tickets)
    tickets.tickets[3]["router"] = 77
    del tickets.tickets[7]
    load(sim, tickets)

    versions = rows(
        sim, "select number, count(*) from raw.ticket_list group by all having count(*) > 1"
    )
    assert versions == [("T3", 2)]
    ended = rows(sim, "select number from raw.ticket_list where valid_to is not null order by 1")
    assert ended == [("T3",), ("T7",)]


def test_a_window_is_asked_in_the_services_own_times_and_operators(sim, tickets):
    load(sim, tickets)
    sim.advance(3600)
    tickets.visits.append({"visit": "V0", "at": ms(NOW) + 1})
    tickets.asked.clear()

    [_, visits] = load(sim, tickets)

    assert visits.added == 1
    [asked] = [r for r in tickets.asked if r.url.path == "/v1/visits"][:1]
    until = float(asked.url.params["to"])
    assert abs(until - ms(NOW + timedelta(hours=1))) < 120_000
    assert int(asked.url.params["from"]) < ms(NOW)


def test_an_error_with_status_200_fails_the_stream_and_shows_no_token(sim, tickets):
    tickets.failures = 100

    outcomes = load(sim, tickets)

    assert all("returned 200 with an error" in str(outcome.error) for outcome in outcomes)
    assert not any(TOKEN[:8] in str(outcome.error) for outcome in outcomes)
    assert rows(sim, "select count(*) from raw.ticket_list") == [(0,)]


def test_it_is_read_once_for_all_accounts_of_the_first_service(sim, tickets):
    west = {name: value for name, value in KEYS.items() if name != "v3_token"}

    outcomes = load(sim, tickets, profiles={"west": west})

    assert [(one.endpoint, one.profile) for one in outcomes] == [(n, "default") for n in NAMES]


def test_its_clock_says_nothing_about_the_first_service(sim, tickets):
    settings = sim.settings(service_tokens={"tickets": TOKEN})

    async def ask() -> int:
        async with Client(settings, transport=tickets) as client:
            service = own_services()["tickets"]
            await client.get("tickets", {"per_page": "3"}, len, service=service)
            return client.clock.dates

    assert asyncio.run(ask()) == 0


def test_a_wrong_token_names_its_setting(sim, tickets):
    settings = sim.settings(service_tokens={"tickets": "wrong"}, retry_seconds=0)

    outcomes = ingest(settings, NAMES, transport=tickets)

    assert all("FLEETLAKE_SERVICE_TOKENS__TICKETS" in str(outcome.error) for outcome in outcomes)


def test_a_refused_path_names_the_table_that_describes_the_service(sim, tickets):
    tickets.status = 403

    outcomes = load(sim, tickets)

    assert all("root of [services.tickets] is wrong" in str(one.error) for one in outcomes)


def test_the_keys_of_the_first_service_never_go_to_the_second(sim, tickets):
    load(sim, tickets)

    keys = {"portal-key", "admin-key", "simulator-token"}
    assert tickets.asked
    for request in tickets.asked:
        assert not any(key in value for key in keys for value in request.headers.values())


def test_a_device_is_erased_from_its_lists_and_not_while_one_is_described_nowhere(sim, tickets):
    load(sim, tickets)
    sim.ingest("routers", transport=tickets)
    router = int(sim.truth("routers")[0]["id"])
    tickets.tickets[2]["router"] = router
    load(sim, tickets)
    file = Path("endpoints/tickets.toml")
    text = file.read_text()

    file.unlink()
    forget_own()
    with pytest.raises(LakeError, match=r"raw\.ticket_list has rows"):
        erase(sim.settings(), [(Thing.ROUTER, router)])
    file.write_text(text)
    forget_own()
    erase(sim.settings(), [(Thing.ROUTER, router)])

    assert rows(sim, f"select * from raw.ticket_list where router_id = {router}") == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('records = ["result", "items"]', 'record = ["x"]', "3: there is no key record."),
        ("https://tickets.example/v1", "http://tickets.example/v1", "2: root: plain http exposes"),
        (
            'api = "tickets"',
            'api = "tikets"',
            "there is no service 'tikets'. Did you mean tickets?",
        ),
        ('window = ["from >", "to <="]', 'window = ["from", "to"]', "a lower and an upper bound"),
        ("[services.tickets]", "[services.v2]", "'v2' is no name for a service"),
    ],
)
def test_a_service_that_is_described_wrongly_is_named(tmp_path, old, new, fault):
    file = tmp_path / "tickets.toml"
    file.write_text(ENDPOINT_FILE.strip().replace(old, new, 1))

    _, faults = read_own([file])

    assert any(fault in str(one) for one in faults), [*map(str, faults)]


def test_a_service_that_two_files_describe_is_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(ENDPOINT_FILE.split("\n\n")[0])

    [fault] = read_files([tmp_path / "a.toml", tmp_path / "b.toml"])[1]
    assert "b.toml" in str(fault)
    assert "described twice" in str(fault)


def test_a_file_may_use_a_service_that_another_describes(tmp_path):
    services, lists = ENDPOINT_FILE.strip().split("\n\n", 1)
    (tmp_path / "a.toml").write_text(lists)
    (tmp_path / "b.toml").write_text(services)

    found, faults = read_files([tmp_path / "a.toml", tmp_path / "b.toml"])

    assert faults == []
    assert {one.endpoint.service.root for one in found} == {"https://tickets.example/v1/"}


def test_a_service_that_ignores_its_filters_doubles_nothing(sim, tickets):
    load(sim, tickets)
    tickets.is_filtering = False
    sim.advance(7200)
    tickets.visits.append({"visit": "V0", "at": ms(NOW) + 1})
    tickets.visits.append({"visit": "last of all", "at": 253_402_300_799_999})

    [_, visits] = load(sim, tickets)

    assert visits.added == 2
    assert rows(sim, "select count(*), count(distinct visit) from raw.ticket_visits") == [(10, 10)]


@pytest.mark.parametrize(
    ("kind", "since", "until"),
    [(Kind.EPOCH_S, "1781524799", "1781528401"), (Kind.EPOCH_MS, "1781524799999", "1781528400001")],
)
def test_a_window_in_epoch_times_has_whole_numbers_and_leaves_nothing_out(kind, since, until):
    window = WindowFilters(start="from", end="to", operators=(">", "<"))
    hour = Interval(NOW, NOW + timedelta(hours=1, microseconds=1))

    assert window_parameters(window, hour, kind=kind) == {"from": since, "to": until}
