"""Readers deal with findings on the page: whoever may, and every other reader sees it at once."""

import asyncio
import json
from datetime import timedelta
from time import process_time
from uuid import uuid4

import pytest
from pydantic import SecretStr

from fleetlake.dashboard.dashboard_server import serve_dashboard
from fleetlake.dashboard.panels import dashboard_pages
from fleetlake.dashboard.web_app import create_dashboard
from fleetlake.errors import SettingsError, UsageError
from fleetlake.marts.finding_states import MOST_AT_ONCE
from tests.dashboard.asking import HOST, ask, rows_of
from tests.dashboard.world import NOW, World

TOKEN = "0123456789abcdef"
AUTHORISED = {"authorization": f"Bearer {TOKEN}"}
ONLY = ("attention", "device_inventory")


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


class Desk:
    """A dashboard that may write, over a snapshot with findings; the lake is a list."""

    def __init__(self, folder):
        self.world = World(folder)
        self.folder = self.world.publish(only=ONLY)
        self.recorded = []
        self.app = create_dashboard(
            self.world.published, token=SecretStr(TOKEN), record=self.record
        )

    def record(self, wanted):
        self.recorded.append(wanted)
        at = NOW + timedelta(minutes=len(self.recorded))
        end = NOW + wanted.until if wanted.until else None
        rest = (end, wanted.assignee, wanted.comment)
        ids = sorted(wanted.finding_ids)
        return [(id_, wanted.step, at, wanted.actor, at, None, *rest) for id_ in ids]

    def findings(self):
        found = rows_of(ask(self.app, "/api/now/attention", headers=AUTHORISED))
        return {row["attention_id"]: row for row in found}

    def send(self, *, headers=None, content=None, **more):
        body = {"finding_ids": [next(iter(self.findings()))], "step": "acknowledge", "by": "Ann"}
        sent = {"content-type": "application/json", **AUTHORISED, **(headers or {})}
        text = json.dumps(body | more) if content is None else content
        return ask(self.app, "/api/findings", method="POST", headers=sent, content=text)


def test_a_step_reaches_the_lake_with_who_took_it_and_is_shown_at_once(desk):
    wanted, other, *_ = desk.findings()
    answer = desk.send(finding_ids=[wanted], comment="on order")
    shown = desk.findings()
    [recorded] = desk.recorded

    assert answer.status_code == 200
    assert (recorded.finding_ids, recorded.actor, recorded.comment) == (
        frozenset({wanted}),
        "Ann (dashboard)",
        "on order",
    )
    assert (shown[wanted]["state"], shown[wanted]["comment"]) == ("acknowledged", "on order")
    assert shown[other]["state"] == "open"


def test_a_step_stays_when_a_snapshot_without_it_is_published_and_counts_once_with_it(desk):
    [wanted, *_] = desk.findings()
    desk.send(finding_ids=[wanted], step="comment", comment="on order")
    desk.folder = desk.world.publish(only=ONLY)
    without = desk.findings()[wanted]["comments"]
    at = (NOW + timedelta(minutes=1)).isoformat()
    step = {"finding_id": wanted, "step": "comment", "made_at": at, "comment": "on order"}
    desk.folder = desk.world.publish(only=ONLY, findings=[{**step, "seen_at": at}])
    within = desk.findings()[wanted]["comments"]

    assert (without, within) == (1, 1)


def test_open_pages_are_told_of_a_step(desk):
    async def listen():
        news = desk.app.state.dashboard._news()  # noqa: SLF001 - a request would never end
        told = [await anext(news)]
        async with asyncio.timeout(120):
            for _ in range(2):  # the second one while the first one is being told
                await asyncio.to_thread(desk.send)
                while (one := await anext(news)) != "event: findings\ndata:\n\n":
                    told.append(one)
                told.append(one)
        return told

    assert asyncio.run(listen()).count("event: findings\ndata:\n\n") == 2


def test_all_findings_that_a_page_shows_can_be_dealt_with_at_once(desk):
    most = dashboard_pages()["now"].panels["attention"].limit
    ids = [f"battery_to_change {uuid4()}" for _ in range(most)]

    assert desk.send(finding_ids=ids).status_code == 200


def test_a_page_that_was_hidden_can_tell_that_there_were_steps(desk):
    before = ask(desk.app, "/api/status", headers=AUTHORISED).json()["steps"]
    desk.send()

    assert ask(desk.app, "/api/status", headers=AUTHORISED).json()["steps"] == before + 1


def test_thousands_of_steps_keep_nobody_waiting(desk):
    step = ("acknowledge", NOW, "Ann", NOW, 1, None, None, None)
    started_at = process_time()
    desk.app.state.dashboard._snapshots.add_steps(  # noqa: SLF001 - as many requests would
        (f"offline {number}", *step) for number in range(MOST_AT_ONCE)
    )
    desk.folder = desk.world.publish(only=ONLY)
    shown = desk.findings()

    assert shown
    assert process_time() - started_at < 5


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "Bearer wrong"}, 401),
        ({"origin": "http://elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 403),
        ({"content-type": "application/x-www-form-urlencoded"}, 403),
        ({"origin": HOST}, 200),
        ({"origin": "https://fleet.example", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "https://fleet.example", "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_only_a_reader_with_the_token_on_our_own_page_may_write(desk, headers, status):
    assert desk.send(headers=headers).status_code == status
    assert len(desk.recorded) == (status == 200)


@pytest.mark.parametrize(
    "more",
    [
        {"by": " "},
        {"by": "x" * 81},
        {"step": "delete"},
        {"step": "snooze"},
        {"step": "snooze", "hours": -1},
        {"step": "snooze", "hours": 1e9},
        {"step": "comment", "comment": ""},
        {"finding_ids": []},
        {"finding_ids": ["x"] * (MOST_AT_ONCE + 1)},
        {"finding_ids": "x"},
        {"unknown": 1},
        {"content": "{"},
        {"content": "[]"},
        {"content": b"\xff"},
        {"content": "{" + " " * 1_000_000},
    ],
    ids=str,
)
def test_what_is_no_step_is_refused_with_what_is_wrong(desk, more):
    answer = desk.send(**more)

    assert answer.status_code == 400
    assert answer.json()["what"].endswith(".")
    assert desk.recorded == []


def test_an_error_of_the_lake_reaches_the_reader_and_shows_nothing(desk, monkeypatch):
    def refuse(_):
        raise UsageError("There is no finding 'x'.", remedy="Look again.")

    monkeypatch.setattr(desk.app.state.dashboard, "_record", refuse)
    answer = desk.send()

    assert answer.json() == {"what": "There is no finding 'x'.", "remedy": "Look again."}
    assert {row["state"] for row in desk.findings().values()} == {"open"}


def test_a_server_that_may_not_write_says_so_and_refuses(app):
    headers = {"content-type": "application/json"}
    answer = ask(app, "/api/findings", method="POST", headers=headers, content="{}")

    assert answer.status_code == 405
    assert ask(app, "/api/status").json()["is_writable"] is False


def test_a_server_that_may_write_needs_a_token_on_this_machine_too(tmp_path):
    with pytest.raises(SettingsError, match="FLEETLAKE_DASHBOARD_TOKEN is not set"):
        serve_dashboard(tmp_path, port=0, record=list, ready=print)
