"""People are told of each finding that needs them, once, and of nothing that passes by itself."""

import io
import json
import logging
import random
import socketserver
from collections import Counter
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from shutil import copytree
from threading import Thread

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from fleetlake.care.integrity.rebuild import rebuild_catalog
from fleetlake.cli import app
from fleetlake.errors import MessageNotSent, SettingsError, StreamBusy
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.locks import notify_lock
from fleetlake.marts.finding_states import FindingStep, NewStep
from fleetlake.marts.findings import read_findings, read_steps, take_step
from fleetlake.notifying.notify import notify, send_test
from fleetlake.notifying.untold import record, untold
from fleetlake.settings import Settings
from fleetlake.settings.notify_rule import NotifyRule

pytestmark = [
    pytest.mark.xdist_group("notify"),  # they copy a lake
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated"),  # Apprise on Python 3.11 and 3.12
]

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
COLUMNS = {
    "attention_id": pa.string(),
    "reason": pa.string(),
    "severity": pa.string(),
    "severity_rank": pa.int64(),
    "parent_id": pa.string(),
    "devices": pa.int64(),
    "router_id": pa.int64(),
    "net_device_id": pa.int64(),
    "router_name": pa.string(),
    "group_name": pa.string(),
    "account_name": pa.string(),
    "message": pa.string(),
    "since_at": pa.timestamp("us", "UTC"),
    "due_at": pa.timestamp("us", "UTC"),
    "as_of_at": pa.timestamp("us", "UTC"),
}
SCHEMA = pa.schema(list(COLUMNS.items()))


def finding(name, *, since=NOON - HOUR, rank=1, **more):
    severity = ("urgent", "soon", "watch")[rank - 1]
    return {
        **dict.fromkeys(COLUMNS),
        "attention_id": name,
        "reason": name.split()[0],
        "severity": severity,
        "severity_rank": rank,
        "router_name": name.split()[-1],
        "message": "Offline for 1 hour.",
        "since_at": since,
        "as_of_at": NOON,
        **more,
    }


def show(lake, findings):
    rows = pa.Table.from_pylist(findings, schema=SCHEMA)
    with lake.transaction(), lake.view("shown", rows):
        lake.execute("delete from marts.attention")
        lake.execute("insert into marts.attention by name from shown")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("notify") / "lake"
    with open_lake(path) as lake, lake.view("shown", SCHEMA.empty_table()):
        lake.execute("create table marts.attention as from shown")
    return path


@pytest.fixture
def lake(made, tmp_path):
    copytree(made, tmp_path / "lake")
    with open_lake(tmp_path / "lake") as opened:
        yield opened


def rule(**more):
    return NotifyRule(**{"url": "json://localhost/x"} | more)


def names(lake, now=NOON, **more):
    return [one["attention_id"] for one in untold(lake, "ops", rule(**more), now=now)]


def tell(lake, now=NOON, **more):
    found = untold(lake, "ops", rule(**more), now=now)
    if found:
        record(lake, "ops", found)
        lake.execute("update meta.messages set sent_at = coalesce(sent_at, ?)", [now])
    return [one["attention_id"] for one in found]


def test_a_finding_is_told_once_and_again_only_if_it_began_anew_hours_later(lake):
    def at(hours, since):
        now = NOON + hours * HOUR
        show(lake, [finding("offline 1", since=NOON + since * HOUR, as_of_at=now)])
        return tell(lake, now)

    first, still, soon, later = at(0, -1), at(1, -1), at(3, 2), at(7, 6)

    assert (first, still, soon, later) == (["offline 1"], [], [], ["offline 1"])


def test_short_trouble_passes_untold(lake):
    show(lake, [finding("offline 1", since=NOON - timedelta(minutes=9))])

    assert names(lake) == []
    assert names(lake, wait_minutes=9) == ["offline 1"]


