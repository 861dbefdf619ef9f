"""Each finding is announced once, no matter which run loaded the records or how it ended."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetlake.lake import open_lake
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.monitoring.push_status import PushStatus
from fleetlake.monitoring.status import LakeStatus
from fleetlake.planning.retention import Forecast, RetentionState
from fleetlake.service.clock import machine_now
from fleetlake.settings import Settings
from tests.support.alert_messages import push
from tests.support.streams import GAP, GOOD, NOW

pytestmark = [
    pytest.mark.xdist_group("prefect"),
    pytest.mark.usefixtures("sent"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

STREAM = replace(GOOD, quarantined=1, drifted=2)


at_a_server_too = pytest.mark.parametrize(
    "sent", ["in memory", pytest.param("at a server", marks=pytest.mark.proof)], indirect=True
)


@pytest.fixture
def sent(request, monkeypatch):
    """Capture the events instead of sending them, and keep the variables that record them."""
    kept_at_server = getattr(request, "param", "") == "at a server"
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


def lake_state(stream=STREAM, *gaps):
    from flows.signals import LakeState

    quiet = replace(STREAM, endpoint="alerts")
    return LakeState(now=NOW, status=LakeStatus(streams=[stream, quiet], open_gaps=list(gaps)))


@at_a_server_too
def test_a_finding_is_announced_only_once(sent):
    from flows.signals import announce_findings

    announce_findings(lake_state(STREAM, GAP))
    sent.clear()

    assert announce_findings(lake_state(STREAM, GAP)) == []
    assert sent == []


def test_growth_of_quarantine_drift_and_gaps_is_announced_once_each(sent):
    from flows.signals import announce_findings

    announce_findings(lake_state())
    sent.clear()
    grown = replace(STREAM, quarantined=4, drifted=3)

    messages = announce_findings(lake_state(grown, GAP))

    assert [name for name, _ in sent] == [
        "fleetlake.quarantine.grew",
        "fleetlake.schema.drifted",
        "fleetlake.gap.recorded",
    ]
    assert [payload["what"] for _, payload in sent] == messages
    assert messages[0].startswith("3 records of activity_logs")


def test_a_newer_gap_is_announced_and_an_older_one_is_not_announced_again():
    from flows.signals import announce_findings

    announce_findings(lake_state(STREAM, GAP))
    newer = replace(GAP, start_at=NOW + timedelta(hours=1), recorded_at=NOW + timedelta(days=1))

    [message] = announce_findings(lake_state(STREAM, GAP, newer))

    assert "2026-06-15 13:00" in message


def test_gaps_are_not_announced_again_after_they_are_acknowledged():
    from flows.signals import announce_findings

    announce_findings(lake_state(STREAM, GAP))
    announce_findings(lake_state(STREAM))

    assert announce_findings(lake_state(STREAM, GAP)) == []


def test_quarantine_that_shrank_and_grew_again_is_announced_by_its_growth():
    from flows.signals import announce_findings

    for quarantined in (5, 2):
        announce_findings(lake_state(replace(STREAM, quarantined=quarantined)))

    [message] = announce_findings(lake_state(replace(STREAM, quarantined=4)))

    assert message.startswith("2 records of activity_logs")


def test_each_account_has_its_own_record_and_a_new_one_starts_from_zero():
    from flows.signals import announce_findings

    announce_findings(lake_state())

    messages = announce_findings(
        lake_state(replace(STREAM, account_profile="west")), ["activity_logs"]
    )

    assert [message.split(" could")[0] for message in messages[:1]] == [
        "1 record of activity_logs of west"
    ]
    assert len(messages) == 2


def test_findings_of_another_group_are_left_to_its_run_and_to_the_watch(sent):
    from flows.signals import announce_findings

    announce_findings(lake_state())
    grown = lake_state(replace(STREAM, drifted=9), GAP)
    sent.clear()

    assert announce_findings(grown, ["alerts"]) == []
    assert sent == []
    assert len(announce_findings(grown)) == 2


def test_a_finding_is_announced_again_if_the_process_was_killed_before_it_was_recorded(
    sent, monkeypatch
):
    """A process may be killed after it sends the event and before it records it."""
    from flows import signals

    announce_findings = signals.announce_findings
    with monkeypatch.context() as broken:
        broken.setattr(signals.Variable, "set", _killed)
        with pytest.raises(KeyboardInterrupt):
            announce_findings(lake_state())

    assert len(announce_findings(lake_state())) == len(sent) / 2 > 0


def _killed(*_args, **_options):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("state", "events"),
    [(RetentionState.OK, 0), (RetentionState.AT_RISK, 1), (RetentionState.LOST, 1)],
)
def test_stream_is_announced_while_its_records_may_expire(sent, state, events):
    from flows.signals import announce_risks

    forecast = Forecast(
        state=state, expires_in=timedelta(hours=5), calls=12, catch_up=timedelta(minutes=1)
    )

    assert len(announce_risks(lake_state(replace(STREAM, retention=forecast)))) == events
    assert [name for name, _ in sent] == ["fleetlake.retention.at_risk"] * events


@at_a_server_too
def test_each_event_of_the_audit_trail_is_announced_once(sent, lake_path):
    from flows.signals import LAST_EVENT, Variable, announce_events

    Variable.unset(LAST_EVENT)
    settings = Settings(lake=lake_path, base_url="http://localhost/")
    with open_lake(lake_path) as lake:
        record_event(lake, EventKind.CHECK, "An old one.")
        lake.execute("update meta.events set happened_at = '2025-06-01'")
        record_event(lake, EventKind.CHECK, "A file is missing.")
    first = announce_events(settings)
    with open_lake(lake_path) as lake:
        record_event(lake, EventKind.REPAIR, "Rows were forgotten.", endpoint="alerts", rows=5)

    [repaired] = announce_events(settings)

    assert [message.partition(", check: ")[2] for message in first] == ["A file is missing."]
    assert repaired.endswith("repair: Rows were forgotten. Rows: 5.")
    assert announce_events(settings) == []
    assert [(name, payload["endpoint"]) for name, payload in sent] == [
        ("fleetlake.lake.event", "lake"),
        ("fleetlake.lake.event", "alerts"),
    ]


def test_a_lake_restored_from_a_backup_is_told_of_again(lake_path):
    from flows.signals import LAST_EVENT, Variable, announce_events

    Variable.set(LAST_EVENT, 99, overwrite=True)
    with open_lake(lake_path) as lake:
        record_event(lake, EventKind.CHECK, "A file is missing.")

    messages = announce_events(Settings(lake=lake_path, base_url="http://localhost/"))

    Variable.unset(LAST_EVENT)
    assert len(messages) == 1


def test_a_journal_that_nobody_drains_is_announced_once_until_it_is_drained(
    sent, lake_path, tmp_path
):
    from flows.signals import JOURNAL_WAITS, Variable, announce_journal, read_lake_state

    Variable.unset(JOURNAL_WAITS)
    settings = Settings(
        lake=lake_path, base_url="http://localhost/", push_journal=tmp_path / "journal"
    )
    push(settings.push_journal, {"type": "reboot", "router": 7}, at=NOW)
    waiting = read_lake_state(settings)
    drained = replace(waiting, status=replace(waiting.status, pushes=PushStatus()))

    found = [announce_journal(state) for state in (waiting, waiting, drained, waiting)]

    assert [len(messages) for messages in found] == [1, 0, 0, 1]
    assert found[0][0].startswith("1 pushed message in the journal")
    assert {(name, payload["endpoint"]) for name, payload in sent} == {
        ("fleetlake.push.failing", "pushed_alerts")
    }


def test_a_message_that_has_just_arrived_is_no_finding():
    from flows.signals import JOURNAL_WAITS, Variable, announce_journal

    Variable.unset(JOURNAL_WAITS)
    pushes = PushStatus(waiting_messages=1, waiting_bytes=90, waiting_since=machine_now())
    state = lake_state()

    assert announce_journal(replace(state, status=replace(state.status, pushes=pushes))) == []
