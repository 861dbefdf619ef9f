"""Which polled alert confirms which push: the rule, and look-alikes."""

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.lake import Lake, open_lake
from fleetlake.lake.confirmation import _Event, confirm_all, drop_dangling, paired
from fleetlake.planning.intervals import BEGINNING, Interval
from fleetlake.receiving import drain
from fleetlake.receiving.drain import drain_all
from tests.support.alert_messages import (
    NOON,
    POLLED,
    PUSHED,
    an_alert,
    live,
    poll,
    push,
    staged,
    with_id,
    without_id,
)


@pytest.fixture
def lake(lake_path: Path) -> Iterator[Lake]:
    with open_lake(lake_path) as opened:
        yield opened


@pytest.fixture
def pushed(lake: Lake, tmp_path: Path, monkeypatch) -> Any:
    """Return a function that brings messages into the open lake."""
    monkeypatch.setattr(drain, "open_lake", lambda *_, **__: nullcontext(lake))

    def bring(*bodies: Any, at: datetime = NOON) -> None:
        push(tmp_path / "journal", *bodies, at=at)
        drain_all(lake.path, tmp_path / "journal")

    return bring


def count(lake: Lake) -> int:
    return len(staged(lake, "alert_id"))


def shown(lake: Lake) -> Counter[str]:
    """Return how many alerts of each type show."""
    return Counter(kind for (kind,) in staged(lake, "alert_type"))


ALERT = an_alert(1)

SAME = {
    "the same": {},
    "another order in info": {"info": {"reason": "lost", "uid": "mdm-1"}},
    "another spelling of the time": {"detected_at": "2026-06-15T12:00:00.900000Z"},
    "more members": {"severity": 3},
    "created at another time": {"created_at": "2026-06-15T13:00:00Z"},
    "no time": {"detected_at": None},
}
OTHER = {
    "another device": {"router": 8},
    "the account instead of a device": {"router": None, "account": 7},
    "no device": {"router": None},
    "another type": {"type": "reboot"},
    "another text": {"friendly_info": "It failed over."},
    "no text": {"friendly_info": None},
    "another info": {"info": {"uid": "mdm-2", "reason": "lost"}},
    "no info": {"info": None},
    "a second later": {"detected_at": "2026-06-15T12:00:01Z"},
    "another text and no time": {"friendly_info": "It failed over.", "detected_at": None},
    "another info and no time": {"info": {"uid": "mdm-2"}, "detected_at": None},
}


@pytest.mark.parametrize("first", ["push", "poll"])
def test_a_push_without_an_id_is_confirmed_by_an_alert_with_the_same_content(lake, pushed, first):
    cases = {**SAME, **OTHER}  # each with types of its own, so that none meets another
    polled = [an_alert(n, type=f"failover: {name}") for n, name in enumerate(cases, start=1)]
    bodies = [
        without_id(alert) | change | {"type": f"{change.get('type', 'failover')}: {name}"}
        for alert, (name, change) in zip(polled, cases.items(), strict=True)
    ]
    if first == "push":
        pushed(*bodies)
    poll(lake, polled)
    if first == "poll":
        pushed(*bodies)

    found = Counter(kind.partition(": ")[2] for kind in shown(lake).elements())
    assert found == dict.fromkeys(SAME, 1) | dict.fromkeys(OTHER, 2)


def test_with_an_id_only_the_id_counts(lake, pushed):
    pushed(with_id(an_alert(1)), with_id(an_alert(2)) | {"type": "odd", "router": 99})
    poll(lake, [an_alert(2), an_alert(3)])

    assert count(lake) == 3
    assert lake.rows("select count(*) from meta.confirmations") == [(1,)]


def test_the_same_alert_raised_twice_within_a_second_stays_two(lake, pushed):
    first, second = an_alert(1, seconds=0), an_alert(2, seconds=0.5)

    pushed(without_id(second), without_id(first))
    assert count(lake) == 2
    poll(lake, [second, first])

    assert count(lake) == 2
    ids = [alert["created_at_timeuuid"] for alert in (first, second)]
    confirming = lake.rows("select alert_id from meta.confirmations order by all")
    assert confirming == [(id_,) for id_ in sorted(ids)]


