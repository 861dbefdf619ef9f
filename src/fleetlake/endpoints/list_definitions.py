"""Definitions: the row of the endpoint table that a table of an endpoint file describes.

Every command reads the shipped files, so their tables become rows without a check: a test checks
them, and `endpoint_files`, which takes a moment to import, checks the files of a user's project.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleetlake.endpoints.columns import Column, attributes_of, columns_of
from fleetlake.endpoints.model import (
    MAX_IDS_PER_CALL,
    MAX_RECORDS_PER_PAGE,
    MAX_RECORDS_PER_V3_PAGE,
    Api,
    Cursor,
    Endpoint,
    FanOut,
    Group,
    Mode,
    Moved,
    Service,
    Walk,
    WindowFilters,
)
from fleetlake.endpoints.vocabulary import VOCABULARY, Kind, Privacy
from fleetlake.text.wording import did_you_mean

_WALKS = {Api.V2: Walk.OFFSET, Api.V3: Walk.LINK, Api.PUSH: Walk.NONE}
_PARAMETERS = {
    Walk.OFFSET: "offset",
    Walk.ID_AFTER: "id__gt",
    Walk.TIMEUUID: "created_at_timeuuid__gt",
    Walk.ACTION_ID: "action__id__lt",
    Walk.LINK: "page",
    Walk.NONE: "",
}
_PAGES = {Api.V2: MAX_RECORDS_PER_PAGE, Api.V3: MAX_RECORDS_PER_V3_PAGE}


@dataclass(frozen=True, kw_only=True)
class Defined:
    """A list, and where it is described: a file with its text."""

    endpoint: Endpoint
    file: Path
    text: str

    @property
    def line(self) -> int:
        """The line of the list's table in its file."""
        return line_of(self.text, (self.endpoint.name,))


def described_in(files: Iterable[Path]) -> dict[str, Defined]:
    """Return the lists that files of this release describe, in their order."""
    texts = [(file, file.read_text("utf-8")) for file in files]
    return {
        name: Defined(endpoint=endpoint_of(name, table), file=file, text=text)
        for file, text in texts
        for name, table in tomllib.loads(text).items()
    }


def endpoint_of(
    name: str, table: Mapping[str, Any], services: Mapping[str, Service] = MappingProxyType({})
) -> Endpoint:
    """Return the row of a described list. Raises: ValueError for a contradiction."""
    kind, event_time = table.get("kind", "history"), table.get("event_time")
    if kind in {"append", "upsert"} and event_time is None:
        raise ValueError(f"{name}: kind {kind} needs event_time and window")
    if kind == "latest" and event_time is not None:
        raise ValueError(f"{name}: kind latest is read whole; with event_time it is kind upsert")
    wanted = table.get("api", Api.V2)
    if wanted not in {*Api, *services}:
        known = ["v2", "v3", *services]
        meant = did_you_mean(wanted, known)
        raise ValueError(
            f"{name}: there is no service {wanted!r}. {meant}It takes {', '.join(known)}"
        )
    service = services.get(wanted)
    api = Api.V2 if service else Api(wanted)
    if service and "cursor" in table:
        raise ValueError(f"{name}: pages of another service are followed by their links")
    walk = Walk.LINK if service else Walk(table.get("cursor", _WALKS[api]))
    return Endpoint(
        name=name,
        about=table["about"],
        api=api,
        service=service,
        resource=table.get("path"),
        key=tuple(table.get("key", ("id",))),
        mode=Mode.UPSERT if kind == "latest" else Mode(kind),
        cursor=Cursor(walk=walk, parameter=table.get("cursor_parameter", _PARAMETERS[walk])),
        page_size=table.get("page_size", _PAGES.get(api, MAX_RECORDS_PER_PAGE)),
        event_time=event_time,
        window=_window(*table["window"]) if "window" in table else None,
        changes_until=table.get("changes_until"),
        retention=timedelta(days=table["retention_days"]) if "retention_days" in table else None,
        schedule=Group(table["schedule"]) if "schedule" in table else None,
        confirmed_by=table.get("confirmed_by"),
        parameters=table.get("parameters", {}),
        columns=_columns(name, table, api),
        fan_out=_fan_out(table["per"]) if "per" in table else None,
    )


