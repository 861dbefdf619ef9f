"""Proposals of endpoint files: what they say of the shipped lists, and what they cannot know."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest
from typer.testing import CliRunner, Result

from fleetlake.cli import app
from fleetlake.cli.endpoints import described_as
from fleetlake.decoding.field_kinds import Field, observed_fields, relationships
from fleetlake.endpoints import ENDPOINTS, forget_own, optional_lists
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.endpoint_files import read_files
from fleetlake.endpoints.model import Api, Endpoint, FanOut, Walk
from fleetlake.errors import EndpointUnavailable, SettingsError, UsageError
from fleetlake.reading.probe import Learned, filter_works, probe_list
from fleetlake.reading.proposal import proposed_file
from fleetlake.settings import load_settings
from tests.support.cases import REQUESTED
from tests.support.consoles import BLOCK, console_commands, runnable
from tests.support.processes import environment, service
from tests.support.sim import Sim, new_sim
from tools.site_pages import DOCS

ASKED_OTHERWISE = {"asset_endpoint_subscriptions"}
"""A list that shares its path with another and is read by ids of a third."""

OTHER: dict[str, set[str]] = {
    # Whether only the newest version matters is a decision.
    "net_device_metrics": {"mode"},
    "locations": {"mode"},
    # One record: no filter can be seen to work.
    "alert_rules": {"cursor"},
    "alert_push_destinations": {"cursor"},
    # The ids of activities are UUIDs with a time; that the service promises nothing is not seen.
    "activity_logs": {"cursor"},
    # Without a required filter, that two devices may share a UUID is not seen.
    "router_alerts": {"key"},
}
"""What is proposed otherwise than shipped, with the reason."""

OTHER_KINDS = {
    # Documented as a text, and digits in each record.
    ("batteries", "id"): (Kind.ID, Kind.TEXT),
    ("activity_logs", "action_id"): (Kind.TIMEUUID, Kind.TEXT),
    # Whole in each record so far; the file says that they may have a fraction.
    ("net_device_health", "cellular_health_score"): (Kind.INTEGER, Kind.REAL),
    ("net_device_metrics", "signal_strength"): (Kind.INTEGER, Kind.REAL),
    ("net_device_signal_samples", "signal_percent"): (Kind.INTEGER, Kind.REAL),
    ("historical_locations", "signal_percent"): (Kind.INTEGER, Kind.REAL),
    ("batteries", "temp"): (Kind.INTEGER, Kind.REAL),
    ("failovers", "data_usage"): (Kind.INTEGER, Kind.REAL),
    ("failovers", "elapsed_time"): (Kind.INTEGER, Kind.REAL),
}
"""Kinds that records suggest, where they are not those of the shipped columns."""


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Sim:
    return new_sim(tmp_path_factory.mktemp("probe"), routers=12)


@pytest.fixture(scope="module")
def learned(sim: Sim) -> dict[str, Learned]:
    """Return what a probe learns of each shipped list."""
    return {
        name: probe_list(
            sim.settings(), row.path.strip("/"), api=row.api, pages=2, transport=sim.transport
        )
        for name, row in REQUESTED.items()
        if name not in ASKED_OTHERWISE
    }


def proposed(folder: Path, text: str) -> Endpoint:
    file = folder / "proposed.toml"
    file.write_text(text)
    [one], faults = read_files([file])
    assert faults == []
    return one.endpoint


def part(row: Endpoint, name: str) -> object:
    value = getattr(row, name)
    if isinstance(value, FanOut):
        return value.parameter, value.source, value.partition, value.ids_per_call, value.is_stamped
    if name == "columns":
        return {(column.name, column.path, column.kind) for column in value}
    return value


PARTS = (
    *("api", "path", "key", "mode", "cursor", "event_time", "window", "changes_until"),
    *("page_size", "parameters", "fan_out", "columns"),
)


def test_a_probe_of_a_shipped_list_proposes_what_is_shipped(learned, tmp_path):
    different = {}
    for name, one in learned.items():
        # Two lists have a name and the path of another; the path is what a probe knows.
        row = proposed(tmp_path, proposed_file(one, taken=()))
        parts = {part_ for part_ in PARTS if part(row, part_) != part(REQUESTED[name], part_)}
        if parts:
            different[name] = parts

    assert different == OTHER


def test_a_probe_of_an_optional_list_proposes_its_description(sim, tmp_path):
    different = {}
    for name, one in optional_lists().items():
        row = one.endpoint
        found = probe_list(
            sim.settings(), row.path.strip("/"), api=row.api, pages=1, transport=sim.transport
        )
        again = proposed(tmp_path, proposed_file(found, taken=()))
        parts = {part_ for part_ in PARTS if part(again, part_) != part(row, part_)} - {"mode"}
        if {c.name for c in again.columns} - {c.name for c in row.columns} == {"name"}:
            parts -= {"columns"}  # if no public source names members, the simulator serves a name
        if parts:
            different[name] = parts

    assert len(optional_lists()) > 20
    assert different == {}


def test_moving_hosts_odd_numbers_and_a_record_without_id_change_no_proposal(tmp_path):
    live = new_sim(tmp_path, routers=12, scenario="live-shapes")
    names = ["accounts", "configuration_managers", "locations", "router_state_samples", "users_v3"]
    different = {}
    for name in names:
        row = REQUESTED[name]
        found = probe_list(
            live.settings(), row.path.strip("/"), api=row.api, pages=1, transport=live.transport
        )
        proposal = proposed_file(found, taken=())
        odd = "values are not of this kind" in proposal
        row = proposed(tmp_path, proposal)
        parts = {part_ for part_ in PARTS if part(row, part_) != part(REQUESTED[name], part_)}
        different[name] = (odd, parts)

    assert different == {
        name: (name == "configuration_managers", OTHER.get(name, set())) for name in names
    }


def test_kinds_are_found_without_knowing_the_names(learned):
    different = {}
    for name, one in learned.items():
        row = REQUESTED[name]
        whole = {c.path[0] for c in row.columns if len(c.path) == 1}
        for field in observed_fields(one.records, one.api, whole=whole):
            path = ("attributes", *field.name.split(".")) if one.api is Api.V3 else None
            [column] = [c for c in row.columns if c.path == (path or tuple(field.name.split(".")))]
            if field.kind not in {None, column.kind} and column.kind is not Kind.JSON:
                different[name, column.name] = (field.kind, column.kind)

    assert different == OTHER_KINDS


def test_a_proposal_has_no_value_of_a_record(learned):
    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for one in value.values():
                yield from texts(one)
        elif isinstance(value, list):
            for one in value:
                yield from texts(one)
        elif isinstance(value, str) and len(value) > 6 and not value.startswith("20"):
            yield value

    for name in ("users", "routers", "net_devices", "alerts", "users_v3", "asset_endpoints"):
        text = proposed_file(learned[name], taken=())
        held = {*texts([one.get("attributes", one) for one in learned[name].records])}
        assert held
        assert {value for value in held if f'"{value}"' in text or f" {value} " in text} == set()


FIRST, SECOND = "0e83ff80-e6a5-11f0-8080-808080808080", "d0c3c000-e6a4-11f0-8080-808080808080"


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("id", ["7", "8"], Kind.ID),
        ("id", ["7", "8a"], Kind.TEXT),
        ("router_id", [7, 8], Kind.ID),
        ("mcc", ["310", "260"], Kind.TEXT),
        ("iccid", ["89014103211118510720", None], Kind.TEXT),
        ("a", [1, 2], Kind.INTEGER),
        ("a", [1, 2.5], Kind.REAL),
        ("a", ["-62", "71"], Kind.REAL),
        ("version", ["1.0", "7.25"], Kind.TEXT),
        ("a", [True, False], Kind.FLAG),
        ("a", [True, 1], Kind.TEXT),
        ("at", ["2026-06-06T12:59:11+00:00", "2026-03-29T02:45:29.163359Z"], Kind.TIME),
        ("at", ["2026-06-06T12:59:11+00:00", "never"], Kind.TEXT),
        ("at", [FIRST, SECOND], Kind.TIMEUUID),
        ("router", ["https://a.test/api/v2/routers/4/", None], Kind.RELATION),
        ("router", [{"id": "4", "resource_url": "https://a.test/routers/4/"}], Kind.RELATION),
        ("resource_url", ["https://a.test/api/v2/routers/4/"], Kind.TEXT),
        ("page", ["https://a.test/"], Kind.TEXT),
        ("tags", [["a"], []], Kind.JSON),
        ("tag_ids", [["a"], []], Kind.IDS),
        ("a", [[{"b": 1}]], Kind.JSON),
        ("a", [{"b": {"c": 1}}, 4], Kind.JSON),
        ("a", [None, None], None),
    ],
)
def test_a_kind_is_what_fits_all_values(name, values, kind):
    [field] = observed_fields([{name: value} for value in values])

    assert (field.name, field.kind) == (name, kind)


def test_an_object_with_a_fixed_form_becomes_a_field_for_each_member():
    records = [{"place": {"town": "x", "zone": 1}}, {"place": {"town": "y"}}, {"place": None}]
    loose = [{"info": {"a": 1}}, {"info": {"b": 1}}, {"info": {"c": 1}}]

    assert [f.name for f in observed_fields(records)] == ["place.town", "place.zone"]
    assert [f.name for f in observed_fields(loose)] == ["info"]
    assert [f.name for f in observed_fields(records, whole={"place"})] == ["place"]


def test_a_relationship_is_to_many_if_a_record_has_a_list():
    links = [{"a": {"data": None}, "b": {"data": []}, "c": {"data": {"id": "1"}}}, {}]

    found = dict(relationships([{"relationships": one} for one in links]))

    assert found == {"a": None, "b": True, "c": False}


@pytest.mark.parametrize(
    ("after", "works"),
    [
        ([4, 5, 6], True),
        ([5, 6, 7, 8], True),
        ([1, 2, 3, 4, 5, 6], False),  # the service ignored it
        ([3, 4, 5, 6], False),  # it includes the bound
        ([5, 6], False),  # a record that meets it is missing
        ([], False),
        (["x"], False),
    ],
)
def test_a_filter_works_if_the_page_is_as_its_name_says(after, works):
    field = Field(name="id", kind=Kind.INTEGER)
    pages = ([{"id": value} for value in page] for page in ([1, 2, 3, 4, 5, 6], after))

    assert filter_works(field, "gt", 3, *pages) is works


def test_a_filter_that_all_records_met_before_proves_nothing():
    page = [{"id": value} for value in (4, 5, 6)]

    assert not filter_works(Field(name="id", kind=Kind.INTEGER), "gt", 3, page, page)


class Between(httpx.AsyncBaseTransport):
    """What stands between a probe and the simulator, and makes it another service."""

    def __init__(self, sim: Sim) -> None:
        self._inner = sim.transport

    async def forward(self, request: httpx.Request, query: dict[str, str]) -> httpx.Response:
        url = request.url.copy_with(query=urlencode(query).encode())
        return await self._inner.handle_async_request(
            httpx.Request(request.method, url, headers=request.headers)
        )


class Careless(Between):
    """A service that ignores filters and orders, as some do."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        query = dict(parse_qsl(request.url.query.decode()))
        return await self.forward(request, {n: query[n] for n in ("limit", "offset") if n in query})


