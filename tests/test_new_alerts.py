"""Each alert is announced once, however it arrives and whatever runs twice."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.alerting import new_alerts as module
from fleetlake.alerting.new_alerts import new_alerts, note_announced
from fleetlake.care.maintenance import maintain
from fleetlake.errors import StreamBusy
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.locks import announce_lock
from fleetlake.receiving.drain import drain_all
from tests.support.alert_messages import NOON, an_alert, poll, push, with_id, without_id

TYPES = ("failover_event",)
NOW = NOON + timedelta(hours=1)
SHAPES = pytest.mark.parametrize(
    "shape", [pytest.param(with_id, marks=pytest.mark.proof), without_id]
)
FIRST, SECOND = an_alert(1), an_alert(2, seconds=90, router=8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def lake(lake_path: Path) -> Iterator[Lake]:
    """Return an open lake in which alerts are announced from now on."""
    with open_lake(lake_path) as opened:
        announced(opened)
        yield opened


def announced(lake: Lake, types: tuple[str, ...] = TYPES) -> list[Any]:
    """Announce, and return what was announced."""
    found, until = new_alerts(lake, types, now=NOW)
    note_announced(lake, until)
    return found


def ids(lake: Lake) -> list[str]:
    return [alert.alert_id for alert in announced(lake)]


def test_what_is_in_the_lake_before_the_first_look_is_not_announced(lake_path):
    with open_lake(lake_path) as lake:
        poll(lake, [FIRST])

        assert announced(lake) == []
        poll(lake, [FIRST, SECOND])
        assert ids(lake) == [SECOND["created_at_timeuuid"]]


def test_an_alert_is_announced_with_what_is_known_about_it(lake):
    lake.execute(
        "insert into raw.routers by name select 'default' as account_profile, 7 as id, "
        "'Depot' as name, 3 as group_id; "
        "insert into raw.groups by name select 'default' as account_profile, 3 as id, "
        "'North' as name"
    )
    poll(lake, [FIRST])

    [alert] = announced(lake)

    assert (alert.router_id, alert.router_name, alert.group_name) == (7, "Depot", "North")
    assert (alert.alert_type, alert.description) == ("failover_event", "The router failed over.")
    assert (alert.arrived_by, alert.detected_at, alert.account_id) == ("poll", NOON, None)
    assert announced(lake) == []


@pytest.mark.parametrize("shape", [with_id, without_id])
def test_a_pushed_alert_is_not_announced_again_when_it_is_polled(lake, lake_path, folder, shape):
    push(folder, shape(FIRST))
    drain_all(lake_path, folder)

    [alert] = announced(lake)

    assert alert.arrived_by == "push"
    poll(lake, [FIRST, SECOND])
    assert ids(lake) == [SECOND["created_at_timeuuid"]]


@SHAPES
def test_a_polled_alert_is_not_announced_again_when_its_push_comes_late(
    lake, lake_path, folder, shape
):
    poll(lake, [FIRST])
    assert ids(lake) == [FIRST["created_at_timeuuid"]]
    push(folder, shape(FIRST))
    drain_all(lake_path, folder)

    assert announced(lake) == []


@SHAPES
def test_an_alert_pushed_and_polled_between_two_looks_is_announced_once(
    lake, lake_path, folder, shape
):
    push(folder, shape(FIRST))
    drain_all(lake_path, folder)
    poll(lake, [FIRST])

    assert ids(lake) == [FIRST["created_at_timeuuid"]]
    assert announced(lake) == []


@SHAPES
def test_an_announcement_repeated_after_a_kill_has_the_same_id(lake, lake_path, folder, shape):
    push(folder, shape(FIRST))
    drain_all(lake_path, folder)
    [[sent], _] = new_alerts(lake, TYPES, now=NOW)  # and then it was killed
    poll(lake, [FIRST])

    [again] = announced(lake)

    assert (sent.arrived_by, again.arrived_by) == ("push", "poll")
    assert sent.event_id == again.event_id


def test_only_the_named_types_are_announced_and_a_type_named_later_from_then_on(lake):
    poll(lake, [an_alert(1, type="config_change"), FIRST | {"created_at_timeuuid": None}])
    poll(lake, [an_alert(3, type="reboot")])

    assert announced(lake) == []
    poll(lake, [an_alert(4, type="reboot"), an_alert(5)])
    assert {alert.alert_type for alert in announced(lake, (*TYPES, "reboot"))} == {
        "failover_event",
        "reboot",
    }


def test_alerts_of_the_day_before_yesterday_wake_nobody(lake, lake_path, folder):
    old = an_alert(1, seconds=-90_000)
    push(folder, with_id(old))
    drain_all(lake_path, folder)
    poll(lake, [an_alert(2, seconds=-90_000)])

    assert announced(lake) == []


@pytest.mark.proof
def test_maintenance_makes_no_alert_new(lake, lake_path, folder):
    push(folder, with_id(FIRST))
    drain_all(lake_path, folder)
    poll(lake, [SECOND])
    assert len(announced(lake)) == 2

    maintain(lake)

    assert announced(lake) == []
    poll(lake, [FIRST])
    assert announced(lake) == []


def test_many_alerts_are_announced_in_limited_looks(lake, lake_path, folder, monkeypatch):
    monkeypatch.setattr(module, "MOST_ALERTS", 2)
    push(folder, *(with_id(an_alert(n)) for n in range(10, 15)))
    drain_all(lake_path, folder)
    poll(lake, [an_alert(n) for n in range(3)])

    looks = [ids(lake) for _ in range(5)]

    assert [len(look) for look in looks] == [2, 3, 2, 1, 0]
    assert len({one for look in looks for one in look}) == 8


def test_alerts_left_for_the_next_look_are_announced_though_their_pushes_came_before(
    lake, lake_path, folder, monkeypatch
):
    monkeypatch.setattr(module, "MOST_ALERTS", 2)
    alerts = [an_alert(n) for n in range(5)]
    push(folder, *map(with_id, alerts))
    drain_all(lake_path, folder)
    poll(lake, alerts)

    found = [one for _ in range(4) for one in ids(lake)]

    assert sorted(found) == sorted(alert["created_at_timeuuid"] for alert in alerts)


def test_one_process_announces_at_a_time(lake_path):
    with (
        announce_lock(lake_path),
        pytest.raises(StreamBusy, match="announcing"),
        announce_lock(lake_path),
    ):
        pass
