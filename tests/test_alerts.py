"""Setting up pushed alerts, and changing rules and destinations, at a simulated service."""

import csv
import hashlib
import hmac
import io
import itertools
import json
import signal
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from fleetlake.alerting import kept_secrets
from fleetlake.alerting.alert_rule import AlertRule
from fleetlake.alerting.chosen_types import DEFAULT_GROUPS, TYPE_GROUPS, chosen_types
from fleetlake.alerting.kept_secrets import KeptSecrets
from fleetlake.alerting.new_alerts import AlertTail
from fleetlake.cli import app
from fleetlake.cli.status import summary_lines
from fleetlake.errors import (
    EndpointUnavailable,
    FleetlakeError,
    PushTestFailed,
    RequestRejected,
    SettingsError,
    UsageError,
    WriteUnknown,
)
from fleetlake.lake import open_lake
from fleetlake.marts.sql_project import project_folder
from fleetlake.monitoring.doctor import run_checks
from fleetlake.monitoring.figures import measure
from fleetlake.monitoring.prometheus import metrics_text
from fleetlake.receiving.drain import drain_all
from fleetlake.receiving.push_secrets import read_secrets
from fleetlake.settings import Settings, load_settings
from fleetsim.alert_types import CONTRACT_ALERT_TYPES
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from tests.support.alert_messages import an_alert, push, with_id
from tests.support.processes import command, environment
from tests.support.sim import NOW, Sim

URL = "http://receiver.test/push"
OTHER_URL = "http://other.test/push"


class Killed(Exception):
    """Stands for the end of the process."""


@dataclass
class Receiver:
    """The receiver of pushes; it responds with `error` while that is set."""

    error: str | None = None
    received: list[tuple[bytes, str]] = field(default_factory=list)

    async def send(self, _url: str, body: bytes, headers: Any) -> str | None:
        self.received.append((body, headers["X-PORTAL-Signature"]))
        return self.error


class Broken(httpx.AsyncBaseTransport):
    """A service that fails at the write of a number: `before` or after it was made."""

    def __init__(self, inner: httpx.AsyncBaseTransport, number: int, fail: Any, *, before: bool):
        self._inner, self._left, self._fail, self._before = inner, number, fail, before
        self.writes = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return await self._inner.handle_async_request(request)
        self.writes += 1
        is_now = self.writes == self._left
        if is_now and self._before:
            return self._failed()
        response = await self._inner.handle_async_request(request)
        await response.aread()
        return self._failed() if is_now else response

    def _failed(self) -> httpx.Response:
        if isinstance(self._fail, BaseException):
            raise self._fail
        return httpx.Response(self._fail, text="internal error")


@dataclass
class Service:
    """A simulated service with a receiver, and the command line that talks to it."""

    sim: Sim
    receiver: Receiver
    folder: Path
    patch: pytest.MonkeyPatch

    @property
    def secrets(self) -> list[str]:
        return KeptSecrets(self.folder / "push-secrets").all()

    def run(self, *words: str, role: str = "admin", wire: Any = None) -> Any:
        """Run `fleetlake alerts` and return its result."""
        load_settings.cache_clear()
        answer = (wire or self.sim.transport).handle_async_request
        self.patch.setattr(
            httpx.AsyncHTTPTransport, "handle_async_request", lambda _, request: answer(request)
        )
        env = environment(
            self.folder,
            "http://localhost",
            push_secrets_file=self.folder / "push-secrets",
            mgr_api_id=f"{role}-id",
            mgr_api_key=f"{role}-key",
        )
        return CliRunner().invoke(app, ["alerts", *words], env={**env, "COLUMNS": "200"})

    def records(self, resource: str) -> list[dict[str, Any]]:
        """Return what the simulator holds, without what it starts with."""
        first = {"alert_rules": 1, "alert_push_destinations": 1}
        return self.sim.truth(resource)[first[resource] :]

    def state(self) -> Any:
        """Return what a setup leaves at the service and in the file, without ids and times."""
        destinations = self.records("alert_push_destinations")
        ids = [d["destination_config_id"] for d in destinations]
        shown = [(d["endpoint"]["url"], d["enabled"], d["suspended"]) for d in destinations]
        rules = [
            (
                [ids.index(key) for key in rule["http_destinations"]],
                sorted(rule["filter_criteria"]["alert_type__in"]),
                rule["associated_accounts"],
            )
            for rule in self.records("alert_rules")
        ]
        return shown, rules, len(self.secrets)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    receiver = Receiver()
    options = SimulatorOptions(routers=6, days=1, now=NOW, speed=0)
    sim = Sim(create_app(options, receiver.send), tmp_path)
    return Service(sim, receiver, tmp_path, monkeypatch)


