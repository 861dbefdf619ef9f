"""Coarse snapshots: places rounded to about 100 m, and nothing that names a device or a person.

What a raw column reveals follows from the vocabulary. In marts it follows from the column's name,
which has one meaning in all of them; a test requires every text column of our marts to be known
here or to be harmless. Ids stay, since rows are joined by them: they mean something only to who can
ask the service.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Privacy
from fleetlake.lake.tables import PROVENANCE, VERSIONS
from fleetlake.text.quoting import quoted

DECIMALS = 3
"""Decimals of a degree: 111 m from north to south, and less from east to west."""

_PLACE = re.compile(r"(^|_)(latitude|longitude)(_deg)?$")
_NAMING = re.compile(r"(^|_)(name|email|username|hostname|actor|serial|imei|iccid|imsi|mac)$")
_OF_NOBODY = {"product_name", "type_name", "carrier_name", "net_device_name", "full_product_name"}
_TELLING = {"asset_tag", "changes", "summary", "ip_address", "cause_description", "serial_number"}
"""Columns of marts that hold names or free text, beyond those that are named so."""
_COMPOSED = {("attention", "message")}
"""Texts that our own SQL composes of figures, interfaces, carriers and reasons, without a name."""


def coarse_columns(
    schema: str, table: str, columns: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the columns of a table that a coarse snapshot shows, each with the SQL of its value.

    `columns` are names and SQL types.
    """
    for name, kind in columns:
        told = _revealed_in_raw(table, name) if schema == "raw" else revealed_in_marts(name)
        if schema == "marts" and (table, name) in _COMPOSED:
            told = None
        if told is None:
            yield name, f"{quoted(name)}::{kind}"
        elif told is Privacy.PLACE:
            yield name, f"round({quoted(name)}, {DECIMALS})::{kind}"


def revealed_in_marts(name: str) -> Privacy | None:
    """Return what a column of a mart reveals, by its name; None if it reveals nothing.

    >>> revealed_in_marts("start_latitude_deg"), revealed_in_marts("router_name")
    (<Privacy.PLACE: 'place'>, <Privacy.NAME: 'name'>)
    >>> revealed_in_marts("product_name"), revealed_in_marts("description")
    (None, <Privacy.TEXT: 'text'>)
    """
    if _PLACE.search(name):
        return Privacy.PLACE
    if name in _OF_NOBODY:
        return None
    if name in _TELLING:
        return Privacy.TEXT
    return Privacy.NAME if _NAMING.search(name) else _vocabulary().get(name)


def _revealed_in_raw(endpoint: str, name: str) -> Privacy | None:
    """Return what a column of a raw table reveals; one that this release lacks may be text."""
    known = {column.name: column.privacy for column in ENDPOINTS[endpoint].columns}
    if name in known:
        return known[name]
    is_ours = name in {**PROVENANCE, **VERSIONS} and not name.startswith("_extra")
    return None if is_ours else Privacy.TEXT


@cache
def _vocabulary() -> dict[str, Privacy]:
    """Return the raw columns that reveal something, by names that mean the same in marts."""
    return {
        column.name: column.privacy
        for endpoint in ENDPOINTS.values()
        for column in endpoint.columns
        if column.privacy and column.privacy is not Privacy.PLACE
    }
