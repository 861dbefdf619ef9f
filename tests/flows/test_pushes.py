"""Draining a journal in a flow, where the receiver has no access to the lake."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

from pathlib import Path

import pytest

from fleetlake.cli.prefect.deployments import with_operator_choices
from fleetlake.errors import StreamBusy
from fleetlake.lake import open_lake
from fleetlake.settings import Settings
from tests.flows.alone import Alone
from tests.support.alert_messages import NOON, an_alert, push, with_id

pytestmark = [
    pytest.mark.xdist_group("prefect"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]


@pytest.fixture
def settings(alone: Alone, lake_path: Path, monkeypatch) -> Settings:
    """Return the settings of a worker that can read the journal and the lake."""
    from flows import pushes

    assert alone.alerts == []
    made = Settings(lake=lake_path, push_journal=lake_path.parent / "journal")
    monkeypatch.setattr(pushes, "load_settings", lambda: made)
    return made


@pytest.fixture
def clock(monkeypatch):
    """Let time pass only while the flow sleeps; return a list of what to do in each sleep."""
    from flows import pushes

    meanwhile = []
    now = [1000.0]

    def sleep(seconds):
        now[0] += seconds
        if meanwhile:
            meanwhile.pop(0)()

    monkeypatch.setattr(pushes.time, "sleep", sleep)
    monkeypatch.setattr(pushes.time, "monotonic", lambda: now[0])
    return meanwhile


def test_a_journal_is_drained_and_reported(alone, settings):
    from flows.pushes import drain_journal

    push(settings.push_journal, with_id(an_alert(1)), with_id(an_alert(2)), b"garbage")

    state = drain_journal.fn()

    assert (state.name, state.message) == ("Completed", "3 messages, 0 alerts announced.")
    with open_lake(settings.lake, read_only=True) as lake:
        assert lake.rows("select count(*) from raw.pushed_alerts") == [(2,)]
    assert "2 new alerts in the lake" in alone.artifacts["pushes-summary"]
    assert "1 dead letter" in alone.artifacts["pushes-summary"]


@pytest.mark.proof
def test_what_arrives_during_a_run_is_drained_and_announced_in_it(
    alone, settings, clock, monkeypatch
):
    from flows import alert_events, pushes

    named = settings.model_copy(update={"alert_events": ("failover",)})
    monkeypatch.setattr(pushes, "load_settings", lambda: named)
    monkeypatch.setattr(alert_events, "lake_now", lambda *_: NOON)
    push(settings.push_journal)
    clock += [
        lambda: push(settings.push_journal, with_id(an_alert(1))),
        lambda: None,
        lambda: push(settings.push_journal, with_id(an_alert(2))),
    ]

    state = pushes.drain_journal.fn(minutes=1)

    assert state.message == "2 messages, 2 alerts announced."
    assert len(alone.alerts) == 2
    assert clock == []


@pytest.mark.usefixtures("clock")
def test_a_lake_that_is_busy_is_drained_at_the_next_look(settings, monkeypatch):
    from flows import pushes

    real, looks = pushes.drain_batches, []

    def busy_once(*arguments, **options):
        looks.append(1)
        if len(looks) == 1:
            raise StreamBusy("Another process is writing.")
        return real(*arguments, **options)

    monkeypatch.setattr(pushes, "drain_batches", busy_once)
    push(settings.push_journal, with_id(an_alert(1)))

    assert pushes.drain_journal.fn(minutes=1).message.startswith("1 message,")
    assert len(looks) == 2  # and not again, as long as nothing arrives


def test_without_a_journal_and_without_named_types_a_run_is_skipped(alone, settings):
    from flows.pushes import drain_journal

    state = drain_journal.fn(minutes=9)

    assert (state.is_completed(), state.name) == (True, "Skipped")
    assert str(settings.push_journal) in state.message
    assert alone.artifacts == {}


def test_the_deployment_is_paused_until_an_operator_resumes_it():
    file = {"deployments": [{"name": "pushes", "paused": True}, {"name": "events"}]}

    def paused(known):
        found = with_operator_choices(file, known=known, off=set())["deployments"]
        return [deployment.get("paused") for deployment in found]

    assert paused({}) == [True, None]
    assert paused({"pushes": False, "events": False}) == [False, None]
    assert paused({"pushes": True, "events": True}) == [True, True]
