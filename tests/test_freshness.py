"""Freshness: when each device is requested, what that saves, and that nothing is missing for it."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.relations import freshness_of
from fleetlake.errors import SettingsError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.current import records_by_id
from fleetlake.loading.ingest import ingest
from fleetlake.loading.verify import verify
from fleetlake.monitoring.streams import stream_statuses
from fleetlake.planning.coverage import LOOKBACK, SETTLE, SWEEP, SWEEP_LOOKBACK, sweep_from
from fleetlake.planning.freshness import Signs, Turns
from fleetlake.planning.intervals import BEGINNING, Interval
from tests.support.processes import environment
from tests.test_load import Crash, crash_at, key_of, keys_in

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
IDS = range(1, 2001)


def turns(hours: int) -> Turns:
    return Turns(hours * HOUR)


def test_each_hour_of_a_period_has_about_as_many_turns_as_the_others():
    hours = Counter((NOW - turn) // HOUR for turn in turns(6).last(IDS, NOW).values())

    assert sorted(hours) == list(range(6))
    assert max(hours.values()) < 1.3 * len(IDS) / 6


def test_a_sweep_keeps_its_time_whatever_the_freshness_becomes():
    sweeps = [turns(hours).last_sweeps(IDS, NOW) for hours in (0, 1, 6, 24)]

    assert sweeps == sweeps[:1] * 4
    assert turns(6).last_sweeps(IDS[:7], NOW).items() <= sweeps[0].items()


@given(st.integers(0, 24), st.integers(0, 100_000))
def test_an_id_has_a_turn_in_each_period_and_a_sweep_in_each_day(hours, seconds):
    planned, at = turns(hours), NOW + seconds * timedelta(seconds=1)
    turn, sweep = planned.last([7], at)[7], planned.last_sweeps([7], at)[7]

    assert at - max(hours * HOUR, SWEEP if not hours else HOUR) < turn <= at
    assert at - SWEEP < sweep <= at
    # A sweep is one of the turns, so it needs no request of its own.
    same = planned.last([7], sweep + timedelta(microseconds=2))[7]
    assert abs(same - sweep) <= timedelta(microseconds=2)


def test_hourly_loads_that_do_not_start_on_the_second_ask_each_device():
    moments = [NOW, NOW + HOUR - timedelta(seconds=40), NOW + 2 * HOUR + timedelta(minutes=2)]

    for before, at in pairwise(moments):
        assert all(before < turn <= at for turn in turns(1).last(IDS, at).values())


def proven_until(end: datetime) -> list[Interval]:
    return [Interval(BEGINNING, end)]


def signs(**changes: Any) -> Signs:
    """Return what is known when it is nobody's turn."""
    values = {"turn_at": {7: NOW - 3 * HOUR}, "read_at": NOW - HOUR, "page": 500, **changes}
    return Signs(now=NOW, **values)


PROVEN = proven_until(NOW - 2 * HOUR)


@pytest.mark.parametrize(
    ("known", "proven", "is_asked"),
    [
        (signs(), PROVEN, False),
        (signs(turn_at=None), PROVEN, True),
        (signs(), [], True),
        (signs(), [*PROVEN, Interval(NOW - HOUR, NOW)], True),
        (signs(since=NOW - 5 * HOUR), [Interval(NOW - 4 * HOUR, NOW)], True),
        (signs(turn_at={7: NOW - HOUR / 2}), PROVEN, True),
        # It was asked in its turn; only the newest minutes are not final yet.
        (signs(turn_at={7: NOW - HOUR - SETTLE}), proven_until(NOW - HOUR - 2 * SETTLE), False),
        # A load that was killed had asked it already.
        (signs(turn_at={7: NOW - HOUR / 2}), proven_until(NOW - HOUR / 4), False),
        (signs(urged_at={7: NOW - HOUR}), PROVEN, True),
        (signs(urged_at={7: NOW - 3 * HOUR}), PROVEN, False),
        (signs(counted={7: 46 * 249}), PROVEN, False),
        (signs(counted={7: 46 * 250}), PROVEN, True),
        (signs(turn_at={7: NOW}, moved_at={7: NOW - 3 * HOUR}), PROVEN, False),
        (signs(turn_at={7: NOW}, moved_at={7: NOW - HOUR}), PROVEN, True),
        (signs(swept={7}, moved_at={7: NOW - 3 * HOUR}), PROVEN, True),
        (signs(measured={7}), PROVEN, True),
    ],
)
def test_a_device_is_asked_when_something_may_be_new_and_it_is_due(known, proven, is_asked):
    assert known.ask_for(7, proven) == is_asked


