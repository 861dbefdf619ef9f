"""Scenarios: named sets of faults and quirks, chosen at start or while running.

With `hostile-values`, one value in eight cannot be true, and is valid all the same. A record's key
decides which, so that each read and the truth have the same values. Keys, relations and the times
of the service's own clock, which order a list, stay as they are.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final
from zlib import crc32

import orjson

from fleetsim.live_shapes import live_page

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


_NEW_MEMBER: Final = "service_tier"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What a scenario sets: fault rates, the limit per minute, and quirks of the records served.

    `late_by` is the delay, in microseconds, after which one record in five appears. `drifts` adds
    members and changes types. `poisons` breaks one record in fifty. `is_live` spells each record
    as the live service does. `exaggerates` makes one value in eight impossible, in the truth too.
    `moves_hosts` gives each URL of a record another host at each read, one of `shards`.
    """

    faults: dict[str, float] = field(default_factory=dict)
    limit_per_minute: int | None = None
    late_by: int = 0
    drifts: bool = False
    poisons: bool = False
    is_live: bool = False
    exaggerates: bool = False
    shards: Sequence[str] = ("us0",)
    moves_hosts: bool = False


PLAIN: Final = Scenario()

_FILE = (files("fleetsim") / "scenarios.toml").read_text(encoding="utf-8")
SCENARIOS: Final = {name: Scenario(**quirks) for name, quirks in tomllib.loads(_FILE).items()}


def spoil(scenario: Scenario, name: str, page: dict[str, Any]) -> dict[str, Any]:
    """Return a list's answer as a scenario serves it; its content decides what changes."""
    if scenario.is_live:
        page = live_page(name, page)
    if scenario.exaggerates:
        page = {**page, "data": [with_hostile_values(record) for record in page["data"]]}
    if scenario.drifts:
        page = {**page, "data": [_drifted(record) for record in page["data"]]}
    if scenario.poisons:
        page = {**page, "data": [_poisoned(record) for record in page["data"]]}
    return page


def _chance(record: dict[str, Any]) -> int:
    return crc32(orjson.dumps(record))


def _drifted(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with a new member; one in three also has its numbers as strings."""
    chance = _chance(record)
    drifted = {**record, _NEW_MEMBER: {"name": "gold", "level": chance % 3}}
    if chance % 3:
        return drifted
    return {
        name: str(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else value
        for name, value in drifted.items()
    }


def _poisoned(record: dict[str, Any]) -> Any:
    """Return a record; one in fifty is broken: not an object, without valid times or without id."""
    chance = _chance(record)
    if chance % 50:
        return record
    match chance // 50 % 3:
        case 0:
            return "<record unavailable>"
        case 1:
            times = {name: "not a time" for name in record if name.endswith("_at")}
            return {**record, **times}
        case _:
            keys = ("id", "created_at_timeuuid", "uuid", "action")
            return {name: None if name in keys else value for name, value in record.items()}
