"""Which alert types a rule covers, by subject. Names are those of the service contract.

The groups are in `type_groups.csv`. The first four are the types that the SQL models read; a test
compares them. The models strip the prefix `alt_`, so the types that also exist for the alternate
platform are listed twice.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import groupby
from operator import itemgetter

from fleetlake.alerting.push_destinations import FAILURE_ALERTS
from fleetlake.errors import UsageError
from fleetlake.text.tables_beside import rows_beside

TYPE_GROUPS = {
    group: tuple(row["alert_type"] for row in rows)
    for group, rows in groupby(rows_beside(__file__, "type_groups.csv"), itemgetter("group"))
} | {"pushes": FAILURE_ALERTS}
"""Alert types by the word that names a group of them on the command line."""

_ALIKE = ("ethernet_wan_plugged", "modem_wan_plugged", "wwan_network_available")
"""Types of no group that look like misspelt ones of a group."""

DEFAULT_GROUPS = ("failover", "wan", "battery", "availability", "location")


def chosen_types(words: Iterable[str]) -> tuple[str, ...]:
    """Return the alert types that words name: types, and groups of types. Each once, sorted.

    A type that no group holds is taken as it is: the service knows more types. Raises: UsageError
    for a word that looks like a misspelt group or type.

    >>> chosen_types(["availability", "reboot_status_change"])
    ('connection_state', 'reboot_status_change')
    """
    found = {name for word in words for name in TYPE_GROUPS.get(word, (word,))}
    known = {name for names in (*TYPE_GROUPS.values(), _ALIKE) for name in names}
    for name in sorted(found - known):
        nearest = get_close_matches(name, [*TYPE_GROUPS, *known], n=1, cutoff=0.9)
        if nearest or "_" not in name:
            raise UsageError(
                f"There is no alert type {name!r}.",
                remedy=f"Did you mean {nearest[0]}?"
                if nearest
                else f"The groups of types are: {', '.join(TYPE_GROUPS)}.",
            )
    return tuple(sorted(found))
