"""An event for each new alert of the named types, sent once, and only if the server takes it."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
import yaml

from fleetlake.alerting.new_alerts import NewAlert
from fleetlake.errors import UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.locks import announce_lock
from fleetlake.planning.coverage import SETTLE
from fleetlake.receiving.drain import drain_all
from fleetlake.settings import Settings
from fleetsim.alert_types import CONTRACT_ALERT_TYPES
from tests.flows.alone import let_read
from tests.flows.server import ROOT
from tests.support.alert_messages import NOON, an_alert, poll, push, with_id
from tests.support.sim import NOW

pytestmark = [
    pytest.mark.xdist_group("prefect"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

ALERT = NewAlert(
    push_id="7f0e",
    alert_id="7f0e",
    arrived_by="push",
    account_profile="default",
    alert_type="failover_event",
    description="The router failed over.",
    detected_at=NOON,
    account_id=None,
    router_id=7,
    router_name="Depot",
    group_name="North",
)


@pytest.fixture
def settings(lake_path: Path) -> Settings:
    """Return settings that name a type, for a lake in which nothing is new."""
    from flows.alert_events import announce_alerts

    made = Settings(
        lake=lake_path,
        base_url="http://localhost/",
        push_journal=lake_path.parent / "journal",
        alert_events="failover",
    )
    announce_alerts(made)
    return made


@pytest.mark.proof
def test_alerts_that_are_pushed_or_polled_are_announced_once_each(alone, settings, monkeypatch):
    from flows import alert_events

    monkeypatch.setattr(alert_events, "lake_now", lambda *_: NOON)
    push(settings.push_journal, with_id(an_alert(1)), with_id(an_alert(2, type="reboot")))
    drain_all(settings.lake, settings.push_journal)
    with open_lake(settings.lake) as lake:
        poll(lake, [an_alert(1), an_alert(3)])

    counts = [alert_events.announce_alerts(settings) for _ in range(2)]

    assert counts == [2, 0]
    sent = {event.payload["alert_id"]: event.payload["arrived_by"] for event in alone.alerts}
    assert set(sent) == {an_alert(n)["created_at_timeuuid"] for n in (1, 3)}


@pytest.mark.proof
def test_what_the_server_did_not_take_is_sent_again(alone, settings, monkeypatch):
    from flows import alert_events

    monkeypatch.setattr(alert_events, "lake_now", lambda *_: NOON)
    with open_lake(settings.lake) as lake:
        poll(lake, [an_alert(1)])
    alone.is_server_away = True

    assert alert_events.announce_if_possible(settings) == 0  # and no load fails for it
    with pytest.raises(httpx.ConnectError):
        alert_events.announce_alerts(settings)
    alone.is_server_away = False
    assert alert_events.announce_if_possible(settings) == 1
    assert len(alone.alerts) == 1


@pytest.mark.usefixtures("alone")
def test_a_misspelt_type_or_another_process_stops_no_load(settings):
    from flows.alert_events import announce_alerts, announce_if_possible

    misspelt = settings.model_copy(update={"alert_events": ("failovr",)})
    with pytest.raises(UsageError, match="failover"):
        announce_alerts(misspelt)
    assert announce_if_possible(misspelt) == 0
    with announce_lock(settings.lake):
        assert announce_if_possible(settings) == 0


def test_without_named_types_no_lake_is_opened(alone):
    from flows.alert_events import announce_alerts

    assert announce_alerts(Settings(lake=Path("/nowhere/lake"), base_url="http://localhost/")) == 0
    assert alone.alerts == []


@pytest.mark.usefixtures("prefect_home")
def test_an_event_says_what_a_page_needs_and_what_automations_match_on():
    from flows.alert_events import event_of

    event = event_of(ALERT)

    assert event.event == "fleetlake.alert"
    assert event.resource.root == {
        "prefect.resource.id": "fleetlake.router.7",
        "prefect.resource.name": "Depot",
        "fleetlake.alert-type": "failover_event",
        "fleetlake.group": "North",
        "fleetlake.profile": "default",
    }
    assert event.payload["what"] == "Depot: The router failed over. (2026-06-15T12:00:00+00:00)"
    assert event.id == event_of(ALERT).id


@pytest.mark.usefixtures("prefect_home")
@pytest.mark.parametrize(
    ("router", "account", "resource"),
    [(None, 3, "fleetlake.account.3"), (None, None, "fleetlake.fleet")],
)
def test_an_alert_about_no_device_is_about_its_account_or_the_fleet(router, account, resource):
    from flows.alert_events import event_of

    alert = replace(ALERT, router_id=router, router_name=None, account_id=account)

    assert event_of(alert).resource.id == resource


@pytest.mark.usefixtures("prefect_home")
def test_texts_of_the_service_are_cut_and_cannot_move_a_cursor():
    from flows.alert_events import event_of

    long = "\x1b[31m" + "é" * 100_000
    alert = replace(
        ALERT, description=long, router_name=long, group_name=long, alert_type=long, alert_id=long
    )

    event = event_of(alert)

    assert len(json.dumps(event.model_dump(mode="json"), ensure_ascii=False)) < 3_000
    assert not [
        text
        for text in (*event.payload.values(), *event.resource.root.values())
        if "\x1b" in str(text)
    ]


def test_a_load_of_alerts_announces_those_it_brought(alone, sim, monkeypatch):
    from fleetlake.endpoints.model import Group
    from flows import alert_events, ingest

    later = NOW + timedelta(hours=20)
    monkeypatch.setattr(alert_events, "lake_now", lambda *_: later)  # it is not this machine's
    given = sim.settings(alert_events=",".join(CONTRACT_ALERT_TYPES))
    let_read(sim, monkeypatch)
    monkeypatch.setattr(ingest, "settings_of_run", lambda: given)
    ingest.ingest.fn(Group.EVENTS)
    assert alone.alerts == []  # the first load of a lake wakes nobody
    sim.advance((later - NOW).total_seconds())

    ingest.ingest.fn(Group.EVENTS)

    truth = sim.truth("alerts", later - SETTLE)
    new = [a for a in truth if datetime.fromisoformat(a["created_at"]) >= NOW - SETTLE]
    assert new
    assert sorted(event.payload["alert_id"] for event in alone.alerts) == sorted(
        alert["created_at_timeuuid"] for alert in new
    )


# --- the example ------------------------------------------------------------------------------

EXAMPLE = ROOT / "flows/automations/examples/page-on-alert.yaml"


@pytest.mark.usefixtures("prefect_home")
def test_the_example_of_an_automation_is_valid_and_is_not_registered():
    from prefect.events.schemas.automations import AutomationCore

    automation = AutomationCore.model_validate(yaml.safe_load(EXAMPLE.read_text()))

    assert automation.trigger.expect == {"fleetlake.alert"}
    assert EXAMPLE not in (ROOT / "flows/automations").glob("*.yaml")


@pytest.mark.usefixtures("prefect_home")
def test_the_example_matches_the_events_that_are_sent():
    from prefect.events.schemas.automations import AutomationCore

    from flows.alert_events import event_of

    automation = AutomationCore.model_validate(yaml.safe_load(EXAMPLE.read_text()))

    assert automation.trigger.match.matches(event_of(ALERT).resource)
    for words in (automation.actions[0].subject, automation.actions[0].body):
        for name in ("payload.type", "resource.name", "payload.what"):
            words = words.replace(f"{{{{ event.{name} }}}}", "")  # noqa: PLW2901
        assert "{" not in words


@pytest.mark.proof
@pytest.mark.usefixtures("prefect_server")
def test_the_server_keeps_an_event_once_however_often_it_is_sent():
    from prefect.client.orchestration import get_client

    from flows.alert_events import event_of, send_events
    from tests.support.waiting import wait_for

    events = [event_of(ALERT)]
    for _ in range(2):
        send_events(events)

    def kept():
        wanted = {"filter": {"event": {"name": ["fleetlake.alert"]}}}
        with get_client(sync_client=True) as client:
            return client.request("POST", "/events/filter", json=wanted).json()["events"]

    wait_for(kept)
    send_events(events)
    [only] = kept()
    assert only["payload"]["router"] == "Depot"
