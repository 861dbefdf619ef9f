"""Endpoint files: TOML in which each top-level table describes one list of the service.

The shipped lists and those of a user's project have the same form; docs/how-to/own-endpoints.md
explains it. An unknown key is an error, because a limit that does not apply would be noticed too
late.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fleetlake.endpoints.columns import RESERVED, Column, attributes_of, columns_of
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
from fleetlake.endpoints.vocabulary import VOCABULARY, Kind, Meaning, Privacy
from fleetlake.machine.loopback import shows_keys
from fleetlake.settings.schema import root_url
from fleetlake.text.wording import did_you_mean

NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
"""Names of lists and columns, which are names of tables and columns everywhere."""

MAX_DAYS = 10_000

SERVICES = "services"
"""Table of a file that describes other services, not a list."""

Made = TypeVar("Made")

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

PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
PARAMETER = re.compile(r"[A-Za-z0-9_.\[\]-]+")

_Text = Annotated[str, Field(min_length=1, max_length=500)]
_Name = Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]
_Path = Annotated[str, Field(pattern=rf"^{PATH.pattern}$", max_length=200)]
_Parameter = Annotated[str, Field(pattern=rf"^{PARAMETER.pattern}$", max_length=100)]

_Window = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\[\]-]+( (>|>=|<|<=))?$", max_length=100)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Moved(_Table):
    endpoint: _Name
    id: _Name
    at: _Name
    types: tuple[_Text, ...] = ()


class _Per(_Table):
    parameter: _Parameter
    source: _Name
    partition: _Name
    ids_per_call: Annotated[int, Field(ge=1, le=MAX_IDS_PER_CALL)] | None = None
    stamped: bool = False
    listed_in: tuple[_Name, ...] = ()
    moved: _Moved | None = None
    urged_by: tuple[_Moved, ...] = ()


class _Column(_Table):
    kind: Kind
    meaning: _Text
    unit: str = ""
    privacy: Privacy | None = None
    untracked: bool = False


class _Service(_Table):
    root: str
    records: tuple[_Text, ...] = ()
    next: tuple[_Text, ...] = ()
    error: tuple[_Text, ...] = ()
    page_size_parameter: _Parameter = "limit"

    @field_validator("root")
    @classmethod
    def _is_root(cls, value: str) -> str:
        if shows_keys(root := root_url(value)):
            raise ValueError("plain http exposes the token to the network; use https")
        return root if root.endswith("/") else f"{root}/"


class Definition(_Table):
    """The table of one list in an endpoint file."""

    about: _Text
    api: str = Api.V2
    path: _Path | None = None
    kind: Literal["append", "upsert", "latest", "history"] = "history"
    key: Annotated[tuple[_Name, ...], Field(min_length=1)] = ("id",)
    cursor: Walk | None = None
    cursor_parameter: _Parameter | None = None
    page_size: Annotated[int, Field(ge=1, le=MAX_RECORDS_PER_PAGE)] | None = None
    event_time: _Name | None = None
    window: tuple[_Window, _Window] | None = None
    changes_until: _Name | None = None
    retention_days: Annotated[int, Field(ge=1, le=MAX_DAYS)] | None = None
    schedule: Group | None = None
    confirmed_by: _Name | None = None
    parameters: dict[_Parameter, str] = {}
    fields: tuple[_Text, ...] = ()
    related: tuple[_Name, ...] = ()
    related_many: tuple[_Name, ...] = ()
    typed: bool = False
    per: _Per | None = None
    columns: dict[_Text, _Column] = {}


@dataclass(frozen=True, kw_only=True)
class FileFault:
    """What is wrong in an endpoint file, and where."""

    file: Path
    line: int
    what: str

    def __str__(self) -> str:
        """Return the fault as `file:line: what`."""
        return f"{self.file}:{self.line}: {self.what}"


@dataclass(frozen=True, kw_only=True)
class Defined:
    """A list, and where it is described: a file with its text."""

    endpoint: Endpoint
    file: Path
    text: str

    @property
    def line(self) -> int:
        """The line of the list's table in its file."""
        return _line_of(self.text, (self.endpoint.name,))


