"""Which endpoints are loaded together: derived from an endpoint's properties, not its name.

A new row in the endpoint table joins a group, and so gets a schedule, automatically.
"""

from enum import StrEnum

from fleetlake.endpoints import ENDPOINTS, requested_endpoints
from fleetlake.endpoints.model import Api, Endpoint, Mode


class Group(StrEnum):
    """Endpoints that share a schedule, the most urgent first."""

    EVENTS = "events"  # events, with one cursor for the fleet: cheap and urgent
    ACTIVITY = "activity"  # who did what: records expire at the service
    SERIES = "series"  # samples and fixes by device, and the lists that say which devices moved
    READINGS = "readings"  # latest values, which the service overwrites: unread ones are lost
    INVENTORY = "inventory"  # accounts, people, devices


MOVE_LISTS = {e.fan_out.moved.endpoint for e in ENDPOINTS.values() if e.fan_out and e.fan_out.moved}
"""Lists that say which devices moved; they save calls in the run that loads them."""


def group_of(endpoint: Endpoint) -> Group:
    """Return the one group that an endpoint belongs to.

    >>> str(group_of(ENDPOINTS["alerts"])), str(group_of(ENDPOINTS["batteries"]))
    ('events', 'readings')
    """
    if endpoint.name in MOVE_LISTS:
        return Group.SERIES
    if endpoint.is_snapshot:
        is_listed = endpoint.fan_out is None or bool(endpoint.fan_out.listed_in)
        is_reading = endpoint.mode is Mode.UPSERT or not is_listed
        return Group.READINGS if is_reading else Group.INVENTORY
    if endpoint.fan_out is not None:
        return Group.SERIES
    return Group.EVENTS if endpoint.is_live else Group.ACTIVITY


def endpoints_of(
    group: Group, *, has_v3: bool = True, is_divisible: bool | None = None
) -> list[str]:
    """Return the names of a group's endpoints, in the endpoint table's order.

    `is_divisible` keeps only those that shards can divide, or only the others.

    >>> "locations" in endpoints_of(Group.SERIES, is_divisible=False)
    True
    """
    return [
        endpoint.name
        for endpoint in requested_endpoints()
        if group_of(endpoint) is group
        and (has_v3 or endpoint.api is not Api.V3)
        and is_divisible in {None, endpoint.is_divisible}
    ]
