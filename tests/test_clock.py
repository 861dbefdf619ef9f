"""Clocks: a wrong one loses no record, is reported, and its claims in the lake are revoked."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetlake.demo import demo_settings
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import ClockRefused, UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.audit_trail import read_events
from fleetlake.lake.clock_repair import repair_clock_claims
from fleetlake.lake.commit import set_watermarks
from fleetlake.lake.gaps import Gap, gaps
from fleetlake.lake.run_state import RunState
from fleetlake.lake.watermarks import replace_intervals
from fleetlake.loading.ingest import backfill, ingest
from fleetlake.loading.outcome import Outcome
from fleetlake.planning.intervals import Interval
from fleetlake.service.clock import REFUSED_SKEW, Clock, provable_until
from fleetlake.settings import ClockTrust, Settings
from tests.support.cases import use_rows
from tests.support.sim import NOW, Sim
from tests.support.streams import read_until

HOUR = timedelta(hours=1)
STREAMS = ("alerts", "activity_logs", "net_device_usage_samples")
KEYS_SQL = {
    "alerts": "select created_at_timeuuid from raw.alerts",
    "activity_logs": "select action_id from raw.activity_logs",
    "net_device_usage_samples": "select created_at_timeuuid from raw.net_device_usage_samples",
}


class Lying(httpx.AsyncBaseTransport):
    """A service whose responses have another date: shifted by `off`, or exactly `date`."""

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        *,
        off: timedelta = timedelta(0),
        date: str | None = None,
        only_first: int | None = None,
    ) -> None:
        self._inner, self._off, self._date, self._left = inner, off, date, only_first

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                return response
        honest = parsedate_to_datetime(response.headers["date"])
        response.headers["date"] = self._date or format_datetime(honest + self._off, usegmt=True)
        return response


@pytest.fixture
def sim(make_sim: Callable[..., Sim]) -> Sim:
    """Return a simulated service of four routers and two days."""
    return make_sim(routers=4, days=2)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, sim: Sim) -> Callable[[], None]:
    """Set this machine's clock to the simulated service's; return a function that repeats it."""

    def set_clock(off: timedelta = timedelta(0)) -> None:
        now = datetime.fromisoformat(sim.ask("GET", "/sim/state").json()["now"]) + off
        monkeypatch.setattr("fleetlake.service.clock.machine_now", lambda: now.astimezone(UTC))

    set_clock()
    return set_clock


def load(
    sim: Sim, *names: str, trust: str = "checked", transport: Any = None, **options: Any
) -> list[Outcome]:
    outcomes = ingest(
        sim.settings(clock=trust),
        list(names or STREAMS),
        transport=transport or sim.transport,
        **options,
    )
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return outcomes


def missing(sim: Sim, endpoint: str) -> set[str]:
    """Return the records that the service has had for an hour and that the lake does not have."""
    member = {"activity_logs": lambda r: r["action"]["id"]}.get(
        endpoint, lambda r: r["created_at_timeuuid"]
    )
    now = datetime.fromisoformat(sim.ask("GET", "/sim/state").json()["now"])
    served = {member(record) for record in sim.truth(endpoint, until=now - HOUR)}
    with open_lake(sim.folder / "lake", read_only=True) as lake:
        return served - {key for (key,) in lake.rows(KEYS_SQL[endpoint])}


@pytest.mark.proof
@pytest.mark.parametrize(
    "ahead", [40 * HOUR, pytest.param(timedelta(days=400), marks=pytest.mark.release)]
)
def test_a_load_with_a_clock_that_ran_ahead_loses_nothing_in_later_loads(
    sim: Sim, ahead: timedelta
):
    load(sim, trust="service", transport=Lying(sim.transport, off=ahead))

    for hours in (1, 29, 50):
        sim.advance(hours * 3600)
        load(sim, trust="service")

    for endpoint in STREAMS:
        assert missing(sim, endpoint) == set()


@pytest.mark.parametrize("ahead", [12 * HOUR, pytest.param(72 * HOUR, marks=pytest.mark.release)])
def test_a_load_with_two_clocks_that_run_ahead_proves_no_more_than_records_show(
    sim: Sim, machine, ahead: timedelta
):
    machine(ahead)
    load(sim, transport=Lying(sim.transport, off=ahead))

    with open_lake(sim.folder / "lake", read_only=True) as lake:
        [(proven,)] = lake.rows("select max(end_at) from meta.intervals")
    assert proven <= NOW

    sim.advance((ahead + 2 * HOUR).total_seconds())
    machine()
    load(sim)

    assert missing(sim, "alerts") == set()


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    "date",
    [
        "Sun, 06 Nov 1825 08:49:37 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        format_datetime(NOW + REFUSED_SKEW + HOUR, usegmt=True),
        format_datetime(NOW - REFUSED_SKEW - HOUR, usegmt=True),
    ],
)
def test_a_service_whose_clock_is_a_day_off_is_refused_with_an_explanation(sim: Sim, date: str):
    with pytest.raises(ClockRefused, match=r"service's clock is .* this machine's") as refused:
        load(sim, transport=Lying(sim.transport, date=date))

    assert "FLEETLAKE_CLOCK=service" in refused.value.remedy


@pytest.mark.usefixtures("machine")
def test_a_refused_clock_is_one_event_until_it_is_trusted_again(sim: Sim):
    wrong = Lying(sim.transport, off=-2 * REFUSED_SKEW)
    for transport in (wrong, wrong, sim.transport, sim.transport, wrong):
        with suppress(ClockRefused):
            load(sim, "alerts", transport=transport)

    with open_lake(sim.folder / "lake", read_only=True) as lake:
        found = read_events(lake)
    assert [event.details["state"] for event in found] == ["refused", "trusted", "refused"]
    assert found[0].summary.startswith("The service's clock is 47 h behind this machine's")


@pytest.mark.parametrize("date", ["Sun, 06 Nov 1825 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_an_invalid_date_is_refused_even_if_the_service_is_trusted(sim: Sim, date: str):
    with pytest.raises(ClockRefused):
        load(sim, trust="service", transport=Lying(sim.transport, date=date))


@pytest.mark.proof
@pytest.mark.usefixtures("machine")
def test_an_old_date_from_a_cache_does_not_stop_a_load(sim: Sim):
    load(sim, transport=Lying(sim.transport, off=-72 * HOUR, only_first=1))

    assert missing(sim, "alerts") == set()


def test_a_setting_trusts_the_services_clock(sim: Sim):
    load(sim, trust="service")  # its clock is months off this machine's

    assert missing(sim, "alerts") == set()


def test_commands_that_start_a_simulator_trust_its_clock(tmp_path: Path):
    up = import_module("fleetlake.cli.prefect.up")  # the package has a command of that name

    assert demo_settings(Settings(), "http://127.0.0.1:1").clock is ClockTrust.SERVICE
    assert up.environment(tmp_path, "http://127.0.0.1:1", 1)["FLEETLAKE_CLOCK"] == "service"


def test_a_wrong_claim_in_the_past_is_detected_by_its_commit_time(sim: Sim, machine):
    load(sim, "alerts", trust="service", transport=Lying(sim.transport, off=40 * HOUR))
    with open_lake(sim.folder / "lake") as lake:
        # The machine's clock was right all the time; in tests, only the service has that clock.
        lake.execute("update meta.watermarks set updated_at = ?", [NOW])

    sim.advance(80 * 3600)
    machine()
    load(sim, "alerts")

    assert missing(sim, "alerts") == set()


@pytest.mark.proof
def test_versions_from_the_future_get_the_time_of_their_commit(sim: Sim, machine):
    load(sim, "routers", trust="service", transport=Lying(sim.transport, off=40 * HOUR))

    sim.advance(3600)
    machine()
    load(sim, "routers")

    with open_lake(sim.folder / "lake", read_only=True) as lake:
        assert lake.rows(
            "select count(*) from raw.routers where valid_from > ? or valid_to < valid_from",
            [NOW + 2 * HOUR],
        ) == [(0,)]


@pytest.mark.usefixtures("machine")
def test_a_service_whose_clock_runs_behind_revokes_nothing(sim: Sim, caplog):
    load(sim, "alerts")

    load(sim, "alerts", transport=Lying(sim.transport, off=-2 * HOUR))

    assert "behind this machine's" in caplog.text
    assert "used a clock that was fast" not in caplog.text


def test_a_lateness_measured_in_the_future_is_revoked_with_the_rest(lake_path: Path):
    ahead, times = NOW + 40 * HOUR, "values (?, ?, 600, 1, ?), (?, ?, 600, 1, ?)"
    of_alerts = ["default", "alerts"]
    with open_lake(lake_path) as lake:
        set_watermarks(lake, [read_until("alerts", ahead)])
        lake.execute(
            "insert into meta.lateness (account_profile, endpoint, lateness_seconds, records, "
            f"measured_at) {times}",
            [*of_alerts, ahead, *of_alerts, NOW - HOUR],
        )

        repair_clock_claims(RunState(lake), [ENDPOINTS["alerts"]], now=NOW, is_checked=True)

        assert lake.rows("select measured_at from meta.lateness") == [(NOW - HOUR,)]
        assert lake.rows("select watermark_at > ? from meta.watermarks", [NOW]) == [(False,)]


def test_devices_that_were_read_too_far_are_read_again_from_the_earliest_sure_time(lake_path: Path):
    usage, ahead = ENDPOINTS["net_device_usage_samples"], NOW + 40 * HOUR
    with open_lake(lake_path) as lake, lake.transaction():
        proven = {str(hours): [Interval(NOW - hours * HOUR, ahead)] for hours in (1, 9, 5)}
        replace_intervals(lake, "default", usage, proven)
        marks = [read_until(usage.name, ahead)]
        set_watermarks(lake, marks)

    with open_lake(lake_path) as lake:
        [repair] = repair_clock_claims(RunState(lake), [usage], now=NOW, is_checked=True)

    assert repair.sure_until == NOW - 9 * HOUR


@pytest.mark.proof
@pytest.mark.usefixtures("machine")
def test_revoked_ranges_are_reported_once(sim: Sim, caplog):
    load(sim, "alerts", trust="service", transport=Lying(sim.transport, off=40 * HOUR))

    with caplog.at_level(logging.WARNING, logger="fleetlake"):
        load(sim, "alerts")
        said = caplog.text
        caplog.clear()
        load(sim, "alerts")

    assert "used a clock that was fast" in said
    assert "used a clock that was fast" not in caplog.text


@pytest.mark.usefixtures("machine")
def test_lists_confirm_the_clock_by_the_times_that_the_service_put_on_their_records(
    sim: Sim, monkeypatch: pytest.MonkeyPatch
):
    seen: list[datetime | None] = []

    def noted(clock: Clock, newest: datetime | None) -> datetime | None:
        seen.append(newest)
        return provable_until(clock, newest)

    monkeypatch.setattr("fleetlake.loading.run.provable_until", noted)

    sim.ingest("routers")

    served = [datetime.fromisoformat(r["updated_at"]) for r in sim.truth("routers")]
    assert max(filter(None, seen)) == max(served)


@pytest.mark.usefixtures("machine")
def test_a_since_in_the_future_is_refused(sim: Sim):
    with pytest.raises(UsageError, match="lies in the future"):
        load(sim, "alerts", since=NOW + 48 * HOUR)


class Steady:
    """A clock whose seconds pass on request."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("fleetlake.service.clock.machine_now", lambda: NOW)
    return Clock(ClockTrust.CHECKED, steady=Steady())


