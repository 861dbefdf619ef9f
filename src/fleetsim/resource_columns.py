"""A column of a resource: where its values come from, and how they are rendered and filtered."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from fleetsim.blocks import Block
from fleetsim.stamps import TimestampFormat

if TYPE_CHECKING:  # a view holds columns' resources, which hold columns
    from fleetsim.view import View


class ColumnKind(StrEnum):
    """The kind of a value, which decides its JSON form and how filters parse it."""

    ID = "id"  # int64, a JSON string of digits
    NUMERIC_ID = "numeric_id"  # int64, a JSON number: failovers only
    RELATION = "relation"  # int64 id, a URL of another record
    ADDRESS = "address"  # int64 id, the URL of the record itself
    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    FLAG = "flag"
    TIME = "time"  # int64 microseconds
    UUID = "uuid"  # the block's `time` and `tail`
    JSON = "json"


Read = Callable[["View", Block], Any]


@dataclass(frozen=True)
class ResourceColumn:
    """One field of a record.

    `read` returns raw values for every row of a block. `ops` are the allowed filter operators
    ("exact" is the bare name). `to` names the resource that a relation points to, and `part` what
    its URL ends in after the id, if anything. A `hidden` column can be filtered by but is not part
    of the record.
    """

    kind: ColumnKind
    name: str
    read: Read
    ops: frozenset[str] = frozenset()
    _: KW_ONLY
    to: str = ""
    part: str = ""
    time_format: TimestampFormat = "micros_offset"
    hidden: bool = False


Columns = tuple[ResourceColumn, ...]

EXACT = frozenset({"exact"})
EXACT_IN = frozenset({"exact", "in"})
RANGE = frozenset({"gt", "gte", "lt", "lte"})
EXACT_RANGE = EXACT | RANGE
ANY_ID = EXACT_IN | RANGE

# Short forms for the definitions of resources: `column.text("name", read)`.
id_ = partial(ResourceColumn, ColumnKind.ID)
numeric_id = partial(ResourceColumn, ColumnKind.NUMERIC_ID)
relation = partial(ResourceColumn, ColumnKind.RELATION)
address = partial(ResourceColumn, ColumnKind.ADDRESS)
integer = partial(ResourceColumn, ColumnKind.INTEGER)
real = partial(ResourceColumn, ColumnKind.REAL)
text = partial(ResourceColumn, ColumnKind.TEXT)
flag = partial(ResourceColumn, ColumnKind.FLAG)
time = partial(ResourceColumn, ColumnKind.TIME)
uuid = partial(ResourceColumn, ColumnKind.UUID)
json = partial(ResourceColumn, ColumnKind.JSON)


def ordered(*columns: ResourceColumn) -> Columns:
    """Return columns in the order in which the service writes them: by name."""
    return tuple(sorted(columns, key=lambda one: one.name))


def each(make: Callable[..., ResourceColumn], read: Callable[[str], Read], names: str) -> Columns:
    """Return a column for each name; `read` makes its reader from the name."""
    return tuple(make(name, read(name)) for name in names.split())


def nulls(names: str) -> Columns:
    """Return columns that are always null."""
    return each(json, lambda _name: constant(None), names)


def router(
    row: str = "row", ops: frozenset[str] = EXACT_IN, *, hidden: bool = False
) -> ResourceColumn:
    """Return the relation to the router whose row number a block has under the name `row`."""
    return relation("router", of_fleet("router_id", row), ops, to="routers", hidden=hidden)


def of_fleet(name: str, row: str = "row") -> Read:
    """Return a reader of a fact about the routers of a block."""
    return lambda view, block: getattr(view.world.fleet, name)[block[row]]


def values(name: str) -> Read:
    """Return a reader of a block's own array."""
    return lambda _view, block: block[name]


def constant(value: str | bool | None) -> Read:
    """Return a reader that gives the same value for every row.

    Numbers are rendered from arrays: `lambda _view, block: np.full(len(block), 25)`.
    """
    return lambda _view, block: [value] * len(block)
