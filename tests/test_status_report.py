"""Every line that `fleetlake status` can print, in its order."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain

import pytest

from fleetlake.alerting.push_destinations import PushState
from fleetlake.cli.status import event_lines, push_lines, summary_lines
from fleetlake.lake.audit_trail import Event
from fleetlake.monitoring.push_status import (
    PushDestinationStatus,
    PushStatus,
    push_counts,
    push_notes,
)
from fleetlake.monitoring.status import LakeStatus
from fleetlake.planning.intervals import Interval
from fleetlake.planning.retention import forecast
from tests.support.streams import GAP, GOOD, NOW

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def destination(state: PushState, **more: object) -> PushDestinationStatus:
    """Return a destination that is named after its state."""
    values = {"last_error_at": NOW - HOUR, "last_error_text": "HTTP 500", **more}
    return PushDestinationStatus(
        account_profile="default",
        destination_id="d",
        name=str(state),
        state=state,
        remedy=f"fix {state}",
        **values,
    )


def event(kind: str) -> Event:
    return Event(
        number=1,
        happened_at=NOW,
        kind=kind,
        actor="me",
        account_profile=None,
        endpoint=None,
        rows=None,
        summary="",
        details={},
    )


def expiring(days: float) -> object:
    unread = [Interval(NOW - timedelta(days=days), NOW)]
    return forecast(
        unread=unread, now=NOW, retention=30 * DAY, records_per_second=1, calls_per_minute=450
    )


STREAMS = [
    GOOD,
    replace(GOOD, endpoint="alerts", retention=expiring(29.5)),
    replace(GOOD, endpoint="failovers", retention=expiring(31)),
    replace(GOOD, endpoint="accounts", loaded_at=NOW - 3 * DAY),
    replace(GOOD, endpoint="users", complete_until=NOW + 40 * HOUR),
    replace(GOOD, endpoint="groups", holes=1),
    replace(GOOD, endpoint="routers", absent=7, account_profile="west"),
    replace(GOOD, endpoint="products", quarantined=1),
    replace(GOOD, endpoint="batteries", rows=0, loaded_at=None),
]
FOUND = LakeStatus(
    streams=STREAMS,
    open_gaps=[GAP, replace(GAP, account_profile="west"), GAP],
    events=[event("clock"), event("shrunk_list"), event("clock")],
    pushes=PushStatus(
        alerts=5,
        received_at=NOW - 2 * HOUR,
        unconfirmed=1,
        unpushed=2,
        spared_calls=6,
        dead_letters=3,
        waiting_messages=4,
        waiting_bytes=12_345,
        waiting_since=NOW - HOUR,
    ),
    push_destinations=[
        destination(PushState.ACTIVE),
        destination(PushState.DISABLED),
        destination(PushState.SUSPENDED),
        destination(PushState.UNREACHABLE, last_error_text=None),
        destination(PushState.UNREACHABLE, last_error_at=None),
    ],
)


def report(found: LakeStatus) -> Iterator[str]:
    """Yield all lines but the table."""
    pushes = (*push_lines(found, NOW), *push_notes(found.push_destinations))
    return chain(summary_lines(found, NOW), pushes, event_lines(found))


def test_every_line_of_the_report() -> None:
    assert list(report(FOUND)) == [
        "13 problems found; the last load was 10 min ago: 9,600 rows in 8 streams.",
        (
            "- activity_logs lost records that the service deleted unread: see "
            "`fleetlake records gaps`."
        ),
        (
            "- activity_logs of west lost records that the service deleted unread: see "
            "`fleetlake records gaps`."
        ),
        (
            "- Pushes to suspended are suspended (last error 2026-06-15 11:00 UTC: HTTP "
            "500): run `fix suspended`."
        ),
        (
            "- Pushes to unreachable fail (last error 2026-06-15 11:00 UTC): check that "
            "`fleetlake receive` runs, then run `fix unreachable`."
        ),
        (
            "- Pushes to unreachable fail: check that `fleetlake receive` runs, then run "
            "`fix unreachable`."
        ),
        "- alerts is at risk: run `fleetlake ingest alerts`.",
        "- failovers is lost: run `fleetlake ingest failovers`.",
        "- accounts was last loaded 3 d ago: run `fleetlake ingest accounts`.",
        (
            "- users is marked complete until 2026-06-17 04:00, in the future: run "
            "`fleetlake ingest users` to correct it."
        ),
        "- groups has 1 hole: if no load is running, run `fleetlake ingest groups`.",
        (
            "- routers of west no longer lists 7 records, too many to be deletions: check "
            "the rights of the keys; if the list is right, run `fleetlake ingest routers "
            "--profile west --accept-shrunk routers`."
        ),
        "- 1 record of products could not be stored: see `fleetlake records quarantine`.",
        "- 3 pushed messages could not be read: see `fleetlake records quarantine`.",
        "Never loaded: 1 stream; `fleetlake ingest` loads all.",
        "5 alerts came by push, the last 2 h ago.",
        "1 pushed alert not read by a poll within an hour: check that loads run.",
        "2 alerts of the last day not pushed: check the rule and the receiver.",
        "6 calls spared in the last day: polls wait while pushes bring all alerts.",
        (
            "4 pushed messages in the journal, 12,345 bytes, not in the lake yet, since "
            "2026-06-15 11:00 UTC."
        ),
        "Pushes to disabled are disabled: `fix disabled` enables them.",
        "3 events in the last day (clock, shrunk list): see `fleetlake records events list`.",
    ]


@pytest.mark.parametrize(
    ("pushes", "lines"),
    [
        (PushStatus(), []),
        (PushStatus(alerts=1, received_at=NOW), ["1 alert came by push, the last 0 s ago."]),
        (
            PushStatus(waiting_messages=None, waiting_bytes=9),
            ["0 pushed messages in the journal, 9 bytes, not in the lake yet."],
        ),
    ],
)
def test_pushes_are_mentioned_only_if_there_are_any(pushes: PushStatus, lines: list[str]) -> None:
    found = LakeStatus(streams=[GOOD], open_gaps=[], pushes=pushes)

    assert list(report(found))[1:] == lines


def test_destinations_are_counted_by_account_and_state() -> None:
    other = replace(destination(PushState.ACTIVE), account_profile="west")

    counts = push_counts([*FOUND.push_destinations, other])

    assert {key: count for key, count in counts.items() if count} == {
        ("default", "active"): 1,
        ("default", "disabled"): 1,
        ("default", "suspended"): 1,
        ("default", "unreachable"): 2,
        ("west", "active"): 1,
    }
    assert len(counts) == 2 * len(PushState)
