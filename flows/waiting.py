"""Runs that wait for their turn: many events, few builds."""

from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import deployment, flow_run
from prefect.states import Completed

from flows.states import SKIPPED


def take_over_waiting_runs() -> int:
    """Skip the runs of this deployment that wait for this one to end; return how many.

    Whatever asked for them was committed before now, and this run begins now, so it sees all
    that they would have seen. None for a run without a deployment.
    """
    if deployment.id is None:
        return 0
    is_waiting = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED]))
    with get_client(sync_client=True) as client:
        waiting = client.read_flow_runs(
            deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[UUID(deployment.id)])),
            flow_run_filter=FlowRunFilter(state=is_waiting),
        )
        for run in waiting:
            state: State[None] = Completed(
                name=SKIPPED, message=f"Done by run {flow_run.id}, which began later."
            )
            client.set_flow_run_state(run.id, state, force=True)
    return len(waiting)
