"""Raise an alarm where operators look: data is at risk, lost or has a new shape."""

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.states import Failed

from flows.markdown import as_text
from flows.states import ALARM


@flow(name="alarm", flow_run_name="alarm: {endpoint}")
def alarm(event: str, endpoint: str, what: str) -> State[None]:
    """Show an alarm as a failed run, an error in its log and a markdown artifact.

    The events that prefect.yaml lists start it; their payload says `what` happened in one
    sentence. To notify a channel of your own, add an automation on this flow's state `Alarm`.
    """
    get_run_logger().error("%s: %s", event, what)
    markdown = "\n\n".join([f"## {as_text(endpoint)}", as_text(what), as_text(event)])
    create_markdown_artifact(markdown, key=f"alarm-{_key(endpoint)}")
    return Failed(name=ALARM, message=what)


def _key(endpoint: str) -> str:
    """Return an endpoint's name in the spelling that artifact keys allow.

    >>> _key("activity_logs")
    'activity-logs'
    """
    return endpoint.replace("_", "-")
