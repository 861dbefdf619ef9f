"""Reading pushed messages: one alert or a list of alerts each, of an undocumented shape.

The service contract does not show the body. So a message may be an alert, a list of alerts, or an
object with one list of alerts; the device and the account may be given as a number, a URL or an
object, and under other names; and members without a column are kept, those beside
the list with each alert of it. What cannot be read is a dead letter, with its bytes.

The id of a push is the UUID of its alert. An alert without one gets a digest of its content, so a
message that is sent again is recognised, and two alerts with the same content are one push. What
is beside the list does not count: another message may bring the same alert.

The live service sends neither an id nor a time, unless `info` has one. Without that, the same thing
that happens twice has the same body twice. The minute of its arrival then belongs to the content: a
message that is repeated at once is one push, one that comes later is another.

A relay may send `alert_type` for `type`, `device_id` or `router_details` for `router`, and times as
seconds or milliseconds since 1970. A direct push has `{}` for a device or an account that it is not
about. Such members fill those of the contract, and stay beside them. Members that contradict each
other, or a device that has no number, make the alert a dead letter: a guess would be a false alert.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

import msgspec
import pyarrow as pa

from fleetlake.decoding.arrow import Page, read_page, schema_of
from fleetlake.decoding.bounds import (
    MAX_RECORD_BYTES,
    MAX_RECORDS,
    kept_reason,
    kept_text,
    refuse_beyond_bounds,
    set_deep_aside,
)
from fleetlake.decoding.records import RejectedRecord, opened, strict_json
from fleetlake.decoding.timeuuid import embedded_time
from fleetlake.decoding.values import relation_id, without_hosts
from fleetlake.endpoints import PUSHED_LISTS
from fleetlake.endpoints.model import Api, Cursor, Endpoint, Walk
from fleetlake.errors import PageUnreadable
from fleetlake.text.plain import one_line

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

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def in_contract_shape(text: bytes) -> bytes:
    """Return an alert with the members of the contract. Raises: ValueError if they contradict.

    >>> in_contract_shape(b'{"alert_type":"reboot","device_id":"7"}')
    b'{"alert_type":"reboot","device_id":"7","type":"reboot","router":7}'
    """
    if not _HINT.search(text):
        return text
    try:
        members = _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return text  # the reader of pages says what is wrong
    found = {name: value for name in members if (value := _value(members, name)) not in (None, {})}
    changes: dict[str, Any] = {
        name: None for name in ("router", "account") if members.get(name) and name not in found
    }
    changes |= _type(found) | _device(found)
    changes |= {name: at for name in _TIMES if name in found and (at := _instant(found[name]))}
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


WITHOUT_ID = "content:"
"""How the id of a push begins that is a digest of its content."""

ESCAPED = "escaped:"
"""How a dead letter begins that is not text: `\\xNN` is a byte of it, and `\\\\` a backslash."""

_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|\\)")

TEST = "test"
"""Type of the message by which the service tests a destination."""

AROUND = "_message"
"""Member that an alert gets if its message has members beside the list: an object of those."""

MAX_CONTEXT_BYTES = 16_000_000
"""If the copies of what is beside the list take more than this, it is left out."""

EARLIEST = datetime(2010, 1, 1, tzinfo=UTC)
"""A device that detected an alert before that has lost its clock; the marts would begin there."""

_OWN = ("push_id", "alerted_at", "received_at")
"""Columns that the receiver fills in."""

_IDENTIFYING = ("router_id", "account_id", "created_at", "created_at_timeuuid", "detected_at")
_UNFORESEEN = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError, PageUnreadable)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_INSTANT = pa.timestamp("us", tz="UTC")
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


class _DataOnly(msgspec.Struct):
    data: list[msgspec.Raw]


_LIST_ASIDE = msgspec.json.Decoder(_DataOnly)


@dataclass(frozen=True, kw_only=True)
class Pushes:
    """Alerts of some messages as rows of the endpoint, each id once, and the dead letters.

    `tests` counts messages that only tested the destination.
    """

    rows: pa.Table
    rejects: tuple[RejectedRecord, ...]
    tests: int


@dataclass(frozen=True)
class SentAlert:
    """The JSON of an alert, and of the members beside its list, "" if there are none."""

    text: bytes
    around: bytes = b""

    def whole(self) -> bytes:
        """Return the alert with what was beside its list.

        >>> SentAlert(b'{"type": "reboot"}', b'{"count":1}').whole()
        b'{"type": "reboot","_message":{"count":1}}'
        """
        own = self.text.strip()
        if not self.around or own[:1] + own[-1:] != b"{}":
            return self.text
        members = own[1:-1].rstrip()
        separator = b"," if members.strip() else b""
        return b"".join([b"{", members, separator, f'"{AROUND}":'.encode(), self.around, b"}"])


@dataclass
class _Found:
    """The rows so far: the values of each, in order, and what could not be read."""

    pages: list[pa.RecordBatch] = field(default_factory=list)
    received: list[datetime] = field(default_factory=list)
    sent: list[SentAlert] = field(default_factory=list)
    rejects: list[RejectedRecord] = field(default_factory=list)


def read_pushes(endpoint: Endpoint, messages: Iterable[tuple[bytes, datetime]]) -> Pushes:
    """Return the alerts of messages, each with the time at which it was received, in UTC.

    A message that cannot be read for an unforeseen reason is a dead letter too: it would
    otherwise be read again for ever, and no message after it.
    """
    given = list(messages)
    with suppress(*_UNFORESEEN):
        return _read_all(endpoint, given)
    faults = [_fault(endpoint, message) for message in given]
    readable = [message for message, fault in zip(given, faults, strict=True) if fault is None]
    pushes = _read_all(endpoint, readable)
    letters = [
        _dead_letter(fault, body)
        for (body, _), fault in zip(given, faults, strict=True)
        if fault is not None
    ]
    return replace(pushes, rejects=(*pushes.rejects, *letters))


def _fault(endpoint: Endpoint, message: tuple[bytes, datetime]) -> Exception | None:
    """Return why a message cannot be read, None if it can be."""
    try:
        _read_all(endpoint, [message])
    except _UNFORESEEN as fault:
        return fault
    return None


def _read_all(endpoint: Endpoint, messages: Sequence[tuple[bytes, datetime]]) -> Pushes:
    found = _Found()
    alerts: list[tuple[SentAlert, datetime]] = []
    for body, received_at in messages:
        try:
            sent = alerts_of(body)
        except (ValueError, RecursionError) as reason:
            found.rejects.append(_dead_letter(reason, body))
            continue
        for alert in sent:
            try:
                refuse_beyond_bounds(alert.text, is_set_aside=False)
                text = in_contract_shape(alert.text)
            except ValueError as reason:
                found.rejects.append(_dead_letter(reason, alert.text))
            else:
                alerts.append((replace(alert, text=text), received_at))
    for first in range(0, len(alerts), MAX_RECORDS):
        _read(endpoint, alerts[first : first + MAX_RECORDS], found)
    return _pushes(endpoint, found)


def alerts_of(body: bytes) -> list[SentAlert]:
    """Return the alerts of a message. Raises: ValueError saying what is wrong.

    >>> alerts_of(b'[{"type": "reboot"}]')
    [SentAlert(text=b'{"type": "reboot"}', around=b'')]
    >>> alerts_of(b'{"data": [{"type": "reboot"}], "count": 1}')
    [SentAlert(text=b'{"type": "reboot"}', around=b'{"count":1}')]
    """
    body = body.removeprefix(_BYTE_ORDER_MARK).strip()
    if not body:
        raise ValueError("the message is empty")
    try:
        return opened(body, _split)[1]
    except msgspec.ValidationError:
        raise ValueError("neither an alert nor a list of alerts") from None
    except RecursionError:
        return _split_deep(body)


def _split(body: bytes) -> list[SentAlert]:
    if body.startswith(b"["):
        return [SentAlert(bytes(raw)) for raw in _LIST.decode(body)]
    members = _OBJECT.decode(body)
    lists = [n for n in PUSHED_LISTS if (raw := members.get(n)) and bytes(raw)[:1] == b"["]
    if not members.keys().isdisjoint({"type", ALERT_TYPE}) or len(lists) != 1:
        return [SentAlert(body)]
    texts = [bytes(raw) for raw in _LIST.decode(members.pop(lists[0]))]
    around = msgspec.json.encode(members) if members else b""
    if len(around) * len(texts) > MAX_CONTEXT_BYTES:
        around = b""
    return [SentAlert(text, around) for text in texts]


def _split_deep(body: bytes) -> list[SentAlert]:
    """Return the alerts of a list of which one nests too deeply for a decoder."""
    if not body.startswith(b"["):
        return [SentAlert(body)]
    page, deep = set_deep_aside(b'{"data":' + body + b"}")
    try:
        found = _LIST_ASIDE.decode(page)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return [SentAlert(deep.get(bytes(raw), bytes(raw))) for raw in found.data]


def _read(endpoint: Endpoint, alerts: Sequence[tuple[SentAlert, datetime]], found: _Found) -> None:
    """Decode alerts as one page; if one of them does not fit, decode each alone."""
    page = _page(endpoint, [alert.whole() for alert, _ in alerts])
    if not page.rejects:
        found.pages.append(page.rows)
        found.sent += [alert for alert, _ in alerts]
        found.received += [received_at for _, received_at in alerts]
        return
    if len(alerts) > 1:
        for alert in alerts:
            _read(endpoint, [alert], found)
        return
    found.rejects += page.rejects


def _page(endpoint: Endpoint, texts: Sequence[bytes]) -> Page:
    return read_page(
        _sent(endpoint), b'{"data":[' + b",".join(texts) + b'],"meta":{"limit":1,"next":null}}'
    )


@cache
def _sent(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint as it is sent: without our own columns, and only the type required."""
    return replace(
        endpoint,
        api=Api.V2,
        cursor=Cursor(walk=Walk.OFFSET, parameter="offset"),
        columns=tuple(column for column in endpoint.columns if column.name not in _OWN),
        key=("type",),
        event_time=None,
        confirmed_by=None,
    )


