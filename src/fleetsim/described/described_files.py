"""Endpoint files: lists that the simulator serves as they are described.

The pipeline reads the same files with code of its own, since shared code would hide shared bugs.
Only the vocabulary, which says what kind of value a field has, is the same table.
"""

import csv
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fleetsim.units import DAY

_DATA = Path(str(files("fleetlake"))) / "endpoints"
ALWAYS: Final = (_DATA / "optional", Path(__file__).parent / "undescribed.toml")
"""Files whose lists are always served: those that fleetlake describes, and one it does not."""

_PER: Final = {
    **dict.fromkeys(("parameter", "source", "partition"), str),
    "ids_per_call": int,
    "stamped": bool,
    "listed_in": list,
    "moved": dict,
    "urged_by": list,
}
_COLUMN: Final = {**dict.fromkeys(("kind", "meaning", "unit", "privacy"), str), "untracked": bool}
_LIST: Final = {
    **dict.fromkeys(("about", "api", "path", "kind", "cursor", "cursor_parameter"), str),
    **dict.fromkeys(("event_time", "changes_until", "schedule", "confirmed_by"), str),
    **dict.fromkeys(("page_size", "retention_days"), int),
    **dict.fromkeys(("key", "window", "fields", "related", "related_many"), list),
    "typed": bool,
    "parameters": dict,
    "per": dict,
    "columns": dict,
}
_PAGES: Final = {"v2": 500, "v3": 50}


@dataclass(frozen=True, kw_only=True)
class DescribedColumn:
    """A field of a record, and its kind in the words of the file."""

    field: str
    kind: str

    @property
    def name(self) -> str:
        """Return the column that the pipeline makes of it, which other keys of the file name."""
        return self.field.replace(".", "_") + ("_id" if self.kind == "relation" else "")


@dataclass(frozen=True, kw_only=True)
class DescribedList:
    """One table of an endpoint file; `source` is the list whose ids its required filter takes.

    Records of a list that `is_stamped` do not contain that id.
    """

    name: str
    api: str
    path: str
    kind: str
    key: tuple[str, ...]
    cursor: str
    page_size: int
    event_time: str
    changes_until: str
    retention: int | None
    columns: tuple[DescribedColumn, ...]
    related: tuple[str, ...]
    related_many: tuple[str, ...]
    is_typed: bool
    parameter: str
    source: str
    partition: str
    is_stamped: bool

    @property
    def filter(self) -> str:
        """Return the field that the required filter compares; empty if none is required."""
        bare = self.parameter.removeprefix("filter[").removesuffix("]")
        return bare.removesuffix("__in")

    @property
    def stem(self) -> str:
        """Return what a record is called in its id: a site of `beta/exchange_sites`."""
        return self.path.rpartition("/")[2].removesuffix("s")


def read_described(places: Iterable[Path]) -> list[DescribedList]:
    """Return the lists of v2 and v3 that files, or the files of folders, describe.

    Raises: ValueError with the file and the line of what is wrong.
    """
    kinds, found = _kinds(), list[DescribedList]()
    for place in places:
        for file in sorted(place.glob("*.toml")) if place.is_dir() else [place]:
            text = file.read_text("utf-8")
            try:
                tables = tomllib.loads(text)
            except tomllib.TOMLDecodeError as error:
                raise ValueError(f"{file}: {error}") from None
            others = tables.pop("services", {})
            for name, table in tables.items():
                try:
                    one = _list(name, table, kinds, others)
                except _WrongError as error:
                    raise ValueError(f"{file}:{_line(text, name, error.key)}: {error}") from None
                found += [one] if one.api in _PAGES else []
    return found


class _WrongError(Exception):
    """What is wrong in a table, and at which key."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key


def _list(
    name: str, table: Any, kinds: Mapping[str, str], others: Collection[str]
) -> DescribedList:
    _check(table, _LIST, name)
    api, per = table.get("api", "v2"), table.get("per", {})
    _check(per, _PER, "per")
    if api not in _PAGES and api not in others:
        raise _WrongError("api", f"the simulator serves v2 and v3, not {api}")
    columns = [
        DescribedColumn(field=field, kind=_kind(name, field, kinds))
        for field in table.get("fields", [])
    ]
    for field, column in table.get("columns", {}).items():
        _check(column, _COLUMN, field)
        columns.append(DescribedColumn(field=field, kind=column.get("kind", "text")))
    return DescribedList(
        name=name,
        api=api,
        path=table.get("path", name),
        kind=table.get("kind", "history"),
        key=tuple(table.get("key", ["id"])),
        cursor=table.get("cursor", "offset"),
        page_size=min(table.get("page_size", 500), _PAGES.get(api, 500)),
        event_time=table.get("event_time", ""),
        changes_until=table.get("changes_until", ""),
        retention=table["retention_days"] * DAY if "retention_days" in table else None,
        columns=tuple(columns),
        related=tuple(table.get("related", [])),
        related_many=tuple(table.get("related_many", [])),
        is_typed=table.get("typed", False),
        parameter=per.get("parameter", ""),
        source=per.get("source", ""),
        partition=per.get("partition", ""),
        is_stamped=per.get("stamped", False),
    )


def _check(table: Any, known: Mapping[str, type], what: str) -> None:
    """Refuse a key that is not known, and a value of another type."""
    if not isinstance(table, dict):
        raise _WrongError(what, f"{what} must be a table")
    for key, value in table.items():
        if key not in known:
            raise _WrongError(key, f"there is no key {key}. It takes {', '.join(known)}")
        if type(value) is not known[key]:
            raise _WrongError(key, f"{key} must be a TOML {known[key].__name__}")


def _kind(name: str, field: str, kinds: Mapping[str, str]) -> str:
    kind = kinds.get(f"{name}.{field}") or kinds.get(field)
    if kind is None:
        raise _WrongError(
            "fields", f'the kind of {field} is not known: add [{name}.columns."{field}"]'
        )
    return kind


def _kinds() -> dict[str, str]:
    with (_DATA / "vocabulary.csv").open(encoding="utf-8", newline="") as lines:
        return {row["field"]: row["kind"] for row in csv.DictReader(lines)}


def _line(text: str, name: str, key: str) -> int:
    """Return the line of a key of a list, or else that of the list."""
    lines = text.splitlines()
    header = re.compile(rf"\s*\[+\s*{re.escape(name)}\b")
    start = next((n for n, line in enumerate(lines) if header.match(line)), 0)
    named = re.compile(rf"\s*(\[.*\.)?[\"']?{re.escape(key)}[\"'\]]*\s*(=|$)")
    at = next((n for n, line in enumerate(lines[start:], start) if named.match(line)), start)
    return at + 1
