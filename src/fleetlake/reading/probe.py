"""Learning how an undescribed list of the service is read, from a few bounded pages.

A filter works only if it changed the response as expected: a service may ignore a filter that it
does not know, or refuse it.
"""

import asyncio
import operator as operators
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import msgspec

from fleetlake.decoding.field_kinds import Field, observed_fields, value_at
from fleetlake.decoding.records import opened
from fleetlake.decoding.timeuuid import embedded_ticks, embedded_time
from fleetlake.decoding.values import json_text, link_query, read_value, relation_id, without_hosts
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.endpoint_files import PARAMETER, PATH
from fleetlake.endpoints.model import (
    MAX_IDS_PER_CALL,
    MAX_RECORDS_PER_PAGE,
    MAX_RECORDS_PER_V3_PAGE,
    Api,
    Walk,
)
from fleetlake.endpoints.vocabulary import VOCABULARY
from fleetlake.errors import (
    CredentialsRefused,
    EndpointUnavailable,
    PageUnreadable,
    RequestRejected,
    ServiceError,
    SettingsError,
    Unreachable,
    UsageError,
)
from fleetlake.service.client import Client
from fleetlake.settings import Settings
from fleetlake.text.plain import one_line
from fleetlake.text.wording import counted

TRIAL = 50
"""Records per call of a trial."""

MAX_SINGLE_IDS = 10
"""Ids that are tried one by one until one of them has records."""

MAX_ATTEMPTS = 3
"""Maximum attempts per page: a service may answer a filter that it does not know with 500."""

_SIZES = {Api.V2: MAX_RECORDS_PER_PAGE, Api.V3: MAX_RECORDS_PER_V3_PAGE}
_SIZE_NAMES = {Api.V2: "limit", Api.V3: "page[size]"}
_BEGINS = re.compile(r"(?:^|[._])(created|start|begun|detected|occurred|recorded|timestamp)")
CHANGES = re.compile(r"(?:^|[._])(update|change|modif|last_)")
ENDS = re.compile(r"(?:^|[._])(end|finish|complete|close|resolve)")


