"""Queued runs: one build serves all the events that came before it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.runtime import deployment, flow_run
from prefect.states import Completed

from flows.states import SKIPPED

IS_WAITING = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED]))


def waiting_runs() -> list[UUID]:
    """Return the due runs of this deployment that request no more than this run does.

    What triggered them was committed before this run began, so this run sees everything that
    they would see. Returns none for a run without a deployment.
    """
    if deployment.id is None:
        return []
    with get_client(sync_client=True) as client:
        waiting = client.read_flow_runs(
            deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[UUID(deployment.id)])),
            flow_run_filter=FlowRunFilter(state=IS_WAITING),
        )
    own, now = flow_run.parameters, datetime.now(UTC)
    return [run.id for run in waiting if _is_due(run, now) and _asks_no_more(run, own)]


def skip(runs: Sequence[UUID]) -> None:
    """Mark the runs that are still waiting as skipped: this run has done their work."""
    if not runs:
        return
    with get_client(sync_client=True) as client:
        still_waiting = FlowRunFilter(id=FlowRunFilterId(any_=list(runs)), state=IS_WAITING)
        for run in client.read_flow_runs(flow_run_filter=still_waiting):
            state: State[None] = Completed(
                name=SKIPPED, message=f"Done by run {flow_run.id}, which started later."
            )
            client.set_flow_run_state(run.id, state, force=True)


def _is_due(run: FlowRun, now: datetime) -> bool:
    return run.expected_start_time is None or run.expected_start_time <= now


def _asks_no_more(run: FlowRun, parameters: dict[str, object]) -> bool:
    """Return whether a run with these parameters does all the work of the other run."""
    return all(not value or parameters.get(name) == value for name, value in run.parameters.items())
