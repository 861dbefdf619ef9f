"""The Kubernetes manifests are valid, and run what compose.yaml runs, with the same settings.

`kubernetes-1.37.json` has the strict schemas of the kinds that are used, without descriptions. They
come from the package kubernetes-validate 1.37.0, which has them from the API's own description and
is too large to be installed for this. No cluster has run the manifests.
"""

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.container.files import CONTAINERFILE, ROOT, image_environment, instructions, services
from tests.container.test_files import OURS, SECRET

FOLDER = ROOT / "container" / "kubernetes"
SCHEMA = json.loads(Path(__file__).with_name("kubernetes-1.37.json").read_text())
TEMPLATE = json.loads((FOLDER / "jobs" / "template.json").read_text())
GUIDE = (ROOT / "docs/how-to/kubernetes.md").read_text()
SECRETS = {
    name: re.findall(r"^    (\w+)=", lines, re.MULTILINE)
    for name, lines in re.findall(r"^    # (\w+)\.env\n((?:    \w+=.*\n)+)", GUIDE, re.MULTILINE)
}
"""The variables of each Secret that the guide creates from a file."""


def resources(folder: Path) -> list[dict[str, Any]]:
    """Return what `kubectl apply -k` would apply."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert {*listed} == {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    return [one for name in listed for one in yaml.safe_load_all((folder / name).read_text())]


def job() -> dict[str, Any]:
    """Return the Job of a run in the pool `fleetlake-jobs`."""
    values = {name: one.get("default") for name, one in TEMPLATE["variables"]["properties"].items()}
    environment = [{"name": name, "value": value} for name, value in values["env"].items()]
    values |= {"name": "run", "command": values["command"].split(), "env": environment}
    text = json.dumps(TEMPLATE["job_configuration"]["job_manifest"])
    text = re.sub(r'"\{\{ (\w+) \}\}"', lambda found: json.dumps(values[found[1]]), text)
    made = json.loads(re.sub(r"\{\{ (\w+) \}\}", lambda found: values[found[1]], text))
    for required_by_prefect in ("parallelism", "completions"):  # Kubernetes ignores them there
        assert made["spec"]["template"]["spec"].pop(required_by_prefect) == 1
    return dict(made)


APPLIED = resources(FOLDER)
OF_JOBS = resources(FOLDER / "jobs")
PODS = {
    one["metadata"].get("name", "a job"): one["spec"]["template"]["spec"]
    for one in [*APPLIED, *OF_JOBS, job()]
    if "template" in one.get("spec", {})
}
CLAIMED = {
    claim["metadata"]["name"]
    for one in APPLIED
    for claim in one.get("spec", {}).get("volumeClaimTemplates", ())
}


def container(name: str) -> dict[str, Any]:
    """Return the one container of a pod."""
    [only] = PODS[name]["containers"]
    found: dict[str, Any] = only
    return found


def variables(name: str) -> set[str]:
    """Return the names of a container's variables."""
    found = {one["name"] for one in container(name).get("env", ())}
    maps = {one["metadata"]["name"]: one["data"] for one in APPLIED if one["kind"] == "ConfigMap"}
    for source in container(name).get("envFrom", ()):
        [(kind, reference)] = source.items()
        found |= {*(maps if kind == "configMapRef" else SECRETS)[reference["name"]]}
    return found


@pytest.mark.parametrize("one", [*APPLIED, *OF_JOBS, job()], ids=lambda one: one["kind"])
def test_every_manifest_is_valid(one):
    validator = Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{one['kind']}"})

    assert [error.message for error in validator.iter_errors(one)] == []


@pytest.mark.parametrize("name", OURS)
def test_a_pod_runs_what_the_service_of_compose_runs(name):
    service, pod = OURS[name], PODS[name]

    assert container(name)["args"] == service["command"]
    grace = int(service.get("stop_grace_period", "30s").removesuffix("s"))
    assert pod.get("terminationGracePeriodSeconds", 30) == grace
    needed = {name for name, value in service["environment"].items() if value is not None}
    optional = {*service["environment"]} - needed
    assert needed - {"HOME"} <= variables(name) <= needed | optional | {"HOME"}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_few_rights_and_no_variables_of_other_services(name):
    pod, context = PODS[name], container(name)["securityContext"]

    assert pod["enableServiceLinks"] is False, "PREFECT_PORT would be read as a setting"
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod.get("automountServiceAccountToken", True) is (name == "jobs-worker")
    assert context == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {mount["mountPath"] for mount in container(name)["volumeMounts"]}
    assert "/tmp" in mounted
    assert name == "jobs-worker" or image_environment()["HOME"] in mounted
    assert {mount["name"] for mount in container(name)["volumeMounts"]} <= CLAIMED | {
        volume["name"] for volume in pod["volumes"]
    }


def test_health_is_asked_as_in_compose_and_in_the_image():
    for name in ("prefect", "dashboard", "receiver"):
        probe = container(name)["readinessProbe"]["httpGet"]
        asked = f"http://127.0.0.1:{probe['port']}{probe['path']}"
        assert f"urlopen('{asked}')" in services()[name]["healthcheck"]["test"][-1]
        assert container(name)["livenessProbe"]["tcpSocket"]["port"] == probe["port"]
    [check] = [i for i in instructions(CONTAINERFILE.read_text()) if i.word == "HEALTHCHECK"]
    assert container("worker")["readinessProbe"]["exec"]["command"] == check.words
    assert "livenessProbe" not in container("worker"), "a restart loads no records"


def test_no_manifest_contains_a_secret():
    texts = [path.read_text() for path in FOLDER.rglob("*.*")]
    literal = [
        one
        for name in PODS
        for one in container(name).get("env", ())
        if SECRET.search(one["name"]) and "value" in one and "_SECRET_" not in one["name"]
    ]

    assert literal == []
    assert not any(re.search(r"(?i)^\s*kind: Secret", text, re.MULTILINE) for text in texts)
    referred = {*re.findall(r"secretKeyRef: \{name: \w+, key: (\w+)\}", "".join(texts))}
    assert referred == {*SECRETS["prefect"]}


def test_images_and_paths_are_those_of_this_release():
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    values = {name: one.get("default") for name, one in TEMPLATE["variables"]["properties"].items()}
    [image] = kustomization["images"]
    [python] = re.findall(r"^ARG PYTHON=.*:(\d+\.\d+)\.", CONTAINERFILE.read_text(), re.MULTILINE)
    [base] = [i.value for i in instructions(CONTAINERFILE.read_text()) if "-m venv" in i.value]
    venv = re.findall(r"python -m venv (\S+)", base)[0]

    assert image["newTag"] == version("fleetlake")
    assert values["image"] == f"fleetlake:{version('fleetlake')}"
    assert {container(name)["image"] for name in OURS} == {"fleetlake"}
    prefect = container("jobs-worker")["image"].rpartition(":")[2]
    assert prefect == f"{version('prefect')}-python{python}-kubernetes"
    project = f"{venv}/lib/python{python}/site-packages/fleetlake/_project"
    assert values["env"] == {"PYTHONPATH": project}
    assert job()["metadata"]["namespace"] == kustomization["namespace"]


def test_the_pool_of_jobs_is_the_one_that_prefect_yaml_offers():
    pools = yaml.safe_load((ROOT / "prefect.yaml").read_text())["definitions"]
    words = container("jobs-worker")["command"]

    assert words[words.index("--pool") + 1] == pools["jobs"]["name"]
    assert pools["jobs"]["job_variables"] == pools["work_pool"]["job_variables"]
    assert TEMPLATE["job_configuration"]["env"] == "{{ env }}"
