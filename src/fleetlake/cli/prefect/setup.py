"""`fleetlake prefect setup`: register this project with a Prefect server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetlake.cli.prefect.deployments import (
    deploy,
    leftovers,
    read_deployments,
    read_yaml,
    with_operator_choices,
    with_speed,
)
from fleetlake.cli.screen import console
from fleetlake.errors import SettingsError, Unreachable
from fleetlake.text.wording import install_command

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

    from fleetlake.account import Account
    from fleetlake.settings import Settings

WORK_POOL = "fleetlake"
AUTOMATIONS = Path("flows/automations")


def setup(
    speed: Annotated[
        float,
        typer.Option(min=1, help="Run schedules this many times faster, to match simulated time."),
    ] = 1.0,
    runs: Annotated[
        int, typer.Option(min=1, help="Maximum flow runs of the work pool at the same time.")
    ] = 5,
    *,
    store_keys: Annotated[
        bool,
        typer.Option(
            "--store-keys/--no-store-keys",
            "--secrets/--no-secrets",
            help="Store this environment's service keys in Secret blocks on the server; otherwise "
            "workers read them from their own environment. --secrets is the old name.",
        ),
    ] = False,
) -> None:
    """Register work pool, deployments and automations with a Prefect server.

    Set PREFECT_API_URL to the server's address. Without a prefect.yaml, a project uses the
    package's. Run it again after each change: it updates the server from the files. Deployments and
    automations that are paused or disabled on the server stay so. Deployments no longer in the
    files are listed, not deleted.
    """
    set_up(speed=speed, runs=runs, store_keys=store_keys)
    console().print("Next: fleetlake prefect worker")


def set_up(*, speed: float, runs: int, store_keys: bool) -> None:
    """Update the server from the project's files, and print what it has afterwards."""
    from fleetlake.machine.project import package_files, project_folder
    from fleetlake.settings import load_settings

    project = project_folder()
    deployments = read_deployments(project)
    screen = console()
    with server_client() as client:
        put_work_pool(client, runs=runs)
        screen.print(f"Work pool {WORK_POOL}: at most {runs} runs at once.")
        stored = put_secrets(load_settings()) if store_keys else []
        blocks = [str(block.name) for block in client.read_block_documents_by_type("secret")]
        is_open = accepts_anonymous()
        for line in key_report(stored, blocks=blocks, is_open=is_open):
            screen.print(line, soft_wrap=True)
        known = deployed(client, deployments)
        disabled = {a.name for a in client.read_automations() if not a.enabled}
        wanted = with_operator_choices(deployments, known=known, off=disabled)
        deploy(with_speed(wanted, speed, now=datetime.now(UTC)), project)
        screen.print(f"Deployments: {', '.join(d['name'] for d in deployments['deployments'])}.")
        for folder in dict.fromkeys((package_files(), project)):
            put_automations(client, folder / AUTOMATIONS)
        screen.print(f"Automations: {', '.join(a.name for a in client.read_automations())}.")
        for line in leftovers(known, wanted):
            screen.print(line, soft_wrap=True)