@pytest.mark.parametrize("hours", [0, 6])
def test_each_device_is_swept_once_a_day_from_before_its_last_sweep(hours):
    swept: dict[int, list[datetime]] = {}
    for before, at in pairwise(NOW + n * HOUR for n in range(49)):
        start = sweep_from(before, [proven_until(before - SETTLE - LOOKBACK)])
        for one, turn in turns(hours).last_sweeps(IDS, at).items():
            if before < turn:
                last = swept.setdefault(one, [])
                assert not last or start <= last[-1] - SWEEP_LOOKBACK
                last.append(at)

    assert len(swept) == len(IDS)
    assert {len(found) for found in swept.values()} <= {2, 3}


def test_a_sweep_after_an_outage_omits_nothing_and_one_after_other_shards_is_not_longer():
    week_ago = NOW - timedelta(days=7)

    after_outage = sweep_from(week_ago, [proven_until(week_ago)])
    after_others = sweep_from(week_ago, [proven_until(NOW - LOOKBACK), proven_until(week_ago)])

    assert after_outage == week_ago - SWEEP - SWEEP_LOOKBACK
    assert after_others == NOW - LOOKBACK - 2 * SWEEP - SWEEP_LOOKBACK


def test_a_freshness_of_another_list_is_refused():
    assert freshness_of({})["router_logs"] == 6 * HOUR
    with pytest.raises(SettingsError, match=r"FRESHNESS__ALERTS\): alerts is read whole"):
        freshness_of({"alerts": 1})
    with pytest.raises(SettingsError, match="router_log is not an endpoint") as misspelt:
        freshness_of({"router_log": 1})
    assert misspelt.value.remedy.startswith("Did you mean router_logs?")


@pytest.mark.parametrize(
    ("command", "setting"),
    [("status", "FRESHNESS"), ("doctor", "FRESHNESS"), ("doctor", "RETENTION")],
)
def test_a_command_names_a_misspelt_list_before_it_says_that_all_is_well(
    empty_lake, tmp_path, command, setting
):
    misspelt = {f"FLEETLAKE_{setting}__ROUTER_LOG": "1"}
    env = environment(tmp_path, lake=empty_lake) | misspelt
    said = CliRunner().invoke(app, [command], env=env)

    assert "Did you mean router_logs?" in said.output + getattr(said.exception, "remedy", "")
    assert "Nothing is missing" not in said.output


def test_an_id_may_have_a_freshness_of_its_own():
    mixed = Turns(6 * HOUR, {2: HOUR, 3: timedelta(0)})

    assert mixed.last([1, 2], NOW) == turns(6).last([1], NOW) | turns(1).last([2], NOW)
    assert mixed.at_each_load([1, 2, 3]) == {3}
    assert turns(0).at_each_load([1, 2]) == {1, 2}


LOGS, FIXES = ENDPOINTS["router_logs"], ENDPOINTS["historical_locations"]
URGENT = LOGS.fan_out.urged_by[1].types
HOURLY = ("alerts", "locations", LOGS.name, FIXES.name)
ROUTERS = 24


def unread_after_alert(lake: Lake, until: datetime) -> int:
    """Return how many routers were not asked for their log after an alert up to a time."""
    [(routers,)] = lake.rows(
        "select count(distinct router_id) from raw.alerts a join meta.intervals i "
        "on i.partition = a.router_id::varchar and i.endpoint = ? "
        "where a.created_at < ? and i.end_at <= a.created_at and a.type in (select unnest(?))",
        [LOGS.name, until, URGENT],
    )
    return int(routers)


