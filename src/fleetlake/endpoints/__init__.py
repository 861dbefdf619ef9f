"""THE table: one row per endpoint. No other code names one.

To add an endpoint, add a row to `inventory`, `events` or `v3`, the meaning of any new field to
`columns`, and a staging view in `sql/`. Fields come from the service contract where it tables
them, and from what the live service is seen to answer where it does not.
"""

from collections.abc import Iterable
from difflib import get_close_matches

from fleetlake.endpoints import events, inventory, v3
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import UsageError

_ROWS = (*inventory.ROWS, *events.ROWS, *v3.ROWS)

ENDPOINTS: dict[str, Endpoint] = {row.name: row for row in _ROWS}


PROBE = ENDPOINTS["accounts"]
"""Asked for one record where an answer is wanted and nothing was read yet."""

V3_PROBE = v3.ROWS[0]
"""The same for v3, which has keys and a root of its own."""


def endpoint_named(name: str) -> Endpoint:
    """Return the row of that name, or of that table. Raises: UsageError with the nearest name.

    >>> endpoint_named("raw.alerts").name
    'alerts'
    """
    found = ENDPOINTS.get(name.removeprefix("raw."))
    if found is None:
        nearest = get_close_matches(name.removeprefix("raw."), ENDPOINTS, n=1)
        meant = f"Did you mean {nearest[0]}? " if nearest else ""
        raise UsageError(
            f"There is no endpoint called {name!r}.",
            remedy=f"{meant}`fleetlake ingest --plan` lists them all.",
        )
    return found


def endpoints_named(names: Iterable[str]) -> list[Endpoint]:
    """Return the named rows in the table's order. Raises: UsageError for an unknown name.

    >>> [e.name for e in endpoints_named(["batteries", "accounts"])]
    ['accounts', 'batteries']
    """
    wanted = {endpoint_named(name).name for name in names}
    return [row for name, row in ENDPOINTS.items() if name in wanted]
