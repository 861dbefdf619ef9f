"""The row of an endpoint: where its records are, how to page through them, how to store them.

Rows are plain frozen values built by keyword; nothing here does I/O. A row whose walk might never
end raises an error when it is constructed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property

from fleetlake.endpoints.columns import Column, Kind

MAX_IDS_PER_CALL = 100
"""Values the service takes in one `__in` filter (service contract, Limits)."""

MAX_RECORDS_PER_PAGE = 500
"""Maximum page size of v2 (service contract, Limits)."""

MAX_RECORDS_PER_V3_PAGE = 50
"""Maximum `page[size]` of v3."""


class Api(StrEnum):
    """How records come: from a version of the service's API, with its own root, keys and envelope.

    Pushed records come by themselves, so nothing of them is ever requested.
    """

    V2 = "v2"
    V3 = "v3"
    PUSH = "push"


@dataclass(frozen=True, kw_only=True)
class Service:
    """Another service whose lists a project describes, and how its answers differ from v2's.

    `records` are the members that lead to the records; none if the answer is the list itself.
    `next` are those that lead to the address of the next page; none if the header `Link` has it.
    `error` leads to what an answer with status 200 has instead of records; none if it never does.
    """

    name: str
    root: str
    records: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    error: tuple[str, ...] = ()
    page_size_parameter: str = "limit"


class Walk(StrEnum):
    """How the next page is requested."""

    TIMEUUID = "timeuuid"  # `next` carries a version-1 UUID, ordered by embedded time
    ACTION_ID = "action id"  # `next` carries an activity's id
    ID_AFTER = "id after"  # ids ascend; ask for ids above the highest seen
    OFFSET = "offset"  # `next` carries a start index
    LINK = "link"  # the whole query of `next` is the next request
    NONE = "none"  # nothing is requested, so there is no page


class Mode(StrEnum):
    """How records are stored."""

    APPEND = "append"  # a record never changes: keep it once
    UPSERT = "upsert"  # a record changes: keep its latest content
    HISTORY = "history"  # a record changes: keep every version, with valid_from and valid_to


class Group(StrEnum):
    """Endpoints that share a schedule, the most urgent first."""

    EVENTS = "events"  # events, with one cursor for the fleet: cheap and urgent
    ACTIVITY = "activity"  # who did what: records expire at the service
    SERIES = "series"  # samples and fixes by device, and the lists that say which devices moved
    READINGS = "readings"  # latest values, which the service overwrites: unread ones are lost
    INVENTORY = "inventory"  # accounts, people, devices


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """The query parameter that moves a walk forward, and how its values are ordered."""

    walk: Walk
    parameter: str

    def __post_init__(self) -> None:
        """Refuse a cursor that could loop forever."""
        one_way = self.walk not in {Walk.OFFSET, Walk.LINK, Walk.NONE}
        if one_way and not self.parameter.endswith(("__gt", "__lt")):
            raise ValueError(f"a {self.walk} cursor must move in one direction: {self.parameter}")

    @property
    def is_newest_first(self) -> bool:
        """True when each page is older than the one before."""
        return self.parameter.endswith("__lt")


@dataclass(frozen=True, kw_only=True)
class WindowFilters:
    """The pair of filters that limit an endpoint's event time.

    The names of the service's filters end in their operators. For another service, `operators`
    says which they are, such as `(">=", "<")`.
    """

    start: str
    end: str
    operators: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Refuse bounds whose operator does not show which side they limit."""
        if self.operators is not None:
            is_window = self.operators[0] in {">", ">="} and self.operators[1] in {"<", "<="}
        else:
            is_window = self.start.endswith(("__gt", "__gte"))
            is_window = is_window and self.end.endswith(("__lt", "__lte"))
        if not is_window:
            raise ValueError(f"a window needs a lower and an upper bound: {self.start}, {self.end}")

    @property
    def is_start_excluded(self) -> bool:
        """True if a record at the lower bound itself is not returned."""
        return self.operators[0] == ">" if self.operators else self.start.endswith("__gt")

    @property
    def is_end_included(self) -> bool:
        """True if a record at the upper bound itself is returned."""
        return self.operators[1] == "<=" if self.operators else self.end.endswith("__lte")


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A list that shows when something happened to an id: its table, and two of its columns.

    Only records of these `types` count, if there are any.
    """

    endpoint: str
    id: str
    at: str
    types: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FanOut:
    """A required filter: the endpoint is read per id, for the ids that another endpoint lists.

    `source` names that endpoint; its key is the id. With `listed_in`, the ids are those in these
    columns of it. `parameter` takes one id if `ids_per_call` is 1, otherwise a list. `partition` is
    the column of the id. `is_stamped` means that the record does not contain the id, so it is taken
    from the call.

    With `moved`, ids that have not changed according to a bulk list are not requested. An id is
    requested before its turn after an event in one of the lists `urged_by`.
    """

    parameter: str
    source: str
    ids_per_call: int = MAX_IDS_PER_CALL
    partition: str
    is_stamped: bool = False
    moved: Moved | None = None
    urged_by: tuple[Moved, ...] = ()
    listed_in: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse more ids than the service takes."""
        if not 1 <= self.ids_per_call <= MAX_IDS_PER_CALL:
            raise ValueError(f"ids_per_call must be 1 to {MAX_IDS_PER_CALL}")
        if self.is_stamped and self.ids_per_call != 1:
            raise ValueError("an id can be added to records only if each call asks for one id")

    @property
    def freshness(self) -> timedelta:
        """How old an id's records may become, unless the settings say otherwise.

        A list that is read one id a call costs a hundred times as many calls.
        """
        return timedelta(hours=6 if self.ids_per_call == 1 else 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Endpoint:
    """One list of the service and the raw table it fills.

    `key` and `event_time` are column names. With `event_time` and `window` (always both), reads are
    limited by time and their ranges can be proven complete; without them, each read is a snapshot.
    `retention` is how long the service keeps a record. `resource` is the path if it differs from
    the name. `schedule` overrides the group that follows from the row. With `service`, the records
    are those of another service, whose answers are translated to v2's.

    Records that the service pushes have an event time and no window, because nothing is requested
    and nothing proven. `confirmed_by` names the endpoint that lists the same events.
    """

    name: str
    about: str
    key: tuple[str, ...]
    mode: Mode
    cursor: Cursor
    columns: tuple[Column, ...]
    event_time: str | None = None
    window: WindowFilters | None = None
    fan_out: FanOut | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    page_size: int = MAX_RECORDS_PER_PAGE
    retention: timedelta | None = None
    changes_until: str | None = None
    api: Api = Api.V2
    resource: str | None = None
    schedule: Group | None = None
    service: Service | None = None
    confirmed_by: str | None = None

    def __post_init__(self) -> None:
        """Refuse a row with contradictory fields."""
        if not self.is_requested:
            self._require_pushed()
        elif self.confirmed_by or self.cursor.walk is Walk.NONE:
            raise ValueError(f"{self.name}: only pushed records are confirmed and have no pages")
        names = {column.name for column in self.columns}
        wanted = {*self.key, *filter(None, (self.event_time, self.changes_until))}
        if not self.key or not wanted <= names:
            raise ValueError(f"{self.name}: no such columns: {sorted(wanted - names) or 'key'}")
        if self.is_requested and (self.event_time is None) != (self.window is None):
            raise ValueError(f"{self.name}: event_time and window need each other")
        if self.service is not None and self.cursor.walk is not Walk.LINK:
            raise ValueError(f"{self.name}: pages of another service are followed by their links")
        if self.mode is Mode.HISTORY and self.window is not None:
            raise ValueError(f"{self.name}: history is kept only of whole snapshots")

    def _require_pushed(self) -> None:
        is_event = self.mode is Mode.APPEND and self.event_time is not None
        if not (is_event and self.confirmed_by and self.cursor.walk is Walk.NONE):
            raise ValueError(f"{self.name}: pushed records are events that another list confirms")
        if self.window is not None or self.fan_out is not None:
            raise ValueError(f"{self.name}: pushed records are not requested")

    @property
    def is_requested(self) -> bool:
        """True if the records are read from the service; False if the service pushes them."""
        return self.api is not Api.PUSH

    @property
    def path(self) -> str:
        """Path relative to the API's root: with a trailing slash in v2, without one in v3."""
        is_slashed = self.api is Api.V2 and self.service is None
        return f"{self.resource or self.name}{'/' if is_slashed else ''}"

    @property
    def counted_as(self) -> str:
        """What its requests are counted as: the path, or the name if the path is another's too."""
        is_shared = self.fan_out is not None and bool(self.fan_out.listed_in)
        return self.name if is_shared or self.service else self.path

    @property
    def is_ordered(self) -> bool:
        """True if the service promises pages in the order of the event time."""
        return self.cursor.walk in {Walk.TIMEUUID, Walk.ACTION_ID}

    @cached_property
    def window_column(self) -> str | None:
        """Column that the window's filters compare."""
        if self.window is None:
            return None
        if "timeuuid" not in self.window.end:
            return self.event_time
        return next(column.name for column in self.columns if column.kind is Kind.TIMEUUID)

    @property
    def is_snapshot(self) -> bool:
        """True if each read takes the whole list."""
        return self.is_requested and self.window is None

    @property
    def is_live(self) -> bool:
        """True for events of the whole fleet that people wait for: read often, or pushed."""
        is_listed = self.is_snapshot or self.fan_out is not None
        return not is_listed and self.cursor.walk is not Walk.ACTION_ID

    @property
    def is_divisible(self) -> bool:
        """True if several loads can share the ids of the fan-out between them."""
        return self.fan_out is not None and not self.is_snapshot

    def column(self, name: str) -> Column:
        """Return the column of that name. Raises: KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{self.name} has no column {name}")

    @property
    def required(self) -> frozenset[str]:
        """Columns without which a record is quarantined."""
        stamped = {self.fan_out.partition} if self.fan_out and self.fan_out.is_stamped else set()
        return frozenset({*self.key, *([self.event_time] if self.event_time else [])} - stamped)

    @property
    def tracked(self) -> tuple[str, ...]:
        """Columns whose change is a change of the record."""
        return tuple(c.name for c in self.columns if c.is_tracked and c.name not in self.key)

    @property
    def untracked(self) -> tuple[tuple[str, ...], ...]:
        """Paths of the members whose change is not a change of the record."""
        return tuple(c.path for c in self.columns if not c.is_tracked)