def test_the_earlier_of_the_two_clocks_is_used(clock: Clock):
    clock.read_date(NOW + 2 * HOUR)
    assert clock.now() == NOW

    slow = Clock(ClockTrust.CHECKED, steady=Steady())
    slow.read_date(NOW - 2 * HOUR)
    assert slow.now() == NOW - 2 * HOUR


@pytest.mark.parametrize("trust", list(ClockTrust))
@pytest.mark.usefixtures("clock")
def test_a_date_near_the_end_of_the_calendar_is_refused_with_an_explanation(trust: ClockTrust):
    steady = Steady()
    last = Clock(trust, steady=steady)
    last.read_date(datetime.max.replace(tzinfo=UTC))
    steady.seconds += 1

    with pytest.raises(ClockRefused, match="ahead of this machine's"):
        last.now()


@pytest.mark.parametrize("trust", list(ClockTrust))
@pytest.mark.usefixtures("clock")
def test_a_stale_date_among_good_ones_is_ignored(trust: ClockTrust):
    mixed = Clock(trust, steady=Steady())
    for off in (-72 * HOUR, timedelta(0), -48 * HOUR):
        mixed.read_date(NOW + off)

    assert mixed.now() == NOW


def test_the_slowest_clock_is_used_if_hosts_nearly_agree(clock: Clock):
    for seconds in (0, -4, -1):
        clock.read_date(NOW + timedelta(seconds=seconds))

    assert clock.now() == NOW - timedelta(seconds=4)