def test_an_outage_takes_its_devices_along(lake):
    parts = [finding(f"offline {n}", parent_id="outage carrier Red") for n in range(5)]
    show(lake, [finding("outage carrier Red", devices=5, router_name=None), *parts])
    told = tell(lake)
    show(lake, [{**one, "parent_id": None} for one in parts[:3]])

    assert told == ["outage carrier Red"]
    assert names(lake) == []


def test_an_outage_that_only_changes_its_name_is_not_told_again(lake):
    def outage(name, devices):
        parts = [finding(f"offline {n}", parent_id=name) for n in range(devices)]
        show(lake, [finding(name, router_name=None), *parts])

    outage("outage group 20", 6)
    first = tell(lake)
    outage("outage account 10", 7)
    renamed = tell(lake)
    outage("outage account 10", 20)

    assert (first, renamed) == (["outage group 20"], [])
    assert names(lake) == ["outage account 10"]


def test_a_place_is_told_of_what_it_wants(lake):
    show(
        lake,
        [
            finding("offline 1", group_name="Buses"),
            finding("offline 2", rank=2, group_name="Shops"),
            finding("licence 3", since=None),
            finding("outage carrier Red", router_name=None),
            finding("offline 4", group_name="Shops", parent_id="outage carrier Red"),
        ],
    )

    assert names(lake) == ["outage carrier Red", "offline 1", "licence 3"]
    assert names(lake, severity="soon", reasons="offline") == ["offline 1", "offline 2"]
    assert names(lake, groups="BUSES") == ["offline 1"]
    assert names(lake, groups="shops, other") == ["outage carrier Red"]


def test_nobody_is_told_of_what_somebody_has_acknowledged(lake):
    show(lake, [finding("offline 1"), finding("offline 2")])
    step = NewStep(finding_ids=frozenset({"offline 1"}), step=FindingStep.ACKNOWLEDGE, actor="ann")
    take_step(lake, step)

    assert names(lake) == ["offline 2"]


def test_a_digest_waits_for_its_hours(lake):
    show(lake, [finding("offline 1")])
    tell(lake, digest_hours=24)
    show(lake, [finding("offline 1"), finding("offline 2")])

    assert names(lake, NOON + 23 * HOUR, digest_hours=24) == []
    assert names(lake, NOON + 24 * HOUR, digest_hours=24) == ["offline 2"]


@pytest.mark.release
def test_thirty_days_of_flapping_and_an_outage_are_hardly_more_messages_than_incidents(lake):
    """Looked at hourly. An incident is open at two looks, or all devices of the outage together."""
    chance = random.Random(7)
    hours, outage = 30 * 24, 300
    spells = {}  # router: half-open hours in which it is offline
    for router in range(60):
        at = chance.randrange(200)
        while at < hours:
            length = chance.choice([0.1, 0.1, 0.1, 2.5, 9.5])  # most come back within minutes
            spells.setdefault(router, []).append((at + 0.05, at + 0.05 + length))
            at += int(length) + chance.choice([12, 60, 300])
    down = range(60, 80)
    told, incidents = Counter(), set()
    for hour in range(hours):
        now = NOON + hour * HOUR
        open_ = [
            finding(f"offline {router}", since=NOON + start * HOUR, as_of_at=now)
            for router, of_one in spells.items()
            for start, end in of_one
            if start <= hour - 10 / 60 and hour < end
        ]
        incidents |= {(one["attention_id"], one["since_at"]) for one in open_}
        if outage < hour <= outage + 6:
            since, name = NOON + (outage + 0.5) * HOUR, "outage carrier Red"
            open_ += [finding(name, since=since, as_of_at=now)] if hour < outage + 5 else []
            parent = name if hour < outage + 5 else None
            open_ += [
                finding(f"offline {n}", since=since, as_of_at=now, parent_id=parent) for n in down
            ]
            incidents.add((name, since))
        show(lake, open_)
        since = {one["attention_id"]: one["since_at"] for one in open_}
        told.update((name, since[name]) for name in tell(lake, now))

    assert set(told) == incidents
    assert sum(told.values()) <= 1.2 * len(incidents)
    assert len(incidents) > 100


