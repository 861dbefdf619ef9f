"""From the journal into the lake: committed with the position, once, and kept if unreadable."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.alerting.new_alerts import AlertTail
from fleetlake.care.maintenance import maintain
from fleetlake.errors import StreamBusy
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.locks import drain_lock, quiet_lake
from fleetlake.receiving import drain
from fleetlake.receiving.drain import Drained, drain_all, drain_once
from fleetlake.receiving.journal_positions import read_positions
from fleetlake.receiving.journal_table import (
    JournalTable,
    JournalUnavailable,
    Position,
    place_of,
)
from tests.support.alert_messages import (
    NOON,
    an_alert,
    live,
    poll,
    push,
    staged,
    with_id,
    without_id,
)
from tests.support.journals import bodies, on_disk, read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(path, read_only=True) as lake:
        return lake.rows(sql)


def test_a_pushed_alert_is_a_row_with_what_it_says_and_its_time_of_arrival(lake_path, folder):
    push(folder, with_id(an_alert(seconds=1.5)) | {"severity": 3})

    drained = drain_once(lake_path, folder)

    assert drained == Drained(messages=1, alerts=1)
    [row] = rows(
        lake_path,
        "select account_profile, router_id, account_id, type, friendly_info, info->>'uid', "
        "detected_at, alerted_at = created_at, received_at, _extra::varchar, "
        "push_id = created_at_timeuuid from raw.pushed_alerts",
    )
    assert row == (
        *("default", 7, None, "failover_event", "The router failed over.", "mdm-1"),
        *(NOON + timedelta(seconds=1.5), True, NOON, '{"severity":3}', True),
    )


def test_a_push_moves_no_watermark_and_proves_no_range(lake_path, folder):
    push(folder, with_id(an_alert()))

    drain_once(lake_path, folder)

    for table in ("watermarks", "intervals", "reads", "lateness"):
        assert rows(lake_path, f"select * from meta.{table}") == []
    assert rows(lake_path, "select endpoint, rows_added from meta.loads") == [("pushed_alerts", 1)]


@pytest.mark.parametrize("shape", [with_id, without_id])
def test_an_alert_pushed_again_is_one_row(lake_path, folder, shape):
    alert = shape(an_alert())
    push(folder, alert, alert)
    drain_once(lake_path, folder)
    push(folder, alert, [alert], at=NOON + timedelta(hours=30))

    drained = drain_once(lake_path, folder)

    assert drained == Drained(messages=2)
    assert rows(lake_path, "select received_at from raw.pushed_alerts") == [(NOON,)]


def test_an_alert_without_any_time_is_one_row_within_a_minute_and_another_one_later(
    lake_path, folder
):
    later = NOON + timedelta(minutes=1)
    push(folder, {"type": "reboot", "router": 7})
    push(folder, {"router": 7, "type": "reboot"}, at=NOON + timedelta(seconds=59))
    drain_once(lake_path, folder)
    push(folder, {"router": 7, "type": "reboot"}, at=later)

    drain_once(lake_path, folder)

    assert rows(lake_path, "select alerted_at from raw.pushed_alerts order by all") == [
        (NOON,),
        (later,),
    ]


def test_a_test_message_leaves_no_row_and_no_dead_letter(lake_path, folder):
    push(folder, {"type": "test", "friendly_info": "Test of the push destination."})

    assert drain_once(lake_path, folder) == Drained(messages=1, tests=1)
    assert rows(lake_path, "from raw.pushed_alerts") == []
    assert rows(lake_path, "from meta.quarantine") == []


def test_an_alert_of_the_type_test_about_a_device_is_kept(lake_path, folder):
    push(folder, {"type": "test", "router": 7})

    assert drain_once(lake_path, folder).alerts == 1


def test_what_cannot_be_read_is_kept_with_its_bytes_and_stops_nothing(lake_path, folder):
    push(folder, b"garbage", b"\xff\\", [{"no": "type"}, with_id(an_alert())], b"garbage")

    drained = drain_once(lake_path, folder)

    assert drained == Drained(messages=4, alerts=1, dead_letters=4)
    kept = rows(lake_path, "select endpoint, raw from meta.quarantine order by all")
    letters = ["escaped:\\xff\\\\", "garbage", '{"no":"type"}']
    assert kept == [("pushed_alerts", letter) for letter in letters]


def test_the_position_is_committed_with_the_rows_and_drained_messages_are_deleted(
    lake_path, folder
):
    push(folder, with_id(an_alert(1)), with_id(an_alert(2)))
    journal_id = read(folder).journal_id

    drain_once(lake_path, folder)

    with open_lake(lake_path) as lake:
        assert read_positions(lake) == {journal_id: Position(2, place_of(folder))}
    assert b"failed over" not in on_disk(folder)
    assert drain_once(lake_path, folder).is_nothing


def test_messages_left_by_a_drain_killed_after_its_commit_are_deleted_without_news(
    lake_path, folder, monkeypatch
):
    push(folder, with_id(an_alert(1)))

    def fail(*_: object) -> None:
        raise JournalUnavailable("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(JournalTable, "delete_until", fail)
        with pytest.raises(JournalUnavailable):
            drain_once(lake_path, folder)
    assert len(bodies(folder)) == 1

    assert drain_once(lake_path, folder).is_nothing
    assert bodies(folder) == []


def test_many_messages_are_committed_in_limited_batches(lake_path, folder, monkeypatch):
    monkeypatch.setattr(drain, "MOST_MESSAGES", 2)
    push(folder, *(with_id(an_alert(n)) for n in range(5)))

    assert drain_once(lake_path, folder) == Drained(messages=2, alerts=2, has_more=True)
    assert drain_all(lake_path, folder) == Drained(messages=3, alerts=3)


class Killed(BaseException):
    """The process ended here."""


@pytest.fixture(
    params=[
        "before the commit",
        "after the commit",
        pytest.param("before the removal", marks=pytest.mark.proof),
    ]
)
def killing(request, monkeypatch) -> Iterator[pytest.MonkeyPatch]:
    """End the process at one of the instants of a drain's commit."""
    real, point = Lake.execute, request.param

    def execute(lake: Lake, sql: str, parameters: object = None) -> Any:
        if sql == "commit" and point == "before the commit":
            raise Killed
        done = real(lake, sql, parameters)
        if sql == "commit" and point == "after the commit":
            raise Killed
        return done

    def remove(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if point == "before the removal":
            patch.setattr(JournalTable, "delete_until", remove)
        else:
            patch.setattr(Lake, "execute", execute)
        yield patch


def test_a_kill_around_the_commit_loses_and_doubles_nothing(lake_path, folder, killing):
    push(folder, b"garbage", with_id(an_alert(1)), without_id(an_alert(2)))
    push(folder, with_id(an_alert(3)))
    with pytest.raises(Killed):
        drain_once(lake_path, folder)
    killing.undo()

    drain_all(lake_path, folder)

    assert rows(lake_path, "select count(*) from raw.pushed_alerts") == [(3,)]
    assert rows(lake_path, "select count(*) from meta.quarantine") == [(1,)]
    assert rows(lake_path, "select sum(rows_added) from meta.loads") == [(3,)]
    assert rows(lake_path, "select count(*) from meta.journal_positions") == [(1,)]


def test_a_lake_restored_from_a_backup_says_which_messages_it_lacks(lake_path, folder):
    push(folder, with_id(an_alert(1)))
    drain_once(lake_path, folder)
    with open_lake(lake_path) as lake, lake.transaction():  # as an earlier backup has it
        lake.execute("delete from meta.journal_positions")
        lake.execute("delete from raw.pushed_alerts")
    push(folder, with_id(an_alert(2)))

    assert drain_all(lake_path, folder) == Drained(messages=1, alerts=1, losses=1)
    [summary] = journal_events(lake_path)
    assert "lacks message 1, which went into another lake" in summary


def journal_events(lake_path: Path) -> list[str]:
    return [one for (one,) in rows(lake_path, "select summary from meta.events order by 1")]


def test_a_lost_journal_is_an_event_and_the_messages_of_a_new_one_are_kept(lake_path, folder):
    push(folder, with_id(an_alert(1)))
    drain_once(lake_path, folder)
    for file in folder.iterdir():
        file.unlink()

    lost = drain_once(lake_path, folder)
    push(folder, with_id(an_alert(2)))

    assert lost == Drained(losses=1)
    assert drain_once(lake_path, folder) == Drained(messages=1, alerts=1)
    [summary] = journal_events(lake_path)
    assert "is lost or was replaced" in summary
    assert rows(lake_path, "select count(*) from meta.journal_positions") == [(1,)]


def test_only_one_process_drains_a_lake_and_maintenance_waits_for_it(lake_path, folder):
    push(folder, with_id(an_alert()))
    with drain_lock(lake_path), pytest.raises(StreamBusy, match="pushed records"):
        drain_once(lake_path, folder, lock_seconds=0)
    with quiet_lake(lake_path), pytest.raises(StreamBusy):
        drain_once(lake_path, folder, lock_seconds=0)

    assert drain_once(lake_path, folder).alerts == 1
    with open_lake(lake_path) as lake:
        maintain(lake)
    assert rows(lake_path, "select count(*) from raw.pushed_alerts") == [(1,)]


def test_an_alert_shows_at_once_and_is_the_polled_row_once_polled(lake_path, folder):
    alert = an_alert()
    push(folder, with_id(alert))
    drain_once(lake_path, folder)

    with open_lake(lake_path) as lake:
        before = staged(lake, "alert_id, router_id, alert_type, detected_at, created_at")
        poll(lake, [alert])
        after = staged(lake, "alert_id, router_id, alert_type, detected_at, created_at")

        assert before == after
        assert len(after) == 1
        assert lake.rows("select alert_id from meta.confirmations") == [
            (alert["created_at_timeuuid"],)
        ]


@pytest.mark.parametrize("shape", [with_id, without_id, live])
def test_before_the_first_build_a_watch_shows_a_pushed_alert_once(lake_path, folder, shape):
    alert = an_alert()
    with open_lake(lake_path) as lake:
        tail = AlertTail(lake)
        push(folder, shape(alert))
        drain_once(lake_path, folder)
        shown = tail.look()
        poll(lake, [alert])
        again = tail.look()

    assert [(one.alert_type, one.router_id) for one in shown] == [(alert["type"], 7)]
    assert again == []


def test_a_watch_since_a_time_shows_what_was_there_once_and_nothing_older(lake_path):
    with open_lake(lake_path) as lake:
        poll(lake, [an_alert(1)])
        old = AlertTail(lake, since=NOON + timedelta(hours=1))
        new = AlertTail(lake, since=NOON - timedelta(hours=1))

        assert [len(tail.look()) for tail in (old, old, new, new)] == [0, 0, 1, 0]