def failed(done: Any) -> FleetlakeError:
    assert isinstance(done.exception, FleetlakeError), done.output
    return done.exception


def test_setup_makes_a_signed_destination_and_a_rule_for_the_types_of_the_marts(service):
    done = service.run("setup", "--url", URL)

    assert done.exit_code == 0, done.output
    shown, rules, count = service.state()
    assert shown == [(URL, True, False)]
    assert rules == [([0], list(chosen_types(DEFAULT_GROUPS)), [10157])]
    assert count == 1
    [(body, signature)] = service.receiver.received
    secret = service.secrets[0].encode()
    assert json.loads(body)["type"] == "test"
    assert signature == hmac.new(secret, body, hashlib.sha256).hexdigest()


def test_a_second_setup_changes_nothing(service):
    service.run("setup", "--url", URL)
    before = (service.state(), service.records("alert_rules"), service.secrets)

    again = service.run("setup", "--url", URL)

    assert (service.state(), service.records("alert_rules"), service.secrets) == before
    assert "nothing was changed" in again.stdout


def test_a_dry_run_of_setup_writes_nothing_and_says_what_it_would_do(service):
    wire = Broken(service.sim.transport, 0, 500, before=True)

    done = service.run("setup", "--url", URL, "--dry-run", wire=wire)

    assert wire.writes == 0
    assert not (service.folder / "push-secrets").exists()
    assert "would create the destination" in done.stdout
    assert "would create a rule" in done.stdout


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("before", [True, False])
def test_setup_killed_at_any_write_and_run_again_ends_in_the_same_state(service, number, before):
    wire = Broken(service.sim.transport, number, Killed(), before=before)

    killed = service.run("setup", "--url", URL, wire=wire)
    done = service.run("setup", "--url", URL)

    assert isinstance(killed.exception, Killed)
    assert done.exit_code == 0, done.output
    rule = ([0], list(chosen_types(DEFAULT_GROUPS)), [10157])
    assert service.state() == ([(URL, True, False)], [rule], 1)