class Web(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(json.loads(body))
        self.server.last_at = datetime.now(UTC)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_): ...


class Mail(socketserver.StreamRequestHandler):
    def handle(self):
        def say(text):
            self.wfile.write(f"{text}\r\n".encode())

        say("220 here")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                say("354 go on")
                text = b"".join(iter(self.rfile.readline, b".\r\n"))
                self.server.received.append(text.decode())
            say("221 bye" if word == b"QUIT" else "250 yes")
            if word == b"QUIT":
                return


@pytest.fixture
def web():
    yield from served(HTTPServer(("127.0.0.1", 0), Web))


@pytest.fixture
def mail():
    yield from served(socketserver.TCPServer(("127.0.0.1", 0), Mail))


def served(server):
    server.received, server.status = [], 200
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def settings_for(lake, url, **more):
    return Settings(lake=lake.path, notify={"ops": {"url": url, **more}})


def test_a_message_arrives_by_webhook_once_with_the_findings_in_words(lake, web):
    hostile = "<b>evil</b>\r\nBcc: x@example.com \u202e"
    show(lake, [finding("offline 1", router_name=hostile, group_name="Buses"), finding("x 2")])
    settings = settings_for(lake, f"json://127.0.0.1:{web.server_port}/x")

    first, second = notify(settings, now=NOON), notify(settings, now=NOON)

    [message] = web.received
    assert message["title"] == "fleetlake: 2 urgent"
    first_line, *_ = message["message"].splitlines()
    assert first_line == (
        "urgent, <b>evil</b> Bcc: x@example.com \\u202e (Buses): Offline for 1 hour."
        " Since 2026-06-15 11:00 UTC."
    )
    assert [len(one.findings) for one in (*first, *second)] == [2, 0]


def test_a_message_is_recorded_as_sent_when_it_was_not_when_the_run_began(lake, web):
    show(lake, [finding("offline 1")])
    notify(settings_for(lake, f"json://127.0.0.1:{web.server_port}/x"))

    [(sent_at,)] = lake.rows("select sent_at from meta.messages")
    assert sent_at >= web.last_at


def test_a_message_arrives_by_mail(lake, mail):
    show(lake, [finding("offline 1", router_name="V7 <i>")])
    port = mail.server_address[1]
    to = f"mailto://localhost:{port}?from=fleet@example.com&to=ops@example.com"

    notify(settings_for(lake, to), now=NOON)

    [text] = mail.received
    assert "Subject: fleetlake: 1 urgent" in text
    assert "To: ops@example.com" in text
    page = text.partition("text/html")[2].replace("=\r\n", "").replace("&nbsp;", " ")
    assert "V7 &lt;i&gt;" in page
    assert "<i>" not in page


def test_what_could_not_be_sent_is_sent_again_with_the_same_number(lake, web):
    show(lake, [finding("offline 1")])
    settings = settings_for(lake, f"json://user:s3cr3t-word@127.0.0.1:{web.server_port}/x")
    web.status = 500
    with pytest.raises(MessageNotSent) as raised:
        notify(settings, now=NOON)
    web.status = 200
    notify(settings, now=NOON)
    notify(settings, now=NOON)

    refused, taken = web.received
    assert refused["message"] == taken["message"]
    assert "s3cr3t" not in str(raised.value)
    assert "message to ops could not be sent" in str(raised.value)


def test_a_run_killed_before_it_sent_is_made_up_for(lake, web):
    show(lake, [finding("offline 1"), finding("offline 2")])
    message = record(lake, "ops", untold(lake, "ops", rule(reasons="offline"), now=NOON)[:1])

    notify(settings_for(lake, f"json://127.0.0.1:{web.server_port}/x"), now=NOON)
    notify(settings_for(lake, f"json://127.0.0.1:{web.server_port}/x"), now=NOON)

    assert [m["message"].count("urgent,") for m in web.received] == [1, 1]
    assert f"Message {message.number}" in web.received[0]["message"]


