"""The format of a page's file: which keys there are, and what is wrong with one. Pure.

The shipped pages and those of a project are checked alike.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleetlake.dashboard.parameters import PARAMETERS
from fleetlake.text.tables_beside import rows_beside
from fleetlake.text.wording import did_you_mean

OFFERED_FILTERS = ("account", "group", "router", "carrier", "type", "time")
"""Filters that a page can offer."""

MOST_ROWS = 20_000
"""Rows that a panel may show: the browser holds all of them."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
_SLUG = re.compile(r"[a-z][a-z0-9_-]{0,60}")
_WORDS = {
    str: "a text",
    list: "a list of texts",
    dict: "a table",
    int: "a number",
    bool: "true or false",
}

_TYPES = {"text": str, "texts": list, "table": dict, "number": int, "flag": bool}


def _keys_of(table: str) -> Mapping[str, type]:
    rows = rows_beside(__file__, "page_keys.csv")
    return {row["key"]: _TYPES[row["holds"]] for row in rows if row["table"] == table}


PAGE_KEYS, PANEL_KEYS = _keys_of("page"), _keys_of("panel")
METRIC_KEYS = _keys_of("metrics")
"""Keys of a panel that shows metrics; its SQL, if it has any, reads them as `{metrics}`."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "table": (),
    "cards": (),
    "changes": (),
    "facts": (),
    "bars": ("label", "value"),
    "series": ("time", "values"),
    "heat": ("row", "column", "value", "steps", "text"),
    "calendar": ("row", "column", "value", "text"),
    "lanes": ("start", "end", "open", "colour"),
}
"""Kinds of charts for any rows, with the keys of `draw` that each needs."""

DRAW_KEYS = _keys_of("draw")
"""Keys of `draw` for those kinds. Texts, lists and keys of tables are columns, but for `steps`."""

RESERVED_SLUGS = frozenset(
    {"api", "events", "filters", "healthz", "login", "metrics", "problem", "report", "static"}
)
RESERVED_NAMES = frozenset(
    {"age", "content", "fault", "filters", "menu", "narrow", "pages", "search", "share"}
    | {"shown", "theme", "units", "view", "zone"}
)
"""Names of elements that every page has."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong with a page's file: in which panel and at which key, and what to do."""

    what: str
    remedy: str
    panel: str = ""
    key: str = ""

    def __str__(self) -> str:
        """Return where it is and what is wrong."""
        places = [f"panel {self.panel!r}"] * bool(self.panel) + [f"key {self.key!r}"] * bool(
            self.key
        )
        return f"{', '.join(places)}: {self.what}" if places else self.what


def slug_fault(slug: str, taken: Mapping[str, object]) -> Fault | None:
    """Return why a file's name cannot be the address of a page."""
    if slug in taken or slug in RESERVED_SLUGS:
        what = f"The name {slug!r} belongs to a page or an address of fleetlake."
    elif not _SLUG.fullmatch(slug):
        what = "The file's name cannot be the address of a page."
    else:
        return None
    return Fault(what=what, remedy="Rename the file: a letter, then a to z, 0 to 9, _ and -.")