def read_files(files: Iterable[Path]) -> tuple[list[Defined], list[FileFault]]:
    """Return the lists that files describe, and all that is wrong in them.

    A file may use a service that another one describes.
    """
    parsed, faults = list[_Parsed](), list[FileFault]()
    for file in files:
        try:
            text = file.read_text("utf-8")
            parsed.append(_Parsed(file, text, tomllib.loads(text)))
        except tomllib.TOMLDecodeError as error:
            at = re.search(r"at line (\d+)", str(error))
            faults.append(FileFault(file=file, line=int(at[1]) if at else 1, what=f"{error}."))
        except (OSError, UnicodeDecodeError, RecursionError) as error:
            faults.append(FileFault(file=file, line=1, what=f"The file cannot be read: {error}."))
    services: dict[str, Service] = {}
    found: list[Defined] = []
    for one in parsed:
        tables = one.tables.pop(SERVICES, {})
        for name, table in tables.items() if isinstance(tables, dict) else ():
            for service in one.made(partial(_service, name, services), table, faults, name):
                services[service.name] = service
    for one in parsed:
        for name, table in one.tables.items():
            make = partial(_endpoint, name, services=services)
            found += [
                Defined(endpoint=row, file=one.file, text=one.text)
                for row in one.made(make, table, faults, name, is_service=False)
            ]
    return found, faults


@dataclass(frozen=True)
class _Parsed:
    """An endpoint file that is TOML."""

    file: Path
    text: str
    tables: dict[str, Any]

    def made(
        self,
        make: Callable[[Any], Made],
        table: Any,
        faults: list[FileFault],
        name: str,
        *,
        is_service: bool = True,
    ) -> list[Made]:
        """Return what is made of a table; nothing if it is wrong, which is added to `faults`."""
        keys = (SERVICES, name) if is_service else (name,)
        try:
            return [make(table)]
        except ValidationError as error:
            for loc, what in _in_words(error):
                line = _line_of(self.text, (*keys, *loc))
                faults.append(FileFault(file=self.file, line=line, what=what))
        except ValueError as error:
            line = _line_of(self.text, keys)
            faults.append(FileFault(file=self.file, line=line, what=f"{error}."))
        return []


def _service(name: str, others: Collection[str], table: Any) -> Service:
    if name in others:
        raise ValueError(f"the service {name} is described twice: its token must have one place")
    if not NAME.fullmatch(name) or name in {*Api}:
        raise ValueError(f"{name!r} is no name for a service: use a to z, 0 to 9 and _")
    return Service(name=name, **dict(_Service.model_validate(table, strict=False)))


def _endpoint(name: str, table: Any, *, services: Mapping[str, Service]) -> Endpoint:
    return endpoint_of(name, Definition.model_validate(table, strict=False), services)