def test_look_alikes_are_paired_anew_when_it_turns_out_which_is_which(lake, pushed):
    early, late = an_alert(1, seconds=0), an_alert(2, seconds=0.6)
    last = an_alert(3, seconds=1.2)
    pushed(without_id(late))
    poll(lake, [early])
    assert count(lake) == 1
    poll(lake, [last])
    pushed(without_id(last), without_id(early))
    poll(lake, [late])

    assert count(lake) == 3
    assert lake.rows(
        "select count(*) from meta.confirmations c join raw.pushed_alerts p using (push_id) "
        "join raw.alerts a on a.created_at_timeuuid = c.alert_id and a.detected_at = p.detected_at"
    ) == [(3,)]


def test_an_alert_whose_id_was_pushed_confirms_no_other_push(lake, pushed):
    first, second = an_alert(1), an_alert(2, seconds=0.5)
    pushed(with_id(first), without_id(second))

    poll(lake, [first])

    assert count(lake) == 2


@pytest.mark.parametrize("first", ["push", "poll"])
def test_an_alert_of_a_device_that_reports_days_later_is_one_alert(lake, pushed, first):
    days = timedelta(days=4)
    alert = an_alert(1) | {"created_at": (NOON + days).isoformat()}
    if first == "push":
        pushed(without_id(alert), at=NOON + days)
    poll(lake, [alert])
    if first == "poll":
        pushed(without_id(alert), at=NOON + days)

    assert count(lake) == 1


def test_all_can_be_paired_anew_whatever_times_devices_report(lake, pushed):
    late = NOON + timedelta(days=4)
    alert = an_alert(1) | {"created_at": late.isoformat()}
    poll(lake, [alert])
    pushed(without_id(alert), at=late)
    pair_anew(lake)
    assert count(lake) == 1

    odd = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    pushed(*({"type": "reboot", "created_at": moment} for moment in odd), at=late)
    pair_anew(lake)
    assert count(lake) == 3


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def happened(minute: float, number: int = 0) -> dict[str, Any]:
    """Return an alert that was created some minutes after noon, like all others of this kind."""
    created = after(minute).isoformat()
    return an_alert(number + 1 + round(minute), seconds=60 * minute) | {"created_at": created}


def read_until(lake: Lake, minute: float, *alerts: dict[str, Any]) -> None:
    """Commit what a load does that has read everything up to a time."""
    poll(lake, alerts, proven=Interval(after(-60), after(minute)))


def unconfirmed(lake: Lake) -> int:
    [(count,)] = lake.rows(
        f"select count(*) from raw.{PUSHED.name} anti join meta.confirmations using (push_id)"
    )
    return int(count)


WITHOUT_A_TIME = [
    (([0], [0.1]), 1),
    (([0], [-0.5]), 1),  # the receiver's clock is behind
    (([0], [-2]), 2),
    (([0], [24 * 60 - 1]), 1),
    (([0], [24 * 60 + 1]), 2),
    (([0, 5, 9], [0.1, 5.1, 9.1]), 3),  # the same thing happened three times
    (([0, 5, 9], [9.1, 9.2, 9.3]), 3),  # all pushes of one minute are one
    (([0, 5, 9], [10.1, 11.1, 12.1]), 3),
    (([0, 5], [0.1, 5.1, 9.1]), 3),  # the third is not listed yet
    (([5], [0.1, 5.1]), 2),  # the first is not listed yet
]
"""Minutes at which alerts of one kind happened, and pushes arrived; and how many alerts show."""


@pytest.mark.parametrize("first", ["push", "poll"])
def test_a_push_without_a_time_is_confirmed_by_the_nearest_alert_before_it_within_a_day(
    lake, pushed, first
):
    cases = {f"failover {number}": case for number, case in enumerate(WITHOUT_A_TIME)}
    arrived = {kind: times[1] for kind, (times, _) in cases.items()}

    def bring() -> None:
        for minute in sorted({minute for minutes in arrived.values() for minute in minutes}):
            kinds = [kind for kind, minutes in arrived.items() if minute in minutes]
            pushed(*(live(ALERT | {"type": kind}) for kind in kinds), at=after(minute))

    if first == "push":
        bring()
        minutes = {kind: len({int(minute) for minute in at}) for kind, at in arrived.items()}
        assert shown(lake) == minutes
    poll(
        lake,
        [
            happened(minute, 100 * number) | {"type": kind}
            for number, (kind, ((created, _), _)) in enumerate(cases.items())
            for minute in created
        ],
    )
    if first == "poll":
        bring()

    expected = {kind: count for kind, (_, count) in cases.items()}
    assert shown(lake) == expected
    pair_anew(lake)
    assert shown(lake) == expected