@pytest.mark.usefixtures("machine")
def test_a_doubtful_clock_is_checked_again_a_few_times_and_not_per_stream(sim: Sim):
    before = sim.calls("accounts")
    load(sim, "alerts", "activity_logs", transport=Lying(sim.transport, off=HOUR))

    assert sim.calls("accounts") - before <= 3


@pytest.fixture
def short_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that activity logs expire after five days. The service keeps them for thirty."""
    use_rows(monkeypatch, replace(ENDPOINTS["activity_logs"], retention=timedelta(days=5)))


def open_gaps(sim: Sim) -> list[Gap]:
    with open_lake(sim.folder / "lake", read_only=True) as lake:
        return gaps(lake)


@pytest.mark.usefixtures("short_retention")
def test_a_range_beyond_the_retention_is_requested_before_it_is_recorded_as_lost(sim: Sim):
    load(sim, "activity_logs", trust="service")
    sim.advance(timedelta(days=12).total_seconds())

    [outcome] = load(sim, "activity_logs", trust="service")

    assert missing(sim, "activity_logs") == set()
    # Before the first record, it is unknown whether there were others.
    held = [gap for gap in open_gaps(sim) if gap.end_at - gap.start_at > timedelta(days=1)]
    assert (held, outcome.lost) == ([], len(open_gaps(sim)))


@pytest.mark.usefixtures("short_retention")
def test_a_backfill_of_an_expired_range_records_no_gap(sim: Sim):
    load(sim, "activity_logs", trust="service")
    sim.advance(timedelta(days=4).total_seconds())
    load(sim, "activity_logs", trust="service")

    past = Interval(NOW - timedelta(days=3), NOW - timedelta(days=2))
    backfill(sim.settings(), "activity_logs", past, transport=sim.transport)

    assert open_gaps(sim) == []
