"""Pushed alerts with the names and times that relays give them (observed, November 2026).

A relay may send `alert_type` for `type`, `device_id` or `router_details` for `router`, and times as
seconds or milliseconds since 1970. A direct push has `{}` for a device or an account that it is not
about. Such members fill those of the contract, and stay beside them. Members that contradict each
other, or a device that has no number, make the alert a dead letter: a guess would be a false alert.
"""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from fleetlake.decoding.values import relation_id

ALERT_TYPE = "alert_type"

_HINT = re.compile(
    rb'"(?:alert_type|device_id|router_details)"|"(?:router|account)"\s*:\s*\{\s*\}'
    rb'|"(?:created|detected)_at"\s*:\s*"?[\d.]+"?\s*[,}]'
)
"""What an alert in another shape contains; most have none of it and are not looked at further."""

_DEVICES = ("router", "device_id", "router_details")
_TIMES = ("created_at", "detected_at")
_YEARS = range(2000, 2100)
_NUMBER = re.compile(r"\d{9,13}(?:\.\d{1,9})?")
_MILLISECONDS_FROM = 10**11
"""As seconds, this is the year 5138; as milliseconds, 1973."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def in_contract_shape(text: bytes) -> bytes:
    """Return an alert with the members of the contract. Raises: ValueError if they contradict.

    >>> in_contract_shape(b'{"alert_type":"reboot","device_id":"7"}')
    b'{"alert_type":"reboot","device_id":"7","type":"reboot","router":7}'
    """
    if not _HINT.search(text):
        return text
    try:
        members = _MEMBERS.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return text  # the reader of pages says what is wrong
    found = {name: value for name in members if (value := _value(members, name)) not in (None, {})}
    changes: dict[str, Any] = {
        name: None for name in ("router", "account") if members.get(name) and name not in found
    }
    changes |= _type(found) | _device(found) | _times(found)
    if not changes:
        return text
    return msgspec.json.encode(members | changes)


def _value(members: dict[str, msgspec.Raw], name: str) -> Any:
    """Return the value of a member that may matter here."""
    if name not in {"type", ALERT_TYPE, "account", *_DEVICES, *_TIMES}:
        return None
    return msgspec.json.decode(members[name])


def _type(found: dict[str, Any]) -> dict[str, Any]:
    if ALERT_TYPE not in found or found.get("type") == found[ALERT_TYPE]:
        return {}
    if "type" in found:
        raise ValueError("type and alert_type differ")
    return {"type": found[ALERT_TYPE]}


def _device(found: dict[str, Any]) -> dict[str, Any]:
    """Return the device that the members name, if the contract's member does not."""
    if not found.keys() & _DEVICES[1:]:
        return {}
    ids = {number for name in _DEVICES if (number := _number(found.get(name))) is not None}
    if len(ids) > 1:
        raise ValueError("router, device_id and router_details name different devices")
    if "router" in found:
        return {}
    if not ids:
        raise ValueError("device_id or router_details names a device without its number")
    return {"router": ids.pop()}


def _number(device: Any) -> int | None:
    try:
        return relation_id(device)
    except (ValueError, OverflowError):
        return None


def _times(found: dict[str, Any]) -> dict[str, Any]:
    return {name: at for name in _TIMES if name in found and (at := _instant(found[name]))}


def _instant(value: Any) -> str | None:
    """Return the time that a number of seconds or milliseconds since 1970 means, None if none.

    >>> _instant(1718000000), _instant("1718000000123"), _instant(7)
    ('2024-06-10T06:13:20+00:00', '2024-06-10T06:13:20.123000+00:00', None)
    """
    text = str(value)
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        return None
    number = float(text) if "." in text else int(text)
    seconds = number / 1000 if number >= _MILLISECONDS_FROM else number
    instant = datetime.fromtimestamp(seconds, UTC)
    return instant.isoformat() if instant.year in _YEARS else None
