"""An event for each new alert of the types that the user names, so that an automation can page.

The server confirms the events before the lake records them as announced: what it did not take is
sent again. Each event's id follows from its alert, so the server recognises one that comes twice.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC

import httpx
from prefect import get_run_logger
from prefect.client.orchestration import get_client
from prefect.events import Event, Resource
from prefect.exceptions import PrefectException

from fleetlake.alerting.chosen_types import chosen_types
from fleetlake.alerting.new_alerts import NewAlert, new_alerts, note_announced
from fleetlake.errors import FleetlakeError, StreamBusy
from fleetlake.lake import open_lake
from fleetlake.lake.locks import announce_lock
from fleetlake.monitoring.streams import lake_now
from fleetlake.settings import Settings
from fleetlake.text.plain import one_line

ALERT = "fleetlake.alert"

EVENTS_AT_ONCE = 200
"""Events of one request."""

LONGEST_TEXT = 500
LONGEST_NAME = 100
"""Characters of a text or a name from the service; longer ones are cut."""


def announce_alerts(settings: Settings) -> int:
    """Send an event for each alert that is new in the lake; return how many.

    Nothing is done unless `alert_events` names types. Raises: UsageError for an unknown type;
    StreamBusy if another process announces; LakeError; httpx errors and Prefect's if the server
    does not take the events, which are then sent again by the next call.
    """
    if not settings.alert_events:
        return 0
    types = chosen_types(settings.alert_events)
    with announce_lock(settings.lake), open_lake(settings.lake, threads=1) as lake:
        found, until = new_alerts(lake, types, now=lake_now(lake, settings.clock))
        send_events([event_of(alert) for alert in found])
        note_announced(lake, until)
    return len(found)


def announce_if_possible(settings: Settings) -> int:
    """Do the same after a load, which must not fail for it: what goes wrong is only logged."""
    try:
        return announce_alerts(settings)
    except StreamBusy:  # the other one announces them
        return 0
    except (FleetlakeError, httpx.HTTPError, PrefectException) as error:
        get_run_logger().warning("New alerts are not announced yet: %s", error)
        return 0


def send_events(events: Sequence[Event]) -> None:
    """Send events to Prefect's server, which has taken them when this returns.

    `emit_event` would return before they are sent. Raises: httpx errors, Prefect's.
    """
    if not events:
        return
    with get_client(sync_client=True) as client:
        for few in _parts(events):
            client.request("POST", "/events", json=[e.model_dump(mode="json") for e in few])


def _parts(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    for start in range(0, len(events), EVENTS_AT_ONCE):
        yield events[start : start + EVENTS_AT_ONCE]


def event_of(alert: NewAlert) -> Event:
    """Return the event of an alert; automations match on what its resource says."""
    about = _about(alert)
    name = _name(alert.router_name) or about.replace(".", " ")
    detected_at = alert.detected_at.astimezone(UTC).isoformat(timespec="seconds")
    description = one_line(alert.description or "", LONGEST_TEXT)
    return Event(
        id=alert.event_id,
        event=ALERT,
        resource=Resource(
            {
                "prefect.resource.id": f"fleetlake.{about}",
                "prefect.resource.name": name,
                "fleetlake.alert-type": _name(alert.alert_type),
                "fleetlake.group": _name(alert.group_name),
                "fleetlake.profile": alert.account_profile,
            }
        ),
        payload={
            "type": _name(alert.alert_type),
            "description": description,
            "detected_at": detected_at,
            "arrived_by": alert.arrived_by,
            "router_id": alert.router_id,
            "router": _name(alert.router_name),
            "group": _name(alert.group_name),
            "account_id": alert.account_id,
            "profile": alert.account_profile,
            "alert_id": _name(alert.alert_id),
            "what": f"{name}: {description or _name(alert.alert_type)} ({detected_at})",
        },
    )


def _about(alert: NewAlert) -> str:
    if alert.router_id is not None:
        return f"router.{alert.router_id}"
    return "fleet" if alert.account_id is None else f"account.{alert.account_id}"


def _name(text: str | None) -> str:
    return one_line(text or "", LONGEST_NAME)
