"""The table of v2 resources by name."""

from typing import Final

from fleetlake.simulator.resource import Resource
from fleetlake.simulator.resources.activity import ACTIVITY_LOGS
from fleetlake.simulator.resources.alerts import ALERTS, ROUTER_ALERTS
from fleetlake.simulator.resources.batteries import BATTERIES
from fleetlake.simulator.resources.failovers import FAILOVERS
from fleetlake.simulator.resources.locations import HISTORICAL_LOCATIONS, LOCATIONS
from fleetlake.simulator.resources.metrics import METRICS
from fleetlake.simulator.resources.net_devices import NET_DEVICES
from fleetlake.simulator.resources.organisation import (
    ACCOUNTS_RESOURCE,
    GROUPS_RESOURCE,
    PRODUCTS_RESOURCE,
    USERS_RESOURCE,
)
from fleetlake.simulator.resources.routers import ROUTERS
from fleetlake.simulator.resources.samples import SIGNAL_SAMPLES, USAGE_SAMPLES

_ALL: Final = (
    ACCOUNTS_RESOURCE,
    ACTIVITY_LOGS,
    ALERTS,
    BATTERIES,
    FAILOVERS,
    GROUPS_RESOURCE,
    HISTORICAL_LOCATIONS,
    LOCATIONS,
    METRICS,
    NET_DEVICES,
    PRODUCTS_RESOURCE,
    ROUTERS,
    ROUTER_ALERTS,
    SIGNAL_SAMPLES,
    USAGE_SAMPLES,
    USERS_RESOURCE,
)

RESOURCES: Final[dict[str, Resource]] = {resource.name: resource for resource in _ALL}
