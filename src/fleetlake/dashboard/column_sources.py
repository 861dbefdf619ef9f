"""What a column of a panel means, how it is shown, and where it comes from."""

import re
from collections.abc import Mapping
from functools import cache

from fleetlake.dashboard.panels import Panel
from fleetlake.errors import UsageError
from fleetlake.marts.catalogue import mart_meanings, marts
from fleetlake.semantic_layer import MetricDefinition, metric_named, metrics
from fleetlake.semantic_layer.definitions import state
from fleetlake.text.tables_beside import rows_beside

_KINDS = [(row["name"], row["kind"]) for row in rows_beside(__file__, "column_kinds.csv")]
_UNIT = re.compile(r"_(at|date|pct|bytes|hours|s|kmh|km|c|dbm|db|m|ma|mv|deg)$")


def _snapshot_tables() -> dict[str, dict[str, tuple[str, str]]]:
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for row in rows_beside(__file__, "snapshot_tables.csv"):
        found.setdefault(row["table"], {})[row["column"]] = row["type"], row["about"]
    return found


SNAPSHOT_TABLES: Mapping[str, Mapping[str, tuple[str, str]]] = _snapshot_tables()
"""Type and meaning of the columns of tables that are not marts.

The snapshot's description holds their rows, under the later word of their names.
"""

_LABELS = {row["column"]: row["label"] for row in rows_beside(__file__, "column_labels.csv")}
"""Headings of columns whose name does not say it."""

_ABBREVIATIONS = {"Ip": "IP", "Ipv4": "IPv4", "Mac": "MAC", "Wan": "WAN"}
_NUMBERS = ("int", "float", "double", "decimal")


def kind_of(name: str, arrow_type: str) -> str:
    """Return how a column is shown: by the unit that its name ends with, else by its type.

    >>> kind_of("duration_s", "double"), kind_of("router_name", "string")
    ('duration', 'text')
    """
    for pattern, kind in _KINDS:
        if re.search(pattern, name):
            return kind
    return "number" if arrow_type.startswith(_NUMBERS) else "text"


def label_of(name: str) -> str:
    """Return the heading of a column: a metric's own, or its name in words, without the unit.

    >>> label_of("primary_available_pct"), label_of("ip_address"), label_of("alert_date")
    ('Primary available', 'IP address', 'Day')
    """
    if name in _LABELS:
        return _LABELS[name]
    known = _known_metrics()
    for start, heading in (("earlier_", "Before"), ("more_", "More")):
        if name.startswith(start) and name.removeprefix(start) in known:
            return heading
    if name in known:
        return known[name].label
    if name.endswith("_date") and name != "month_date":
        return "Day"
    words = _UNIT.sub("", name).removesuffix("_name").removeprefix("is_").split("_")
    words[0] = words[0].capitalize()
    return " ".join(_ABBREVIATIONS.get(word, word) for word in words)


def _known_metrics() -> Mapping[str, MetricDefinition]:
    """Return the metrics; ours while a file of the project is wrong, which its own panels say."""
    try:
        return metrics()
    except UsageError:
        return metrics(state(is_ours=True))


def origin_of(panel: Panel, column: str) -> tuple[str, str]:
    """Return where a panel's column comes from, as `mart.column`, and what that means.

    >>> from fleetlake.dashboard.panels import panel_at
    >>> origin_of(panel_at("failover", "episodes"), "to_carrier")[0]
    'failover_episodes.to_carrier'
    """
    if declared := panel.of.get(column):
        mart, _, name = declared.split(",")[0].partition(".")
        return declared, _meanings().get(mart, {}).get(name, "")
    if panel.metrics:
        asked = panel.metrics.metrics
        name = column.removeprefix("earlier_").removeprefix("more_")
        if name in asked:
            metric = metric_named(name, panel.metrics.files)
            return f"{metric.marts[0]}, metric {name}", metric.about
        if column == panel.metrics.grain:
            return f"{panel.marts[0]}, by {column}", "The first UTC day of the period."
        if panel.metrics.is_compared and not panel.metrics.by:
            return f"{panel.marts[0]}, metrics {', '.join(asked)}", "A figure and its period."
    # Account and group of a metric are the present ones of the device.
    first = ("device_inventory",) if panel.metrics and column != "carrier" else ()
    for mart in (*first, *panel.marts):
        if column in _meanings().get(mart, {}):
            return f"{mart}.{column}", _meanings()[mart][column]
    return "", ""


def column_types(mart: str) -> Mapping[str, str]:
    """Return the columns of a mart of this release, with their SQL types; empty if unknown."""
    described = SNAPSHOT_TABLES.get(mart, {})
    return {name: kind for name, (kind, _) in described.items()} or _types().get(mart, {})


@cache
def _types() -> Mapping[str, Mapping[str, str]]:
    return {
        mart["name"]: {
            c["name"]: c["data_type"] for c in mart.get("columns", ()) if "data_type" in c
        }
        for mart in marts()
    }


@cache
def _meanings() -> Mapping[str, Mapping[str, str]]:
    described = {
        name: {column: meaning for column, (_, meaning) in columns.items()}
        for name, columns in SNAPSHOT_TABLES.items()
    }
    return described | {mart: columns for mart, (_, columns) in mart_meanings().items()}