@dataclass(frozen=True)
class Answer:
    """One page as it came: its records, its size if it says so, and the query of the next page."""

    records: list[Any]
    limit: int | None
    next: Mapping[str, str] | None


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A required filter: its parameter, the ids that were asked for, and the list of such ids.

    `field` is the field of the records that holds the id, or None if they do not have it.
    """

    parameter: str
    ids: tuple[str, ...]
    takes_many: bool
    field: str | None = None

    @property
    def thing(self) -> str:
        """What the ids belong to, such as `router`."""
        return thing_of(self.parameter)

    @property
    def source(self) -> str:
        """The list with these ids, by the service's habit."""
        return f"{self.thing}s"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What a probe learned about a list. `again` says what changed when it was asked again.

    `unanswered` trials got no answer, so what they would have shown is not known.
    """

    path: str
    api: Api
    records: Sequence[Any]
    pages: int
    is_whole: bool
    fields: Sequence[Field]
    again: str
    unanswered: int = 0
    page_size: int | None = None
    required: Filter | None = None
    cursor: tuple[Walk, str] | None = None
    order_by: str | None = None
    event_time: Field | None = None
    window: tuple[str, str] | None = None


def probe_list(
    settings: Settings,
    path: str,
    *,
    api: Api,
    pages: int = 3,
    per: str | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Learned:
    """Return what the first pages of a list say, and which filters work on it.

    `per` is a required filter, as NAME=ID,ID. Raises: ServiceError if the list cannot be read;
    UsageError if it has no records, or requires a filter that is not known.
    """
    if not PATH.fullmatch(path):
        raise UsageError(
            f"{one_line(path)!r} is not a path of a list.",
            remedy="Write it as after the API's root, such as beta/exchange_sites.",
        )
    required = None
    if per is not None:
        name, _, ids = per.partition("=")
        required = Filter(parameter=name, ids=tuple(ids.split(",")), takes_many=True)
        if not (PARAMETER.fullmatch(name) and all(required.ids)):
            raise UsageError(f"--per {per!r} is not a filter.", remedy="Write it as NAME=ID,ID.")

    if api is Api.V3 and settings.v3_root() is None:
        raise SettingsError(
            "v3 is not configured.",
            remedy="Set FLEETLAKE_V3_BASE_URL and FLEETLAKE_V3_TOKEN.",
        )
    attempts = min(settings.retry_attempts, MAX_ATTEMPTS)
    settings = settings.model_copy(update={"retry_attempts": attempts})

    async def run() -> Learned:
        async with Client(settings, transport=transport) as client:
            return await _probe(_List(client, path, api, required), path, api, pages)

    return asyncio.run(run())


async def _probe(asked: "_List", path: str, api: Api, pages: int) -> Learned:
    began = time.monotonic()
    first = await asked.first()
    records, answer, count = list(first.records), first, 1
    while answer.next and count < pages:
        answer = await asked.get(answer.next)
        records, count = records + answer.records, count + 1
    if not records:
        raise UsageError(
            f"{path} has no records, so there is nothing to learn.",
            remedy="Probe it once it has some, or describe it by hand.",
        )
    fields = observed_fields(records, api, whole=VOCABULARY)
    size = first.limit or len(first.records) if first.next else _SIZES[api]
    learned = Learned(
        path=path,
        api=api,
        records=records,
        pages=count,
        is_whole=not answer.next,
        fields=fields,
        again="",
        page_size=size if size < _SIZES[api] else None,
        required=asked.required,
        cursor=None if api is Api.V2 else (Walk.LINK, "page"),
    )
    if api is Api.V2:
        learned = await _with_window(asked, await _with_cursor(asked, learned, first), first)
    again = (await asked.tried({})).records
    change = _difference(first.records, again, time.monotonic() - began)
    return replace(learned, again=change, unanswered=asked.unanswered)


class _List:
    """The list that is probed, with its required filter once that is known."""

    def __init__(self, client: Client, path: str, api: Api, required: Filter | None) -> None:
        self._client, self._api, self.required = client, api, required
        self._path = f"{path}/" if api is Api.V2 else path
        self._fixed: dict[str, str] = {}
        self.unanswered = 0

    async def get(self, parameters: Mapping[str, str], *, size: int | None = None) -> Answer:
        """Return one page. Raises: ServiceError."""
        sized = {_SIZE_NAMES[self._api]: str(size or _SIZES[self._api])}
        return await self._client.get(
            self._path, sized | self._fixed | dict(parameters), read_answer, api=self._api
        )

    async def tried(self, parameters: Mapping[str, str], *, size: int | None = None) -> Answer:
        """Return one page, without records if the service refuses the request."""
        try:
            return await self.get(parameters, size=size)
        except CredentialsRefused:
            raise
        except ServiceError as error:
            self.unanswered += isinstance(error, Unreachable)
            return Answer([], None, None)

    async def first(self) -> Answer:
        """Return the first page; if the service asks for a filter, with it."""
        if self.required is None:
            try:
                return await self.get({})
            except EndpointUnavailable as error:
                remedy = "Check the path, --api, and what the role of the keys may read."
                raise EndpointUnavailable(error.what, remedy=remedy) from None
            except RequestRejected as refusal:
                self.required = await self._wanted(refusal)
        thing, ids = self.required.thing, self.required.ids
        one, many = (thing, f"{thing}__in") if self._api is Api.V2 else (f"filter[{thing}]",) * 2
        answer = await self.tried({many: ",".join(ids)}) if len(ids) > 1 else Answer([], None, None)
        field = _field_with(answer.records, thing, ids)
        if field:
            self._fixed = {many: ",".join(ids)}
            self.required = Filter(parameter=many, ids=ids, takes_many=True, field=field)
            return answer
        for id_ in ids[:MAX_SINGLE_IDS]:
            self._fixed = {one: id_}
            answer = await self.tried({})
            if answer.records:
                break
        field = _field_with(answer.records, thing, [self._fixed[one]])
        self.required = Filter(parameter=one, ids=(id_,), takes_many=False, field=field)
        return answer if answer.records else await self.get({})

    async def _wanted(self, refusal: RequestRejected) -> Filter:
        """Return the filter that a refusal names, with ids of the list that has them.

        Raises: UsageError if it names none of a known list.
        """
        for word in re.findall(r"[\w\[\]]+", refusal.what.partition("returned")[2]):
            source = ENDPOINTS.get(f"{thing_of(word)}s")
            if source is None or source.api is not self._api or source.service:
                continue
            sized = {_SIZE_NAMES[self._api]: str(min(_SIZES[self._api], MAX_IDS_PER_CALL))}
            page = await self._client.get(source.path, sized, read_answer, api=self._api)
            if ids := tuple(str(value_at(one, source.key[0])) for one in page.records):
                return Filter(parameter=word, ids=ids, takes_many=True)
        raise UsageError(
            f"The service refused the list without a filter: {refusal.what}",
            remedy="If it requires one, name it with some ids: --per NAME=ID,ID.",
        )


def read_answer(body: bytes) -> Answer:
    """Return a page of either API. Raises: PageUnreadable."""
    try:
        page = opened(body, msgspec.json.decode)[1]
        meta, links = page.get("meta") or {}, page.get("links") or {}
        limit = meta.get("limit")
        following = link_query(meta.get("next") or links.get("next"))
        if not isinstance(page["data"], list) or not isinstance(limit, (int, type(None))):
            raise TypeError  # noqa: TRY301 - like the errors of the lines above
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise PageUnreadable(
            "The response is not a list of records.",
            remedy="`fleetlake endpoints probe` knows lists with the members data and meta or "
            "links. Check the path and --api.",
        ) from None
    return Answer(page["data"], limit, following)


def thing_of(parameter: str) -> str:
    """Return what a filter's ids belong to.

    >>> thing_of("router__in"), thing_of("filter[exchange_network]")
    ('router', 'exchange_network')
    """
    return parameter.removeprefix("filter[").removesuffix("]").removesuffix("__in")


def _field_with(records: Sequence[Any], thing: str, ids: Collection[str]) -> str | None:
    """Return the field of the records that holds one of the ids for each of them."""
    for name in (thing, f"{thing}_id", f"attributes.{thing}", f"relationships.{thing}.data.id"):
        values = [value_at(record, name) for record in records]
        with suppress(ValueError):
            found = {str(v if name.startswith("rel") else _id_in(v)) for v in values}
            if values and found <= {*ids}:
                return name
    return None


def _id_in(value: Any) -> object:
    try:
        return relation_id(value)
    except ValueError:
        return value


def sort_key(kind: Kind | None, value: Any) -> Any:
    """Return a value as it compares with others of its kind. Raises: ValueError."""
    if kind is Kind.TIMEUUID:
        return embedded_ticks(value)
    return read_value(kind or Kind.TEXT, value)


def filter_works(
    field: Field, operator: str, bound: Any, before: Sequence[Any], after: Sequence[Any]
) -> bool:
    """Return whether a filter did what its name says.

    `before` is the page without it, of the same size: some of its records must not meet the
    filter, so that a page of a service that ignores it differs from one that applies it.
    """
    compare = getattr(operators, {"gte": "ge", "lte": "le"}.get(operator, operator))
    try:
        limit = sort_key(field.kind, bound)
        was, now = (
            [compare(sort_key(field.kind, value_at(one, field.name)), limit) for one in records]
            for records in (before, after)
        )
    except (ValueError, TypeError):  # a null, or a value of another kind
        return False
    is_whole = len(after) >= TRIAL or sum(was) <= len(after)
    return bool(now) and all(now) and not all(was) and is_whole


def is_ascending(field: Field, records: Sequence[Any]) -> bool:
    """Return whether records come in the order of a field, from two different values on."""
    try:
        values = [sort_key(field.kind, value_at(record, field.name)) for record in records]
        return len({*values}) > 1 and values == sorted(values)
    except (ValueError, TypeError):
        return False


def _bound(field: Field, records: Sequence[Any]) -> Any:
    """Return a value of the field in the middle of the records', or None if all are the same."""
    values = {value_at(record, field.name) for record in records} - {None}
    if len(values) < 2:  # noqa: PLR2004
        return None
    return sorted(values, key=lambda value: sort_key(field.kind, value))[len(values) // 2]


async def _with_cursor(asked: _List, learned: Learned, first: Answer) -> Learned:
    """Return what was learned, with the cursor that works."""
    before = first.records[:TRIAL]
    for field in learned.fields:
        if field.kind is Kind.TIMEUUID and field.is_unique:
            order, page = {}, before
            operator = "gt" if is_ascending(field, before) else "lt"
            if operator == "lt" and "." not in field.name:
                order = {"order_by": field.name}
                ordered = (await asked.tried(order, size=TRIAL)).records
                operator = "gt" if is_ascending(field, ordered) else "lt"
                order, page = (order, ordered) if operator == "gt" else ({}, before)
            is_ordered = is_ascending(field, page if operator == "gt" else page[::-1])
            if is_ordered and await _works(asked, field, operator, page, order):
                cursor = (Walk.TIMEUUID, f"{parameter_of(field)}__{operator}")
                return replace(learned, cursor=cursor, order_by=order.get("order_by"))
    by_id = next((f for f in learned.fields if f.name == "id" and f.kind is Kind.ID), None)
    if by_id and await _works(asked, by_id, "gt", before, {}, is_ordered=True):
        return replace(learned, cursor=(Walk.ID_AFTER, "id__gt"))
    after = (await asked.tried({"offset": "1"}, size=TRIAL)).records
    is_moved = len(before) > 1 and _texts(after)[:1] == _texts(before)[1:2]
    return replace(learned, cursor=(Walk.OFFSET, "offset")) if is_moved else learned


async def _with_window(asked: _List, learned: Learned, first: Answer) -> Learned:
    """Return what was learned, with a pair of filters that work on the time of events."""
    before = first.records[:TRIAL]
    times = [f for f in learned.fields if f.kind is Kind.TIME and None not in f.values]
    begins = [f for f in times if _BEGINS.search(f.name) and not CHANGES.search(f.name)]
    # The bounds of a window are UUIDs if their names say so.
    uuids = [f for f in learned.fields if f.kind is Kind.TIMEUUID and None not in f.values]
    ids = [f for f in uuids if "timeuuid" in f.name]
    has_end = any(ENDS.search(f.name) for f in learned.fields)
    if not ids and not has_end and any(CHANGES.search(f.name) for f in times):
        return learned  # a list of things that change, not of events
    for event_time in begins:
        for field in (*(one for one in ids if _is_time_of(one, event_time)), event_time):
            for pair in (("gte", "lt"), ("gt", "lte")):
                if all([await _works(asked, field, operator, before, {}) for operator in pair]):
                    start, end = (f"{parameter_of(field)}__{operator}" for operator in pair)
                    return replace(learned, event_time=event_time, window=(start, end))
    return learned


async def _works(
    asked: _List,
    field: Field,
    operator: str,
    before: Sequence[Any],
    more: Mapping[str, str],
    *,
    is_ordered: bool = False,
) -> bool:
    bound = _bound(field, before)
    if bound is None:
        return False
    parameters = {f"{parameter_of(field)}__{operator}": str(bound), **more}
    after = (await asked.tried(parameters, size=TRIAL)).records
    is_in_order = not is_ordered or len(after) == 1 or is_ascending(field, after)
    return filter_works(field, operator, bound, before, after) and is_in_order


def parameter_of(field: Field) -> str:
    """Return the name of a field in filters."""
    return field.name.replace(".", "__")


def _is_time_of(timeuuid: Field, event_time: Field) -> bool:
    """Return whether the UUIDs embed the time of another field, to the second."""
    pairs = list(zip(timeuuid.values, event_time.values, strict=True))[:TRIAL]
    gaps = [
        embedded_time(one) - datetime.fromisoformat(read_value(Kind.TIME, other))
        for one, other in pairs
    ]
    return all(abs(gap) < timedelta(seconds=1) for gap in gaps)


def _difference(before: Sequence[Any], after: Sequence[Any], seconds: float) -> str:
    """Return in words how a page differs from itself some seconds later; hosts may vary."""
    were, are = {*_texts(before)}, {*_texts(after)}
    return f"{len(were - are)} of {counted(len(were), 'record')} differed {seconds:.1f} s later"


def _texts(records: Sequence[Any]) -> list[str]:
    """Return records as texts, without the hosts of the service, which vary from read to read."""
    return [without_hosts(json_text(record)) for record in records]
