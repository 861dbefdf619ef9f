"""Late records: lateness is measured as they are found, and the lookback follows it."""

from datetime import timedelta
from typing import Any

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import open_lake
from fleetlake.lake.lateness import measured_lateness
from fleetlake.planning.coverage import (
    LOOKBACK,
    SWEEP,
    lookback_for,
    unsettled,
)
from tests.support.sim import NOW, Sim
from tests.test_load import SETTLE, key_of, keys_in

SAMPLES = ENDPOINTS["net_device_usage_samples"]
LATE_BY = timedelta(minutes=15)  # one record in five, according to the scenario
TEN_MINUTES = timedelta(minutes=10)


def lost(sim: Sim, until: Any) -> int:
    """Return how many of the service's samples of that time are missing from the lake."""
    with open_lake(sim.settings().lake, read_only=True) as lake:
        kept = set(keys_in(lake, SAMPLES))
    return len({key_of(SAMPLES, record) for record in sim.truth(SAMPLES.name, until)} - kept)


def measured(sim: Sim, now: Any) -> timedelta | None:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return measured_lateness(lake, "default", now=now).get(SAMPLES.name)


@pytest.mark.proof
def test_the_daily_sweep_finds_late_records_and_later_loads_look_back_far_enough(
    make_sim: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sim, now = make_sim(routers=8, days=1, scenario="late-data"), NOW

    def load_after(wait: timedelta) -> None:
        nonlocal now
        sim.advance(wait.total_seconds())
        now += wait
        sim.ingest(SAMPLES.name)

    load_after(timedelta(0))
    for _ in range(3):
        load_after(TEN_MINUTES)
    missed = lost(sim, now - LATE_BY - SETTLE)
    load_after(SWEEP)
    missed_after_sweep = lost(sim, now - LATE_BY - SETTLE)
    for _ in range(4):
        load_after(TEN_MINUTES)

    assert missed > 0
    assert missed_after_sweep == 0
    assert f"sweep of {SAMPLES.name} found" in caplog.text
    assert lost(sim, now - LATE_BY - TEN_MINUTES) == 0
    late = measured(sim, now)
    assert late is not None
    assert LATE_BY < late <= 3 * LATE_BY


@pytest.mark.release
def test_loads_that_are_never_completed_leave_no_late_record_behind(
    make_sim: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim, now = make_sim(routers=8, days=1, scenario="late-data"), NOW
    with monkeypatch.context() as patch:
        # Each commits what it read, but none completes its read.
        patch.setattr("fleetlake.loading.stream_loads._end_of", lambda *_: None)
        for wait in [timedelta(minutes=12)] * 5 + [timedelta(hours=30)]:
            sim.ingest(SAMPLES.name)
            missed = lost(sim, now - LATE_BY - SETTLE)
            sim.advance(wait.total_seconds())
            now += wait

    sim.ingest(SAMPLES.name)

    assert missed > 0
    assert lost(sim, now - LATE_BY - SETTLE) == 0


def test_records_that_arrive_in_time_leave_the_lookback_unchanged(make_sim: Any) -> None:
    sim = make_sim(routers=8, days=1)
    sim.ingest(SAMPLES.name)
    sim.advance(TEN_MINUTES.total_seconds())

    sim.ingest(SAMPLES.name)

    late = measured(sim, NOW + TEN_MINUTES)
    assert late is not None
    assert lookback_for(late) == LOOKBACK


def test_a_first_load_measures_no_lateness_because_all_of_it_is_new(sim: Sim) -> None:
    sim.ingest(SAMPLES.name)

    assert measured(sim, NOW) is None


@pytest.mark.proof
def test_lateness_of_long_ago_no_longer_counts(sim: Sim) -> None:
    sim.ingest(SAMPLES.name)
    with open_lake(sim.settings().lake) as lake:
        lake.execute(
            "insert into meta.lateness values ('default', ?, 'x', 3600, 1, ?)", [SAMPLES.name, NOW]
        )

    assert measured(sim, NOW + timedelta(days=1)) == timedelta(hours=1)
    assert measured(sim, NOW + timedelta(days=15)) is None


@pytest.mark.parametrize(
    ("lateness", "lookback"),
    [
        (None, LOOKBACK),
        (timedelta(seconds=90), LOOKBACK),
        (timedelta(minutes=31), timedelta(minutes=30)),
        (timedelta(days=9), SWEEP),
    ],
)
def test_the_lookback_follows_the_lateness_between_a_floor_and_a_day(
    lateness: timedelta | None, lookback: timedelta
) -> None:
    assert lookback_for(lateness) == lookback
    assert unsettled(NOW, lateness).end - unsettled(NOW, lateness).start == lookback