class Demanding(Between):
    """A service that requires one network for each call."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        query = dict(parse_qsl(request.url.query.decode()))
        if query.get("filter[exchange_network]") in {None, "exchange_network-0,exchange_network-1"}:
            errors = [{"detail": "filter[exchange_network] is required"}]
            return httpx.Response(409, json={"errors": errors})
        return await self.forward(request, query)


class Failing(Between):
    """A service that answers filters with 500."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        query = dict(parse_qsl(request.url.query.decode()))
        if query.keys() - {"limit"}:
            return httpx.Response(500, text="internal error")
        return await self.forward(request, query)


def test_trials_without_an_answer_are_said(sim):
    settings = sim.settings(retry_attempts=1)

    found = probe_list(settings, "routers", api=Api.V2, transport=Failing(sim))

    assert (found.cursor, found.window) == (None, None)
    assert "# not known: what 2 trials without an answer" in proposed_file(found, taken=())


@pytest.mark.parametrize("path", ["routers", "failovers", "router_alerts"])
def test_a_filter_that_the_service_ignores_is_not_proposed(sim, path):
    found = probe_list(sim.settings(), path, api=Api.V2, transport=Careless(sim))

    assert (found.order_by, found.window) == (None, None)
    assert found.cursor in {(Walk.OFFSET, "offset"), None}


