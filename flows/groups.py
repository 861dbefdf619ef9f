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
    SERIES = "series"  # samples and fixes by device, and the lists that tell which devices moved
    READINGS = "readings"  # latest values, overwritten by the service: unread is lost
    INVENTORY = "inventory"  # what there is: accounts, people, devices


def _told_by(endpoint: Endpoint) -> str:
    """Return the list that spares an endpoint the devices that did not move, or itself.

    It spares them only within the run that loaded the list.
    """
    moved = endpoint.fan_out.moved if endpoint.fan_out else None
    return moved.endpoint if moved else endpoint.name


TELLING = {_told_by(e) for e in ENDPOINTS.values() if _told_by(e) != e.name}
"""Lists that tell which devices moved."""


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
    group: Group, *, has_v3: bool = True, shard: int = 0, shards: int = 1
) -> list[str]:
    """Return the names of a group's endpoints, in the endpoint table's order.

    Of `shards` parts, return the one numbered `shard` from 0: streams are dealt out in turn,
    those that one list tells about together with it.

    >>> both = [endpoints_of(Group.SERIES, shard=n, shards=2) for n in range(2)]
    >>> sorted(both[0] + both[1]) == sorted(endpoints_of(Group.SERIES))
    True
    """
    if not 0 <= shard < shards:
        raise ValueError(f"there is no shard {shard} of {shards}: they are numbered from 0")
    rows = [
        endpoint
        for endpoint in ENDPOINTS.values()
        if group_of(endpoint) is group and (has_v3 or endpoint.api is not Api.V3)
    ]
    dealt = list(dict.fromkeys(_told_by(row) for row in rows))[shard::shards]
    return [row.name for row in rows if _told_by(row) in dealt]
