"""Shell completion of values, beyond the commands and options that Typer completes."""

from fleetlake.endpoints import ALERT_RULES, PUSH_DESTINATIONS, requested_endpoints
from fleetlake.endpoints.model import Endpoint


def endpoint_names(incomplete: str) -> list[str]:
    """Return the endpoints whose names start with what is typed.

    >>> endpoint_names("alert_r")
    ['alert_rules']
    """
    return [e.name for e in requested_endpoints() if e.name.startswith(incomplete)]


def type_names(incomplete: str) -> list[str]:
    """Return the alert types, and the groups of them, that start with what is typed.

    >>> type_names("fail")
    ['failover', 'failover_event']
    """
    from fleetlake.alerting.chosen_types import TYPE_GROUPS

    known = [*TYPE_GROUPS, *(name for names in TYPE_GROUPS.values() for name in names)]
    return [name for name in known if name.startswith(incomplete)]


def destination_ids(incomplete: str) -> list[str]:
    """Return the ids of the push destinations in the lake that start with what is typed."""
    return _ids(PUSH_DESTINATIONS, incomplete)


def rule_ids(incomplete: str) -> list[str]:
    """Return the ids of the alert rules in the lake that start with what is typed."""
    return _ids(ALERT_RULES, incomplete)


def _ids(endpoint: Endpoint, incomplete: str) -> list[str]:
    """Return ids as the last load found them: asking the service would take too long, and a call.

    Without a lake there is nothing to offer, and no place for an error.
    """
    from fleetlake.errors import FleetlakeError
    from fleetlake.lake import open_lake
    from fleetlake.settings import load_settings

    [key] = endpoint.key
    try:
        with open_lake(load_settings().lake, read_only=True, threads=1) as lake:
            found = lake.rows(
                f"select {key} from raw.{endpoint.name} "
                f"where valid_to is null and starts_with({key}, ?) order by 1",
                [incomplete],
            )
    except FleetlakeError:
        return []
    return [one for (one,) in found]
