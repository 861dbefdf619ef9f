"""Polls wait while pushes bring every alert, and come back at once when something is wrong."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleetlake.alerting.poll_pace import PushEvidence, reason_to_poll
from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import Lake, open_lake
from fleetlake.loading.outcome import Outcome, outcome_line
from fleetlake.loading.when_due import push_evidence
from fleetlake.monitoring.figures import measure
from fleetlake.receiving.drain import drain_all
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from tests.support.alert_messages import NOON, an_alert, poll, push, with_id
from tests.support.sim import KEYS, NOW, Sim
from tests.test_load import SmallPages, assert_complete

EVERY = timedelta(minutes=5)
"""How often the schedule runs."""

ALL_WELL = PushEvidence(
    polled_at=NOW, pushed_at=NOW, confirmed=1, unconfirmed=0, unpushed=0, failing=0
)
HEADERS = {
    f"X-{name.replace('_', '-')}": value for name, value in KEYS.items() if name != "v3_token"
}


def test_a_poll_waits_while_pushes_arrive_and_polls_confirm_them():
    assert reason_to_poll(ALL_WELL, now=NOW + timedelta(minutes=14)) is None


@pytest.mark.parametrize(
    ("found", "minutes"),
    [
        ({"polled_at": None}, 1),
        ({"pushed_at": None}, 1),
        ({}, 15),  # no push since noon
        ({"pushed_at": NOW + timedelta(minutes=44)}, 45),
        ({"confirmed": 0}, 1),
        ({"unconfirmed": 1}, 1),
        ({"unpushed": 1}, 1),
        ({"failing": 1}, 1),
        ({}, -2),  # the clock was set back
        ({"pushed_at": NOW + timedelta(hours=3)}, 1),  # the receiver's clock is wrong
    ],
)
def test_a_poll_is_due_as_soon_as_anything_is_wrong_or_unknown(found, minutes):
    assert reason_to_poll(replace(ALL_WELL, **found), now=NOW + timedelta(minutes=minutes))


# --- what the lake knows ----------------------------------------------------------------------

POLLED_AT = datetime(2026, 11, 20, 8, tzinfo=UTC)
"""When the last poll ended, by this machine's clock, which is not that of the service."""

READ_UNTIL = NOON + timedelta(minutes=30)