def _pushes(endpoint: Endpoint, found: _Found) -> Pushes:
    sent = pa.Table.from_batches(found.pages, schema=schema_of(_sent(endpoint)))
    values = {name: sent[name].to_pylist() for name in {"type", "info", *_IDENTIFYING}}
    kept: list[int] = []
    ids: dict[str, None] = {}
    times: list[datetime] = []
    tests = 0
    for row, received_at in enumerate(found.received):
        timeuuid = values["created_at_timeuuid"][row]
        if values["type"][row] == TEST and all(values[n][row] is None for n in _IDENTIFYING):
            tests += 1
            continue
        own_times = (values["created_at"][row], values["detected_at"][row])
        is_timed = any(own_times) or _has_time(values["info"][row])
        minute = "" if is_timed else f"{received_at:%Y-%m-%dT%H:%M}"
        push_id = str(UUID(timeuuid)) if timeuuid else _digest(found.sent[row].text, minute)
        if push_id not in ids:
            ids[push_id] = None
            kept.append(row)
            own = (values["created_at"][row], timeuuid and embedded_time(timeuuid))
            times.append(own[0] or own[1] or _alerted_at(values["detected_at"][row], received_at))
    rows = sent.take(pa.array(kept, pa.int64())) if len(kept) < sent.num_rows else sent
    received = [found.received[row] for row in kept]
    columns = dict(zip(rows.column_names, rows.columns, strict=True)) | {
        "push_id": pa.chunked_array([pa.array(ids, pa.string())]),
        "alerted_at": pa.chunked_array([pa.array(times, _INSTANT)]),
        "received_at": pa.chunked_array([pa.array(received, _INSTANT)]),
    }
    schema = schema_of(endpoint)
    table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    return Pushes(rows=table, rejects=tuple(found.rejects), tests=tests)


