"""Events tell what a load brought to light, and stand for what changed, not for what is."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.streams import GAP, GOOD, NOW

from fleetlake.retention import Forecast, State
from fleetlake.status import LakeStatus

pytestmark = [
    pytest.mark.integration,
    pytest.mark.xdist_group("prefect"),
    pytest.mark.usefixtures("prefect_server"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

STREAM = replace(GOOD, quarantined=1, drifted=2)


@pytest.fixture
def sent(monkeypatch):
    """Return the events that are sent, instead of sending them."""
    from flows import signals

    events = []
    monkeypatch.setattr(
        signals, "emit_event", lambda name, **event: events.append((name, event["payload"]))
    )
    return events


def look(stream=STREAM, *gaps):
    from flows.signals import Look

    quiet = replace(STREAM, endpoint="alerts")
    return Look(now=NOW, status=LakeStatus(streams=[stream, quiet], open_gaps=list(gaps)))


def test_lake_that_is_as_it_was_says_nothing(sent):
    from flows.signals import announce_changes

    assert announce_changes(look(STREAM, GAP), look(STREAM, GAP), ["activity_logs"]) == []
    assert sent == []


def test_growth_of_quarantine_drift_and_gaps_is_said_once_each(sent):
    from flows.signals import announce_changes

    grown = replace(STREAM, quarantined=4, drifted=3)

    said = announce_changes(look(), look(grown, GAP), ["activity_logs"])

    assert [name for name, _ in sent] == [
        "fleetlake.quarantine.grew",
        "fleetlake.schema.drifted",
        "fleetlake.gap.recorded",
    ]
    assert [payload["what"] for _, payload in sent] == said
    assert said[0].startswith("3 records of activity_logs")


def test_accounts_are_told_apart_and_a_new_one_is_measured_from_nothing(sent):
    from flows.signals import announce_changes

    said = announce_changes(
        look(), look(replace(STREAM, account_profile="west")), ["activity_logs"]
    )

    assert [sentence.split(" could")[0] for sentence in said[:1]] == [
        "1 records of activity_logs of west"
    ]
    assert [name for name, _ in sent] == ["fleetlake.quarantine.grew", "fleetlake.schema.drifted"]


def test_what_another_group_brought_to_light_is_left_to_its_run(sent):
    from flows.signals import announce_changes

    assert announce_changes(look(), look(replace(STREAM, drifted=9), GAP), ["alerts"]) == []
    assert sent == []


@pytest.mark.parametrize(("state", "events"), [(State.OK, 0), (State.AT_RISK, 1), (State.LOST, 1)])
def test_stream_is_announced_while_the_service_may_forget_it(sent, state, events):
    from flows.signals import announce_risks

    forecast = Forecast(
        state=state, expires_in=timedelta(hours=5), calls=12, catch_up=timedelta(minutes=1)
    )

    assert len(announce_risks(look(replace(STREAM, retention=forecast)))) == events
    assert [name for name, _ in sent] == ["fleetlake.retention.at_risk"] * events
