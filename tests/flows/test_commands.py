"""What the commands around Prefect say when they cannot begin: a sentence, never a traceback."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.errors import UsageError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", ["worker", "prefect-setup"])
@pytest.mark.parametrize(
    ("url", "told", "code"),
    [
        ("", "PREFECT_API_URL is not set", 3),
        ("http://127.0.0.1:1/api", "No Prefect server answers at http://127.0.0.1:1/api", 5),
    ],
)
def test_what_needs_a_prefect_server_says_in_a_sentence_that_there_is_none(
    tmp_path, command, url, told, code
):
    env = {**os.environ, "PREFECT_HOME": str(tmp_path), "PREFECT_API_URL": url}

    done = subprocess.run(
        [sys.executable, "-m", "fleetlake", command],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr.count("\n")) == (code, 2)
    assert told in done.stderr


def test_a_taken_port_is_told_before_anything_is_started(monkeypatch, tmp_path):
    (tmp_path / "prefect.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["up", "--port", port])

    assert isinstance(done.exception, UsageError)
    assert f"Port {port} cannot be had: Address already in use." in done.exception.what
    assert not (tmp_path / "data").exists()