def test_a_filter_of_an_unknown_list_is_asked_for_and_then_described(sim, tmp_path):
    def asked(**more: str) -> Learned:
        settings, path = sim.settings(), "beta/exchange_sites"
        return probe_list(settings, path, api=Api.V3, transport=Demanding(sim), **more)

    with pytest.raises(UsageError, match=r"exchange_network\] is required.*--per NAME=ID"):
        asked()
    row = proposed(
        tmp_path,
        proposed_file(
            asked(per="exchange_network=exchange_network-0,exchange_network-1"), taken=()
        ),
    )

    assert part(row, "fan_out") == (
        *("filter[exchange_network]", "exchange_networks", "exchange_network_id", 1, False),
    )


def test_the_guides_files_are_valid(tmp_path):
    page = (DOCS / "how-to" / "own-endpoints.md").read_text("utf-8")
    for block in BLOCK.finditer(page):
        if block["kind"] == "toml":
            (tmp_path / "guide.toml").write_text(block["text"])
            found, faults = read_files([tmp_path / "guide.toml"])

    assert (len(found), faults) == (1, [])


def test_a_filter_may_be_given_with_its_ids(sim, tmp_path):
    found = probe_list(
        sim.settings(),
        "batteries",
        api=Api.V2,
        per="router=" + ",".join(r["id"] for r in sim.truth("routers")),
        transport=sim.transport,
    )

    row = proposed(tmp_path, proposed_file(found, taken={"batteries"}))
    assert (row.name, row.path) == ("own_batteries", "batteries/")
    assert row.fan_out
    assert (row.fan_out.parameter, row.fan_out.source) == ("router__in", "routers")