def deployed(client: "SyncPrefectClient", file: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether each deployment of the file's work pools is paused, by name."""
    from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName

    named = (one["work_pool"]["name"] for one in file["deployments"] if "work_pool" in one)
    ours = WorkPoolFilter(name=WorkPoolFilterName(any_=[*{WORK_POOL, *named}]))
    return {d.name: d.paused for d in client.read_deployments(work_pool_filter=ours)}


def require_prefect() -> None:
    """Check that Prefect, an extra, is installed. Raises: SettingsError."""
    if find_spec("prefect") is None:
        raise SettingsError("Prefect is not installed.", remedy=install_command("flows"))


@contextmanager
def server_client() -> "Iterator[SyncPrefectClient]":
    """Yield a client of the server at PREFECT_API_URL.

    Raises: SettingsError if that is not set or the server refuses our password, Unreachable if no
    server answers.
    """
    from fleetlake.machine.prefect_auth import use_password

    require_prefect()
    use_password()  # Prefect reads its settings when it is imported
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if not url:
        # Otherwise Prefect would start a temporary server, and everything would be lost with it.
        raise SettingsError(
            "PREFECT_API_URL is not set, so there is no Prefect server to talk to.",
            remedy="Start one with `fleetlake prefect server` and export its address, e.g. "
            "http://127.0.0.1:4200/api. `fleetlake prefect up` runs everything over a simulated "
            "service.",
        )
    with get_client(sync_client=True) as client:
        if fault := client.api_healthcheck():
            raise Unreachable(
                f"No Prefect server answers at {url}: {fault}.",
                remedy="Start it with `fleetlake prefect server`, or correct PREFECT_API_URL.",
            )
        _require_access(client, url)
        yield client


def _require_access(client: "SyncPrefectClient", url: str) -> None:
    """Check that the server accepts our password. Raises: SettingsError."""
    import httpx

    from fleetlake.machine.prefect_auth import auth_file

    try:
        client.api_version()
    except httpx.HTTPStatusError as error:
        if error.response.status_code not in {401, 403}:
            raise
        raise SettingsError(
            f"The Prefect server at {url} does not accept our password.",
            remedy="Run this as the server's user with its PREFECT_HOME, or set "
            f"PREFECT_API_AUTH_STRING to the content of its {auth_file().name}.",
        ) from None


def require_set_up() -> None:
    """Check that the server has our work pool. Raises: SettingsError, Unreachable."""
    with server_client() as client:
        from prefect.exceptions import ObjectNotFound

        try:
            client.read_work_pool(WORK_POOL)
        except ObjectNotFound:
            raise SettingsError(
                f"The Prefect server at {client.api_url} has no work pool {WORK_POOL}.",
                remedy="Run `fleetlake prefect setup` first.",
            ) from None


def put_work_pool(client: "SyncPrefectClient", *, runs: int) -> None:
    """Create or update the work pool: at most `runs` runs at once, each a worker's process."""
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
    """Save the configured keys as Secret blocks, and return the blocks' names.

    All profiles share one block, so that a worker does not need their names.
    """
    from prefect.blocks.system import Secret

    from fleetlake.settings import KEY_SETTINGS

    values: dict[str, Any] = {
        setting: getattr(settings, setting).get_secret_value()
        for setting in (*KEY_SETTINGS, "v3_token")
    }
    values["profiles"] = {name: _as_json(account) for name, account in settings.profiles.items()}
    # flows/credentials.py looks for these names.
    named = {
        f"{BLOCK_PREFIX}{key.replace('_', '-')}": value for key, value in values.items() if value
    }
    for name, value in named.items():
        Secret(value=value).save(name, overwrite=True)
    return list(named)


def _as_json(account: "Account") -> dict[str, Any]:
    """Return an account with its keys in clear text, only for a Secret block."""
    return {
        name: value.get_secret_value() if hasattr(value, "get_secret_value") else value
        for name, value in account
    }


def put_automations(client: "SyncPrefectClient", folder: Path) -> None:
    """Create or update the server's automations from the folder's files, by name."""
    from prefect.events.schemas.automations import AutomationCore

    for path in sorted(folder.glob("*.yaml")):
        wanted = AutomationCore.model_validate(read_yaml(path))
        known = client.read_automations_by_name(wanted.name)
        if known:
            wanted.enabled = known[0].enabled  # an operator may have disabled it
            client.update_automation(known[0].id, wanted)
        else:
            client.create_automation(wanted)
        for double in known[1:]:  # otherwise each automation of that name would act
            client.delete_automation(double.id)


BLOCK_PREFIX = "fleetlake-"
"""Prefix of our Secret blocks' names; flows/credentials.py looks for it."""


def key_report(stored: Sequence[str], *, blocks: Sequence[str], is_open: bool) -> Iterator[str]:
    """Yield lines that say where workers find the service's keys.

    `stored` names the blocks that this set-up wrote, `blocks` all Secret blocks on the server,
    including those of other programs. `is_open` means that the server does not require a password.

    >>> list(key_report([], blocks=["of-others"], is_open=False))
    ['Service keys: none stored; workers read them from their own environment.']
    """
    kept = sorted(name for name in blocks if name.startswith(BLOCK_PREFIX))
    if stored:
        yield f"Secret blocks: {', '.join(stored)}."
    else:
        yield "Service keys: none stored; workers read them from their own environment."
    if left := [name for name in kept if name not in stored]:
        yield (
            f"Secret blocks of an earlier set-up: {', '.join(left)}. "
            "Workers use them for keys that their environment lacks."
        )
        example = left[0] if len(left) == 1 else "NAME"
        yield f"Remove each with: prefect --no-prompt block delete secret/{example}"
    if is_open:
        more = " and read the keys in its Secret blocks" if kept else ""
        yield (
            "Warning: this server does not require a password. Anyone who can reach it can run "
            f"code on the workers{more}. Start it with `fleetlake prefect server`, or set "
            "PREFECT_SERVER_API_AUTH_STRING in its environment."
        )


def accepts_anonymous() -> bool:
    """Return whether the Prefect server answers requests without a password."""
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY, temporary_settings

    none = {PREFECT_API_AUTH_STRING: None, PREFECT_API_KEY: None}
    with temporary_settings(none), get_client(sync_client=True) as anonymous:
        try:
            return bool(anonymous.api_version())
        except httpx.HTTPError:
            return False
