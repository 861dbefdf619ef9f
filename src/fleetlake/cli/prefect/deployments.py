"""What `fleetlake prefect setup` deploys: `prefect.yaml`, and the flows that it names."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fleetlake.errors import FleetlakeError, UsageError

PREFECT_FILE = "prefect.yaml"
SHORTEST_INTERVAL = timedelta(minutes=2)
"""Lower bound of sped-up schedules: each run is a process that takes seconds to start."""


def read_deployments(project: Path) -> dict[str, Any]:
    """Return the content of the project's prefect.yaml, or else of the package's.

    A flow that is not in the project is ours: its entrypoint becomes `flows.<module>.<flow>`,
    which `flows_path` lets Prefect import.

    Raises: UsageError for a file without deployments.
    """
    from fleetlake.machine.project import deployments_file

    path = deployments_file(project)
    file = read_yaml(path)
    if not (file and file.get("deployments")):
        raise UsageError(
            f"{path} lists no deployments.",
            remedy="Remove it to use fleetlake's own, or copy that from a new project: "
            "`fleetlake init FOLDER`.",
        )
    deployments = [
        {**deployment, "entrypoint": _located(deployment["entrypoint"], project)}
        for deployment in file["deployments"]
    ]
    return {**file, "deployments": deployments}


def _located(entrypoint: str, project: Path) -> str:
    """Return the entrypoint of a flow of the project, or of one of ours as a module path."""
    path, _, flow = entrypoint.partition(":")
    if not flow or (project / path).is_file():
        return entrypoint
    return f"{path.removesuffix('.py').replace('/', '.')}.{flow}"


def flows_path() -> dict[str, str]:
    """Return the environment variable that lets a Prefect process import our flows."""
    from fleetlake.machine.project import package_files

    known = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(package_files()), *([known] if known else [])])}


def with_speed(file: Mapping[str, Any], speed: float, *, now: datetime) -> dict[str, Any]:
    """Return the deployments with intervals divided by `speed`, but at least two minutes.

    Runs that stay for some minutes of real time keep their interval. The schedules start `now`,
    spread over the shortest interval so that their runs do not all start at once.

    >>> file = {"deployments": [{"schedules": [{"interval": 7200}]}]}
    >>> fast = with_speed(file, 60, now=datetime(2026, 1, 1))
    >>> fast["deployments"][0]["schedules"]
    [{'interval': 120.0, 'anchor_date': '2026-01-01T00:00:00'}]
    """
    if speed == 1:
        return dict(file)
    deployments = []
    for number, deployment in enumerate(file["deployments"]):
        anchor = now + SHORTEST_INTERVAL * number / len(file["deployments"])
        factor = 1 if "minutes" in deployment.get("parameters", {}) else speed
        schedules = [
            {
                **schedule,
                "interval": max(schedule["interval"] / factor, SHORTEST_INTERVAL.total_seconds()),
                "anchor_date": anchor.isoformat(),
            }
            for schedule in deployment.get("schedules", ())
        ]
        deployments.append({**deployment, "schedules": schedules})
    return {**file, "deployments": deployments}


def with_operator_choices(
    file: Mapping[str, Any], *, known: Mapping[str, bool], off: Collection[str]
) -> dict[str, Any]:
    """Return the deployments with what operators paused, resumed or disabled on the server.

    `known` says whether each deployment on the server is paused; the file decides on new ones.

    >>> file = {"deployments": [{"name": "series"}, {"name": "marts", "triggers": [{"name": "t"}]}]}
    >>> known = {"series": True}
    >>> series, marts = with_operator_choices(file, known=known, off={"t"})["deployments"]
    >>> series["paused"], marts["triggers"]
    (True, [{'name': 't', 'enabled': False}])
    """
    deployments = []
    for deployment in file["deployments"]:
        decided = dict(deployment)
        is_paused = known.get(deployment["name"])
        if is_paused or (is_paused is False and "paused" in deployment):
            decided["paused"] = is_paused
        if triggers := deployment.get("triggers"):
            decided["triggers"] = [
                {**t, "enabled": False} if t["name"] in off else t for t in triggers
            ]
        deployments.append(decided)
    return {**file, "deployments": deployments}


def leftovers(known: Mapping[str, bool], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on deployments that are paused or no longer in the file."""
    still = {deployment["name"] for deployment in wanted["deployments"]}
    if paused := sorted(name for name in known.keys() & still if known[name]):
        yield f"Still paused on the server: {', '.join(paused)}."
    if gone := sorted(known.keys() - still):
        yield f"No longer in {PREFECT_FILE}, left unchanged: {', '.join(gone)}."


def deploy(file: Mapping[str, Any], project: Path) -> None:
    """Register all deployments and their triggers with `prefect deploy --all`.

    Runs will start in the folder `project`. Raises: FleetlakeError with Prefect's message if it
    fails.
    """
    from fleetlake.machine.child_environment import plain_environment, server_access

    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / PREFECT_FILE
        written.write_text(json.dumps(file), "utf-8")  # JSON is valid YAML
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        command += ["--prefect-file", str(written)]
        done = subprocess.run(  # noqa: S603 - Prefect's own command; it needs none of our keys
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=project,
            env=plain_environment() | server_access() | flows_path(),
        )
    if done.returncode:
        raise FleetlakeError(
            f"Prefect rejected the deployments: {(done.stderr or done.stdout).strip()}",
            remedy=f"Fix {PREFECT_FILE} or the flow it names, and run this again.",
        )


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the content of a YAML file."""
    import yaml

    read: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return read
