"""The server's database after a power cut and after a month: `fleetlake prefect server`.

Each test starts its own server, because it kills it or changes its settings.
"""

import sqlite3
from dataclasses import dataclass

import pytest

from tests.flows.server import SERVE, Server, processes_of, server_at
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("prefect")]

LIMIT = {"concurrency_limit": 1, "concurrency_options": {"collision_strategy": "CANCEL_NEW"}}


@dataclass(frozen=True)
class Deployment:
    """A deployment that runs once at a time; the tests set the states of its runs."""

    server: Server
    id: str

    def new_run(self) -> str:
        return self.server.post(f"deployments/{self.id}/create_flow_run")["id"]

    def begins(self, run: str) -> bool:
        """Set a run to pending, as a worker does; return whether it got the slot."""
        answer = self.server.post(f"flow_runs/{run}/set_state", state={"type": "PENDING"})
        return answer["status"] == "ACCEPT"


def deployed(server: Server) -> Deployment:
    wait_for(server.is_healthy)
    flow = server.post("flows/", name="load")["id"]
    return Deployment(server, server.post("deployments/", name="load", flow_id=flow, **LIMIT)["id"])


@pytest.mark.release
def test_a_power_cut_while_a_run_starts_does_not_block_its_deployment(tmp_path):
    server = server_at(
        tmp_path,
        {
            "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "30",
            "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "1",
        },
    )
    with server.running(*SERVE, log=tmp_path / "server.log") as process:
        deployment = deployed(server)
        assert deployment.begins(deployment.new_run())
        assert not deployment.begins(deployment.new_run())
        process.kill()
        process.wait()

    with server.running(*SERVE, log=tmp_path / "server.log"):
        wait_for(server.is_healthy)
        wait_for(lambda: deployment.begins(deployment.new_run()))
    wait_for(lambda: not processes_of(tmp_path))


@pytest.mark.release
def test_runs_that_ended_more_than_a_month_ago_are_deleted_and_others_kept(tmp_path):
    server = server_at(tmp_path, {"PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "2"})
    with server.running(*SERVE, log=tmp_path / "server.log"):
        deployment = deployed(server)
        old, new = deployment.new_run(), deployment.new_run()
        for run, days in ((old, 31), (new, 29)):
            server.cancel(run)
            age(tmp_path / "prefect/prefect.db", run, days)

        wait_for(lambda: [run["id"] for run in server.runs("load")] == [new])
    wait_for(lambda: not processes_of(tmp_path))


def age(database, run: str, days: int) -> None:
    """Set the end of a run to this many days ago."""
    with sqlite3.connect(database, timeout=60) as connection:
        changed = connection.execute(
            "update flow_run set end_time = datetime('now', ?) where id = ?",
            [f"-{days} days", run],
        )
        assert changed.rowcount == 1
    connection.close()