def endpoint_of(
    name: str, given: Definition, services: Mapping[str, Service] = MappingProxyType({})
) -> Endpoint:
    """Return the row of a described list. Raises: ValueError for a contradiction."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a table: use a to z, 0 to 9 and _")
    if given.kind in {"append", "upsert"} and given.event_time is None:
        raise ValueError(f"{name}: kind {given.kind} needs event_time and window")
    if given.kind == "latest" and given.event_time is not None:
        raise ValueError(f"{name}: kind latest is read whole; with event_time it is kind upsert")
    if given.api not in {*Api, *services}:
        known = ["v2", "v3", *services]
        meant = did_you_mean(given.api, known)
        raise ValueError(
            f"{name}: there is no service {given.api!r}. {meant}It takes {', '.join(known)}"
        )
    service = services.get(given.api)
    api = Api.V2 if service else Api(given.api)
    walk = Walk.LINK if service else given.cursor or _WALKS[api]
    if service and given.cursor:
        raise ValueError(f"{name}: pages of another service are followed by their links")
    columns = _columns(name, given, api)
    _require_kinds(name, given, {column.name: column.kind for column in columns})
    return Endpoint(
        name=name,
        about=given.about,
        api=api,
        service=service,
        resource=given.path,
        key=given.key,
        mode=Mode.UPSERT if given.kind == "latest" else Mode(given.kind),
        cursor=Cursor(walk=walk, parameter=given.cursor_parameter or _PARAMETERS[walk]),
        page_size=given.page_size or _PAGES.get(api, MAX_RECORDS_PER_PAGE),
        event_time=given.event_time,
        window=_window(given.window) if given.window else None,
        changes_until=given.changes_until,
        retention=timedelta(days=given.retention_days) if given.retention_days else None,
        schedule=given.schedule,
        confirmed_by=given.confirmed_by,
        parameters=given.parameters,
        columns=columns,
        fan_out=_fan_out(given.per) if given.per else None,
    )


def _require_kinds(name: str, given: Definition, kinds: Mapping[str, Kind]) -> None:
    """Require kinds that can identify a record, tell its time, or be an id of a call."""
    for column in given.key:
        if kinds.get(column) in {Kind.REAL, Kind.FLAG, Kind.JSON, Kind.IDS}:
            raise ValueError(f"{name}: {column} is {kinds[column]}, which identifies no record")
    if given.event_time and kinds.get(given.event_time) not in {*_TIMES, None}:
        raise ValueError(f"{name}: event_time {given.event_time} is no time")
    by_uuid = given.window and "timeuuid" in given.window[1]
    if by_uuid and Kind.TIMEUUID not in kinds.values():
        raise ValueError(f"{name}: its window compares time UUIDs, and it has no column of them")
    if given.per and given.per.stamped and kinds.get(given.per.partition) not in {*_IDS, None}:
        raise ValueError(f"{name}: {given.per.partition} is stamped, so its kind is id or relation")


_TIMES = (Kind.TIME, Kind.EPOCH_S, Kind.EPOCH_MS)
_IDS = (Kind.ID, Kind.RELATION, Kind.INTEGER)


def _window(bounds: tuple[str, str]) -> WindowFilters:
    """Return the filters of a window: `since >=` where a name does not end in its operator."""
    (start, *over), (end, *under) = (bound.split(" ") for bound in bounds)
    operators = (over[0], under[0]) if over and under else None
    return WindowFilters(start=start, end=end, operators=operators)


def _fan_out(per: _Per) -> FanOut:
    return FanOut(
        parameter=per.parameter,
        source=per.source,
        partition=per.partition,
        ids_per_call=per.ids_per_call or MAX_IDS_PER_CALL,
        is_stamped=per.stamped,
        listed_in=per.listed_in,
        moved=Moved(**dict(per.moved)) if per.moved else None,
        urged_by=tuple(Moved(**dict(one)) for one in per.urged_by),
    )


def _columns(name: str, given: Definition, api: Api) -> tuple[Column, ...]:
    for field in given.fields:
        if field not in VOCABULARY and f"{name}.{field}" not in VOCABULARY:
            raise ValueError(
                f"{name}: fleetlake does not know the field {field!r}. "
                f"{did_you_mean(field, VOCABULARY)}"
                f'Describe it in a table [{name}.columns."{field}"]'
            )
    own = [_own(field, column, api=api) for field, column in given.columns.items()]
    if api is Api.V3:
        *named, address = attributes_of(name, given.fields, given.related, given.related_many)
        columns = (*named, *own, *([_TYPE] if given.typed else []), address)
    elif given.related or given.related_many or given.typed:
        raise ValueError(f"{name}: only lists of v3 have related, related_many and typed")
    else:
        columns = (*columns_of(name, given.fields), *own)
    _require_distinct(name, [column.name for column in columns])
    return columns


_TYPE = Column(
    field="record_type", members=("type",), kind=Kind.TEXT, meaning="JSON:API's type of the record."
)
"""Other lists have one type of record, so the member says nothing."""


def _own(field: str, given: _Column, *, api: Api) -> Column:
    meaning = Meaning(
        kind=given.kind,
        meaning=given.meaning,
        unit=given.unit or None,
        privacy=given.privacy,
        is_tracked=not given.untracked,
    )
    return Column(field=f"attributes.{field}" if api is Api.V3 else field, **vars(meaning))


def _require_distinct(name: str, columns: Collection[str]) -> None:
    seen = set[str]()
    for column in columns:
        if not NAME.fullmatch(column) or column in RESERVED:
            raise ValueError(f"{name}: {column!r} cannot be the name of a column")
        if column in seen:
            raise ValueError(f"{name}: two fields become the column {column}")
        seen.add(column)


def contradictions(
    defined: Iterable[Defined], shipped: Mapping[str, Endpoint]
) -> Iterator[FileFault]:
    """Yield what is wrong between lists: names that are taken, and sources that do not exist."""
    own = {one.endpoint.name: one for one in defined}
    known = {**shipped, **{name: one.endpoint for name, one in own.items()}}
    for one in defined:
        row, what = one.endpoint, ""
        if row.name in shipped:
            what = f"fleetlake has a list called {row.name}. Rename yours"
        elif own[row.name] is not one:
            other = own[row.name]
            what = f"{row.name} is described in {other.file}:{other.line}, too"
        elif not row.is_requested:
            what = f"{row.name}: only fleetlake's own list is pushed. Set api to v2 or v3"
        elif row.fan_out is not None:
            what = _wrong_source(row, row.fan_out, known)
        if what:
            end = "" if what.endswith("?") else "."
            yield FileFault(file=one.file, line=one.line, what=f"{what}{end}")


def _wrong_source(row: Endpoint, fan_out: FanOut, known: Mapping[str, Endpoint]) -> str:
    """Return what is wrong with the lists that a required filter refers to; empty if nothing."""
    refers = {fan_out.source: fan_out.listed_in}
    for moved in filter(None, (fan_out.moved, *fan_out.urged_by)):
        refers[moved.endpoint] = (moved.id, moved.at)
    for name, columns in refers.items():
        if name == row.name or name not in known or not known[name].is_requested:
            return f"{row.name}: there is no list {name}. {did_you_mean(name, known)}".removesuffix(
                ". "
            ).strip()
        has = [column.name for column in known[name].columns]
        if missing := sorted({*columns}.difference(has)):
            return f"{row.name}: {name} has no column {missing[0]}"
    if fan_out.partition not in {column.name for column in row.columns}:
        return f"{row.name}: it has no column {fan_out.partition}, which partition names"
    if known[fan_out.source].fan_out is not None:
        return f"{row.name}: {fan_out.source} is read per id itself, so it cannot be a source"
    return ""


def _in_words(error: ValidationError) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield where a file is wrong and why, without pydantic's words."""
    for fault in error.errors(include_url=False, include_context=False):
        loc = tuple(str(part) for part in fault["loc"])
        where = ".".join(part for part in loc if not part.isdigit()) or "the list"
        if fault["type"] == "extra_forbidden":
            known = _keys_of(loc[:-1], _Service if error.title == "_Service" else Definition)
            what = f"there is no key {where}. {did_you_mean(loc[-1], known)}"
            what += f"It takes {', '.join(known)}."
        elif fault["type"] == "missing":
            what = f"{where} is missing."
        elif fault["type"] == "too_short":
            what = f"{where} is empty."
        elif fault["type"] == "string_pattern_mismatch":
            what = f"{where} has characters that are not allowed there."
        else:
            reason = fault["msg"].removeprefix("Input should ").removeprefix("Value error, ")
            what = f"{where} should {reason}." if "Input" in fault["msg"] else f"{where}: {reason}."
        yield loc, what


