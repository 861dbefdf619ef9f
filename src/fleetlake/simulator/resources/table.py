"""The table of v2 resources by name."""

from typing import Final

from fleetlake.simulator.resource import Resource
from fleetlake.simulator.resources.organisation import (
    ACCOUNTS_RESOURCE,
    GROUPS_RESOURCE,
    PRODUCTS_RESOURCE,
    USERS_RESOURCE,
)

_ALL: Final = (
    ACCOUNTS_RESOURCE,
    GROUPS_RESOURCE,
    PRODUCTS_RESOURCE,
    USERS_RESOURCE,
)

RESOURCES: Final[dict[str, Resource]] = {resource.name: resource for resource in _ALL}
