"""The flow that keeps live marts up to date: how often it looks, builds and publishes."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from fleetlake.cli.prefect.deployments import read_yaml, with_speed
from fleetlake.errors import BuildFailed
from fleetlake.marts import BuildResult
from fleetlake.marts.live import live_lock
from fleetlake.settings import Settings
from tests.flows.server import ROOT
from tests.support.sim import NOW

pytestmark = [
    pytest.mark.xdist_group("prefect"),
    pytest.mark.usefixtures("prefect_home"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]


def test_the_next_run_starts_and_waits_while_the_one_before_it_still_works():
    from flows.live import TURN_SECONDS

    read = read_yaml(ROOT / "prefect.yaml")["deployments"]
    [live] = [deployment for deployment in read if deployment["name"] == "live"]
    [schedule] = live["schedules"]
    overlap_s = live["parameters"]["minutes"] * 60 - schedule["interval"]

    assert 0 < overlap_s < TURN_SECONDS
    assert live["concurrency_limit"]["limit"] == 2
    [fast] = with_speed({"deployments": [live]}, 60, now=NOW)["deployments"]
    assert fast["schedules"] == [schedule | {"anchor_date": NOW.isoformat()}]


class World:
    """A clock that only sleeps and builds move, and what the flow did at which second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks: list[float] = []
        self.published: list[float] = []
        self.builds: dict[int, float] = {}
        """Seconds of the build of each look that finds events."""
        self.failures: set[int] = set()
        """The looks whose builds fail."""

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @contextmanager
    def live_builds(self, _lake, *, memory):
        assert memory
        yield self.look

    def look(self) -> BuildResult | None:
        self.looks.append(self.now)
        if len(self.looks) - 1 in self.failures:
            raise BuildFailed("dbt was ended by SIGKILL.")
        seconds = self.builds.get(len(self.looks) - 1)
        if seconds is None:
            return None
        self.now += seconds
        return BuildResult(
            models=(SimpleNamespace(),),
            dropped=(),
            tests=(),
            snapshot_id=1,
            is_full=False,
            nothing_loaded=False,
            seconds=seconds,
        )


@pytest.fixture
def world(alone, lake_path, monkeypatch):
    from flows import live

    assert alone.events == []
    made = World()
    clock = SimpleNamespace(sleep=made.sleep, monotonic=lambda: made.now)
    monkeypatch.setattr(live, "time", clock)
    monkeypatch.setattr(live, "load_settings", lambda: Settings(lake=lake_path))
    monkeypatch.setattr(live, "live_builds", made.live_builds)
    monkeypatch.setattr(live, "publish_snapshot", lambda: made.published.append(made.now))
    return made


def test_the_flow_looks_every_few_seconds_and_rests_after_a_build(world):
    from flows.live import live_marts

    world.builds = {1: 2.0, 2: 12.0, 3: 9.0}

    state = live_marts.fn(minutes=1.3)

    assert world.looks == [0, 5, 17, 41, 60, 65, 70, 75]
    assert (state.name, state.message) == ("Completed", "3 builds, the longest took 12.0 s.")
    assert world.published == [75]


def test_the_flow_publishes_every_five_minutes_only_what_is_new_and_at_its_end(world):
    from flows.live import live_marts

    world.builds = {0: 1.0, 1: 1.0, 70: 1.0}

    live_marts.fn(minutes=10)

    first, last = world.published
    assert 300 <= first < 310
    assert last >= 590


def test_a_failed_build_is_tried_again_and_the_third_in_a_row_ends_the_run(world):
    from flows.live import live_marts

    world.failures, world.builds = {1, 2, 4}, {3: 2.0}
    assert live_marts.fn(minutes=1).message == "1 build, the longest took 2.0 s."
    assert world.looks[:5] == [0, 5, 15, 25, 37]

    world.failures = {*range(len(world.looks), len(world.looks) + 3)}
    with pytest.raises(BuildFailed):
        live_marts.fn(minutes=1)


def test_one_look_builds_and_publishes(world):
    from flows.live import live_marts

    world.builds = {0: 3.0}

    assert live_marts.fn().message == "1 build, the longest took 3.0 s."
    assert (world.looks, world.published) == ([0], [3.0])


def test_a_run_that_has_nothing_to_follow_or_publish_says_so(world):
    from flows.live import live_marts

    assert live_marts.fn().message == "0 builds."
    assert world.published == []


def test_a_run_is_skipped_if_another_one_does_not_end(world, lake_path, monkeypatch):
    from flows import live

    monkeypatch.setattr(live, "TURN_SECONDS", 0)

    with live_lock(lake_path, seconds=0):
        state = live.live_marts.fn(minutes=9)

    assert (state.is_completed(), state.name, world.looks) == (True, "Skipped", [])
