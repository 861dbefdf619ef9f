"""A real server with worker and automations: set up twice, it watches and raises the alarm.

Everything of Prefect runs in processes of its own; this one only asks the server over HTTP.
"""

import pytest
import yaml
from tests.flows.server import ROOT, SET_UP, WORK, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("prefect")]

LOAD_AND_WATCH = """
from flows.groups import Group
from flows.ingest import ingest
from flows.maintain import retention_watch
ingest(Group.ACTIVITY)
retention_watch()
"""


def test_set_up_twice_is_set_up_once_and_a_stream_at_risk_raises_the_alarm(
    prefect_server, tmp_path
):
    server = prefect_server
    said = server.run(*SET_UP)
    deployments = {d["name"]: d["id"] for d in server.ask("deployments")}
    automations = sorted(a["name"] for a in server.ask("automations"))
    server.run(*SET_UP)

    wanted = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert set(deployments) == {deployment["name"] for deployment in wanted}
    assert {d["name"]: d["id"] for d in server.ask("deployments")} == deployments
    assert sorted(a["name"] for a in server.ask("automations")) == automations
    assert set(automations) >= {"fleetlake-alarm", "fleetlake-dead-runs"}
    assert "fleetlake-mgr-api-key" in said
    assert "admin-key" not in said

    # The service's clock stands in June: its records are long forgotten by now.
    server.run("-c", LOAD_AND_WATCH)
    wait_for(lambda: server.runs("alarm"))
    [build] = wait_for(lambda: server.runs("build_marts"))  # which follows the load
    server.cancel(build["id"])  # it would take a minute: tests/marts has it
    with server.running(*WORK, log=tmp_path / "worker.log"):
        wait_for(lambda: [r for r in server.runs("alarm") if r["state_name"] == "Alarm"])

    [alarm, *_] = server.runs("alarm")
    assert alarm["parameters"]["endpoint"] == "activity_logs"
    assert alarm["parameters"]["event"] == "fleetlake.retention.at_risk"
    assert "forgotten by the service" in alarm["state"]["message"]
