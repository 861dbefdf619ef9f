"""Events tell what a load brought to light, once, whoever loaded and however that ended."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.streams import GAP, GOOD, NOW

from fleetlake.monitoring.status import LakeStatus
from fleetlake.planning.retention import Forecast, State

pytestmark = [
    pytest.mark.xdist_group("prefect"),
    pytest.mark.usefixtures("sent"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

STREAM = replace(GOOD, quarantined=1, drifted=2)


@pytest.fixture(params=["in memory", pytest.param("at a server", marks=pytest.mark.proof)])
def sent(request, monkeypatch):
    """Return the events that are sent, instead of sending them; what was told is kept there."""
    kept_at_server = request.param == "at a server"
    request.getfixturevalue("prefect_server" if kept_at_server else "alone")
    from flows import signals

    Variable = signals.Variable  # noqa: N806 - a class, Prefect's or its stand-in
    for profile in ("default", "west"):
        Variable.unset(f"fleetlake_told_{profile}")
    events = []
    monkeypatch.setattr(
        signals, "emit_event", lambda name, **event: events.append((name, event["payload"]))
    )
    return events


def look(stream=STREAM, *gaps):
    from flows.signals import Look

    quiet = replace(STREAM, endpoint="alerts")
    return Look(now=NOW, status=LakeStatus(streams=[stream, quiet], open_gaps=list(gaps)))


def test_what_was_told_is_not_told_again(sent):
    from flows.signals import announce_news

    announce_news(look(STREAM, GAP))
    sent.clear()

    assert announce_news(look(STREAM, GAP)) == []
    assert sent == []


def test_growth_of_quarantine_drift_and_gaps_is_said_once_each(sent):
    from flows.signals import announce_news

    announce_news(look())
    sent.clear()
    grown = replace(STREAM, quarantined=4, drifted=3)

    said = announce_news(look(grown, GAP))

    assert [name for name, _ in sent] == [
        "fleetlake.quarantine.grew",
        "fleetlake.schema.drifted",
        "fleetlake.gap.recorded",
    ]
    assert [payload["what"] for _, payload in sent] == said
    assert said[0].startswith("3 records of activity_logs")


def test_a_newer_gap_is_told_and_an_older_one_not_again():
    from flows.signals import announce_news

    announce_news(look(STREAM, GAP))
    newer = replace(GAP, start_at=NOW + timedelta(hours=1), recorded_at=NOW + timedelta(days=1))

    [said] = announce_news(look(STREAM, GAP, newer))

    assert "2026-06-15 13:00" in said


def test_gaps_that_were_told_stay_told_when_they_are_acknowledged():
    from flows.signals import announce_news

    announce_news(look(STREAM, GAP))
    announce_news(look(STREAM))

    assert announce_news(look(STREAM, GAP)) == []


def test_quarantine_that_shrank_and_grew_again_is_told_by_what_it_grew():
    from flows.signals import announce_news

    for quarantined in (5, 2):
        announce_news(look(replace(STREAM, quarantined=quarantined)))

    [said] = announce_news(look(replace(STREAM, quarantined=4)))

    assert said.startswith("2 records of activity_logs")


def test_accounts_are_told_apart_and_a_new_one_is_measured_from_nothing():
    from flows.signals import announce_news

    announce_news(look())

    said = announce_news(look(replace(STREAM, account_profile="west")), ["activity_logs"])

    assert [sentence.split(" could")[0] for sentence in said[:1]] == [
        "1 records of activity_logs of west"
    ]
    assert len(said) == 2


def test_what_another_group_brought_to_light_is_left_to_its_run_and_to_the_watch(sent):
    from flows.signals import announce_news

    announce_news(look())
    grown = look(replace(STREAM, drifted=9), GAP)
    sent.clear()

    assert announce_news(grown, ["alerts"]) == []
    assert sent == []
    assert len(announce_news(grown)) == 2


def test_a_thing_is_told_again_by_whoever_could_not_remember_that_it_was_told(sent, monkeypatch):
    """A process may be killed between the event and the memory of it."""
    from flows import signals

    announce_news = signals.announce_news
    with monkeypatch.context() as broken:
        broken.setattr(signals.Variable, "set", _killed)
        with pytest.raises(KeyboardInterrupt):
            announce_news(look())

    assert len(announce_news(look())) == len(sent) / 2 > 0


def _killed(*_args, **_options):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("state", "events"), [(State.OK, 0), (State.AT_RISK, 1), (State.LOST, 1)])
def test_stream_is_announced_while_the_service_may_forget_it(sent, state, events):
    from flows.signals import announce_risks

    forecast = Forecast(
        state=state, expires_in=timedelta(hours=5), calls=12, catch_up=timedelta(minutes=1)
    )

    assert len(announce_risks(look(replace(STREAM, retention=forecast)))) == events
    assert [name for name, _ in sent] == ["fleetlake.retention.at_risk"] * events
