"""Say that data is at risk or lost, where operators look."""

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Failed

from flows.markdown import as_text
from flows.states import ALARM


@flow(name="alarm", flow_run_name="alarm: {endpoint}")
def alarm(event: str, endpoint: str, what: str) -> State[None]:
    """Show an alarm: a red run, an error in its log, and a markdown artifact.

    Started by the events that prefect.yaml lists, whose payload says `what` in a sentence. Add
    a notification to your own channel as an automation on this flow's state `Alarm`.
    """
    get_run_logger().error("%s: %s", event, what)
    said = "\n\n".join([f"## {as_text(endpoint)}", as_text(what), as_text(event)])
    create_markdown_artifact(said, key=f"alarm-{_key(endpoint)}")
    return Failed(name=ALARM, message=what)


def _key(endpoint: str) -> str:
    """Return an endpoint's name as artifacts may spell it.

    >>> _key("activity_logs")
    'activity-logs'
    """
    return endpoint.replace("_", "-")
