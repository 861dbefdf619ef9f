"""Metrics: what Prometheus and programs read, compared with what the service served."""

import json
import re
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import jsonschema
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from fleetlake.account import DEFAULT_PROFILE
from fleetlake.cli import app
from fleetlake.endpoints import ENDPOINTS, requested_endpoints
from fleetlake.endpoints.model import Group
from fleetlake.endpoints.relations import endpoints_of, group_of
from fleetlake.errors import OutputLost, SettingsError
from fleetlake.lake import open_lake
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.run_log import record_build, record_stale_marts
from fleetlake.lake.watermarks import all_proven_intervals
from fleetlake.machine.umask import apply_umask
from fleetlake.monitoring.figures import load_intervals, measure
from fleetlake.monitoring.prometheus import METRICS, metrics_text
from fleetlake.monitoring.streams import complete_until
from fleetlake.planning.intervals import Interval
from fleetlake.publishing.publish import publish
from fleetlake.settings import Settings
from tests.support.sim import NOW, Sim, new_sim
from tools.site_pages import DOCS, ROOT

pytestmark = pytest.mark.xdist_group("metrics")  # they share a lake, which takes seconds

LOADED = ("routers", "alerts", "locations", "alert_push_destinations")
SCHEMA = json.loads((DOCS / "reference" / "status.schema.json").read_text())
ALERTS = yaml.safe_load((DOCS / "monitoring" / "alerts.yml").read_text())
DASHBOARD = json.loads((DOCS / "monitoring" / "grafana.json").read_text())


