"""Everything that prefect.yaml deploys exists; no endpoint is missing. Fast: without Prefect."""

import ast
import subprocess
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fleetlake.cli.prefect import setup
from fleetlake.cli.prefect.deployments import deploy, read_yaml
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Group
from fleetlake.endpoints.relations import endpoints_of, group_of
from fleetlake.errors import FleetlakeError
from flows import states
from tests.support.cases import REQUESTED

ROOT = Path(__file__).parents[2]
DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text())[
    "deployments"
]
BY_NAME = {deployment["name"]: deployment for deployment in DEPLOYMENTS}


def flow_parameters(entrypoint: str) -> set[str]:
    """Return the parameters of the flow that an entrypoint names."""
    file, function = entrypoint.split(":")
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            assert any("flow" in ast.unparse(d) for d in node.decorator_list), "is no flow"
            return {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    raise AssertionError(f"there is no {entrypoint}")


@pytest.mark.parametrize("name", BY_NAME)
def test_deployment_names_a_flow_and_its_parameters(name):
    deployment = BY_NAME[name]

    assert set(deployment.get("parameters", {})) <= flow_parameters(deployment["entrypoint"])


@pytest.mark.parametrize("name", [n for n, d in BY_NAME.items() if d.get("schedules")])
def test_schedule_gives_parameters_that_the_flow_has(name):
    deployment = BY_NAME[name]

    for schedule in deployment["schedules"]:
        assert set(schedule.get("parameters", {})) <= flow_parameters(deployment["entrypoint"])


def test_only_scheduled_runs_leave_out_what_pushes_bring():
    """A run by hand gets the deployment's own parameters, not those of its schedule."""
    given = {
        name: d["schedules"][0].get("parameters") for name, d in BY_NAME.items() if "schedules" in d
    }

    assert {name: parameters for name, parameters in given.items() if parameters} == {
        "events": {"when_due": True}
    }
    assert "when_due" not in BY_NAME["events"]["parameters"]
    assert "alerts" in endpoints_of(Group.EVENTS)


@pytest.mark.parametrize("name", [n for n, d in BY_NAME.items() if d.get("triggers")])
def test_trigger_fills_parameters_that_the_flow_has(name):
    deployment = BY_NAME[name]

    for trigger in deployment["triggers"]:
        assert set(trigger.get("parameters", {})) <= flow_parameters(deployment["entrypoint"])


@pytest.mark.parametrize("name", ["dead-runs", "lost-starts"])
def test_dead_runs_are_distinguished_from_runs_that_ended_in_a_custom_state(name):
    """Prefect names events after a state's name: an unlisted state would be marked Crashed."""
    automation = yaml.safe_load((ROOT / f"flows/automations/{name}.yaml").read_text())
    ours = {value for name, value in vars(states).items() if name.isupper()}

    assert {f"prefect.flow-run.{name}" for name in ours} <= set(automation["trigger"]["expect"])


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - {"shard", "live"}))
def test_deployment_never_overlaps_itself(name):
    assert BY_NAME[name]["concurrency_limit"]["limit"] == 1


def test_each_load_but_that_of_events_starts_a_build_of_all_marts():
    [trigger] = BY_NAME["marts"]["triggers"]

    assert {*trigger["match"]["prefect.resource.id"]} == {
        f"fleetlake.group.{group}" for group in Group if group is not Group.EVENTS
    }


def test_deployment_names_are_unique():
    assert len(BY_NAME) == len(DEPLOYMENTS)


def test_each_endpoint_is_in_exactly_one_schedule():
    scheduled = Counter(
        endpoint
        for deployment in DEPLOYMENTS
        if deployment.get("schedules") and "group" in deployment.get("parameters", {})
        for endpoint in endpoints_of(Group(deployment["parameters"]["group"]))
    )

    assert scheduled == Counter(dict.fromkeys(REQUESTED, 1))


