"""Which endpoints are loaded together: told from what an endpoint is, never from its name.

A new row in the endpoint table falls into a group, and so into a schedule, by itself.
"""

from enum import StrEnum

from fleetlake.endpoint import Endpoint, Mode, Walk
from fleetlake.endpoints import ENDPOINTS


class Group(StrEnum):
    """Endpoints that want the same schedule, the most urgent first."""

    EVENTS = "events"  # what happened, one cursor for the fleet: cheap, and waited for
    ACTIVITY = "activity"  # who did what: forgotten by the service after a while
    SERIES = "series"  # samples and fixes, asked for device by device
    READINGS = "readings"  # latest values, overwritten by the service: unread is lost
    INVENTORY = "inventory"  # what there is: accounts, people, devices


def group_of(endpoint: Endpoint) -> Group:
    """Return the group that an endpoint belongs to; each belongs to one.

    >>> from fleetlake.endpoints import ENDPOINTS
    >>> str(group_of(ENDPOINTS["alerts"])), str(group_of(ENDPOINTS["batteries"]))
    ('events', 'readings')
    """
    if endpoint.is_snapshot:
        is_reading = endpoint.mode is Mode.UPSERT or endpoint.fan_out is not None
        return Group.READINGS if is_reading else Group.INVENTORY
    if endpoint.fan_out is not None:
        return Group.SERIES
    return Group.ACTIVITY if endpoint.cursor.walk is Walk.ACTION_ID else Group.EVENTS


def endpoints_of(group: Group) -> list[str]:
    """Return the names of a group's endpoints, in the endpoint table's order."""
    return [endpoint.name for endpoint in ENDPOINTS.values() if group_of(endpoint) is group]
