"""Tell people about new findings after a build, which must not fail for it."""

from prefect import get_run_logger

from fleetlake.errors import FleetlakeError, StreamBusy
from fleetlake.notifying.notify import notify
from fleetlake.settings import load_settings


def tell_of_findings() -> int:
    """Snooze what is planned, and send the messages that are due; what fails is logged.

    Returns how many places were told.
    """
    settings = load_settings()
    if not (settings.notify or settings.maintenance):
        return 0
    try:
        return sum(one.is_sent for one in notify(settings))
    except StreamBusy:  # the other one tells them
        return 0
    except FleetlakeError as error:
        get_run_logger().warning("Messages about findings are not sent yet: %s", error)
        return 0
