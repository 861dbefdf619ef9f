"""The report follows each build, and a dated one is kept each week."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

from pathlib import Path

import pytest
import yaml

from fleetlake.errors import LakeError
from tests.dashboard.world import World
from tests.flows.server import ROOT
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.xdist_group("prefect"),
    pytest.mark.usefixtures("prefect_home"),
    # With a server in this process, Prefect's clients leave connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("FLEETLAKE_PUBLISHED", str(tmp_path / "published"))
    monkeypatch.setenv("FLEETLAKE_REPORTS", str(tmp_path / "reports"))
    return World(tmp_path)


def files_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.proof
def test_the_newest_report_is_replaced_and_the_weekly_one_is_named_by_its_day(
    alone, world, tmp_path
):
    from flows.fleet_report import newest_report, weekly_report

    world.publish(rows=5)
    newest_report.fn()
    before = (tmp_path / "reports" / "fleet-report.html").read_text("utf-8")
    world.publish(rows=5, seed=2)
    ended = [newest_report.fn(), weekly_report.fn(keep=2)]

    after = (tmp_path / "reports" / "fleet-report.html").read_text("utf-8")
    assert files_in(tmp_path / "reports") == ["fleet-report-2026-11-20.html", "fleet-report.html"]
    assert before != after
    assert (tmp_path / "reports" / "fleet-report-2026-11-20.html").read_text("utf-8") == after
    assert all(state.is_completed() for state in ended)
    assert "fleet-report-2026-11-20.html" in alone.artifacts["weekly-report"]


@pytest.mark.usefixtures("alone", "world")
def test_a_report_before_anything_is_published_fails_and_says_what_to_do():
    from flows.fleet_report import newest_report

    with pytest.raises(LakeError, match="Nothing is published yet"):
        newest_report.fn()


@pytest.mark.release
def test_a_completed_build_starts_a_report_and_a_skipped_one_does_not(prefect_server, monkeypatch):
    from prefect.client.orchestration import get_client
    from prefect.states import Completed

    from fleetlake.cli.prefect.setup import set_up
    from flows.states import SKIPPED

    monkeypatch.chdir(ROOT)
    set_up(speed=1, runs=4, store_keys=False)
    with get_client(sync_client=True) as client:
        marts = client.read_deployment_by_name("build_marts/marts").id

        def end_build(name: str) -> None:
            run = client.create_flow_run_from_deployment(marts)
            client.set_flow_run_state(run.id, Completed(name=name), force=True)

        end_build(SKIPPED)
        end_build("Completed")
        wait_for(lambda: prefect_server.waiting("newest_report"))
        end_build("Completed")
        reports = wait_for(lambda: (r := prefect_server.waiting("newest_report"))[1:] and r)

    assert len(reports) == 2
    for report in reports:
        prefect_server.cancel(report["id"])


def test_the_report_follows_the_deployment_that_builds():
    deployments = {
        one["name"]: one
        for one in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    }

    [trigger] = deployments["report"]["triggers"]

    followed = deployments[trigger["match_related"]["prefect.resource.name"]]
    assert followed["entrypoint"] == "flows/build.py:build_marts"