@pytest.mark.parametrize(
    ("path", "options", "error", "words"),
    [
        ("no_such_list", {}, EndpointUnavailable, "Check the path, --api"),
        ("../secrets", {}, UsageError, "not a path"),
        ("routers", {"per": "router"}, UsageError, "NAME=ID"),
        ("users", {"api": Api.V3}, SettingsError, "FLEETLAKE_V3_TOKEN"),
    ],
)
def test_what_cannot_be_probed_is_said(sim, path, options, error, words):
    settings = sim.settings(v3_token="")
    options = {"api": Api.V2, **options}

    with pytest.raises(error) as refusal:
        probe_list(settings, path, transport=sim.transport, **options)

    assert words in str(refusal.value)


def test_a_number_is_not_taken_for_the_text_that_fleetlake_knows_by_the_same_name():
    records = [{"id": number, "level": number + 0.5} for number in range(30)]
    found = Learned(
        path="tanks", api=Api.V2, records=records, pages=1, is_whole=True, again="",
        fields=observed_fields(records),
    )  # fmt: skip

    text = proposed_file(found, taken=())

    assert '[tanks.columns.level]  # 30 x number\nkind = "real"' in text
    assert "Severity" not in text


def test_odd_names_become_no_columns_and_no_control_characters():
    records = [
        {"id": number, "Camel": 1, "a\x1b[31m" * 90: 2, 'q"': 3, "_own": 4, "valid_to": 5}
        for number in range(3)
    ]
    odd = Learned(
        path="odd", api=Api.V2, records=records, pages=1, is_whole=True, again="",
        fields=observed_fields(records),
    )  # fmt: skip

    text = proposed_file(odd, taken=())

    assert text.replace("\n", "").isprintable()
    assert max(map(len, text.splitlines())) < 1_100
    assert "valid_to (its name cannot be" in text
    assert "fields = [\n" in text


