"""`fleetlake prefect-setup`: everything a Prefect server must know about this project."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

    from fleetlake.account import Account
    from fleetlake.settings import Settings

WORK_POOL = "fleetlake"
PREFECT_FILE = "prefect.yaml"
AUTOMATIONS = Path("flows/automations")
SHORTEST_INTERVAL = timedelta(minutes=2)
"""Schedules are not sped up beyond this: each run is a process that takes seconds to start."""


def prefect_setup(
    speed: Annotated[
        float,
        typer.Option(min=1, help="Run schedules this many times faster, for simulated time."),
    ] = 1.0,
    runs: Annotated[
        int, typer.Option(min=1, help="Flow runs that the work pool starts at once.")
    ] = 4,
    *,
    store_keys: Annotated[
        bool,
        typer.Option(
            "--store-keys/--no-store-keys",
            "--secrets/--no-secrets",
            help="Keep the service's keys of this environment in Secret blocks of the server. "
            "Without it, workers read them from their environment. (--secrets is the old name.)",
        ),
    ] = False,
) -> None:
    """Register work pool, deployments and automations with a Prefect server.

    Run it in the project's folder, with PREFECT_API_URL pointing to the server. Run it again
    after each change: it brings the server to what the files say. What was paused or disabled
    there stays so, and what the files no longer name is listed, not deleted.
    """
    from fleetlake.cli.screen import console

    set_up(speed=speed, runs=runs, store_keys=store_keys)
    console().print("Next: fleetlake worker")


def set_up(*, speed: float, runs: int, store_keys: bool) -> None:
    """Bring the server to what the files of this folder say, and print what it then has."""
    from fleetlake.cli.prefect.keys import BLOCK_PREFIX, key_report, takes_anybody
    from fleetlake.cli.screen import console
    from fleetlake.settings import load_settings

    deployments = read_deployments(Path.cwd())
    screen = console()
    with server_client() as client:
        put_work_pool(client, runs=runs)
        screen.print(f"Work pool {WORK_POOL}: at most {runs} runs at once.")
        stored = put_secrets(load_settings()) if store_keys else []
        blocks = (str(block.name) for block in client.read_block_documents_by_type("secret"))
        kept = sorted(name for name in blocks if name.startswith(BLOCK_PREFIX))
        for line in key_report(stored, kept=kept, is_open=takes_anybody(str(client.api_url))):
            screen.print(line, soft_wrap=True)
        known = deployed(client)
        disabled = {a.name for a in client.read_automations() if not a.enabled}
        wanted = with_decisions(deployments, paused={n for n in known if known[n]}, off=disabled)
        deploy(with_speed(wanted, speed, now=datetime.now(UTC)))
        screen.print(f"Deployments: {', '.join(d['name'] for d in deployments['deployments'])}.")
        put_automations(client, Path.cwd() / AUTOMATIONS)
        screen.print(f"Automations: {', '.join(a.name for a in client.read_automations())}.")
        for line in left_over(known, wanted):
            screen.print(line, soft_wrap=True)


def read_deployments(folder: Path) -> dict[str, Any]:
    """Return what prefect.yaml says. Raises: UsageError if the folder has none."""
    from fleetlake.errors import UsageError

    try:
        return _read_yaml(folder / PREFECT_FILE)
    except FileNotFoundError:
        raise UsageError(
            f"There is no {PREFECT_FILE} in {folder}.",
            remedy="Run this in the project's folder, where the flows are.",
        ) from None


def with_speed(file: Mapping[str, Any], speed: float, *, now: datetime) -> dict[str, Any]:
    """Return the deployments with intervals divided by `speed`, two minutes at least.

    They begin `now` and are spread over the shortest interval, so that they do not all start
    at once.

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
        schedules = [
            {
                **schedule,
                "interval": max(schedule["interval"] / speed, SHORTEST_INTERVAL.total_seconds()),
                "anchor_date": anchor.isoformat(),
            }
            for schedule in deployment.get("schedules", ())
        ]
        deployments.append({**deployment, "schedules": schedules})
    return {**file, "deployments": deployments}


def deployed(client: "SyncPrefectClient") -> dict[str, bool]:
    """Return the deployments of our work pool, and whether each is paused."""
    from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName

    ours = WorkPoolFilter(name=WorkPoolFilterName(any_=[WORK_POOL]))
    return {d.name: d.paused for d in client.read_deployments(work_pool_filter=ours)}


def with_decisions(
    file: Mapping[str, Any], *, paused: Collection[str], off: Collection[str]
) -> dict[str, Any]:
    """Return the deployments so that what operators paused or disabled at the server stays so.

    >>> file = {"deployments": [{"name": "series"}, {"name": "marts", "triggers": [{"name": "t"}]}]}
    >>> series, marts = with_decisions(file, paused={"series"}, off={"t"})["deployments"]
    >>> series["paused"], marts["triggers"]
    (True, [{'name': 't', 'enabled': False}])
    """
    deployments = []
    for deployment in file["deployments"]:
        decided = dict(deployment)
        if deployment["name"] in paused:
            decided["paused"] = True
        if triggers := deployment.get("triggers"):
            decided["triggers"] = [
                {**t, "enabled": False} if t["name"] in off else t for t in triggers
            ]
        deployments.append(decided)
    return {**file, "deployments": deployments}


