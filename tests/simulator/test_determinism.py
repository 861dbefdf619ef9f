import random
from datetime import timedelta

import pytest

from fleetsim.resources import RESOURCES
from tests.simulator.sections import section
from tests.simulator.test_conventions import with_filter
from tests.support.service import Service, start

LISTED = sorted(n for n, r in RESOURCES.items() if r.rows is not None or r.series is not None)


def first_pages(service: Service, names: list[str]) -> dict[str, bytes]:
    """Return the bytes of the first two pages of each resource, requested in this order."""
    found = {}
    for name in names:
        query = f"{with_filter(service, name)}limit=60"
        found[name] = service.get(query).content
        following = service.page(query)["meta"]["next"]
        if following:
            found[name] += service.ask("GET", following).content
    return found


@pytest.mark.proof
@section("Simulator: determinism")
def test_equal_options_give_identical_bytes_for_any_order_of_requests():
    pages = first_pages(start(), LISTED)

    assert all(b'"data"' in body for body in pages.values())
    for order in (1, 2):
        shuffled = random.Random(order).sample(LISTED, len(LISTED))
        assert first_pages(start(), shuffled) == pages


@section("Simulator: determinism")
def test_another_seed_gives_another_fleet():
    first, second = (first_pages(start(seed=seed), ["routers", "alerts"]) for seed in (1, 2))

    assert first["routers"] != second["routers"]
    assert first["alerts"] != second["alerts"]


@section("Simulator: determinism")
def test_responses_at_a_time_do_not_depend_on_how_the_clock_reached_it():
    walked = start(days=3)
    for _ in range(5):
        walked.advance(hours=5)
        walked.get("alerts/?limit=500")
    leapt = start(days=3)

    leapt.advance(hours=25)

    assert first_pages(walked, LISTED) == first_pages(leapt, LISTED)


@section("Simulator: truth")
@pytest.mark.parametrize("seed", range(2))
def test_every_served_record_is_in_the_truth(seed):
    service = start(seed=seed, days=1)

    for name in ("alerts", "activity_logs", "failovers"):
        served = {str(record) for record in service.walk(f"{name}/?limit=500")}
        main_host = {text.replace("us0.", "") for text in served}
        assert main_host <= {str(record) for record in service.truth(name)}


@section("Simulator: clock")
def test_frozen_clock_moves_only_on_request(fresh: Service):
    before = fresh.now()
    assert fresh.now() == before

    fresh.advance(seconds=90)

    assert (fresh.now() - before).total_seconds() == 90


@section("Simulator: clock")
@pytest.mark.parametrize("speed", [1.0, 3600.0])
def test_clock_runs_at_its_speed(speed):
    simulation = start(speed=speed).app.state.simulation
    wall = [100.0]
    simulation.clock.wall = lambda: wall[0]
    simulation.clock.__post_init__()
    before = simulation.clock.now()

    wall[0] += 10

    assert simulation.clock.now() - before == round(10 * speed * 1e6)


@section("Simulator: clock")
def test_stopped_clock_continues_from_where_it_stopped(fresh: Service):
    before = fresh.now()
    assert fresh.ask("POST", "/sim/clock", json={"speed": 1_000_000}).status_code == 200
    while fresh.now() == before:
        pass

    assert fresh.ask("POST", "/sim/clock", json={"speed": 0}).status_code == 200

    stopped = fresh.now()
    assert stopped > before
    assert fresh.now() == stopped
    fresh.advance(hours=1)
    assert fresh.now() == stopped + timedelta(hours=1)


@section("Simulator: clock")
@pytest.mark.parametrize("speed", [-1, 1e308, 10**400, "1", None, [], True])
def test_clock_refuses_an_impossible_speed(fresh: Service, speed):
    assert fresh.ask("POST", "/sim/clock", json={"speed": speed}).status_code == 400


@section("Simulator: truth")
def test_truth_can_end_at_an_instant(fresh: Service):
    alerts = fresh.truth("alerts")
    limit = alerts[len(alerts) // 2]["created_at"]

    before = fresh.truth("alerts", until=limit)

    assert before == alerts[: len(alerts) // 2]


@section("Simulator: truth")
def test_truth_names_the_main_host_only(service: Service):
    assert {r["account"].split("/")[2] for r in service.truth("routers")} == {"service.test"}
    assert {r["account"].split("/")[2] for r in service.records("routers/?limit=500")} > {
        "service.test"
    }


@section("Simulator: truth")
def test_truth_of_an_unknown_resource_is_not_found(service: Service):
    assert service.ask("GET", "/sim/truth/nonsense").status_code == 404
