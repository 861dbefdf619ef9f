"""Queued builds: one successful build replaces all that request no more than it does."""
# ruff: noqa: PLC0415 - Prefect reads its settings when it is imported: not before the fixture

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

pytestmark = [
    pytest.mark.proof,
    pytest.mark.xdist_group("prefect"),
    pytest.mark.usefixtures("prefect_server"),
    # Prefect's clients leave connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]


@pytest.fixture
def queue(monkeypatch):
    """Return a queue with its own deployment, which adds runs and reads their state."""
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled

    from flows import waiting

    @flow(name="waits")
    def build(*, full: bool = False) -> None: ...

    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(build), name="marts")

        def add(*, full: bool = False, due: timedelta = -timedelta(minutes=1)):
            state = Scheduled(scheduled_time=datetime.now(UTC) + due)
            parameters = {"full": full}
            run = client.create_flow_run_from_deployment(
                deployment, parameters=parameters, state=state
            )
            return run.id

        def runs_as(parameters):
            monkeypatch.setattr(waiting, "deployment", SimpleNamespace(id=str(deployment)))
            own = SimpleNamespace(id="this-one", parameters=parameters)
            monkeypatch.setattr(waiting, "flow_run", own)

        def state_of(run):
            return client.read_flow_run(run).state

        yield SimpleNamespace(add=add, runs_as=runs_as, state_of=state_of, client=client)
        client.delete_deployment(deployment)


def test_queued_runs_are_skipped_once_the_work_is_done_and_not_before(queue):
    from flows.waiting import skip, waiting_runs

    first, second = queue.add(), queue.add()
    queue.runs_as({"full": False})

    found = waiting_runs()

    assert set(found) == {first, second}
    assert queue.state_of(first).is_scheduled()
    skip(found)
    assert queue.state_of(first).name == queue.state_of(second).name == "Skipped"
    assert "this-one" in queue.state_of(first).message


@pytest.mark.parametrize(("own", "is_done_by_it"), [(False, False), (True, True)])
def test_only_a_full_build_replaces_a_queued_full_build(queue, own, is_done_by_it):
    from flows.waiting import waiting_runs

    full, usual = queue.add(full=True), queue.add()
    queue.runs_as({"full": own})

    assert (full in waiting_runs()) is is_done_by_it
    assert usual in waiting_runs()


def test_a_run_scheduled_for_later_keeps_its_time(queue):
    from flows.waiting import waiting_runs

    queue.add(due=timedelta(hours=2))
    queue.runs_as({"full": False})

    assert waiting_runs() == []


def test_a_run_that_has_started_in_the_meantime_continues(queue):
    from prefect.states import Running

    from flows.waiting import skip, waiting_runs

    run = queue.add()
    queue.runs_as({"full": False})
    found = waiting_runs()
    queue.client.set_flow_run_state(run, Running(), force=True)

    skip(found)

    assert queue.state_of(run).is_running()


def test_a_run_without_a_deployment_has_no_queued_runs(queue, monkeypatch):
    from flows import waiting

    queue.add()
    monkeypatch.setattr(waiting, "deployment", SimpleNamespace(id=None))

    assert waiting.waiting_runs() == []
