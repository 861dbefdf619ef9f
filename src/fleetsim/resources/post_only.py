"""reboot_activity, speed_test, test_alert_push_destinations: POST only, no list."""

from fleetsim.definition import Resource

REBOOT_ACTIVITY = Resource(name="reboot_activity", columns=())
SPEED_TEST = Resource(name="speed_test", columns=())
TEST_DESTINATIONS = Resource(name="test_alert_push_destinations", columns=())