def page_faults(written: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield what is wrong with a page, its panels left aside."""
    yield from _key_faults(written, PAGE_KEYS, required=("title", "panels"))
    for name in _texts(written.get("filters")):
        if name not in OFFERED_FILTERS:
            yield _unknown("filter", name, OFFERED_FILTERS, key="filters")


def panel_faults(name: str, written: Any) -> Iterator[Fault]:
    """Yield what is wrong with a panel, as far as its file alone tells."""
    if not _NAME.fullmatch(name) or name in RESERVED_NAMES:
        what = "A panel cannot have this name."
        remedy = "Rename it: a letter, then a to z, 0 to 9 and _; the page's own parts have "
        yield Fault(panel=name, what=what, remedy=f"{remedy}{', '.join(sorted(RESERVED_NAMES))}.")
    if not isinstance(written, dict):
        what, remedy = "It is not a table.", f"Write it as [panels.{name}]."
        yield Fault(panel=name, what=what, remedy=remedy)
        return
    required = ("title", "metrics") if "metrics" in written else ("title", "sql", "marts")
    yield from _key_faults(written, {**PANEL_KEYS, **METRIC_KEYS}, required=required, panel=name)
    for key in ("filters", "needs", "beside"):
        for parameter in _texts(written.get(key)):
            if parameter not in PARAMETERS:
                yield _unknown("filter", parameter, PARAMETERS, panel=name, key=key)
    for key in ("filters", "of"):
        yield from _text_faults(name, key, written.get(key))
    limit = written.get("limit", 1)
    if isinstance(limit, int) and not 1 <= limit <= MOST_ROWS:
        what, remedy = ("The limit is out of range.", f"Choose 1 to {MOST_ROWS:,}.")
        yield Fault(panel=name, key="limit", what=what, remedy=remedy)
    if written.get("filters") and "{filters}" not in str(written.get("sql")):
        what = "The filters have no effect, because the SQL has no {filters}."
        remedy = "Write `where true {filters}` where the conditions belong."
        yield Fault(panel=name, key="sql", what=what, remedy=remedy)
    yield from _draw_faults(name, written)


def _draw_faults(panel: str, written: Mapping[str, Any]) -> Iterator[Fault]:
    kind, draw = written.get("kind", "table"), written.get("draw", {})
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(draw, dict):
        return
    for key in KINDS[kind]:
        if key not in draw:
            what = f"The kind {kind!r} needs it."
            remedy = f"Name it in [panels.{panel}.draw]."
            yield Fault(panel=panel, key=f"draw.{key}", what=what, remedy=remedy)
    for fault in _key_faults(draw, DRAW_KEYS, panel=panel):
        yield Fault(panel=panel, key=f"draw.{fault.key}", what=fault.what, remedy=fault.remedy)


def own_kind_faults(panels: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the panels of a project whose kind draws one page of fleetlake only."""
    for name, panel in panels.items():
        kind = panel.get("kind", "table") if isinstance(panel, dict) else "table"
        if isinstance(kind, str) and kind not in KINDS:
            yield _unknown("kind", kind, KINDS, panel=name, key="kind")


def drawn_columns(draw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each column that `draw` names, with the key."""
    for key in DRAW_KEYS.keys() & draw.keys() - {"steps", "first_rows", "marks"}:
        for column in _texts(draw[key]):
            yield f"draw.{key}", column.removeprefix("-")


def _key_faults(
    written: Mapping[str, Any],
    known: Mapping[str, type],
    *,
    required: tuple[str, ...] = (),
    panel: str = "",
) -> Iterator[Fault]:
    for key in required:
        if written.get(key) in (None, "", {}):
            yield Fault(panel=panel, key=key, what="It is missing or empty.", remedy="Add it.")
    for key, value in written.items():
        if key not in known:
            yield _unknown("key", key, known, panel=panel, key=key)
        elif not _is_of(value, known[key], is_number=key == "steps"):
            what = f"It is not {_WORDS[known[key]]}."
            yield Fault(panel=panel, key=key, what=what, remedy="Correct it.")


def _is_of(value: object, kind: type, *, is_number: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, kind):
        return kind is bool and isinstance(value, bool)
    inner = (int, float) if is_number else str
    return not isinstance(value, list) or all(isinstance(one, inner) for one in value)


def _text_faults(panel: str, key: str, table: object) -> Iterator[Fault]:
    for name, text in table.items() if isinstance(table, dict) else ():
        if not isinstance(text, str):
            yield Fault(
                panel=panel, key=f"{key}.{name}", what="It is not a text.", remedy="Correct it."
            )


def _texts(value: object) -> list[str]:
    """Return the texts of a text, a list or a table's keys; none of anything else."""
    found = [value] if isinstance(value, str) else value
    return [one for one in found if isinstance(one, str)] if isinstance(found, list | dict) else []


def _unknown(
    what: str,
    name: str,
    known: Mapping[str, object] | tuple[str, ...],
    *,
    key: str,
    panel: str = "",
) -> Fault:
    remedy = f"{did_you_mean(name, known)}There are {', '.join(known)}."
    return Fault(panel=panel, key=key, what=f"There is no {what} {name!r}.", remedy=remedy)