@pytest.mark.parametrize("number", [1, 2])
def test_setup_killed_while_it_stores_the_secret_leaves_no_second_one(service, number):
    write, calls = kept_secrets.write_atomically, 0

    def dying(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise Killed
        write(*arguments, **options)

    service.patch.setattr(kept_secrets, "write_atomically", dying)
    killed = service.run("setup", "--url", URL)
    service.patch.setattr(kept_secrets, "write_atomically", write)
    service.run("setup", "--url", URL)

    assert isinstance(killed.exception, Killed)
    assert len(service.secrets) == 1
    assert [shown for shown, _, _ in service.state()[0]] == [URL]


@pytest.mark.parametrize("fail", [500, httpx.ReadError("reset")], ids=["500", "reset"])
@pytest.mark.parametrize("before", [True, False])
def test_a_destination_whose_creation_has_an_unknown_outcome_exists_once(service, fail, before):
    wire = Broken(service.sim.transport, 1, fail, before=before)

    done = service.run("destinations", "add", "--url", URL, wire=wire)

    assert done.exit_code == 0, done.output
    assert [d["endpoint"]["url"] for d in service.records("alert_push_destinations")] == [URL]
    assert wire.writes == (2 if before else 1)


def add_rule(service: Service, wire: Any = None) -> Any:
    words = ("--destination", URL, "--type", "battery", "--account", "10157")
    return service.run("rules", "add", *words, wire=wire)


def test_a_rule_that_may_still_be_created_is_not_sent_again(service):
    service.run("destinations", "add", "--url", URL)
    lost = add_rule(service, Broken(service.sim.transport, 1, httpx.ReadError("x"), before=True))
    made = add_rule(service, Broken(service.sim.transport, 1, httpx.ReadError("x"), before=False))

    assert isinstance(failed(lost), WriteUnknown)
    assert made.exit_code == 0
    assert len(service.records("alert_rules")) == 1


@pytest.mark.parametrize(
    ("listed", "is_held"),
    [
        ({"alert_type__in": ["b_b", "a_a"], "external_id__in": None}, True),
        ({"alert_type__in": ["a_a"]}, False),
    ],
)
def test_a_rule_is_recognised_whatever_the_service_adds_to_its_filter(listed, is_held):
    row = dict.fromkeys(("settings", "updated_at", "account_id", "schedule"))
    lists = ("http_destinations", "associated_accounts", "associated_groups", "email_destinations")
    row |= dict.fromkeys(lists, "[]") | {"alert_config_id": "r1"}
    rule = AlertRule.of_row(row | {"filter_criteria": json.dumps(listed)})

    wanted = {"filter_criteria": {"alert_type__in": ["a_a", "b_b"]}, "schedule": None}

    assert rule.holds(wanted) is is_held


def test_the_secret_is_in_no_output_no_log_and_no_table(service, caplog):
    caplog.set_level("DEBUG")
    said = [
        service.run("setup", "--url", URL),
        service.run("destinations", "list", "--format", "json"),
        service.run("destinations", "show", URL),
        service.run("setup", "--url", URL, "--new-secret"),
    ]
    service.sim.ingest("alert_push_destinations", "activity_logs")

    assert len(service.secrets) == 2
    files = [path for path in service.folder.rglob("*") if path.is_file()]
    for secret in service.secrets:
        assert not any(secret in done.output for done in said)
        assert secret not in caplog.text
        holding = [p.name for p in files if secret.encode() in p.read_bytes()]
        assert holding == ["push-secrets"]
    assert stat.S_IMODE((service.folder / "push-secrets").stat().st_mode) == 0o600


def test_secrets_that_others_wrote_into_the_file_stay_as_they_are(tmp_path):
    file = tmp_path / "push-secrets"
    file.touch(0o600)
    file.write_bytes("by\fhand\nof\u2028another".encode())

    made = KeptSecrets(file).keep_new(URL)

    assert read_secrets(file) == (b"by\fhand", "of\u2028another".encode(), made.encode())


@pytest.mark.parametrize(
    ("name", "content"),
    [("push-secrets", b"\xff"), ("push-secrets.urls", b"\xff"), ("push-secrets.urls", b"[1]")],
)
def test_a_file_of_secrets_that_cannot_be_used_is_refused_in_plain_words(tmp_path, name, content):
    (tmp_path / name).touch(0o600)
    (tmp_path / name).write_bytes(content)

    with pytest.raises(SettingsError, match=r"is not (UTF-8 text|a JSON object)"):
        KeptSecrets(tmp_path / "push-secrets").keep_new(URL)


def test_a_secret_file_that_others_can_read_is_refused(service):
    service.run("setup", "--url", URL)
    (service.folder / "push-secrets").chmod(0o644)

    assert isinstance(failed(service.run("setup", "--url", URL)), SettingsError)


def test_a_receiver_that_refuses_the_test_message_gets_no_rule_until_it_takes_one(service):
    service.receiver.error = "HTTP 403"
    refused = failed(service.run("setup", "--url", URL))
    between = service.records("alert_rules")
    service.receiver.error = None
    service.run("setup", "--url", URL)

    assert isinstance(refused, PushTestFailed)
    assert "HTTP 403" in refused.what
    assert "fleetlake receive" in refused.remedy
    assert (between, len(service.records("alert_rules"))) == ([], 1)


def test_setup_adds_types_and_enables_or_resumes_what_is_off(service):
    service.run("setup", "--url", URL, "--type", "battery")
    service.run("destinations", "change", URL, "--disable")

    service.run("setup", "--url", URL, "--type", "failover")

    types = [*TYPE_GROUPS["battery"], *TYPE_GROUPS["failover"]]
    shown, rules, _ = service.state()
    assert shown == [(URL, True, False)]
    assert rules == [([0], sorted(types), [10157])]


def test_a_destination_that_is_created_again_gets_a_new_secret_if_that_is_asked_for(service):
    service.run("setup", "--url", URL)
    for words in ((), ("--new-secret",)):
        service.run("destinations", "remove", URL, "--yes")
        service.run("setup", "--url", URL, *words)

    first, second = service.secrets
    signatures = [signature for _, signature in service.receiver.received]
    assert signatures == [
        hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        for secret, (body, _) in zip((first, first, second), service.receiver.received, strict=True)
    ]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["--account", "10157", "--schedule", "daily"], ["battery", "failover"]),
        (["--account", "10291"], ["battery", "failover"]),
        (["--account", "10157", "--destination", OTHER_URL], ["failover"]),
    ],
    ids=["not at once", "another account", "another destination, too"],
)
def test_setup_changes_no_rule_that_is_not_for_this_destination_alone(service, words, missing):
    for url in (URL, OTHER_URL):
        service.run("destinations", "add", "--url", url)
    service.run("rules", "add", "--destination", URL, "--type", "battery", *words)
    [before] = service.records("alert_rules")

    done = service.run("setup", "--url", URL, "--type", "battery", "--type", "failover")

    assert done.exit_code == 0, done.output
    [kept, made] = service.records("alert_rules")
    assert kept == before
    assert sorted(made["filter_criteria"]["alert_type__in"]) == list(chosen_types(missing))