WRONG = """\
[sites]
about = "Sites."
kynd = "history"
fields = ["id", "nam"]

[sites_too]
key = ["id"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fleetlake.toml").touch()
    (tmp_path / "endpoints").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["endpoints", *words], env={"COLUMNS": "120"})


def test_a_list_of_the_project_is_listed_and_shown_as_its_file_says(project):
    text = '[sites]\nabout = "Sites."\nfields = ["id", "name"]\n'
    (project / "endpoints" / "own.toml").write_text(f"# Ours.\n\n{text}")

    listed = json.loads(run("list", "--format", "json").stdout)

    rows = {one["name"]: one for one in listed}
    assert {*rows} >= {*ENDPOINTS, "sites"}
    assert rows["sites"] == {
        "name": "sites",
        "api": "v2",
        "kind": "history",
        "schedule": "inventory",
        "source": "own file",
        "about": "Sites.",
    }
    assert (rows["locations"]["kind"], rows["alerts"]["source"]) == ("latest", "shipped")
    assert run("show", "sites").stdout == text
    assert run("show", "alerts").stdout.startswith("[alerts]\n")
    assert "Did you mean alerts?" in str(run("show", "alert").exception)


def test_a_check_names_every_fault_with_its_line(project):
    file = project / "endpoints" / "own.toml"
    file.write_text(WRONG)

    done = run("check")

    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == [
        f"{file}:3",
        f"{file}:6",
    ]
    assert "Did you mean kind?" in done.stdout
    assert (done.exit_code != 0, str(done.exception)) == (True, "2 faults in endpoint files.")


def test_a_check_of_a_file_knows_the_others_of_the_project(project):
    text = '[{}]\nabout = "Sites."\nfields = ["id", "name"]\n'
    (project / "endpoints" / "own.toml").write_text(text.format("sites"))
    (project / "same.toml").write_text(text.format("sites"))
    (project / "other.toml").write_text(text.format("depots"))

    assert "described in" in run("check", "same.toml").stdout
    assert run("check", "other.toml").stdout == "1 list, nothing wrong: depots.\n"
    assert run("check").stdout == "1 list, nothing wrong: sites.\n"


def test_a_path_that_has_a_description_is_recognised():
    assert described_as("routers", Api.V2) == "routers (shipped)"
    assert described_as("routers", Api.V3) == ""


def test_a_probe_overwrites_no_file(project):
    (project / "own.toml").write_text("mine")

    done = run("probe", "routers", "--out", "own.toml")

    assert "own.toml exists" in str(done.exception)
    assert (project / "own.toml").read_text() == "mine"


def test_the_guide_leads_from_a_path_to_a_table_with_its_proof(project, monkeypatch):
    page = (DOCS / "how-to" / "own-endpoints.md").read_text("utf-8")
    commands = [shlex.split(line, comments=True)[1:] for line in runnable(console_commands(page))]
    with service(routers=3, days=1) as fleet:
        for name, value in environment(project, fleet.url).items():
            monkeypatch.setenv(name, value)
        load_settings.cache_clear()
        forget_own()
        outcomes = []
        for words in commands:
            forget_own()
            outcomes.append(CliRunner().invoke(app, words))
    load_settings.cache_clear()

    assert [done.exception for done in outcomes] == [None] * len(commands)
    assert len(commands) > 5
    assert "Complete" in outcomes[-2].output