@pytest.mark.parametrize(
    "hours", [pytest.param(8, marks=pytest.mark.proof), pytest.param(24, marks=pytest.mark.release)]
)
def test_hourly_loads_make_a_fraction_of_the_calls_and_miss_nothing(
    make_sim: Any, hours: int
) -> None:
    sim, since = make_sim(routers=ROUTERS, days=1), NOW - 2 * HOUR
    settings, end = sim.settings(freshness={}), NOW + hours * HOUR
    ingest(settings, ["routers", *HOURLY], since=since, transport=sim.transport)
    before = {name: sim.calls(name) for name in HOURLY}
    unread = 0
    for hour in range(1, hours + 1):
        sim.advance(HOUR.total_seconds())
        if hour == 3:
            with crash_at("after commit", LOGS.name), pytest.raises(Crash):
                ingest(settings, HOURLY, transport=sim.transport)
            continue
        outcomes = ingest(settings, HOURLY, transport=sim.transport)
        assert [outcome.error for outcome in outcomes] == [None] * len(HOURLY)
        with open_lake(settings.lake, read_only=True) as lake:
            unread += unread_after_alert(lake, NOW + (hour - 1) * HOUR - SETTLE)
    calls = {name: sim.calls(name) - before[name] for name in HOURLY}
    late = lost(sim, since=since, until=end - 7 * HOUR - LOOKBACK - SETTLE)
    with open_lake(settings.lake, read_only=True) as lake:
        found = stream_statuses(lake, now=end, calls_per_minute=0)
        counted = records_by_id(lake, settings.profile, LOGS, since=since)
        assert counted == Counter(router for router, _ in keys_in(lake, LOGS))
    compared = verify(settings, LOGS.name, start=since, transport=sim.transport)
    [logs] = [one for one in found if one.endpoint == LOGS.name]

    ingest(sim.settings(), HOURLY, transport=sim.transport)

    assert lost(sim, since=since, until=end - SETTLE) == late == unread == 0
    assert logs.complete_until is not None
    assert end - logs.complete_until < 7 * HOUR + LOOKBACK + SETTLE
    assert logs.devices == ROUTERS
    assert compared.missing == compared.surplus == frozenset()
    assert compared.served > 0
    assert calls[LOGS.name] < ROUTERS * hours / 3  # hourly: one call of each router in each hour
    assert calls[FIXES.name] < ROUTERS * hours / 3


def test_the_devices_of_a_group_are_asked_as_often_as_it_says(
    make_sim: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sim = make_sim(routers=ROUTERS, days=1)
    names = ["groups", "routers", LOGS.name]
    ingest(sim.settings(freshness={}), names, transport=sim.transport)
    with open_lake(sim.settings().lake, read_only=True) as lake:
        [(group, urgent)] = lake.rows(
            "select any_value(g.name), list(r.id) from raw.routers r "
            "join raw.groups g on g.id = r.group_id group by g.id order by count(*) desc limit 1"
        )
    chosen = {group.upper(): 1, "No such group": 1}
    proven = []
    for _ in range(4):
        sim.advance(HOUR.total_seconds())
        ingest(
            sim.settings(freshness={LOGS.name: 24}, group_freshness=chosen),
            [LOGS.name],
            transport=sim.transport,
        )
        with open_lake(sim.settings().lake, read_only=True) as lake:
            ends = "select partition::bigint, max(end_at) from meta.intervals where endpoint = ?"
            proven.append(dict(lake.rows(f"{ends} group by all", [LOGS.name])))

    for earlier, later in pairwise(proven):
        assert all(earlier[one] < later[one] for one in urgent)
    others = proven[0].keys() - {*urgent}
    assert others
    assert sum(proven[0][one] == proven[-1][one] for one in others) > len(others) / 2
    assert "No group is named no such group" in caplog.text


def lost(sim: Any, *, since: datetime, until: datetime) -> int:
    """Return how many of the service's logs and fixes of a time are missing from the lake."""
    missing = 0
    with open_lake(sim.settings().lake, read_only=True) as lake:
        for endpoint in (LOGS, FIXES):
            kept = keys_in(lake, endpoint)
            assert len(kept) == len(set(kept))
            made = [
                r for r in sim.truth(endpoint.name, until) if r["created_at"] >= f"{since:%FT%T}"
            ]
            missing += len({key_of(endpoint, record) for record in made} - set(kept))
    return missing
