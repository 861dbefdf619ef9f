"""No process that fleetlake starts has a key in its environment that it does not need."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest
from pydantic import SecretStr

from fleetlake.demo import DemoFleet, running_simulator
from fleetlake.demo.pushes import receiver_environment
from fleetlake.errors import FleetlakeError
from fleetlake.lake_address import SharedLake
from fleetlake.machine.child_environment import lake_access, plain_environment, server_access
from fleetlake.marts import dbt_process
from fleetlake.marts.build import _Build
from fleetlake.marts.dbt_process import DbtProcess
from fleetlake.receiving.child_process import child_environment
from fleetlake.settings import Settings

# The package exports the commands, which have the names of their modules.
up = import_module("fleetlake.cli.prefect.up")
prefect_setup = import_module("fleetlake.cli.prefect.setup")

SERVICE = {
    "FLEETLAKE_PORTAL_API_ID": "of-the-service-1",
    "FLEETLAKE_PORTAL_API_KEY": "of-the-service-2",
    "FLEETLAKE_MGR_API_ID": "of-the-service-3",
    "FLEETLAKE_MGR_API_KEY": "of-the-service-4",
    "FLEETLAKE_V3_TOKEN": "of-the-service-5",
    "FLEETLAKE_PROFILES__NORTH__PORTAL_API_ID": "of-the-service-6",
    "FLEETLAKE_PROFILES__NORTH__PORTAL_API_KEY": "of-the-service-7",
    "FLEETLAKE_PROFILES__NORTH__MGR_API_ID": "of-the-service-8",
    "FLEETLAKE_PROFILES__NORTH__MGR_API_KEY": "of-the-service-9",
    "FLEETLAKE_PUSH_SECRETS": "of-the-service-10",
    "FLEETLAKE_EXPORTS__POSTGRES": "postgresql://u:of-an-export@h/d",
    "FLEETLAKE_DASHBOARD_TOKEN": "of-the-service-11",
}
STORE = {"AWS_ACCESS_KEY_ID": "of-the-store", "AWS_SECRET_ACCESS_KEY": "of-the-store-too"}
DATABASE = {"PGPASSWORD": "of-the-database"}
SERVER = {
    "PREFECT_API_AUTH_STRING": "of:the-server",
    "PREFECT_SERVER_API_AUTH_STRING": "of:the-server",
    "PREFECT_API_KEY": "of-the-cloud",
}
OTHERS = {"GITHUB_TOKEN": "of-something-else", "DBT_ENV_SECRET_GIT": "of-something-else"}
ALL = SERVICE | STORE | DATABASE | SERVER | OTHERS

RECEIVED = (
    *("lake", "profile", "push_journal", "push_sources"),
    *("push_secrets", "push_secrets_file"),
)

SHARED = SecretStr("host=db dbname=fleet")


@pytest.fixture(autouse=True)
def every_key():
    """Set every possible key in this process."""
    with patch.dict(os.environ, {**ALL, "FLEETLAKE_UMASK": "027", "LC_ALL": "C.UTF-8"}):
        yield


def keys_in(environment) -> set[str]:
    """Return which of the keys an environment contains, under any name."""
    values = set(environment.values())
    return {name for name, value in ALL.items() if value in values}


@pytest.fixture
def started(monkeypatch):
    """Return the environments of the processes that would be started; none is."""
    environments = []

    def note(*_words, env=None, **_options):
        environments.append(os.environ if env is None else env)
        raise FleetlakeError("noted")

    monkeypatch.setattr(subprocess, "Popen", note)
    monkeypatch.setattr(subprocess, "run", note)
    return environments


def build_of(lake, folder) -> _Build:
    return _Build(
        lake=lake, work=folder, made=folder, snapshot=1, began=0.0, built_at=datetime.now(UTC)
    )


def test_dbt_gets_the_variables_it_needs_and_no_key(tmp_path, monkeypatch):
    show = """
import json, os, sys
for line in sys.stdin:
    print(json.dumps({"line": "unknown", "name": {**os.environ, "sent": line}}))
    end = {"line": "end", "is_run": True, "is_good": True, "memory_bytes": 0}
    print(json.dumps(end), flush=True)