def _alerted_at(detected_at: datetime | None, received_at: datetime) -> datetime:
    """Return when an alert was raised, as far as its device and its arrival tell."""
    if detected_at is None or detected_at < EARLIEST:
        return received_at
    return detected_at


def _has_time(info: str | None) -> bool:
    found = msgspec.json.decode(info) if info else None
    return isinstance(found, dict) and bool(found.get("time"))


def _digest(text: bytes, minute: str) -> str:
    """Return the id of an alert without one: a digest of its content and of a minute.

    Neither the order of its members nor the hosts of the service's URLs count.
    """
    try:
        text = msgspec.json.encode(msgspec.json.decode(text), order="sorted")
    except ValueError:  # the page was repaired, so this text is almost JSON
        text = msgspec.json.encode(msgspec.json.decode(strict_json(text)), order="sorted")
    return WITHOUT_ID + hashlib.sha256((without_hosts(text.decode()) + minute).encode()).hexdigest()


def _dead_letter(reason: object, body: bytes) -> RejectedRecord:
    return RejectedRecord(kept_reason(one_line(reason)), _text(body))


def _text(body: bytes) -> str:
    """Return a message as text without loss, however many bytes of it are not text."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or text.startswith(ESCAPED):  # no text column accepts a NUL
        escaped = body.replace(b"\\", rb"\\").replace(b"\0", rb"\x00")
        text = ESCAPED + escaped.decode("utf-8", "backslashreplace")
    return kept_text(text, most=MAX_RECORD_BYTES)


def received_bytes(raw: str) -> bytes:
    r"""Return the bytes of a dead letter.

    >>> received_bytes("escaped:caf\\xe9 \\\\")
    b'caf\xe9 \\'
    """
    if not raw.startswith(ESCAPED):
        return raw.encode()
    # A long one may be cut in the middle of an escape, which is then no escape.
    return _ESCAPE.sub(_unescaped, raw.removeprefix(ESCAPED).encode())


def _unescaped(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 16)]) if escape[1] else b"\\"
