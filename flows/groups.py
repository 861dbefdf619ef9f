"""Which endpoints are loaded together: told from what an endpoint is, never from its name.

A new row in the endpoint table falls into a group, and so into a schedule, by itself.
"""

from enum import StrEnum

from fleetlake.endpoint import Api, Endpoint, Mode, Walk
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


def endpoints_of(
    group: Group, *, has_v3: bool = True, shard: int = 0, shards: int = 1
) -> list[str]:
    """Return the names of a group's endpoints, in the endpoint table's order.

    Of `shards` parts, return the one numbered `shard` from 0: streams are dealt out in turn.

    >>> both = [endpoints_of(Group.SERIES, shard=n, shards=2) for n in range(2)]
    >>> sorted(both[0] + both[1]) == sorted(endpoints_of(Group.SERIES))
    True
    """
    if not 0 <= shard < shards:
        raise ValueError(f"there is no shard {shard} of {shards}: they are numbered from 0")
    names = [
        endpoint.name
        for endpoint in ENDPOINTS.values()
        if group_of(endpoint) is group and (has_v3 or endpoint.api is not Api.V3)
    ]
    return names[shard::shards]
