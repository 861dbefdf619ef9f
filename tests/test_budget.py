"""The forecast of a load's calls: from the lake alone, and close to the service's later count."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import BudgetSpent
from fleetlake.lake import open_lake
from fleetlake.loading.forecast import CallForecast, plan_ingest
from fleetlake.loading.ingest import ingest
from tests.support.sim import NOW, Sim, loaded_sim
from tests.test_load import assert_complete

LATER = timedelta(hours=6)


@pytest.fixture(scope="module")
def forecast_and_counted(
    empty_lake: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, CallForecast], dict[str, int]]:
    """Return the forecast for a load six hours after the first, and the calls that it then made."""
    sim = loaded_sim(tmp_path_factory.mktemp("budget"), empty_lake, routers=12, days=1)
    sim.advance(LATER.total_seconds())
    before = sim.ask("GET", "/sim/state").json()["calls"]
    plan = plan_ingest(sim.settings(), [], now=NOW + LATER)
    sim.ingest()
    after = sim.ask("GET", "/sim/state").json()["calls"]
    counted = {name: count - before.get(name, 0) for name, count in after.items()}
    return {f.endpoint: f for f in plan}, counted


@pytest.mark.release
@pytest.mark.parametrize("name", [e.name for e in ENDPOINTS.values() if e.api == "v2"])
def test_the_forecast_is_close_to_the_calls_that_the_service_counts(
    forecast_and_counted: Any, name: str
) -> None:
    forecast, counted = forecast_and_counted

    calls = forecast[name].calls
    fan_out = ENDPOINTS[name].fan_out
    assert calls is not None
    assert calls >= counted[name] * 0.7 - 2
    if fan_out is None or fan_out.moved is None:  # ids that did not move can be skipped
        assert calls <= counted[name] * 1.3 + 2


def test_a_forecast_makes_no_calls(sim: Sim) -> None:
    sim.ingest("routers", "alerts")
    before = sim.ask("GET", "/sim/state").json()["calls"]

    plan_ingest(sim.settings(), [], now=NOW + LATER)

    assert sim.ask("GET", "/sim/state").json()["calls"] == before


def test_a_forecast_counts_the_records_of_its_own_account_only(sim: Sim) -> None:
    sim.ingest("routers", "alerts")
    with open_lake(sim.settings().lake) as lake:
        lake.execute("update raw.routers set account_profile = 'west' where id % 2 = 0")
        lake.execute("update raw.alerts set account_profile = 'west'")
        [(own,)] = lake.rows("select count(*) from raw.routers where account_profile = 'default'")

    routers, alerts = plan_ingest(sim.settings(), ["routers", "alerts"], now=NOW + LATER)

    assert routers.records == own
    assert alerts.records == 0


@pytest.mark.proof
def test_a_forecast_includes_one_call_for_what_should_have_expired(sim: Sim) -> None:
    sim.ingest("activity_logs")
    later = NOW + timedelta(days=45)

    [forecast] = plan_ingest(sim.settings(), ["activity_logs"], now=later)
    sim.advance(timedelta(days=45).total_seconds())
    before = sim.calls("activity_logs")
    sim.ingest("activity_logs")

    assert forecast.calls is not None
    assert forecast.calls >= 2  # for what is left, and for what has expired
    assert sim.calls("activity_logs") - before <= 1.3 * forecast.calls + 2


def test_a_list_on_one_page_is_forecast_as_one_call(sim: Sim) -> None:
    sim.ingest("groups")

    plan = plan_ingest(sim.settings(), ["groups"], now=NOW + LATER)

    served = len(sim.truth("groups"))
    assert plan == [CallForecast(endpoint="groups", unread=None, records=served, calls=1)]


def test_a_stream_that_was_never_loaded_has_no_forecast(sim: Sim) -> None:
    plan = plan_ingest(sim.settings(), ["alerts"], now=NOW)

    assert plan == [CallForecast(endpoint="alerts", unread=None, records=None, calls=None)]


@pytest.mark.proof
def test_a_load_ends_at_the_daily_call_limit_and_the_next_day_completes_it(
    sim: Sim,
) -> None:
    outcomes = _ingest_with(sim, calls_per_day=4)
    errors = [outcome.error for outcome in outcomes if outcome.error]

    _ingest_with(sim, calls_per_day=0)

    assert errors
    assert all(isinstance(error, BudgetSpent) for error in errors)
    for name in ("alerts", "routers", "users"):
        assert_complete(sim, ENDPOINTS[name])


def _ingest_with(sim: Sim, **settings: Any) -> Any:
    names = ["alerts", "routers", "users", "groups", "accounts"]
    return ingest(sim.settings(**settings), names, transport=sim.transport)