"""
    monkeypatch.setattr(dbt_process, "_program", lambda _: [sys.executable, "-c", show])
    environment = build_of(tmp_path / "lake", tmp_path).environment()

    with DbtProcess() as dbt:  # what it gets at its start, and with each command
        [found] = dbt.run(["build"], work=tmp_path, environment=environment).unknown

    assert keys_in(found) == set()
    assert not [key for key in ALL.values() if key in found["sent"]]
    assert not [name for name in found if name.startswith(("PREFECT_", "AWS_", "PG"))]
    assert found["FLEETLAKE_LAKE"] == str(tmp_path / "lake")
    assert found["FLEETLAKE_UMASK"] == "027"
    assert (found["DO_NOT_TRACK"], found["DBT_SEND_ANONYMOUS_USAGE_STATS"]) == ("1", "false")
    assert found["PYTHONUNBUFFERED"] == "1"
    assert (found["PATH"], found["LC_ALL"]) == (os.environ["PATH"], "C.UTF-8")


@pytest.mark.parametrize(
    ("files", "needed"),
    [("/mnt/fleet", DATABASE.keys()), ("s3://bucket/fleet", DATABASE.keys() | STORE.keys())],
)
def test_dbt_gets_the_keys_of_the_store_and_the_database_only_if_the_lake_is_there(
    tmp_path, files, needed
):
    build = build_of(SharedLake(SHARED, files), tmp_path)

    assert keys_in(build.environment()) == needed


def test_a_lake_in_a_folder_needs_no_key():
    assert lake_access(Path("data/lake")) == {}


def test_a_demo_s_receiver_has_the_demo_s_settings_whatever_the_project_s_are(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("FLEETLAKE_")]:
            del os.environ[name]
        own = Settings(
            lake=tmp_path / "lake",
            profile="demo",
            push_journal=tmp_path / "journal",
            push_secrets_file=tmp_path / "secrets",
        )
        os.environ |= {
            "FLEETLAKE_LAKE": "of-the-project",
            "FLEETLAKE_PROFILE": "of-the-project",
            "FLEETLAKE_PUSH_JOURNAL": "of-the-project",
            "FLEETLAKE_PUSH_SECRETS": "of-the-project-and-long",
            "FLEETLAKE_PUSH_SECRETS_FILE": "of-the-project",
            "FLEETLAKE_PUSH_SOURCES": "192.0.2.0/24",
        }
        theirs = Settings()
        os.environ |= receiver_environment(own)
        found = Settings()

    def received(settings):
        return [getattr(settings, name) or None for name in RECEIVED]

    assert all(received(theirs))
    assert received(found) == received(own)


def test_the_simulator_gets_no_key(started, tmp_path, monkeypatch):
    monkeypatch.setattr(up, "FOLDER", tmp_path)
    fleet = DemoFleet(routers=1, days=1, seed=1, born_at="2026-01-01T00:00:00+00:00")
    for start in (running_simulator(fleet), up._simulator(1, 1, 1)):  # noqa: SLF001 - what `up` starts
        with pytest.raises(FleetlakeError, match="noted"), start:
            pass

    assert [keys_in(environment) for environment in started] == [set(), set()]


@pytest.mark.parametrize(
    ("lake", "needed"),
    [
        (Path("data/lake"), set()),
        (SharedLake(SHARED, "/mnt/fleet"), DATABASE.keys()),
        (SharedLake(SHARED, "s3://bucket/fleet"), DATABASE.keys() | STORE.keys()),
    ],
)
def test_the_children_of_a_receiver_get_its_settings_and_only_the_keys_of_the_lake(
    lake, needed, monkeypatch
):
    monkeypatch.setenv("fleetlake_mgr_api_key", "in-small-letters")
    monkeypatch.setenv("FLEETLAKE_PUSH_JOURNAL", "journals")

    found = child_environment(lake)

    assert keys_in(found) == needed
    assert "in-small-letters" not in found.values()
    assert (found["FLEETLAKE_PUSH_JOURNAL"], found["PATH"]) == ("journals", os.environ["PATH"])


def test_the_process_that_registers_deployments_gets_the_servers_key_and_no_other(started):
    with pytest.raises(FleetlakeError, match="noted"):
        prefect_setup.deploy({}, Path())

    [environment] = started
    assert keys_in(environment) == SERVER.keys()


def test_the_prefect_server_gets_no_key_of_the_service():
    assert keys_in(plain_environment() | server_access()) == SERVER.keys()


def test_every_process_gets_the_variables_of_the_user_the_terminal_and_the_loader(monkeypatch):
    needed = [
        *("HOME", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER"),
        *("LANG", "LANGUAGE", "LC_ALL", "NO_COLOR", "FORCE_COLOR", "COLUMNS"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "MALLOC_ARENA_MAX"),
        *("VIRTUAL_ENV", "DO_NOT_TRACK", "FLEETLAKE_UMASK", "PYTHONPATH", "XDG_CACHE_HOME"),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    ]
    for name in [*needed, "HOMEX", "MY_TOKEN", "FLEETLAKE_MGR_API_KEY"]:
        monkeypatch.setenv(name, "x")

    given = plain_environment()

    assert given.keys() >= set(needed)
    assert not given.keys() & {"HOMEX", "MY_TOKEN", "FLEETLAKE_MGR_API_KEY"}


def test_no_process_of_ours_imports_modules_from_the_working_folder():
    src = Path(dbt_process.__file__).parents[2]
    commands = [
        command
        for file in src.rglob("*.py")
        for command in re.findall(r'sys\.executable, (.*"-m".*)', file.read_text("utf-8"))
    ]

    ours = [command for command in commands if '"-m", "prefect"' not in command]
    assert len(ours) > 5
    assert [command for command in ours if not command.startswith('"-P", "-m"')] == []