def test_a_message_of_a_killed_run_is_dropped_if_its_findings_ended(lake, web):
    show(lake, [finding("offline 1")])
    record(lake, "ops", untold(lake, "ops", rule(), now=NOON))
    show(lake, [])

    notify(settings_for(lake, f"json://127.0.0.1:{web.server_port}/x"), now=NOON)

    assert web.received == []
    assert lake.rows("select count(*) from meta.messages where sent_at is null") == [(0,)]


def test_a_message_that_failed_is_dropped_if_its_finding_is_acknowledged_meanwhile(lake, web):
    show(lake, [finding("offline 1")])
    record(lake, "ops", untold(lake, "ops", rule(), now=NOON))
    step = NewStep(finding_ids=frozenset({"offline 1"}), step=FindingStep.ACKNOWLEDGE, actor="ann")
    take_step(lake, step)

    notify(settings_for(lake, f"json://127.0.0.1:{web.server_port}/x"), now=NOON)

    assert web.received == []


def test_what_was_told_is_known_after_the_loss_of_the_catalog(made, tmp_path, web):
    path = copytree(made, tmp_path / "lake")
    settings = Settings(lake=path, notify={"ops": {"url": f"json://127.0.0.1:{web.server_port}"}})
    with open_lake(path) as lake:
        show(lake, [finding("offline 1")])
    notify(settings, now=NOON)
    for file in path.glob(f"{CATALOG}*"):
        file.unlink()
    rebuild_catalog(path)
    with open_lake(path) as lake, lake.view("shown", SCHEMA.empty_table()):
        lake.execute("create table marts.attention as from shown")
        show(lake, [finding("offline 1")])
    notify(settings, now=NOON)

    assert len(web.received) == 1


def test_debug_logs_hold_no_address(web, monkeypatch):
    written = io.StringIO()  # pytest reads loggers that pass nothing on, too
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler(written)])
    monkeypatch.setattr(logging.root, "level", logging.DEBUG)
    send_test("ops", rule(url=f"json://127.0.0.1:{web.server_port}/services/s3cr3t-path"))

    assert len(web.received) == 1
    assert "s3cr3t" not in written.getvalue()


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        ("json://127.0.0.1:9/x", MessageNotSent, "message to gone could not be sent"),
        ("nothing", SettingsError, "FLEETLAKE_NOTIFY__GONE__URL"),
    ],
)
def test_one_place_that_fails_keeps_no_other_from_being_told(lake, web, url, error, said):
    show(lake, [finding("offline 1")])
    good = f"json://127.0.0.1:{web.server_port}/x"
    places = {"gone": {"url": url}, "ops": {"url": good}}
    with pytest.raises(error, match=said):
        notify(Settings(lake=lake.path, notify=places), now=NOON)

    assert len(web.received) == 1


def test_what_was_not_in_the_message_after_all_is_told_when_it_is_open_again(lake, web):
    show(lake, [finding("offline 1"), finding("offline 2")])
    settings = settings_for(lake, f"json://127.0.0.1:{web.server_port}/x")
    web.status = 500
    with pytest.raises(MessageNotSent):
        notify(settings, now=NOON)
    web.status = 200
    one = frozenset({"offline 1"})
    take_step(lake, NewStep(finding_ids=one, step=FindingStep.ACKNOWLEDGE, actor="ann"))
    [dry] = notify(settings, now=NOON, is_dry=True)
    notify(settings, now=NOON)
    take_step(lake, NewStep(finding_ids=one, step=FindingStep.REOPEN, actor="ann"))
    notify(settings, now=NOON)

    assert [found["attention_id"] for found in dry.findings] == ["offline 2"]
    assert ["urgent, 1:" in m["message"] for m in web.received] == [True, False, True]


