"""Prefect-related commands that cannot start print one sentence, never a traceback."""

import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.cli.prefect.up import environment, put_environment
from fleetlake.errors import UsageError
from fleetlake.settings import ClockTrust, load_settings
from fleetsim.callers import V3_TOKEN, authenticate, is_counted

ROOT = Path(__file__).parents[2]


UNSET = ("", "PREFECT_API_URL is not set", 3)
UNANSWERED = (
    "http://127.0.0.1:1/api",
    "No Prefect server answers at http://127.0.0.1:1/api",
    5,
)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("command", "url", "reported", "code"),
    [
        ("worker", *UNSET),
        ("setup", *UNANSWERED),
    ],
)
def test_a_command_that_needs_a_prefect_server_reports_in_one_sentence_that_there_is_none(
    tmp_path, command, url, reported, code
):
    env = {**os.environ, "PREFECT_HOME": str(tmp_path), "PREFECT_API_URL": url}

    done = subprocess.run(
        [sys.executable, "-m", "fleetlake", "prefect", command],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr.count("\n")) == (code, 2)
    assert reported in done.stderr


def test_a_port_in_use_is_reported_before_anything_starts(monkeypatch, tmp_path):
    (tmp_path / "prefect.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["prefect", "up", "--port", port])

    assert isinstance(done.exception, UsageError)
    assert f"127.0.0.1, port {port}: Address already in use." in done.exception.what
    assert not (tmp_path / "data").exists()


@pytest.fixture
def own_environment(tmp_path, monkeypatch):
    """Let a test change settings freely: folder and environment are restored after it."""
    monkeypatch.chdir(tmp_path)
    with patch.dict(os.environ):
        yield tmp_path


def test_up_does_not_touch_the_users_own_service_or_server(own_environment):
    os.environ.update(
        {
            "FLEETLAKE_V3_BASE_URL": "https://real.example/api/v3",
            "FLEETLAKE_V3_TOKEN": "real-token",
            "FLEETLAKE_PROFILES": '{"west": {"portal_api_id": "real-id"}}',
            "PREFECT_API_KEY": "real-key",
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:////real.db",
        }
    )
    wanted = environment(own_environment, "http://127.0.0.1:1", 4200)

    put_environment(wanted)

    ours = {n: v for n, v in os.environ.items() if n.startswith(("FLEETLAKE_", "PREFECT_"))}
    assert ours == {n: v for n, v in wanted.items() if n != "DO_NOT_TRACK"}
    assert "real" not in "".join(ours.values())
    assert load_settings().v3_root() == "http://127.0.0.1:1/api/v3/"
    assert not load_settings().profiles


def test_up_has_the_simulators_keys_and_keeps_everything_in_its_folder(own_environment):
    folder = own_environment / "up"

    put_environment(environment(folder, "http://127.0.0.1:1", 4200))

    settings = load_settings()
    assert authenticate({n.lower(): v for n, v in settings.keys().items()}).name == "admin"
    assert is_counted({n.lower(): v for n, v in settings.keys().items()})
    assert settings.v3_token.get_secret_value() == V3_TOKEN
    assert settings.service_root() == "http://127.0.0.1:1/api/v2/"
    assert (settings.lake, settings.published) == (folder / "lake", folder / "published")
    assert (settings.state, settings.calls_per_minute) == (folder / "state", 0)
    assert settings.clock is ClockTrust.SERVICE
    assert settings.reports == folder / "reports"
    assert settings.push_journal == folder / "push-journal"
    assert settings.push_secrets_file == folder / "push-secrets"


@pytest.mark.usefixtures("prefect_home")
def test_the_server_of_up_is_on_this_machine_tells_nobody_and_keeps_its_database_free(
    own_environment,
):
    from prefect.settings import Settings  # noqa: PLC0415 - not before the fixture

    put_environment(environment(own_environment, "http://127.0.0.1:1", 4321))

    found, url = Settings(), "http://127.0.0.1:4321/api"
    assert (found.home, found.api.url, found.server.ui.api_url) == (
        own_environment / "prefect",
        url,
        url,
    )
    assert (found.server.api.host, found.server.api.port) == ("127.0.0.1", 4321)
    assert not found.server.analytics_enabled
    assert found.server.services.late_runs.after_seconds == timedelta(minutes=2)
    assert found.server.services.scheduler.max_runs == 10


def test_up_refuses_a_settings_file_with_accounts(own_environment):
    keys = ("portal_api_id", "portal_api_key", "mgr_api_id", "mgr_api_key")
    account = "\n".join(["[profiles.west]", *(f'{key} = "real"' for key in keys)])
    (own_environment / "fleetlake.toml").write_text(account)

    with pytest.raises(UsageError, match="names accounts of a service: west"):
        put_environment(environment(own_environment, "http://127.0.0.1:1", 4200))


def test_a_second_up_does_not_touch_the_folder_of_the_first(monkeypatch, tmp_path):
    (tmp_path / "prefect.yaml").touch()
    log = tmp_path / "data/up/server.log"
    log.parent.mkdir(parents=True)
    log.touch()
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])

    with FileLock(tmp_path / "data/up.lock"):  # as the first `up` does
        done = CliRunner().invoke(app, ["prefect", "up", "--port", port])

    assert isinstance(done.exception, UsageError)
    assert "Another `fleetlake prefect up` is running" in done.exception.what
    assert log.exists()