def _keys_of(loc: tuple[str, ...], outer: type[BaseModel]) -> list[str]:
    """Return the keys of a table of a definition."""
    parts: dict[str, type[BaseModel]] = {
        "per": _Per,
        "moved": _Moved,
        "urged_by": _Moved,
        "columns": _Column,
    }
    inner = [parts[part] for part in loc if part in parts]
    fields = (inner[-1] if inner else outer).model_fields
    return [name for name in fields if name != "confirmed_by"]  # of the list that is pushed


def _line_of(text: str, path: tuple[str, ...]) -> int:
    """Return the line of a key in a file: of its own, or else of the nearest table around it."""
    keys = [part for part in path if not part.isdigit()]
    table, found, depth = list[str](), 1, 0
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line):
            table = _parts(header[1])
            here = table
        elif key := re.match(r"\s*([A-Za-z0-9_\-.\"']+)\s*=", line):
            here = [*table, *_parts(key[1])]
        else:
            continue
        if len(here) > depth and here == keys[: len(here)]:
            found, depth = number, len(here)
    return found


def _parts(dotted: str) -> list[str]:
    """Return the names of a dotted key. "a.b" in quotes is one name.

    >>> _parts('things.columns."a.b"')
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
        if header and _parts(header[1])[0] != defined.endpoint.name:
            end = number
            break
    while end > start and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
        end -= 1
    return "\n".join(lines[start:end]) + "\n"