def test_quiet_hours_hold_messages_back(lake, web):
    show(lake, [finding("offline 1")])
    quiet = settings_for(lake, f"json://127.0.0.1:{web.server_port}/x", quiet="11-13")

    notify(quiet, now=NOON)
    before = len(web.received)
    notify(quiet, now=NOON + HOUR)

    assert (before, len(web.received)) == (0, 1)


def test_two_at_once_send_once(lake, web):
    show(lake, [finding("offline 1")])
    with notify_lock(lake.path), pytest.raises(StreamBusy):
        notify(settings_for(lake, f"json://127.0.0.1:{web.server_port}/x"), now=NOON)

    assert web.received == []


@pytest.mark.parametrize(
    "wrong",
    [{"quiet": "25-3"}, {"time_zone": "Mars/Base"}, {"severity": "huge"}, {"colour": "red"}],
    ids=str,
)
def test_a_wrong_rule_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        rule(**wrong)


def test_an_address_that_nothing_sends_to_is_named_by_its_setting():
    with pytest.raises(SettingsError, match="FLEETLAKE_NOTIFY__OPS__URL"):
        send_test("ops", NotifyRule(url="nothing"))


def test_the_doctor_names_addresses_that_nothing_sends_to_and_not_what_they_hold(
    lake, web, monkeypatch
):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake.path))
    monkeypatch.setenv("FLEETLAKE_NOTIFY__OPS__URL", f"json://127.0.0.1:{web.server_port}/x")
    monkeypatch.setenv("FLEETLAKE_NOTIFY__BAD__URL", "slak://hidden-word")
    found = CliRunner().invoke(app, ["doctor"])

    assert "messages: FLEETLAKE_NOTIFY__BAD__URL is not an address" in found.output
    assert "OPS" not in found.output
    assert "hidden-word" not in found.output
    assert found.exit_code != 0
    assert web.received == []


def test_the_command_shows_what_it_would_tell_and_sends_a_test(lake, web, monkeypatch):
    show(lake, [finding("offline 1")])
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake.path))
    monkeypatch.setenv("FLEETLAKE_NOTIFY__OPS__URL", f"json://127.0.0.1:{web.server_port}/x")
    dry = CliRunner().invoke(app, ["notify", "--dry-run"]).output
    test = CliRunner().invoke(app, ["notify", "--test", "ops"]).output
    sent = CliRunner().invoke(app, ["notify"]).output

    assert dry.splitlines()[0] == "ops: 1 finding would be sent (fleetlake: 1 urgent)."
    assert dry.splitlines()[1].startswith("  urgent, 1: Offline for 1 hour.")
    assert test == "ops took a test message.\n"
    assert sent == "ops: 1 finding sent.\n"
    assert [m["title"] for m in web.received] == ["fleetlake: test", "fleetlake: 1 urgent"]


SUNDAY = datetime(2026, 6, 21, 2, tzinfo=UTC)
NIGHT = {"hours": "22-4", "days": "sat", "groups": "buses"}


def planned(lake, now=SUNDAY, **window):
    settings = Settings(lake=lake.path, maintenance={"night": NIGHT | window})
    notify(settings, now=now)
    return {one["attention_id"]: one["state"] for one in read_findings(lake)}


def test_findings_of_a_group_are_snoozed_in_its_maintenance_until_the_end(lake):
    parts = [
        finding(f"offline {n}", group_name="Buses", parent_id="outage carrier Red") for n in (1, 2)
    ]
    found = [finding("outage carrier Red"), *parts, finding("offline 3", group_name="Shops")]
    for hour, expected in ((2, "snoozed"), (4, "open")):
        at = SUNDAY.replace(hour=hour)
        show(lake, [{**one, "as_of_at": at, "since_at": SUNDAY - 3 * HOUR} for one in found])
        states = planned(lake)
        assert states.pop("offline 3") == "open"
        assert set(states.values()) == {expected}

    assert {step[3] for step in read_steps(lake)} == {"maintenance night"}


