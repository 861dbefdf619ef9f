"""Endpoint files: TOML in which each top-level table describes one list of the service.

The shipped lists and those of a user's project have the same form; docs/how-to/own-endpoints.md
explains it. An unknown key is an error, because a limit that does not apply would be noticed too
late.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fleetlake.endpoints.columns import RESERVED
from fleetlake.endpoints.list_definitions import Defined, endpoint_of, line_of
from fleetlake.endpoints.model import (
    MAX_IDS_PER_CALL,
    MAX_RECORDS_PER_PAGE,
    Api,
    Endpoint,
    FanOut,
    Group,
    Service,
    Walk,
)
from fleetlake.endpoints.vocabulary import Kind, Privacy
from fleetlake.machine.loopback import shows_keys
from fleetlake.settings.schema import root_url
from fleetlake.text.wording import did_you_mean

NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
"""Names of lists and columns, which are names of tables and columns everywhere."""

MAX_DAYS = 10_000

SERVICES = "services"
"""Table of a file that describes other services, not a list."""

Made = TypeVar("Made")

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
    """The table of one list in an endpoint file. `endpoint_of` says what a missing key means."""

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
            make = partial(_service, name, table, services)
            services |= {made.name: made for made in one.made((SERVICES, name), make, faults)}
    for one in parsed:
        for name, table in one.tables.items():
            given = partial(_endpoint, name, table, services)
            rows = one.made((name,), given, faults)
            found += [Defined(endpoint=row, file=one.file, text=one.text) for row in rows]
    return found, faults


@dataclass(frozen=True)
class _Parsed:
    """An endpoint file that is TOML."""

    file: Path
    text: str
    tables: dict[str, Any]

    def made(
        self, keys: tuple[str, ...], make: Callable[[], Made], faults: list[FileFault]
    ) -> list[Made]:
        """Return what is made of a table; nothing if it is wrong, which is added to `faults`."""
        try:
            return [make()]
        except ValidationError as error:
            wrong = [((*keys, *loc), what) for loc, what in _in_words(error)]
        except ValueError as error:
            wrong = [(keys, f"{error}.")]
        for where, what in wrong:
            line = line_of(self.text, where)
            faults.append(FileFault(file=self.file, line=line, what=what))
        return []


def _service(name: str, table: Any, others: Collection[str]) -> Service:
    if name in others:
        raise ValueError(f"the service {name} is described twice: its token must have one place")
    if not NAME.fullmatch(name) or name in {*Api}:
        raise ValueError(f"{name!r} is no name for a service: use a to z, 0 to 9 and _")
    return Service(name=name, **_checked(_Service, table))


def _endpoint(name: str, table: Any, services: Mapping[str, Service]) -> Endpoint:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a table: use a to z, 0 to 9 and _")
    row = endpoint_of(name, _checked(Definition, table), services)
    _require_distinct(name, [column.name for column in row.columns])
    _require_kinds(row)
    return row


def _require_kinds(row: Endpoint) -> None:
    """Require kinds that can identify a record, tell its time, or be an id of a call."""
    kinds = {column.name: column.kind for column in row.columns}
    for column in row.key:
        if kinds[column] in {Kind.REAL, Kind.FLAG, Kind.JSON, Kind.IDS}:
            raise ValueError(f"{row.name}: {column} is {kinds[column]}, which identifies no record")
    if row.event_time and kinds[row.event_time] not in _TIMES:
        raise ValueError(f"{row.name}: event_time {row.event_time} is no time")
    if row.window and "timeuuid" in row.window.end and Kind.TIMEUUID not in kinds.values():
        raise ValueError(
            f"{row.name}: its window compares time UUIDs, and it has no column of them"
        )
    per = row.fan_out
    if per and per.is_stamped and kinds.get(per.partition) not in {*_IDS, None}:
        raise ValueError(f"{row.name}: {per.partition} is stamped, so its kind is id or relation")


_TIMES = (Kind.TIME, Kind.EPOCH_S, Kind.EPOCH_MS)
_IDS = (Kind.ID, Kind.RELATION, Kind.INTEGER)


def _require_distinct(name: str, columns: Iterable[str]) -> None:
    seen = set[str]()
    for column in columns:
        if not NAME.fullmatch(column) or column in RESERVED:
            raise ValueError(f"{name}: {column!r} cannot be the name of a column")
        if column in seen:
            raise ValueError(f"{name}: two fields become the column {column}")
        seen.add(column)


def _checked(model: type[_Table], table: Any) -> dict[str, Any]:
    """Return what a table says, in the types of the model. Raises: ValidationError."""
    return model.model_validate(table, strict=False).model_dump(exclude_unset=True)


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