def test_a_change_with_an_unknown_outcome_is_repeated_unless_it_was_made(service):
    service.run("destinations", "add", "--url", URL)
    add_rule(service)
    [rule] = [rule["alert_config_id"] for rule in service.records("alert_rules")]
    [key] = [one["destination_config_id"] for one in service.records("alert_push_destinations")]

    def writes_of(*words: str, before: bool) -> int:
        wire = Broken(service.sim.transport, 1, 500, before=before)
        done = service.run(*words, wire=wire)
        assert done.exit_code == 0, done.output
        return wire.writes

    for before, name, schedule in ((True, "first", "daily"), (False, "second", "hourly")):
        expected = 2 if before else 1
        new = ("--name", name, "--url", f"{URL}/{name}")
        assert writes_of("destinations", "change", key, *new, before=before) == expected
        assert writes_of("rules", "change", rule, "--schedule", schedule, before=before) == expected
        assert [one["name"] for one in service.records("alert_push_destinations")] == [name]
        assert [one["schedule"] for one in service.records("alert_rules")] == [schedule]
    assert writes_of("rules", "remove", rule, "--yes", before=False) == 1
    assert writes_of("destinations", "remove", key, "--yes", before=False) == 1
    assert service.records("alert_rules") == service.records("alert_push_destinations") == []