def test_a_push_without_a_time_that_is_sent_again_later_shows_until_polls_have_read_past_it(
    lake, pushed
):
    pushed(live(ALERT), live(ALERT), at=after(1))
    pushed(live(ALERT), at=after(1.5))
    assert count(lake) == 1

    pushed(live(ALERT), at=after(5))
    read_until(lake, 4, happened(0))
    assert count(lake) == 2
    read_until(lake, 5.5)
    assert count(lake) == 2  # an alert of minute 5 may still appear

    read_until(lake, 7)
    assert count(lake) == 1
    assert unconfirmed(lake) == 0
    [(named,)] = lake.rows("select count(alert_id) from meta.confirmations")
    assert named == 1


def test_a_push_without_a_time_about_an_alert_that_no_poll_lists_stays_visible(lake, pushed):
    pushed(live(ALERT), live(an_alert(1, router=8)), at=after(1))

    read_until(lake, 60, happened(0))

    assert count(lake) == 2
    assert unconfirmed(lake) == 1


def test_an_alert_with_a_push_of_its_own_confirms_no_push_without_a_time(lake, pushed):
    pushed(with_id(happened(0)), at=after(0.1))
    poll(lake, [happened(0)])
    pushed(live(ALERT), at=after(0.2))
    assert unconfirmed(lake) == 1

    pushed(without_id(happened(5)), at=after(5.1))
    poll(lake, [happened(5), happened(6)])
    assert unconfirmed(lake) == 1
    pushed(live(ALERT), at=after(6.1))
    assert count(lake) == 4
    assert unconfirmed(lake) == 1


def test_if_a_polled_alert_is_lost_the_pushes_that_it_settled_show_again(lake, pushed):
    pushed(live(ALERT), at=after(0.1))
    pushed(live(ALERT), at=after(2))
    read_until(lake, 60, happened(0))
    assert count(lake) == 1

    with lake.transaction():
        lake.execute(f"delete from raw.{POLLED.name}")
        drop_dangling(lake, polled_from=BEGINNING)

    assert count(lake) == 2


def pair_anew(lake: Lake) -> None:
    with lake.transaction():
        lake.execute("delete from meta.confirmations")
        confirm_all(lake)


def test_a_poll_of_a_lake_without_pushes_pairs_nothing(lake, monkeypatch):
    def confirm(*_: object) -> None:
        raise AssertionError("there is nothing to pair")

    monkeypatch.setattr("fleetlake.lake.confirmation._confirm", confirm)

    poll(lake, [ALERT])

    assert count(lake) == 1


def test_confirmations_are_forgotten_with_the_rows_that_they_name(lake, pushed):
    pushed(with_id(an_alert(1)), with_id(an_alert(2)))
    poll(lake, [an_alert(1), an_alert(2)])
    with lake.transaction():
        lake.execute("delete from raw.alerts where created_at_timeuuid like '%2'")
        drop_dangling(lake)
    assert count(lake) == 1
    with lake.transaction():
        drop_dangling(lake, polled_from=BEGINNING + timedelta(days=1))
    assert count(lake) == 2


@pytest.mark.parametrize(
    ("pushes", "polled", "pairs"),
    [
        ([], [0], {}),
        ([0], [], {}),
        ([0], [0], {0: 0}),
        ([0], [0.9], {0: 0.9}),
        ([0], [1.0], {}),
        ([1.0], [0], {}),
        ([0, 5], [5.5], {5: 5.5}),  # an earlier push without a partner
        ([5], [0, 5.5], {5: 5.5}),  # an earlier alert without one
        ([0, 0.5], [0.5, 0.9], {0: 0.9, 0.5: 0.5}),  # the same instant first
        ([0, 3, 6], [0.2, 3.2, 6.2], {0: 0.2, 3: 3.2, 6: 6.2}),
        ([0, 0.1, 9], [0.2, 4, 9.1], {0: 0.2, 9: 9.1}),
    ],
)
def test_look_alikes_are_paired_by_instant_and_then_in_the_order_of_time(pushes, polled, pairs):
    def events(seconds: list[float]) -> list[_Event]:
        return [_Event(NOON + timedelta(seconds=s), str(s), None) for s in seconds]

    assert paired(events(pushes), events(polled)) == {str(a): str(b) for a, b in pairs.items()}