@pytest.fixture(scope="module")
def polled_lake(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake with one alert, first pushed and then polled."""
    folder = tmp_path_factory.mktemp("polled")
    path = Path(shutil.copytree(empty_lake, folder / "lake"))
    push(folder / "journal", with_id(an_alert(1)), at=POLLED_AT - timedelta(minutes=29))
    drain_all(path, folder / "journal")
    with open_lake(path) as lake:
        poll(lake, [an_alert(1)])
        lake.execute(
            "insert into meta.reads by name select 'default' as account_profile, "
            "'alerts' as endpoint, '1/1' as shard, $until as read_until, $at as finished_at",
            {"until": READ_UNTIL, "at": POLLED_AT},
        )
    return path


@pytest.fixture
def folder(polled_lake: Path, tmp_path: Path) -> Path:
    """Return a folder with a copy of that lake and an empty journal."""
    shutil.copytree(polled_lake, tmp_path / "lake")
    return tmp_path


def found(folder: Path, change: Callable[[Lake], object] = lambda _: None, **wanted: int) -> None:
    """Check what a lake knows six minutes after its last poll, once `change` was made."""
    with open_lake(folder / "lake") as lake:
        change(lake)
        evidence = push_evidence(lake, "default", now=POLLED_AT + timedelta(minutes=6))
    counts = {"confirmed": 1, "unconfirmed": 0, "unpushed": 0, "failing": 0} | wanted
    assert {name: getattr(evidence, name) for name in counts} == counts
    assert evidence.polled_at == POLLED_AT


def pushed(folder: Path, alert: object, *, minutes_before_poll: int) -> None:
    at = POLLED_AT - timedelta(minutes=minutes_before_poll)
    push(folder / "journal", alert, at=at)
    drain_all(folder / "lake", folder / "journal")


def test_a_push_that_a_poll_has_read_counts_as_confirmed(folder):
    found(folder)


def test_a_push_that_the_last_poll_should_have_read_counts_as_unconfirmed(folder):
    pushed(folder, with_id(an_alert(2, seconds=60)), minutes_before_poll=28)

    found(folder, unconfirmed=1)


@pytest.mark.proof
@pytest.mark.parametrize(("seconds", "minutes"), [(1900, 1), (60, -3), (-90_000, 28)])
def test_a_push_from_after_the_last_poll_or_from_days_ago_is_not_missed(folder, seconds, minutes):
    pushed(folder, with_id(an_alert(2, seconds=seconds)), minutes_before_poll=minutes)

    found(folder)


def test_an_alert_that_only_a_poll_brought_counts_as_unpushed_after_five_minutes(folder):
    young = an_alert(3, seconds=1920)  # created 4.5 minutes ago
    alerts = [an_alert(2, seconds=60), an_alert(4, seconds=1790), young]

    found(folder, lambda lake: poll(lake, alerts), unpushed=2)


def test_an_alert_from_before_the_first_push_does_not_count_as_unpushed(folder):
    found(folder, lambda lake: poll(lake, [an_alert(2, seconds=-60)]))


def test_an_alert_about_failing_pushes_counts_as_a_failing_destination(folder):
    found(
        folder,
        lambda lake: poll(lake, [an_alert(2, seconds=-60, type="http_push_failure")]),
        failing=1,
    )


@pytest.mark.parametrize(
    ("states", "failing"),
    [
        (["true, false, null"], 0),
        (["true, true, null"], 2),
        (["true, false, timestamptz '2026-06-15 09:00:00Z'"], 2),
        (["false, false, null"], 1),
        (["false, false, null", "true, false, null"], 0),
    ],
)
def test_a_destination_that_does_not_deliver_counts_as_failing(folder, states, failing):
    """Of one that is disabled, nothing else is expected; but then another must be active."""
    columns = "account_profile, destination_config_id, enabled, suspended, last_error_at"
    rows = ", ".join(f"('default', 'd{n}', {state})" for n, state in enumerate(states))

    found(
        folder,
        lambda lake: lake.execute(
            f"insert into raw.alert_push_destinations ({columns}) values {rows}"
        ),
        failing=failing,
    )


def test_pushes_of_another_account_say_nothing_about_this_one(folder):
    with open_lake(folder / "lake", read_only=True) as lake:
        evidence = push_evidence(lake, "west", now=POLLED_AT)

    assert (evidence.polled_at, evidence.pushed_at, evidence.confirmed) == (None, None, 0)


# --- on a simulated fleet ---------------------------------------------------------------------


class Fleet:
    """A simulated fleet whose alerts are pushed, and a lake whose schedule polls them.

    The service's clock is moved. What the lake knows of this machine's clock is moved back instead.
    """

    def __init__(self, folder: Path) -> None:
        self.pushed: list[bytes] = []
        self.folder = folder
        options = SimulatorOptions(routers=60, days=1, now=NOW, speed=0)
        self.sim = Sim(create_app(options, send=self._take), folder)
        self._destination = self._write(
            "POST",
            "alert_push_destinations/",
            {
                "name": "lake",
                "endpoint": {"url": "http://receiver.test/push"},
                "authentication": {"secret": "s3cret"},
            },
        )["destination_config_id"]
        [rule] = self._ask("GET", "alert_rules/")["data"]  # it covers all types
        self._rule = f"alert_rules/{rule['alert_config_id']}/"
        self.push_all(is_on=True)

    async def _take(self, _url: str, body: bytes, _headers: object) -> None:
        self.pushed.append(body)

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        answer = self.sim.ask(method, f"/api/v2/{path}", json=body, headers=HEADERS)
        return answer.json() if answer.content else {}

    _write = _ask

    def push_all(self, *, is_on: bool) -> None:
        """Let the rule name the destination, or no destination."""
        self._write("PATCH", self._rule, {"http_destinations": [self._destination] * is_on})

    def let_time_pass(self, length: timedelta = EVERY, *, is_received: bool = True) -> None:
        """Move the clocks; the receiver takes what is pushed meanwhile, or is down."""
        self.pushed.clear()
        self.sim.advance(length.total_seconds())
        with open_lake(self.sim.settings().lake) as lake, lake.transaction():
            for column in ("reads.finished_at", "calls.started_at"):
                table, _, name = column.partition(".")
                lake.execute(f"update meta.{table} set {name} = {name} - ?::interval", [length])
            lake.execute(
                "update raw.pushed_alerts set received_at = received_at - ?::interval", [length]
            )
        if is_received:
            push(self.sim.settings().push_journal, *self.pushed, at=datetime.now(UTC))
            drain_all(self.sim.settings().lake, self.sim.settings().push_journal)

    def run(self) -> Outcome:
        """Run the schedule once."""
        [outcome] = self.sim.ingest("alerts", when_due=True)
        assert outcome.error is None
        return outcome

    def calls_of(self, step: Callable[[], object], times: int) -> int:
        """Return how many calls for alerts the service counts while the schedule runs."""
        before = self.sim.calls("alerts")
        for _ in range(times):
            self.let_time_pass()
            step()
        return self.sim.calls("alerts") - before


@pytest.fixture
def fleet(lake_path: Path) -> Fleet:
    """Return a fleet of which everything was polled, then pushed and polled for some minutes."""
    made = Fleet(lake_path.parent)
    made.sim.ingest("alerts", "alert_push_destinations")
    for _ in range(2):
        made.let_time_pass()
        made.sim.ingest("alerts")
    return made


@pytest.mark.proof
def test_a_scheduled_poll_is_spared_and_counted_and_one_by_hand_is_made(fleet):
    fleet.let_time_pass()
    before = fleet.sim.calls("alerts")

    spared = fleet.run()

    assert fleet.sim.calls("alerts") == before
    assert (spared.spared, spared.calls) == (1, 0)
    assert outcome_line(spared) == "alerts: not due, because pushes bring it (1 call spared)"
    with open_lake(fleet.sim.settings().lake, read_only=True) as lake:
        measured = measure(lake, fleet.sim.settings())
    assert measured.status.pushes.spared_calls == 1
    assert {c.endpoint: c.spared for c in measured.figures.calls}["alerts"] == 1
    [by_hand] = fleet.sim.ingest("alerts")
    assert by_hand.spared == 0
    assert fleet.sim.calls("alerts") > before
    assert_complete(fleet.sim, ENDPOINTS["alerts"])


@pytest.mark.proof
def test_the_poll_comes_back_in_the_first_run_after_pushes_stopped(fleet):
    fleet.let_time_pass()
    assert fleet.run().spared
    fleet.let_time_pass(timedelta(minutes=15), is_received=False)

    assert fleet.run().spared == 0
    assert_complete(fleet.sim, ENDPOINTS["alerts"])


@pytest.mark.release
def test_the_poll_comes_back_when_it_brings_alerts_that_no_push_brought(fleet):
    fleet.push_all(is_on=False)
    fleet.let_time_pass(timedelta(minutes=30), is_received=False)
    fleet.sim.ingest("alerts")
    fleet.push_all(is_on=True)
    fleet.let_time_pass(timedelta(minutes=15))

    assert fleet.pushed
    assert fleet.run().spared == 0


@pytest.mark.release
def test_a_load_that_failed_half_way_is_no_poll(fleet):
    with open_lake(fleet.sim.settings().lake) as lake, lake.transaction():
        lake.execute("update meta.reads set finished_at = finished_at - interval 45 minutes")
    broken = SmallPages(fleet.sim, [ENDPOINTS["alerts"]], good=0)
    [failed] = fleet.sim.ingest("alerts", transport=broken)
    fleet.let_time_pass()

    assert failed.error is not None
    assert fleet.run().spared == 0


@pytest.mark.release
def test_nine_of_ten_calls_for_alerts_are_spared_on_a_simulated_fleet(fleet):
    usual = fleet.calls_of(lambda: fleet.sim.ingest("alerts"), 12)
    slow = fleet.calls_of(fleet.run, 12)

    assert (usual, slow) == (12, 1)
    assert_complete(fleet.sim, ENDPOINTS["alerts"])
    with open_lake(fleet.sim.settings().lake) as lake:
        [(counted,)] = lake.rows("select sum(spared)::bigint from meta.calls")
    assert counted == usual - slow