class Echo(Broken):
    """A service that refuses writes and repeats what it was sent."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return await self._inner.handle_async_request(request)
        return httpx.Response(400, text=f"bad: {request.content.decode()}")


@pytest.mark.parametrize("words", [("add", "--url", OTHER_URL), ("change", URL, "--new-secret")])
def test_a_secret_that_the_service_repeats_is_not_shown(service, words):
    service.run("destinations", "add", "--url", URL)

    error = failed(
        service.run("destinations", *words, wire=Echo(service.sim.transport, 0, 0, before=True))
    )

    assert len(service.secrets) == 2
    assert service.secrets[1] not in str(error)
    assert "secret" in error.what


@pytest.mark.parametrize(
    "words",
    [
        ("setup", "--url", URL),
        ("destinations", "add", "--url", URL),
        ("destinations", "change", "Operations room", "--enable"),
        ("destinations", "remove", "Operations room", "--yes"),
    ],
)
@pytest.mark.parametrize("role", ["readonly", "diagnostic"])
def test_keys_that_may_only_read_get_told_which_role_may_write(service, words, role):
    error = failed(service.run(*words, role=role))

    assert isinstance(error, EndpointUnavailable)
    assert "returned 403: forbidden" in error.what
    assert "Administrator or Full Access User" in error.remedy
    assert service.state()[0] == []


def test_a_url_that_another_destination_has_is_refused_with_its_name(service):
    service.run("destinations", "add", "--url", URL, "--name", "first")

    error = failed(service.run("destinations", "add", "--url", URL))

    assert isinstance(error, UsageError)
    assert "(first) already has the URL" in error.what
    assert len(service.secrets) == 1


def test_what_the_service_refuses_is_shown_in_its_own_words(service):
    service.run("destinations", "add", "--url", URL)
    words = ("--destination", URL, "--type", "no_such_type", "--account", "10157")

    error = failed(service.run("rules", "add", *words))

    assert isinstance(error, RequestRejected)
    assert "unknown alert type" in error.what


def test_an_unknown_id_gets_the_nearest_one(service):
    service.run("destinations", "add", "--url", URL, "--name", "control room")

    error = failed(service.run("destinations", "test", "control rom"))

    assert "Did you mean control room?" in error.remedy


def test_a_name_in_a_question_cannot_move_the_cursor(service):
    service.run("destinations", "add", "--url", URL, "--name", "\x1b[2Jroom")

    asked = service.run("destinations", "remove", URL)

    assert "Delete destination \\x1b[2Jroom" in asked.output
    assert "\x1b" not in asked.output


def test_destinations_and_rules_are_listed_in_every_format(service):
    service.run("setup", "--url", URL)
    for group, resource, key in (
        ("destinations", "alert_push_destinations", "destination_id"),
        ("rules", "alert_rules", "rule_id"),
    ):
        table, as_json, as_csv = (
            service.run(group, "list", "--format", name) for name in ("table", "json", "csv")
        )
        served = service.sim.truth(resource)
        name = {"destination_id": "destination_config_id", "rule_id": "alert_config_id"}[key]
        ids = [one[name] for one in served]
        assert [row[key] for row in json.loads(as_json.stdout)] == ids
        assert [row[key] for row in csv.DictReader(io.StringIO(as_csv.stdout))] == ids
        assert all(one[:8] in table.stdout for one in ids)
        assert service.run(group).stdout == table.stdout
        [shown] = json.loads(service.run(group, "show", ids[1][:8], "--format", "json").stdout)
        assert shown[key] == ids[1]


def test_the_four_delivery_states_are_listed_and_resume_ends_a_suspension(service):
    service.run(
        "setup",
        "--url",
        URL,
        "--type",
        "wan",
        "--type",
        "config_change",
        "--type",
        "wan_service_type",
        "--type",
        "cpu_utilization",
        "--type",
        "login_success",
    )

    def state() -> str:
        listed = json.loads(service.run("destinations", "list", "--format", "json").stdout)
        return {row["url"]: row["state"] for row in listed}[URL]

    states = [state()]
    service.receiver.error = "HTTP 500"
    service.sim.advance(12 * 3600)
    states.append(state())
    service.sim.advance(3 * 86400)
    states.append(state())
    service.receiver.error = None
    resumed = service.run("destinations", "resume", URL)
    [record] = service.records("alert_push_destinations")
    service.run("destinations", "change", URL, "--disable")
    states.append(state())

    assert states == ["active", "unreachable", "suspended", "disabled"]
    assert (resumed.exit_code, record["suspended"]) == (0, False)


def test_rules_are_added_changed_and_removed(service):
    service.run("destinations", "add", "--url", URL)
    add_rule(service)
    [made] = service.records("alert_rules")
    key = made["alert_config_id"]
    changed = service.run("rules", "change", key, "--schedule", "daily", "--type", "failover")
    [after] = service.records("alert_rules")
    schedules = []
    for schedule in ("hourly", "none"):
        service.run("rules", "change", key, "--schedule", schedule)
        schedules += [rule["schedule"] for rule in service.records("alert_rules")]
    kept = service.run("rules", "remove", key, "--dry-run")
    removed = service.run("rules", "remove", key, "--yes")

    assert (made["schedule"], made["associated_accounts"]) == (None, [10157])
    assert changed.exit_code == kept.exit_code == removed.exit_code == 0
    assert [after["schedule"], *schedules] == ["daily", "hourly", None]
    assert after["filter_criteria"] == {"alert_type__in": ["failover_event"]}
    assert after["http_destinations"] == made["http_destinations"]
    assert service.records("alert_rules") == []


def watched(service: Service, *words: str) -> list[dict[str, Any]]:
    done = service.run("watch", "--no-follow", "--format", "json", *words)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.proof
def test_watch_shows_the_alerts_of_the_lake_by_type_device_and_group(service):
    service.sim.ingest("alerts", "routers", "groups")
    served = service.sim.truth("alerts")
    device = next(a["router"] for a in served if a["router"]).rstrip("/").rpartition("/")[2]
    kind = served[0]["type"]

    everything = watched(service, "--since", "2026-01-01")
    assert {a["alert_id"] for a in everything} == {a["created_at_timeuuid"] for a in served}
    assert {a["alert_id"] for a in watched(service, "--since", "2026-01-01", "--type", kind)} == {
        a["created_at_timeuuid"] for a in served if a["type"] == kind
    }
    of_device = watched(service, "--since", "2026-01-01", "--device", device)
    assert {a["alert_id"] for a in of_device} == {
        a["created_at_timeuuid"] for a in served if (a["router"] or "").endswith(f"/{device}/")
    }
    group = next(a["group_name"] for a in everything if a["group_name"])
    of_group = watched(service, "--since", "2026-01-01", "--group", group)
    assert of_group == [a for a in everything if a["group_name"] == group]
    assert watched(service) == []


@pytest.mark.proof
def test_a_tail_shows_each_alert_that_arrives_after_its_start_once(service):
    service.sim.ingest("alerts", "routers", "groups")
    known = {a["created_at_timeuuid"] for a in service.sim.truth("alerts")}
    with open_lake(service.sim.settings().lake, read_only=True) as lake:
        tail = AlertTail(lake)
        first = tail.look()
        service.sim.advance(6 * 3600)
        service.sim.ingest("alerts")
        looks = [tail.look() for _ in range(2)]

    served = {a["created_at_timeuuid"] for a in service.sim.truth("alerts")}
    arrived = [alert.alert_id for alert in looks[0]]
    assert (first, looks[1]) == ([], [])
    assert sorted(arrived) == sorted(set(arrived))
    assert {*arrived} <= served - known
    assert arrived


@pytest.mark.proof
@pytest.mark.parametrize(
    ("since", "shown", "hint"),
    [
        (("--since", "2026-01-01"), "failover_event", ""),
        ((), "", "; --since TIME also shows earlier ones"),
    ],
)
def test_a_watch_says_that_it_waits_and_ctrl_c_ends_it_without_a_traceback(
    lake_path, since, shown, hint
):
    push(lake_path.parent / "push-journal", with_id(an_alert()))
    drain_all(lake_path, lake_path.parent / "push-journal")
    words = ("alerts", "watch", *since, "--interval", "0.1")
    with subprocess.Popen(
        command(*words),
        env=environment(lake_path.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=60)

    assert said == f"Waiting for new alerts{hint}. Ctrl-C ends it.\n"
    assert (shown in out, bool(out)) == (True, bool(shown))
    assert (process.returncode, rest) == (0, "")


@pytest.mark.proof
def test_status_metrics_and_doctor_name_the_command_that_resumes_pushes(service):
    service.run("setup", "--url", URL, "--type", "wan", "--type", "wan_service_type")
    service.receiver.error = "HTTP 500"
    service.sim.advance(4 * 86400)
    service.sim.ingest("alert_push_destinations")
    [record] = service.records("alert_push_destinations")
    with open_lake(service.sim.settings().lake, read_only=True) as lake:
        measured = measure(lake, service.sim.settings())

    key = record["destination_config_id"]
    said = [*summary_lines(measured.status, measured.figures.measured_at)]
    assert any(f"run `fleetlake alerts destinations resume {key}`" in line for line in said)
    text = metrics_text(measured)
    assert 'fleetlake_push_destinations{profile="default",state="suspended"} 1' in text
    assert 'fleetlake_push_destinations{profile="default",state="disabled"} 1' in text
    checks = {c.name: c for c in run_checks_offline(service)}
    assert key in checks["pushes"].found


def run_checks_offline(service: Service) -> list[Any]:
    """Return the checks of the machine, which come before those of the service."""
    return list(itertools.islice(run_checks(service.sim.settings()), 6))


def test_the_groups_of_types_are_those_that_the_sql_models_read():
    folder = project_folder()
    text = "".join(file.read_text() for file in sorted(folder.glob("m*/**/*.sql")))
    plain = {name for name in CONTRACT_ALERT_TYPES if f"'{name.removeprefix('alt_')}'" in text}
    seeds = (folder / "seeds" / "security_event_types.csv").read_text()
    security = {line.split(",")[1] for line in seeds.splitlines() if line.startswith("alert,")}

    in_models = {
        n for group in ("failover", "wan", "battery", "availability") for n in TYPE_GROUPS[group]
    }
    assert in_models == plain - {*TYPE_GROUPS["security"]}
    assert {*TYPE_GROUPS["security"]} == security
    assert {name for names in TYPE_GROUPS.values() for name in names} <= CONTRACT_ALERT_TYPES


def test_a_misspelt_type_of_the_settings_is_found_by_the_doctor(lake_path):
    settings = Settings(lake=lake_path, alert_events="failover,failover_evnt")

    [_, found] = itertools.islice(run_checks(settings), 2)

    assert found.name == "settings"
    assert "no alert type 'failover_evnt'" in found.found