def left_over(known: Mapping[str, bool], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the server has that a person should know of: paused, or no longer wanted."""
    still = {deployment["name"] for deployment in wanted["deployments"]}
    if paused := sorted(name for name in known.keys() & still if known[name]):
        yield f"Still paused at the server: {', '.join(paused)}."
    if gone := sorted(known.keys() - still):
        yield f"No longer in {PREFECT_FILE}, and left as they are: {', '.join(gone)}."


def require_prefect() -> None:
    """Refuse to go on without Prefect, which is an extra. Raises: SettingsError."""
    from fleetlake.errors import SettingsError

    if find_spec("prefect") is None:
        raise SettingsError(
            "Prefect is not installed.", remedy="Install the extra: pip install 'fleetlake[flows]'."
        )


@contextmanager
def server_client() -> "Iterator[SyncPrefectClient]":
    """Yield a client of the server that PREFECT_API_URL names.

    Raises: SettingsError where it names none or the password is not the server's, Unreachable
    where none answers.
    """
    from fleetlake.errors import SettingsError, Unreachable
    from fleetlake.machine.prefect_auth import use_password

    require_prefect()
    use_password()  # before Prefect is imported, which reads its settings then
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if not url:
        # Prefect would start a server of its own and forget all this with it.
        raise SettingsError(
            "PREFECT_API_URL is not set, so there is no Prefect server to talk to.",
            remedy="Start one with `fleetlake prefect-server` and export its address, for example "
            "http://127.0.0.1:4200/api. `fleetlake up` tries all of it over a simulated service.",
        )
    with get_client(sync_client=True) as client:
        if fault := client.api_healthcheck():
            raise Unreachable(
                f"No Prefect server answers at {url}: {fault}.",
                remedy="Start it with `fleetlake prefect-server`, or mend PREFECT_API_URL.",
            )
        _require_access(client, url)
        yield client


def _require_access(client: "SyncPrefectClient", url: str) -> None:
    """Refuse to go on without the server's password. Raises: SettingsError."""
    import httpx

    from fleetlake.errors import SettingsError
    from fleetlake.machine.prefect_auth import auth_file

    try:
        client.api_version()
    except httpx.HTTPStatusError as error:
        if error.response.status_code not in {401, 403}:
            raise
        raise SettingsError(
            f"The Prefect server at {url} asks for a password, and does not take ours.",
            remedy="Run this as the user and with the PREFECT_HOME of the server, or set "
            f"PREFECT_API_AUTH_STRING to what is in its {auth_file().name}.",
        ) from None


def require_set_up() -> None:
    """Refuse to go on without a server that was set up. Raises: SettingsError, Unreachable."""
    from fleetlake.errors import SettingsError

    with server_client() as client:
        from prefect.exceptions import ObjectNotFound

        try:
            client.read_work_pool(WORK_POOL)
        except ObjectNotFound:
            raise SettingsError(
                f"The Prefect server at {client.api_url} has no work pool {WORK_POOL}.",
                remedy="Run `fleetlake prefect-setup` first.",
            ) from None


def put_work_pool(client: "SyncPrefectClient", *, runs: int) -> None:
    """Bring the work pool to at most `runs` runs at once, each a process of a worker."""
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectNotFound
    from prefect.workers.process import ProcessWorker

    try:
        client.read_work_pool(WORK_POOL)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(
            WorkPoolCreate(name=WORK_POOL, type="process", base_job_template=template)
        )
    client.update_work_pool(WORK_POOL, WorkPoolUpdate(concurrency_limit=runs))


def put_secrets(settings: "Settings") -> list[str]:
    """Save the keys that are set as Secret blocks, and return the blocks' names.

    All profiles are in one block: a worker need not know which there are.
    """
    from prefect.blocks.system import Secret

    from fleetlake.cli.prefect.keys import BLOCK_PREFIX
    from fleetlake.settings import KEY_SETTINGS

    values: dict[str, Any] = {
        setting: getattr(settings, setting).get_secret_value()
        for setting in (*KEY_SETTINGS, "v3_token")
    }
    values["profiles"] = {name: _as_json(account) for name, account in settings.profiles.items()}
    # The names are what flows/credentials.py looks for.
    named = {
        f"{BLOCK_PREFIX}{key.replace('_', '-')}": value for key, value in values.items() if value
    }
    for name, value in named.items():
        Secret(value=value).save(name, overwrite=True)
    return list(named)


def _as_json(account: "Account") -> dict[str, Any]:
    """Return an account with its keys as text, which only a Secret block may hold."""
    return {
        name: value.get_secret_value() if hasattr(value, "get_secret_value") else value
        for name, value in account
    }


def deploy(file: Mapping[str, Any]) -> None:
    """Register all deployments and their triggers, as `prefect deploy --all` does.

    Raises: FleetlakeError with what Prefect said, if it refuses.
    """
    from fleetlake.errors import FleetlakeError
    from fleetlake.machine.child_environment import plain_environment, server_access

    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / PREFECT_FILE
        written.write_text(json.dumps(file), "utf-8")  # which is YAML too
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        command += ["--prefect-file", str(written)]
        done = subprocess.run(  # noqa: S603 - Prefect's own command, which needs no key of ours
            command,
            capture_output=True,
            text=True,
            check=False,
            env=plain_environment() | server_access(),
        )
    if done.returncode:
        raise FleetlakeError(
            f"Prefect did not take the deployments: {(done.stderr or done.stdout).strip()}",
            remedy=f"Mend {PREFECT_FILE} or the flow it names, and run this again.",
        )


def put_automations(client: "SyncPrefectClient", folder: Path) -> None:
    """Bring the server's automations to what the folder's files say, by their names."""
    from prefect.events.schemas.automations import AutomationCore

    for path in sorted(folder.glob("*.yaml")):
        wanted = AutomationCore.model_validate(_read_yaml(path))
        known = client.read_automations_by_name(wanted.name)
        if known:
            wanted.enabled = known[0].enabled  # who turned it off meant it
            client.update_automation(known[0].id, wanted)
        else:
            client.create_automation(wanted)
        for double in known[1:]:  # each of a name would act
            client.delete_automation(double.id)


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    read: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return read
