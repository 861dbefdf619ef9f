"""The scenario `hostile-values`: one value in eight cannot be true, and is valid all the same.

A record's key decides which, so that each read and the truth have the same values. Keys, relations
and the times of the service's own clock, which order a list, stay as they are.
"""

import re
from hashlib import blake2b
from typing import Any, Final

_ONE_IN: Final = 8
_KEYS: Final = (*("created_at_timeuuid", "uuid", "id", "alert_config_id", "destination_config_id"),)
_INTEGERS: Final = (2**63 - 1, -(2**63), 2**40, -(2**40), -1)
_REALS: Final = (1e300, -1e300, 2.0**63, 2.0**40, -(2.0**40), -1.0)
_TIMES: Final = (
    *("0001-01-01T00:00:00Z", "1970-01-01T00:00:00+00:00"),
    *("2040-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:.*")


def with_hostile_values(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record in which one value in eight, apart from keys and relations, is hostile.

    >>> with_hostile_values({"id": "30", "mtu": 1500, "uptime": 3.5, "name": "modem"})
    {'id': '30', 'mtu': -1099511627776, 'uptime': 9.223372036854776e+18, 'name': 'modem'}
    """
    key = " ".join(str(record.get(name)) for name in _KEYS)
    return {name: _hostile(record, name, value, key) for name, value in record.items()}


def _hostile(record: dict[str, Any], name: str, value: Any, key: str) -> Any:
    digest = blake2b(f"{key} {name}".encode(), digest_size=8).digest()
    chance, pick = divmod(int.from_bytes(digest, "big"), _ONE_IN)
    if pick or name.endswith("id") or isinstance(value, bool):
        return value
    match value:
        case int():
            return _INTEGERS[chance % len(_INTEGERS)]
        case float():
            return _REALS[chance % len(_REALS)]
        case str() if _TIME.fullmatch(value) and not _orders(record, name):
            return _TIMES[chance % len(_TIMES)]
        case _:
            return value


def _orders(record: dict[str, Any], name: str) -> bool:
    """Return whether readers find new records by a time."""
    return name == "updated_at" or (name == "created_at" and "created_at_timeuuid" in record)
