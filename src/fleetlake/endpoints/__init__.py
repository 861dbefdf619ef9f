"""The endpoint table: one row per endpoint. No other code names an endpoint.

To add an endpoint, add a row to `inventory`, `events` or `v3`, the meaning of any new field to
`vocabulary`, and a staging view in `sql/`. Fields come from the service contract where it lists
them, otherwise from what the live service returns.
"""

from collections.abc import Iterable, Sequence

from fleetlake.endpoints import events, inventory, v3
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import UsageError
from fleetlake.text.wording import did_you_mean

_ROWS = (*inventory.ROWS, *events.ROWS, *v3.ROWS)

ENDPOINTS: dict[str, Endpoint] = {row.name: row for row in _ROWS}


PUSHED = next(row for row in _ROWS if not row.is_requested)
"""What the service pushes instead of being asked for it."""

PROBE = ENDPOINTS["accounts"]
"""Endpoint that is asked for one record when any response will do."""

V3_PROBE = v3.ROWS[0]
"""The same for v3, which has its own keys and root."""


ALERTS, ALERT_RULES, PUSH_DESTINATIONS = (
    ENDPOINTS[name] for name in ("alerts", "alert_rules", "alert_push_destinations")
)
"""What is raised, which of it is raised and announced, and where it is pushed to."""

GROUPS = ENDPOINTS["groups"]


def endpoint_named(name: str) -> Endpoint:
    """Return the row of that name, or of that table. Raises: UsageError with the nearest name.

    >>> endpoint_named("raw.alerts").name
    'alerts'
    """
    found = ENDPOINTS.get(name.removeprefix("raw."))
    if found is None:
        suggestion = did_you_mean(name.removeprefix("raw."), ENDPOINTS)
        raise UsageError(
            f"There is no endpoint called {name!r}.",
            remedy=f"{suggestion}`fleetlake ingest --plan` lists them all.",
        )
    return found


def requested_endpoints() -> list[Endpoint]:
    """Return the rows that are read from the service, in the table's order.

    >>> PUSHED in requested_endpoints()
    False
    """
    return [row for row in ENDPOINTS.values() if row.is_requested]


def require_requested(endpoints: Sequence[Endpoint]) -> None:
    """Raise UsageError if one of the endpoints is never read from the service."""
    for endpoint in endpoints:
        if not endpoint.is_requested:
            raise UsageError(
                f"The service pushes {endpoint.name}; they cannot be requested from it.",
                remedy=f"`fleetlake receive` takes them. {endpoint.confirmed_by} lists the same "
                "events, so name that.",
            )


def endpoints_named(names: Iterable[str]) -> list[Endpoint]:
    """Return the named rows in the table's order. Raises: UsageError for an unknown name.

    >>> [e.name for e in endpoints_named(["batteries", "accounts"])]
    ['accounts', 'batteries']
    """
    wanted = {endpoint_named(name).name for name in names}
    return [row for name, row in ENDPOINTS.items() if name in wanted]