class Counted(httpx.AsyncBaseTransport):
    """A service whose responses are counted by endpoint and status."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.served: Counter[tuple[str, int]] = Counter()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        self.served[request.url.path.strip("/").split("/")[-1], response.status_code] += 1
        return response


@dataclass
class Loaded:
    """A loaded lake: its service, what the service served, and its metrics by name and labels."""

    sim: Sim
    served: Counter[tuple[str, int]]
    text: str
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, **labels: str) -> float:
        """Return one sample. Raises: KeyError."""
        return self.samples[name, frozenset(labels.items())]

    def stream(self, name: str, endpoint: str) -> float:
        """Return the sample of a stream. Raises: KeyError."""
        return self.value(name, profile="default", endpoint=endpoint)


@pytest.fixture(scope="module")
def loaded(module_lake: Path) -> Loaded:
    """Return a lake loaded twice from a service that refuses some calls, with builds and events."""
    sim = new_sim(module_lake.parent, routers=3, days=1)
    service = Counted(sim.transport)
    sim.faults(status_429=0.3)
    for _ in range(2):
        outcomes = sim.ingest(*LOADED, transport=service)
        assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    settings = sim.settings()
    with open_lake(settings.lake) as lake:
        for is_good in (False, True):
            tests = {"pass": 9, "warn": 2, "fail": 3 * (not is_good)}
            record_build(lake, seconds=4.5, is_good=is_good, is_full=False, models=7, tests=tests)
        record_stale_marts(lake, fresh=(), stale={"trips", "failover_daily"})
        record_stale_marts(lake, fresh={"trips"}, stale=())
        record_event(lake, EventKind.CHECK, "A file is missing.", rows=3)
        lake.execute("insert into meta.events (kind) values ('of a later release'), ('another')")
        text = metrics_text(measure(lake, settings))
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return Loaded(sim, service.served, text, samples)


@pytest.mark.proof
def test_calls_refusals_and_retries_are_those_that_the_service_counted(loaded: Loaded) -> None:
    for name in LOADED:
        statuses = {status: n for (path, status), n in loaded.served.items() if path == name}
        assert loaded.stream("fleetlake_calls_total", name) == sum(statuses.values())
        assert loaded.stream("fleetlake_refusals_total", name) == statuses.get(429, 0)
        assert loaded.stream("fleetlake_retries_total", name) == statuses.get(429, 0)
    assert sum(n for (_, status), n in loaded.served.items() if status == 429) > 0


@pytest.mark.proof
def test_each_stream_has_its_rows_and_its_distance_to_the_present(loaded: Loaded) -> None:
    for name in LOADED:
        endpoint = ENDPOINTS[name]
        if name != "locations":
            rows = loaded.stream("fleetlake_stream_rows", name)
            assert rows == len(loaded.sim.truth(name, until=NOW))
        if endpoint.event_time:
            until = loaded.stream("fleetlake_stream_complete_until_timestamp_seconds", name)
            assert until == pytest.approx(NOW.timestamp(), abs=3600)
            lag = loaded.stream("fleetlake_stream_lag_seconds", name)
            now = loaded.value("fleetlake_measured_timestamp_seconds")
            assert lag == pytest.approx(now - until)
    assert loaded.stream("fleetlake_stream_rows", "users") == 0
    with pytest.raises(KeyError):
        loaded.stream("fleetlake_stream_lag_seconds", "users")  # never loaded


def test_the_last_build_and_stale_marts_count_and_events_of_unknown_kinds_count_together(
    loaded: Loaded,
) -> None:
    assert loaded.value("fleetlake_build_success") == 1
    assert loaded.value("fleetlake_build_duration_seconds") == 4.5
    assert loaded.value("fleetlake_build_failed_tests") == 0
    assert loaded.value("fleetlake_build_warned_tests") == 2
    assert loaded.value("fleetlake_marts_stale") == 1
    assert loaded.value("fleetlake_events_total", kind="check") == 1
    assert loaded.value("fleetlake_events_total", kind="erasure") == 0
    assert loaded.value("fleetlake_events_total", kind="other") == 2


def test_files_bytes_and_free_space_are_those_of_the_disk(loaded: Loaded) -> None:
    lake = loaded.sim.settings().lake
    on_disk = [file.stat().st_size for file in (lake / "files").rglob("*.parquet")]
    files = sum(loaded.value("fleetlake_files", kind=kind) for kind in ("data", "delete"))
    size = sum(loaded.value("fleetlake_file_bytes", kind=kind) for kind in ("data", "delete"))

    assert 0 < files <= len(on_disk)
    assert 0 < size <= sum(on_disk)
    assert loaded.value("fleetlake_catalog_bytes") > 0
    assert loaded.value("fleetlake_disk_free_bytes") > 0


def test_every_metric_is_printed_with_its_labels_and_none_names_a_device(loaded: Loaded) -> None:
    labels = {name: set(read.labels) for name, read in METRICS.items()}
    printed = {name: {key for key, _ in found} for name, found in loaded.samples}
    own = {str(record[key]) for record in loaded.sim.truth("routers") for key in ("name", "mac")}

    unknown = {"fleetlake_stream_retention_hours", "fleetlake_pushed_alert_timestamp_seconds"}
    unknown |= {"fleetlake_published_timestamp_seconds"}
    assert printed == {name: v for name, v in labels.items() if name not in unknown}
    assert [name for name in own if name in loaded.text] == []
    assert {value for _, found in loaded.samples for key, value in found if key == "endpoint"} <= {
        *ENDPOINTS
    }


@pytest.fixture
def commands(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """Return a runner of commands whose lake is the loaded one."""
    monkeypatch.setenv("FLEETLAKE_LAKE", str(loaded.sim.settings().lake))
    return CliRunner()


def test_every_user_may_read_the_file_and_it_is_replaced_whole(
    commands: CliRunner, tmp_path: Path
) -> None:
    file = tmp_path / "fleetlake.prom"
    file.write_text("old")
    apply_umask(again=True)

    done = commands.invoke(app, ["metrics", "--output", str(file)])

    assert done.exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [*tmp_path.iterdir()] == [file]
    assert "fleetlake_stream_rows{" in file.read_text()


def test_a_file_that_cannot_be_written_is_an_error_that_names_it(
    commands: CliRunner, tmp_path: Path
) -> None:
    done = commands.invoke(app, ["metrics", "--output", str(tmp_path / "none" / "a.prom")])

    assert isinstance(done.exception, OutputLost)
    assert "none/a.prom" in done.exception.what


def test_status_as_json_is_what_its_schema_says(commands: CliRunner, loaded: Loaded) -> None:
    status = json.loads(commands.invoke(app, ["status", "--format", "json"]).stdout)

    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(status, SCHEMA, jsonschema.Draft202012Validator)
    [routers] = [c for c in status["figures"]["calls"] if c["endpoint"] == "routers"]
    assert routers["calls"] == loaded.stream("fleetlake_calls_total", "routers")
    assert status["figures"]["build"]["warned_tests"] == 2
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**status, "figures": {}}, SCHEMA)


def test_each_stream_has_the_interval_of_the_schedule_that_loads_it(loaded: Loaded) -> None:
    name = "fleetlake_stream_expected_interval_seconds"
    planned = {
        one["parameters"]["group"]: one["schedules"][0]["interval"]
        for one in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
        if one["entrypoint"] == "flows/ingest.py:ingest"
    }

    found = {e.name: loaded.stream(name, e.name) for e in requested_endpoints()}

    swept = {e.name: 86_400 for e in ENDPOINTS.values() if e.fan_out and e.fan_out.moved}
    assert "historical_locations" in swept
    assert found == {e.name: planned[group_of(e)] for e in requested_endpoints()} | swept
    assert {found["routers"], found["alerts"]} == {86_400, 300}


def test_the_intervals_are_those_of_the_projects_own_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fleetlake.toml").touch()
    Path("prefect.yaml").write_text(
        "deployments:\n"
        "- {parameters: {group: events}, schedules: [{interval: 600}, {interval: 900}]}\n"
        "- {parameters: {group: inventory}, schedules: [{cron: '0 3 * * *'}]}\n"
        "- {parameters: {group: series}, paused: true, schedules: [{interval: 60}]}\n"
        "- {parameters: {group: another}, schedules: [{interval: 60}]}\n"
        "- no mapping\n"
    )

    assert load_intervals() == dict.fromkeys(endpoints_of(Group.EVENTS), 600)
    for text in ("", "- a list", "deployments: 1"):
        Path("prefect.yaml").write_text(text)
        assert load_intervals() == {}
    Path("prefect.yaml").write_text("deployments: [")
    with pytest.raises(SettingsError, match=r"prefect\.yaml is not a YAML file"):
        load_intervals()


@pytest.mark.release
def test_under_the_shipped_schedule_no_hourly_stream_is_behind_within_a_day(tmp_path: Path) -> None:
    sim = new_sim(tmp_path, routers=2, days=1)
    hourly = {*endpoints_of(Group.ACTIVITY), *endpoints_of(Group.SERIES)}
    outcomes = sim.ingest("routers", "net_devices", *hourly)
    late = set()
    for _ in range(26):
        sim.advance(3600)
        now = datetime.fromisoformat(sim.ask("GET", "/sim/state").json()["now"])
        with open_lake(sim.settings().lake, read_only=True) as lake:
            proven = all_proven_intervals(lake, DEFAULT_PROFILE)
        # Lists that hold only their present records are not in `proven`: nothing can be behind.
        late |= {name for name in hourly & {*proven} if is_behind(name, proven[name], now)}
        outcomes += sim.ingest(*hourly)

    assert [outcome for outcome in outcomes if outcome.error] == []
    assert len(proven) == 7
    assert late == set()


def is_behind(name: str, proven: Mapping[str, list[Interval]], now: datetime) -> bool:
    """Return what the rule FleetlakeStreamBehind says of a stream of events."""
    until = complete_until(proven)
    assert until is not None
    return (now - until).total_seconds() > 2 * load_intervals()[name] + 3600


def test_the_last_publication_has_its_time(lake_path: Path, tmp_path: Path) -> None:
    settings = Settings(lake=lake_path, published=tmp_path / "published")
    name = "fleetlake_published_timestamp_seconds"
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.trips as select 1 as router_id")
        assert name not in metrics_text(measure(lake, settings))
    began = datetime.now(UTC)

    publish(lake_path, settings.published)

    with open_lake(lake_path, read_only=True) as lake:
        measured = measure(lake, settings)
    assert name in metrics_text(measured)
    assert measured.published_at is not None
    assert began <= measured.published_at <= datetime.now(UTC)


WORDS = {"by", "without", "and", "or", "unless", "on", "ignoring", "bool", "offset"}
FUNCTIONS = {"time", "rate", "increase", "sum", "max", "min", "avg", "count", "label_values"}


def used(expression: str) -> set[tuple[str, str]]:
    """Return the metrics of a PromQL expression, each with each of its labels, or with "".

    Raises: AssertionError for a word that is neither a metric, a label nor a known function.

    >>> sorted(used('sum by (a) (rate(m_total{b="x"}[1h])) > 2e9'))
    [('m_total', ''), ('m_total', 'a'), ('m_total', 'b')]
    """
    text = re.sub(r'"[^"]*"', '""', expression)
    text = re.sub(r"\[\w+\]|(?<![\w])\d[\w.]*", "", text)
    grouped = re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", text)
    text = re.sub(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)", "", text)
    of_groups = {label.strip() for part in grouped for label in part.split(",")}
    matched = re.findall(r"(\w+)\{([^}]*)\}", text)
    text = re.sub(r"\{[^}]*\}", "", text)
    metrics = {*re.findall(r"[a-z_]\w*", text)} - WORDS - FUNCTIONS
    assert metrics, expression
    labels = {name: re.findall(r"(\w+)\s*[=!]", part) for name, part in matched}
    own = {(name, label) for name, found in labels.items() for label in found}
    return {(name, label) for name in metrics for label in ("", *of_groups)} | own


KNOWN = {(name, label) for name, read in METRICS.items() for label in ("", *read.labels)}


def test_every_alert_uses_metrics_and_labels_that_are_printed() -> None:
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    labels = {label for read in METRICS.values() for label in read.labels}
    for rule in rules:
        assert {*rule} <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Fleetlake[A-Z]\w+", rule["alert"])
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s"))
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert {*rule["annotations"]} == {"summary", "description"}
        assert used(rule["expr"]) - KNOWN == set(), rule["alert"]
        named = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        assert {*named} <= labels

    assert {*ALERTS} == {"groups"}
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8


def test_every_panel_of_the_dashboard_uses_metrics_and_labels_that_are_printed() -> None:
    labels = {label for read in METRICS.values() for label in read.labels}
    targets = [target for panel in DASHBOARD["panels"] for target in panel["targets"]]
    for target in targets:
        assert used(target["expr"]) - KNOWN == set(), target["expr"]
        assert {*re.findall(r"{{(\w+)}}", target["legendFormat"])} <= labels
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    wanted = {*re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"]))}
    queried = [one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]

    assert wanted <= variables
    assert all(used(query.replace(", ", " by (") + ")") - KNOWN == set() for query in queried)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"]) >= 8


@pytest.mark.parametrize(
    "expression",
    ["fleetlake_rowz > 1", 'fleetlake_files{router="x"}', "sum by (mac) (fleetlake_files)"],
)
def test_the_check_of_expressions_finds_unknown_metrics_and_labels(expression: str) -> None:
    assert used(expression) - KNOWN != set()
