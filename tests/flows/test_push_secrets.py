"""The secrets of push destinations in a Prefect Secret block."""

import hashlib
import hmac
import json

import httpx
import pytest
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.cli.alerts.connecting import BlockSecrets, secret_store
from fleetlake.cli.prefect import setup
from fleetlake.errors import SettingsError, Unreachable, UsageError
from fleetlake.machine import secret_block
from fleetlake.machine.secret_block import read_secrets_block
from fleetlake.settings import Settings, load_settings
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from tests.support.processes import environment
from tests.support.sim import NOW, Sim

URL = "https://receiver.test/push"
BLOCK = "pushes"


@pytest.fixture
def sent():
    return []


@pytest.fixture
def run(tmp_path, monkeypatch, sent):
    """Return a function that runs `fleetlake alerts` at a service, whose pushes are kept."""

    async def send(_url, body, headers):
        sent.append((body, headers["X-PORTAL-Signature"]))

    sim = Sim(create_app(SimulatorOptions(routers=2, days=1, now=NOW, speed=0), send), tmp_path)
    monkeypatch.setattr(
        httpx.AsyncHTTPTransport,
        "handle_async_request",
        lambda _, request: sim.transport.handle_async_request(request),
    )

    def run_alerts(*words):
        load_settings.cache_clear()
        env = {**environment(tmp_path, "http://localhost"), "COLUMNS": "200"}
        env["FLEETLAKE_PUSH_SECRETS_BLOCK"] = BLOCK
        done = CliRunner().invoke(app, ["alerts", *words], env=env)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    return run_alerts


@pytest.mark.proof
@pytest.mark.xdist_group("prefect")
@pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
@pytest.mark.usefixtures("prefect_server")
def test_setup_keeps_its_secrets_in_the_block_where_the_receiver_reads_them(run, sent, tmp_path):
    outputs = [run("setup", "--url", URL, "--prefect-block", BLOCK)]
    first = read_secrets_block(BLOCK)
    outputs.append(run("setup", "--url", URL))
    again = read_secrets_block(BLOCK)
    outputs.append(run("destinations", "change", "fleetlake", "--new-secret"))
    outputs.append(run("destinations", "test", "fleetlake"))
    both = read_secrets_block(BLOCK)

    assert len(first) == 1
    assert again == first
    assert both[:1] == first
    assert len(both) == 2
    signatures = [signature for _, signature in sent]
    used = [first[0], first[0], both[1]]
    assert signatures == [
        hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        for secret, (body, _) in zip(used, sent, strict=True)
    ]
    assert not (tmp_path / "push-secrets").exists()
    assert f"the Secret block {BLOCK}" in outputs[0]
    assert not [secret for secret in both if secret in json.dumps(outputs)]


def test_a_name_that_prefect_does_not_accept_is_refused():
    with pytest.raises(UsageError, match="cannot be called 'Push Secrets'"):
        secret_store(Settings(), "Push Secrets")


def test_a_block_keeps_the_newest_secrets_of_a_url_and_what_else_is_in_it(monkeypatch):
    kept = {BLOCK: "by-hand, by-hand-too"}
    monkeypatch.setattr(secret_block, "read_block", kept.get)
    monkeypatch.setattr(setup, "put_secret", kept.__setitem__)
    store = BlockSecrets(BLOCK)

    made = [store.keep_new(URL) for _ in range(5)]

    assert kept[BLOCK] == {"": ["by-hand", "by-hand-too"], URL: made[2:]}
    assert store.find(URL) == made[4]
    assert store.find("https://other.test/push") is None


def test_a_block_without_a_server_is_refused_in_plain_words(monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with pytest.raises(SettingsError, match="PREFECT_API_URL is not set"):
        read_secrets_block(BLOCK)

    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(Unreachable, match="cannot be read: ConnectError"):
        read_secrets_block(BLOCK)


@pytest.mark.parametrize("answer", ["<html>", "[]", '{"data": []}', '{"data": null}'])
def test_an_answer_that_is_no_block_is_refused_in_plain_words(monkeypatch, tmp_path, answer):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9")  # without /api
    monkeypatch.setattr(httpx, "get", lambda *_, **__: httpx.Response(200, text=answer))

    with pytest.raises(Unreachable, match="it answered with no block"):
        read_secrets_block(BLOCK)
