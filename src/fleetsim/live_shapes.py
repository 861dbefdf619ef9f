"""The scenario `live-shapes`: each list in the shapes that published live answers have.

One function per shape. A function of RECORD_SHAPES takes a list's name and a record, one of
PAGE_SHAPES a list's name and the whole answer; each returns what is served instead. Values stay
those of the truth: only their spelling changes. Invented ones are left out (`info_of_type_only`).
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Record = dict[str, Any]
RecordShape = Callable[[str, Record], Record]
PageShape = Callable[[str, dict[str, Any]], dict[str, Any]]

_WHOLE: Final = frozenset(
    {
        *("bytes_in", "bytes_out", "mtu", "sequence", "version_number", "cellular_health_score"),
        *("health", "milliamps", "millivolts", "quantity", "rsoc", "temp", "time_remaining"),
    }
)
_BEGIN_EMPTY: Final = frozenset({"device_apps", "groups"})
_ALERTS: Final = frozenset({"alerts", "router_alerts"})
_SIGNAL: Final = frozenset(
    {
        *("cinr", "dbm", "ecio", "rsrp", "rsrq", "rssi", "rssnr", "sinr"),
        *("rsrp5g", "rsrq5g", "sinr5g"),
        *("rsrp5g_highband", "rsrq5g_highband", "sinr5g_highband"),
        *("signal_percent", "signal_strength"),
    }
)


def whole_numbers_as_reals(_: str, record: Record) -> Record:
    """Return a record whose counts are spelled as reals: 1500.0.

    >>> whole_numbers_as_reals("net_devices", {"id": "7", "mtu": 1500})
    {'id': '7', 'mtu': 1500.0}
    """
    return _changed(record, _WHOLE, float)


def signal_as_texts(_: str, record: Record) -> Record:
    """Return a record whose measurements of signal are texts: "-62".

    >>> signal_as_texts("net_device_metrics", {"rsrp": -62, "sinr": None})
    {'rsrp': '-62', 'sinr': None}
    """
    return _changed(record, _SIGNAL, str)


def cell_in_both_bases(_: str, record: Record) -> Record:
    """Return a record whose cell is named in decimal and in hexadecimal digits.

    >>> cell_in_both_bases("net_device_metrics", {"cell_id": "137144420"})
    {'cell_id': '137144420 (0x82ca864)'}
    """
    return _changed(record, frozenset({"cell_id"}), lambda cell: f"{cell} ({int(cell):#x})")


def info_of_type_only(name: str, record: Record) -> Record:
    """Return an alert with only the type in its `info`, if the rest is invented.

    So the same thing that happens twice has the same `info` twice.

    >>> info_of_type_only("alerts", {"info": {"type": "reboot", "time": "now", "value": 1}})
    {'info': {'type': 'reboot'}}
    """
    info = record.get("info")
    if name not in _ALERTS or not info or info.keys() != {"type", "time", "value"}:
        return record
    return {**record, "info": {"type": info["type"]}}


def placeholder_at_the_end(name: str, page: dict[str, Any]) -> dict[str, Any]:
    """Return the last page of configuration_managers with a record that stands for nothing.

    >>> page = {"data": [{"id": "7", "router": "https://h/api/v2/routers/7/"}], "meta": {}}
    >>> placeholder_at_the_end("configuration_managers", page)["data"][-1]
    {'id': '', 'router': 'https://h/api/v2/routers/None/'}
    """
    records = page["data"]
    if name != "configuration_managers" or not records or page["meta"].get("next"):
        return page
    last = records[-1]
    router = re.sub(r"/routers/.*", "/routers/None/", str(last.get("router")))
    return {**page, "data": [*records, {**last, "id": "", "router": router}]}


def no_next_as_empty_text(_: str, page: dict[str, Any]) -> dict[str, Any]:
    """Return an answer whose link to the next page is an empty text instead of null."""
    meta = page["meta"]
    return {**page, "meta": {**meta, "next": meta["next"] or ""}}


def begins_empty(name: str, parameters: Mapping[str, str]) -> bool:
    """Return whether the answer is an empty page with a link to the first records.

    >>> begins_empty("groups", {"id__gt": "0"}), begins_empty("groups", {"offset": "0"})
    (True, False)
    """
    is_first = "offset" not in parameters and parameters.get("id__gt", "0") == "0"
    return name in _BEGIN_EMPTY and is_first


RECORD_SHAPES: Final[tuple[RecordShape, ...]] = (
    whole_numbers_as_reals,
    signal_as_texts,
    cell_in_both_bases,
    info_of_type_only,
)
PAGE_SHAPES: Final[tuple[PageShape, ...]] = (placeholder_at_the_end, no_next_as_empty_text)


def live_page(name: str, page: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a list in every shape; `page` has its records in `data`."""
    page = {**page, "data": [_live_record(name, record) for record in page["data"]]}
    for of_page in PAGE_SHAPES:
        page = of_page(name, page)
    return page


def live_document(name: str, document: Record) -> Record:
    """Return an item of v3 whose attributes have every shape of a record.

    >>> live_document("subscriptions", {"id": "7", "attributes": {"quantity": 25}})
    {'id': '7', 'attributes': {'quantity': 25.0}}
    """
    return {**document, "attributes": _live_record(name, document["attributes"])}


def _live_record(name: str, record: Record) -> Record:
    for of_record in RECORD_SHAPES:
        record = of_record(name, record)
    return record


def _changed(record: Record, names: frozenset[str], change: Callable[[Any], Any]) -> Record:
    """Return a record in which the named members that are not null are spelled another way."""
    return {
        name: change(value) if name in names and value is not None else value
        for name, value in record.items()
    }
