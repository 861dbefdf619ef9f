"""Access to a server started by `fleetlake prefect server`: nobody without its password."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fleetlake.errors import SettingsError

pytestmark = [
    pytest.mark.proof,
    pytest.mark.xdist_group("prefect"),
    # Prefect's clients leave connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

ELSEWHERE = "https://elsewhere.example"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "block_documents/filter", {"include_secrets": True}),
        ("GET", "block_types/slug/secret/block_documents?include_secrets=true", None),
        ("POST", "deployments/filter", {}),
        ("GET", "deployments/name/ingest/events", None),
        ("POST", "flow_runs/", {"flow_id": "5f0f0f0f-0000-4000-8000-000000000000"}),
        ("POST", "work_pools/fleetlake/get_scheduled_flow_runs", {}),
        ("GET", "admin/version", None),
    ],
)
@pytest.mark.parametrize("login", [None, ("fleetlake", "guessed")], ids=["none", "wrong"])
def test_blocks_deployments_and_runs_require_the_password(
    prefect_server, method, path, body, login
):
    answer = prefect_server.call(method, path, json=body, auth=login)

    assert answer.status_code == 401
    assert answer.json() == {"exception_message": "Unauthorized"}


def test_the_password_file_is_readable_by_its_owner_only(prefect_server):
    file = Path(prefect_server.environment["PREFECT_HOME"]) / "fleetlake-auth"

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(prefect_server.password) > 40
    assert prefect_server.call("GET", "admin/version").is_success


def test_pages_of_other_origins_cannot_read_responses_and_the_servers_own_pages_can(
    prefect_server,
):
    port = urlsplit(prefect_server.api).port
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x"}

    def allowed(origin: str) -> list[str | None]:
        answers = [
            prefect_server.call("GET", "health", headers={"Origin": origin}),
            prefect_server.call("POST", "deployments/filter", headers={"Origin": origin}),
            prefect_server.call(
                "OPTIONS", "deployments/filter", headers={"Origin": origin, **asks}, auth=None
            ),
        ]
        return [answer.headers.get("access-control-allow-origin") for answer in answers]

    assert allowed(ELSEWHERE) == [None] * 3
    assert allowed(f"http://localhost:{port}") == [f"http://localhost:{port}"] * 3
    assert allowed(f"http://127.0.0.1:{port}") == [f"http://127.0.0.1:{port}"] * 3


@pytest.mark.usefixtures("prefect_server")
def test_a_command_with_a_wrong_password_reports_that_the_server_refused_it():
    from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings

    from fleetlake.cli.prefect.setup import require_set_up

    with (
        temporary_settings({PREFECT_API_AUTH_STRING: "fleetlake:of-another"}),
        pytest.raises(SettingsError, match="does not accept our password") as reported,
    ):
        require_set_up()

    assert "PREFECT_HOME" in reported.value.remedy
    assert "of-another" not in str(reported.value)
