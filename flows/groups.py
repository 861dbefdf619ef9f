"""Which endpoints are loaded together: told from what an endpoint is, never from its name.

A new row in the endpoint table falls into a group, and so into a schedule, by itself.
"""

from enum import StrEnum

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Api, Endpoint, Mode, Walk


class Group(StrEnum):
    """Endpoints that want the same schedule, the most urgent first."""

    EVENTS = "events"  # what happened, one cursor for the fleet: cheap, and waited for
    ACTIVITY = "activity"  # who did what: forgotten by the service after a while
    SERIES = "series"  # samples and fixes by device, and the lists that tell which devices moved
    READINGS = "readings"  # latest values, overwritten by the service: unread is lost
    INVENTORY = "inventory"  # what there is: accounts, people, devices


TELLING = {e.fan_out.moved.endpoint for e in ENDPOINTS.values() if e.fan_out and e.fan_out.moved}
"""Lists that tell which devices moved: they spare calls within the run that loads them."""


def group_of(endpoint: Endpoint) -> Group:
    """Return the group that an endpoint belongs to; each belongs to one.

    >>> str(group_of(ENDPOINTS["alerts"])), str(group_of(ENDPOINTS["batteries"]))
    ('events', 'readings')
    """
    if endpoint.name in TELLING:
        return Group.SERIES
    if endpoint.is_snapshot:
        is_reading = endpoint.mode is Mode.UPSERT or endpoint.fan_out is not None
        return Group.READINGS if is_reading else Group.INVENTORY
    if endpoint.fan_out is not None:
        return Group.SERIES
    return Group.ACTIVITY if endpoint.cursor.walk is Walk.ACTION_ID else Group.EVENTS


def endpoints_of(
    group: Group, *, has_v3: bool = True, is_divisible: bool | None = None
) -> list[str]:
    """Return the names of a group's endpoints, in the endpoint table's order.

    `is_divisible` leaves only those that shards may divide, or only the others.

    >>> "locations" in endpoints_of(Group.SERIES, is_divisible=False)
    True
    """
    return [
        endpoint.name
        for endpoint in ENDPOINTS.values()
        if group_of(endpoint) is group
        and (has_v3 or endpoint.api is not Api.V3)
        and is_divisible in {None, endpoint.is_divisible}
    ]
