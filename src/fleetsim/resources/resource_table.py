"""The table of v2 resources; to serve another resource, add a row."""

from typing import Final

from fleetsim.definition import Resource
from fleetsim.ledger import Fields
from fleetsim.overlay import writable
from fleetsim.resources import firmware_and_apps
from fleetsim.resources.accounts import ACCOUNT, GROUP, PRODUCT, USER
from fleetsim.resources.activity_logs import ACTIVITY_LOGS
from fleetsim.resources.alert_rules import ALERT_RULES, PUSH_DESTINATIONS, sees_account
from fleetsim.resources.alerts import ALERTS, ROUTER_ALERTS
from fleetsim.resources.battery_reports import BATTERIES
from fleetsim.resources.configurations import CONFIGURATIONS, ROUTER_LANS
from fleetsim.resources.failovers import FAILOVERS
from fleetsim.resources.health import NET_DEVICE_HEALTH
from fleetsim.resources.locations import HISTORICAL_LOCATIONS, LOCATIONS
from fleetsim.resources.metrics import METRICS
from fleetsim.resources.net_devices import NET_DEVICES
from fleetsim.resources.router_series import ROUTER_LOGS, STATE_SAMPLES, STREAM_USAGE_SAMPLES
from fleetsim.resources.routers import ROUTERS
from fleetsim.resources.samples import SIGNAL_SAMPLES, USAGE_SAMPLES
from fleetsim.view import View

REBOOT_ACTIVITY = Resource(name="reboot_activity", columns=())
SPEED_TEST = Resource(name="speed_test", columns=())
TEST_DESTINATIONS = Resource(name="test_alert_push_destinations", columns=())


def _in_own_account(view: View, record: Fields) -> bool:
    """Return whether a created record belongs to an account the caller sees."""
    return sees_account(view, record["account"])


_ALL: Final = (
    ACTIVITY_LOGS,
    ALERTS,
    ALERT_RULES,
    BATTERIES,
    FAILOVERS,
    HISTORICAL_LOCATIONS,
    METRICS,
    NET_DEVICES,
    NET_DEVICE_HEALTH,
    PRODUCT,
    PUSH_DESTINATIONS,
    REBOOT_ACTIVITY,
    ROUTER_ALERTS,
    ROUTER_LANS,
    ROUTER_LOGS,
    SIGNAL_SAMPLES,
    SPEED_TEST,
    STATE_SAMPLES,
    STREAM_USAGE_SAMPLES,
    TEST_DESTINATIONS,
    USAGE_SAMPLES,
    firmware_and_apps.DEVICE_APPS,
    firmware_and_apps.DEVICE_APP_BINDINGS,
    firmware_and_apps.DEVICE_APP_STATES,
    firmware_and_apps.DEVICE_APP_VERSIONS,
    firmware_and_apps.FIRMWARES,
    writable(ACCOUNT, sees=_in_own_account),
    writable(CONFIGURATIONS, sees=_in_own_account),
    writable(GROUP, sees=_in_own_account),
    writable(LOCATIONS, sees=_in_own_account),
    writable(ROUTERS, sees=_in_own_account),
    writable(USER, sees=_in_own_account),
)

RESOURCES: Final[dict[str, Resource]] = {
    resource.name: resource for resource in sorted(_ALL, key=lambda resource: resource.name)
}