def test_a_maintenance_of_a_large_fleet_is_no_larger_than_a_step_may_be(lake, monkeypatch):
    monkeypatch.setattr("fleetlake.notifying.notify.MOST_AT_ONCE", 2)
    monkeypatch.setattr("fleetlake.marts.finding_states.MOST_AT_ONCE", 2)
    show(lake, [finding(f"offline {n}", group_name="Buses", as_of_at=SUNDAY) for n in range(5)])

    assert set(planned(lake).values()) == {"snoozed"}


def test_a_finding_that_is_opened_again_in_a_maintenance_stays_open(lake):
    show(lake, [finding("offline 1", group_name="buses", as_of_at=SUNDAY)])
    planned(lake)
    again = NewStep(finding_ids=frozenset({"offline 1"}), step=FindingStep.REOPEN, actor="ann")
    take_step(lake, again)

    assert planned(lake) == {"offline 1": "open"}


def test_a_maintenance_of_a_place_is_of_the_devices_that_are_there(lake, tmp_path, monkeypatch):
    (tmp_path / "fleetlake.toml").touch()
    square = "POLYGON ((179.9 -1, -179.9 -1, -179.9 1, 179.9 1, 179.9 -1))"
    lines = ["name,latitude_deg,longitude_deg,radius_m,wkt", "Depot,40,-100,500,"]
    (tmp_path / "places.csv").write_text("\n".join([*lines, f'Island,,,,"{square}"', ""]))
    monkeypatch.chdir(tmp_path)
    lake.execute(
        "create table marts.location_latest as select * from (values (1, 40.004e0, -100e0),"
        " (2, 40.005, -100.0), (3, 0.5, -179.95), (4, 0.5, -179.8e0)) as t"
        " (router_id, latitude_deg, longitude_deg)"
    )
    at = {"since": SUNDAY, "as_of_at": SUNDAY, "group_name": "buses"}
    show(lake, [finding(f"offline {n}", router_id=n, **at) for n in range(1, 6)])
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake.path))
    for name, value in {**NIGHT, "places": "depot,Island"}.items():
        monkeypatch.setenv(f"FLEETLAKE_MAINTENANCE__NIGHT__{name.upper()}", value)
    listed = CliRunner().invoke(app, ["findings", "windows", "--format", "json"]).output
    shown = CliRunner().invoke(app, ["findings", "windows"]).output

    [window] = json.loads(listed)
    assert window["findings"] == 2
    assert (window["is_now"], window["until_at"][:13]) == (True, "2026-06-21T04")
    assert window["next_at"][:13] == "2026-06-27T22"
    assert "until 06-21 04:00" in shown
    done = planned(lake, places="depot,Island")
    assert {name for name, state in done.items() if state == "snoozed"} == {
        "offline 1",
        "offline 3",
    }


@pytest.mark.parametrize(
    ("window", "state"),
    [
        ({"days": "sun"}, "open"),
        ({"days": "sat,sun"}, "snoozed"),
        ({"hours": "2-3", "days": "sun"}, "snoozed"),
        ({"hours": "0-0", "days": "sun"}, "snoozed"),
        ({"time_zone": "Europe/Paris"}, "open"),
        ({"time_zone": "Europe/Paris", "hours": "22-5"}, "snoozed"),
        ({"last_day": "2026-06-19"}, "open"),
        ({"first_day": "2026-06-20", "last_day": "2026-06-20"}, "snoozed"),
        ({"groups": ""}, "snoozed"),
    ],
    ids=str,
)
def test_a_maintenance_is_at_its_days_and_hours(lake, window, state):
    show(lake, [finding("offline 1", group_name="Buses", as_of_at=SUNDAY)])

    assert planned(lake, **window) == {"offline 1": state}