def test_schedules_fit_the_data():
    seconds = {
        endpoint: BY_NAME[group_of(row).value]["schedules"][0]["interval"]
        for endpoint, row in REQUESTED.items()
    }

    assert seconds["alerts"] == 300
    assert seconds["activity_logs"] == 3600
    for endpoint, row in REQUESTED.items():  # read many times before it expires
        assert row.retention is None or seconds[endpoint] * 30 <= row.retention.total_seconds()
    assert seconds["net_device_signal_samples"] == seconds["locations"] == 3600
    assert seconds["routers"] == 86400


def test_lists_that_save_calls_are_loaded_in_the_run_that_saves_them():
    together = endpoints_of(Group.SERIES)
    moved = [e.fan_out.moved for n in together if (e := ENDPOINTS[n]).fan_out]

    assert {m.endpoint for m in moved if m} <= set(together)


def test_run_that_starts_shards_loads_the_lists_that_save_calls_for_them():
    divided = endpoints_of(Group.SERIES, is_divisible=True)
    moved = [e.fan_out.moved for n in divided if (e := ENDPOINTS[n]).fan_out]

    rest = endpoints_of(Group.SERIES, is_divisible=False)
    assert {m.endpoint for m in moved if m} <= set(rest)
    assert sorted(divided + rest) == sorted(endpoints_of(Group.SERIES))


@pytest.mark.parametrize("refusal", ["", "flow not found"])
def test_prefect_is_given_the_deployments_and_its_refusal_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refusal: str
) -> None:
    given: list[tuple[dict[str, Any], Path]] = []

    def prefect(words: list[str], *, cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        assert {"deploy", "--all", "--no-prompt"} < {*words}
        given.append((read_yaml(Path(words[words.index("--prefect-file") + 1])), cwd))
        return subprocess.CompletedProcess(words, bool(refusal), "", f"{refusal}\n")

    monkeypatch.setattr(subprocess, "run", prefect)
    file = {"name": "fleet", "deployments": DEPLOYMENTS}
    if refusal:
        with pytest.raises(FleetlakeError, match="rejected the deployments: flow not found"):
            deploy(file, tmp_path)
    else:
        deploy(file, tmp_path)

    assert given == [(file, tmp_path)]


def test_set_up_names_what_is_paused_or_gone_in_one_line_each(monkeypatch, capsys):
    gone = [f"a-deployment-of-an-earlier-release-{number}" for number in range(9)]
    client = SimpleNamespace(
        api_url="http://127.0.0.1:4200/api",
        read_block_documents_by_type=lambda _: [],
        read_automations=lambda: [SimpleNamespace(name="dead-runs", enabled=True)],
    )
    monkeypatch.setattr(setup, "server_client", lambda: nullcontext(client))
    monkeypatch.setattr("fleetlake.cli.prefect.setup.accepts_anonymous", lambda: False)
    for name in ("put_work_pool", "put_automations", "deploy"):
        monkeypatch.setattr(setup, name, lambda *_, **__: None)
    known = {"events": True, **dict.fromkeys(gone, False)}
    monkeypatch.setattr(setup, "deployed", lambda *_: known)

    setup.set_up(speed=1.0, runs=3, store_keys=False)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Work pool fleetlake: at most 3 runs at once."
    assert lines[-3:] == [
        "Automations: dead-runs.",
        "Still paused on the server: events.",
        f"No longer in prefect.yaml, left unchanged: {', '.join(gone)}.",
    ]


def test_what_operators_paused_is_read_from_each_work_pool_of_the_file():
    asked = []
    paused = SimpleNamespace(name="shard", paused=True)

    def read_deployments(*, work_pool_filter):
        asked.extend(work_pool_filter.name.any_)
        return [paused]

    client = SimpleNamespace(read_deployments=read_deployments)
    file = {"deployments": [{"name": "shard", "work_pool": {"name": "of-jobs"}}, {"name": "own"}]}

    assert setup.deployed(client, file) == {"shard": True}
    assert set(asked) == {"fleetlake", "of-jobs"}