def _window(first: str, last: str) -> WindowFilters:
    """Return the filters of a window: `since >=` where a name does not end in its operator."""
    (start, *over), (end, *under) = first.split(" "), last.split(" ")
    operators = (over[0], under[0]) if over and under else None
    return WindowFilters(start=start, end=end, operators=operators)


def _fan_out(per: Mapping[str, Any]) -> FanOut:
    return FanOut(
        parameter=per["parameter"],
        source=per["source"],
        partition=per["partition"],
        ids_per_call=per.get("ids_per_call", MAX_IDS_PER_CALL),
        is_stamped=per.get("stamped", False),
        listed_in=tuple(per.get("listed_in", ())),
        moved=_moved(per["moved"]) if "moved" in per else None,
        urged_by=tuple(map(_moved, per.get("urged_by", ()))),
    )


def _moved(table: Mapping[str, Any]) -> Moved:
    return Moved(**{**table, "types": tuple(table.get("types", ()))})


def _columns(name: str, table: Mapping[str, Any], api: Api) -> tuple[Column, ...]:
    fields = table.get("fields", ())
    for field in fields:
        if field not in VOCABULARY and f"{name}.{field}" not in VOCABULARY:
            raise ValueError(
                f"{name}: fleetlake does not know the field {field!r}. "
                f"{did_you_mean(field, VOCABULARY)}"
                f'Describe it in a table [{name}.columns."{field}"]'
            )
    own = [_own(field, column, api=api) for field, column in table.get("columns", {}).items()]
    related, many = table.get("related", ()), table.get("related_many", ())
    is_typed = table.get("typed", False)
    if api is Api.V3:
        *named, address = attributes_of(name, fields, related, many)
        return (*named, *own, *([_TYPE] if is_typed else []), address)
    if related or many or is_typed:
        raise ValueError(f"{name}: only lists of v3 have related, related_many and typed")
    return (*columns_of(name, fields), *own)


_TYPE = Column(
    field="record_type", members=("type",), kind=Kind.TEXT, meaning="JSON:API's type of the record."
)
"""Other lists have one type of record, so the member says nothing."""


def _own(field: str, table: Mapping[str, Any], *, api: Api) -> Column:
    return Column(
        field=f"attributes.{field}" if api is Api.V3 else field,
        kind=Kind(table["kind"]),
        meaning=table["meaning"],
        unit=table.get("unit") or None,
        privacy=Privacy(table["privacy"]) if "privacy" in table else None,
        is_tracked=not table.get("untracked", False),
    )


def line_of(text: str, path: tuple[str, ...]) -> int:
    """Return the line of a key in a file: of its own, or else of the nearest table around it."""
    keys = [part for part in path if not part.isdigit()]
    table, found, depth = list[str](), 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line):
            table = parts_of(header[1])
            here = table
        elif key := re.match(r"\s*([A-Za-z0-9_\-.\"']+)\s*=", line):
            here = [*table, *parts_of(key[1])]
        else:
            continue
        if len(here) > depth and here == keys[: len(here)]:
            found, depth = number, len(here)
    return found


def parts_of(dotted: str) -> list[str]:
    """Return the names of a dotted key. "a.b" in quotes is one name.

    >>> parts_of('things.columns."a.b"')
    ['things', 'columns', 'a.b']
    """
    return [
        quoted or plain for quoted, plain in re.findall(r"[\"']([^\"']*)[\"']|([^.\s\"']+)", dotted)
    ]


def text_of(defined: Defined) -> str:
    """Return the part of its file that describes a list, with the comments above it."""
    lines = defined.text.splitlines()
    start = defined.line - 1
    while start and lines[start - 1].startswith("#"):
        start -= 1
    end = len(lines)
    for number in range(defined.line, len(lines)):
        header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", lines[number])
        if header and parts_of(header[1])[0] != defined.endpoint.name:
            end = number
            break
    while end > start and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return "\n".join(lines[start:end]) + "\n"
