"""A real server with worker and automations: setup runs twice, then the watch raises the alarm.

Setup and worker run as users start them, in separate processes.
"""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

from importlib import import_module

import pytest
import yaml

from fleetlake.errors import SettingsError
from tests.flows.server import ROOT, SET_UP, WORK
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.proof,
    pytest.mark.xdist_group("prefect"),
    # Prefect's clients leave connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]


def test_setup_is_idempotent_and_a_stream_at_risk_raises_the_alarm(
    prefect_server, worker_environment, monkeypatch, capsys
):
    from fleetlake.cli.prefect.setup import set_up
    from fleetlake.endpoints.model import Group
    from flows.ingest import ingest
    from flows.maintain import retention_watch

    monkeypatch.chdir(ROOT)
    server = prefect_server
    before = server.ask("block_documents")  # another test may have stored some blocks
    said = server.run(*SET_UP)
    deployments = {d["name"]: d["id"] for d in server.ask("deployments")}
    automations = sorted(a["name"] for a in server.ask("automations"))
    by_default = server.ask("block_documents")
    set_up(speed=1, runs=4, store_keys=True)
    stored = capsys.readouterr().out

    wanted = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert set(deployments) == {deployment["name"] for deployment in wanted}
    assert {d["name"]: d["id"] for d in server.ask("deployments")} == deployments
    assert sorted(a["name"] for a in server.ask("automations")) == automations
    assert set(automations) >= {"fleetlake-alarm", "fleetlake-dead-runs", "fleetlake-lost-starts"}
    assert "Service keys: none stored" in said
    assert {b["name"] for b in by_default} == {b["name"] for b in before}
    assert "fleetlake-mgr-api-key" in stored
    assert "admin-key" not in said + stored
    assert "does not require a password" not in said + stored

    for left in (*server.waiting("build_marts"), *server.waiting("newest_report")):
        server.cancel(left["id"])  # loads of other tests, which had deployments, started these
    # The service's clock is in June: its records have expired long ago.
    ingest(Group.ACTIVITY)
    retention_watch()
    wait_for(lambda: server.runs("alarm"))
    # The build follows the load. It would take a minute; tests/marts covers it.
    for build in wait_for(lambda: server.waiting("build_marts")):
        server.cancel(build["id"])
    # Loads of other tests may have started alarms, too.
    with server.running(*WORK, log=worker_environment / "worker.log"):
        alarm, *_ = wait_for(
            lambda: [
                run
                for run in server.runs("alarm")
                if run["state_name"] == "Alarm" and run["parameters"]["endpoint"] == "activity_logs"
            ]
        )

    assert alarm["parameters"]["event"] == "fleetlake.retention.at_risk"
    assert "expired at the service" in alarm["state"]["message"]


@pytest.mark.release
@pytest.mark.usefixtures("prefect_server")
def test_the_next_setup_keeps_and_reports_paused_disabled_and_obsolete_items(monkeypatch, capsys):
    from prefect import flow
    from prefect.blocks.system import Secret
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import DeploymentUpdate

    from fleetlake.cli.prefect.setup import WORK_POOL, set_up

    @flow
    def elsewhere() -> None: ...

    names = ("fleetlake-alarm", "fleetlake-dead-runs")
    monkeypatch.chdir(ROOT)
    set_up(speed=1, runs=4, store_keys=False)
    with get_client(sync_client=True) as client:

        def found(name):
            [automation] = client.read_automations_by_name(name)
            return automation

        old = client.create_deployment(
            client.create_flow(elsewhere), name="of-before", work_pool_name=WORK_POOL
        )
        Secret(value="a-key").save("fleetlake-of-before")
        client.update_deployment(
            client.read_deployment_by_name("ingest/series").id, DeploymentUpdate(paused=True)
        )
        for name in names:
            client.pause_automation(found(name).id)

        capsys.readouterr()
        set_up(speed=1, runs=4, store_keys=True)

        said = capsys.readouterr().out
        assert client.read_deployment_by_name("ingest/series").paused
        assert not client.read_deployment_by_name("ingest/events").paused
        assert [found(name).enabled for name in names] == [False, False]
        assert found("fleetlake-build-after-ingest").enabled
        assert "Still paused on the server: pushes, series." in said
        assert "No longer in prefect.yaml, left unchanged: of-before." in said
        assert "fleetlake-of-before" in said.partition("Secret blocks of an earlier set-up")[2]
        assert "prefect --no-prompt block delete secret/" in said
        client.delete_deployment(old)
        client.update_deployment(
            client.read_deployment_by_name("ingest/series").id, DeploymentUpdate(paused=False)
        )
        for name in names:
            client.resume_automation(found(name).id)
        Secret.delete("fleetlake-of-before")


def test_a_worker_refuses_a_server_that_was_not_set_up(prefect_server, monkeypatch):
    module = import_module("fleetlake.cli.prefect.setup")
    monkeypatch.setattr(module, "WORK_POOL", "another")

    with pytest.raises(SettingsError, match=f"{prefect_server.api}.* no work pool another"):
        module.require_set_up()


@pytest.mark.release
@pytest.mark.usefixtures("prefect_server")
def test_an_accepted_run_is_marked_crashed_if_it_never_starts_and_only_then(
    tmp_path,
):
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.events import emit_event
    from prefect.states import Pending, Running

    from fleetlake.cli.prefect.setup import put_automations

    @flow
    def taken_on() -> None: ...

    automation = yaml.safe_load((ROOT / "flows/automations/lost-starts.yaml").read_text())
    quick = {**automation["trigger"], "within": 10}  # the shortest possible
    for_test = {**automation, "name": "lost-starts-for-test", "trigger": quick}
    (tmp_path / "lost.yaml").write_text(yaml.safe_dump(for_test))
    with get_client(sync_client=True) as client:
        put_automations(client, tmp_path)
        begun, submitted, pending = (client.create_flow_run(taken_on).id for _ in range(3))
        client.set_flow_run_state(submitted, Pending(name="Submitting"), force=True)
        client.set_flow_run_state(pending, Pending(), force=True)
        client.set_flow_run_state(begun, Running(), force=True)

        def states() -> list[str]:
            emit_event(
                "prefect.flow-run.heartbeat",
                resource={"prefect.resource.id": f"prefect.flow-run.{begun}"},
            )
            return [client.read_flow_run(run).state.name for run in (begun, submitted, pending)]

        wait_for(lambda: states()[1:] == ["Crashed", "Crashed"])
        assert states()[0] == "Running"
        [known] = client.read_automations_by_name("lost-starts-for-test")
        client.delete_automation(known.id)
