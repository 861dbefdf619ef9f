"""The password of the Prefect server: where it is stored, and who gets it. Without Prefect."""

import os
import stat
from pathlib import Path
from unittest.mock import patch

import pytest

from fleetlake.cli.prefect.setup import key_report
from fleetlake.cli.prefect.up import login_hint
from fleetlake.errors import SettingsError
from fleetlake.machine.prefect_auth import (
    CLIENT_AUTH,
    SERVER_AUTH,
    auth_file,
    own_origins,
    require_password,
    use_password,
)

HERE = "http://127.0.0.1:4200/api"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Give a test its own Prefect home; the environment is restored after it."""
    with patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("PREFECT_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
        yield tmp_path / "prefect"


def given_password() -> str | None:
    """Return the credentials that Prefect's clients in this process send."""
    use_password()
    return os.environ.get(CLIENT_AUTH)


def test_the_first_server_creates_a_password_for_later_servers_and_clients(home, monkeypatch):
    path = require_password()
    first = os.environ.pop(SERVER_AUTH)
    require_password()
    monkeypatch.setenv("PREFECT_API_URL", HERE)

    assert path == home / "fleetlake-auth"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [file.name for file in home.iterdir()] == ["fleetlake-auth"]
    assert path.read_text().strip() == first == os.environ[SERVER_AUTH] == given_password()
    assert len(first.removeprefix("fleetlake:")) >= 43


def test_servers_that_start_together_agree_on_one_password(monkeypatch):
    real = os.link

    def other_was_first(draft, path):
        Path(path).write_text("fleetlake:of-the-other\n")
        Path(path).chmod(0o600)
        real(draft, path)

    monkeypatch.setattr(os, "link", other_was_first)
    require_password()

    assert os.environ[SERVER_AUTH] == "fleetlake:of-the-other"
    assert [file.name for file in auth_file().parent.iterdir()] == ["fleetlake-auth"]


@pytest.mark.parametrize("empty", [False, True])
def test_a_password_in_the_environment_takes_precedence_unless_it_is_empty(
    home, monkeypatch, empty
):
    monkeypatch.setenv(SERVER_AUTH, "" if empty else "mine:own")
    monkeypatch.setenv(CLIENT_AUTH, "" if empty else "mine:own")
    monkeypatch.setenv("PREFECT_API_URL", HERE)

    require_password()

    assert (home / "fleetlake-auth").exists() == empty
    assert (os.environ[SERVER_AUTH] == "mine:own") != empty
    assert (given_password() == "mine:own") != empty


def test_a_password_in_the_prefect_profile_takes_precedence(home, monkeypatch):
    home.mkdir()
    (home / "profiles.toml").write_text(
        f"""active = "mine"\n[profiles.mine]\n{SERVER_AUTH} = "a:b"\n{CLIENT_AUTH} = "a:b"\n"""
    )
    monkeypatch.setenv("PREFECT_API_URL", HERE)

    assert require_password() is None
    assert SERVER_AUTH not in os.environ
    assert given_password() is None


@pytest.mark.parametrize(
    "settings",
    [
        {"PREFECT_API_URL": "https://prefect.example/api"},
        {"PREFECT_API_URL": "http://10.0.0.7:4200/api"},
        {"PREFECT_API_URL": HERE, "PREFECT_API_KEY": "of-a-cloud"},
        {},
    ],
)
def test_the_files_password_is_not_sent_to_a_remote_server_or_one_with_a_key(monkeypatch, settings):
    require_password()
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    assert given_password() is None


def make_readable(path):
    path.chmod(0o640)


def make_link(path):
    path.rename(path.with_name("target"))
    path.symlink_to("target")


def make_empty(path):
    path.write_text("\n")


def make_pipe(path):
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (make_readable, r"other users can read it \(mode 640\)"),
        (make_link, "symbolic link"),
        (make_empty, "it holds no password"),
        (make_pipe, "it is not a regular file"),
    ],
)
def test_a_password_file_that_others_can_read_or_planted_is_refused(monkeypatch, spoil, why):
    path = require_password()
    password = os.environ.pop(SERVER_AUTH)
    monkeypatch.setenv("PREFECT_API_URL", HERE)
    spoil(path)

    for ask in (require_password, use_password):
        with pytest.raises(SettingsError, match=why) as refused:
            ask()
        assert str(path) in refused.value.what
        assert password not in str(refused.value)
    assert SERVER_AUTH not in os.environ


def test_a_password_file_of_another_user_is_refused(monkeypatch):
    path = require_password()
    del os.environ[SERVER_AUTH]
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(SettingsError, match="it belongs to user"):
        require_password()


def test_the_allowed_origins_are_those_of_the_servers_own_pages(monkeypatch):
    assert own_origins() == "http://127.0.0.1:4200,http://localhost:4200"

    monkeypatch.setenv("PREFECT_SERVER_API_HOST", "0.0.0.0")
    monkeypatch.setenv("PREFECT_SERVER_API_PORT", "4300")
    monkeypatch.setenv("PREFECT_UI_API_URL", "https://prefect.example/api")

    assert own_origins() == ("http://127.0.0.1:4300,http://localhost:4300,https://prefect.example")


def test_up_shows_the_password_to_a_terminal_and_only_its_file_to_a_log():
    path = require_password()
    password = path.read_text().strip()

    assert password in login_hint(path, is_terminal=True)
    assert password not in login_hint(path, is_terminal=False)
    assert str(path) in login_hint(path, is_terminal=False)


def test_setup_on_a_server_without_a_password_warns_who_can_read_the_keys():
    reported = "\n".join(key_report(["fleetlake-a"], blocks=["fleetlake-a"], is_open=True))

    assert "does not require a password" in reported
    assert "read the keys in its Secret blocks" in reported


def test_setup_reports_its_own_earlier_secret_blocks_and_none_of_other_programs():
    blocks = ["mail-password", "fleetlake-b", "fleetlake-a"]

    reported = "\n".join(key_report(["fleetlake-a"], blocks=blocks, is_open=False))
    without_ours = "\n".join(key_report([], blocks=["mail-password"], is_open=True))

    assert "Secret blocks of an earlier set-up: fleetlake-b." in reported
    assert "block delete secret/fleetlake-b" in reported
    assert "mail-password" not in reported + without_ours
    assert "Secret blocks" not in without_ours
