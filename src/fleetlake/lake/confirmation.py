"""Confirming pushed events by polled ones: which row of each kind is the same event.

The polled row is the truth. A pushed row counts only until a polled one confirms it, in the same
transaction as the later of the two. The rule, first match wins:

1. The push carries the event's UUID: the polled record with this UUID confirms it.
2. Otherwise a polled record confirms it that has the same device (or, without a device, the same
   account), the same type, the same text and the same `info` as JSON, and was detected less than a
   second apart. Records whose own UUID was pushed are left out. Of several, those detected at the
   same instant belong together, then the rest in the order of time, one to one. So the same alert
   raised twice within a second stays two alerts.

3. A push without any time of its own (the live service sends such, observed November 2026) is
   confirmed by the nearest record before it that has the same device, type and `info`, and the
   same text if it has one; the record was created within a day. Each record confirms one push.

Pairs of the second rule may change as further pushes and records arrive, because only then is it
known which of two look-alikes a push belongs to. Those of the third never change: any choice among
them leaves as many pushes, and an alert that was announced stays so.

If polls have read past a push of the third rule, and all records like it confirm other pushes, it
was sent again: its confirmation names no record.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from fleetlake.decoding.pushed import WITHOUT_ID
from fleetlake.endpoints import POLLED, PUSHED
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.loads import RowParts, bounds_of
from fleetlake.lake.watermarks import proven_intervals
from fleetlake.planning.intervals import Interval
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.tables_beside import statements_beside

SAME_INSTANT = timedelta(seconds=1)
"""Detection times of the same event differ by less: some are in whole seconds."""

PUSHED_WITHIN = timedelta(days=1)
"""A push without a time arrives at most this long after its event was created."""

CLOCKS_DIFFER = timedelta(minutes=1)
"""The receiver's clock may be this far behind the service's."""

_MARGIN = timedelta(days=1)
"""How much later than it was detected an event may have been created, or pushed."""

_TIMES = ("alerted_at", "received_at", "created_at", "detected_at")


_NAMES = {
    "pushed": PUSHED.name,
    "polled": POLLED.name,
    "key": quoted(POLLED.key[0]),
    "device": "coalesce('router ' || router_id, 'account ' || account_id)",
    "at": "coalesce(detected_at, created_at)",
    "has_no_id": f"starts_with(push_id, {literal(WITHOUT_ID)})",
    "is_untimed": "coalesce(detected_at, created_at) is null and created_at_timeuuid is null",
}
_WRITTEN = statements_beside(__file__, "confirmation.sql")
_NAMES["unconfirmed"] = _WRITTEN["unconfirmed"].format(**_NAMES)
_SQL = {name: sql.format(**_NAMES) for name, sql in _WRITTEN.items()}


_Span = dict[str, datetime]
"""The times `low` and `high` between which both rows of any new pair are."""


def confirm(
    lake: Lake,
    endpoint: Endpoint,
    proven: Mapping[str, Sequence[Interval]],
    rows: RowParts | None = None,
    *,
    has_pushes: bool,
) -> None:
    """Pair the rows that a load has just written with those of the other kind.

    Joins the open transaction, after what the load proves. A load of polled records costs one small
    query while no push was ever received near their time.
    """
    is_polled = endpoint.name == PUSHED.confirmed_by
    if not is_polled and endpoint.name != PUSHED.name:
        return
    span = _span_of(proven, rows)
    if span and (not is_polled or (has_pushes and _has_pushes(lake, span))):
        _confirm(lake, span)


def confirm_all(lake: Lake) -> None:
    """Pair everything that can be paired, in the open transaction."""
    [(low, high)] = lake.rows(
        "select min(least(alerted_at, received_at)), max(greatest(alerted_at, received_at)) "
        f"from raw.{PUSHED.name}"
    )
    if low is not None:
        _confirm(lake, _with_margin(low, high))


def drop_dangling(lake: Lake, *, polled_from: datetime | None = None) -> None:
    """Forget confirmations whose pushed row is gone, in the open transaction.

    With `polled_from`, forget those too whose polled row from then on is gone: their pushes count
    again.
    """
    if not lake.rows("select 1 from meta.confirmations limit 1"):
        return
    key = quoted(POLLED.key[0])
    lake.execute(
        "delete from meta.confirmations "
        f"where push_id not in (select push_id from raw.{PUSHED.name}) or (alerted_at >= ? and "
        f"coalesce(alert_id not in (select {key} from raw.{POLLED.name}), true))",
        [polled_from],
    )


def _span_of(proven: Mapping[str, Sequence[Interval]], rows: RowParts | None) -> _Span | None:
    """Return the times near the rows of a load, and near those that it proves; None if neither."""
    times = rows.columns([name for name in _TIMES if name in rows.schema.names]) if rows else None
    bounds = [_bounds(column) for column in times.columns] if times else []
    given = [bound for bound in bounds if bound]
    given += [(one.start, one.end) for ranges in proven.values() for one in ranges]
    if not given:
        return None
    low, high = min(low for low, _ in given), max(high for _, high in given)
    return _with_margin(low, high)


def _bounds(instants: pa.ChunkedArray) -> tuple[datetime, datetime] | None:
    """Return the first and the last of the given times, or None if none is given."""
    if len(instants) and not instants.null_count:
        return bounds_of(instants)
    given = [instant for instant in instants.to_pylist() if instant is not None]
    return (min(given), max(given)) if given else None


def _with_margin(low: datetime, high: datetime) -> _Span:
    span = {"low": low, "high": high}
    for name, margin in (("low", -_MARGIN), ("high", _MARGIN)):
        with suppress(OverflowError):
            span[name] += margin
    return span


def _has_pushes(lake: Lake, span: _Span) -> bool:
    found = lake.rows(
        f"select 1 from raw.{PUSHED.name} where alerted_at between $low and $high limit 1", span
    )
    return bool(found)


def _confirm(lake: Lake, span: _Span) -> None:
    lake.execute(_SQL["confirm_by_id"], span)
    if alike := lake.rows(_SQL["alike"], span):
        _confirm_by_content(lake, span, alike)
    _confirm_untimed(lake, span)


@dataclass(frozen=True)
class _Event:
    """One row of either kind; `partner` is what a push was paired with before."""

    at: datetime
    id: str
    partner: str | None = None


Content = tuple[Any, ...]


def _confirm_by_content(lake: Lake, span: _Span, alike: Sequence[tuple[str, str]]) -> None:
    """Pair again all look-alikes of these devices and types."""
    devices, types = (list(column) for column in zip(*alike, strict=True))
    with lake.view("alike", pa.table({"device": devices, "type": types})):
        pushes = _by_content(lake.rows(_SQL["pushes"], span))
        polled = _by_content(lake.rows(_SQL["polled"], span))
    before = {event.id: event.partner for events in pushes.values() for event in events}
    after = {
        push: alert
        for content, events in pushes.items()
        for push, alert in paired(events, polled.get(content, ())).items()
    }
    changed = [push for push, partner in before.items() if after.get(push) != partner]
    if not changed:
        return
    lake.execute(
        "delete from meta.confirmations where push_id in (select unnest(?::varchar[]))", [changed]
    )
    _add(lake, span, {push: after[push] for push in changed if push in after})


def _add(lake: Lake, span: _Span, found: Mapping[str, str | None]) -> None:
    alerts = pa.array(found.values(), pa.string())
    with lake.view("pairs", pa.table({"push_id": [*found], "alert_id": alerts})):
        lake.execute(_SQL["add"], span)


def _by_content(rows: Iterable[tuple[Any, ...]]) -> Mapping[Content, list[_Event]]:
    """Return events by what must be the same; JSON is compared without the order of members."""
    found: dict[Content, list[_Event]] = defaultdict(list)
    for id_, partner, at, device, type_, text, info in rows:
        found[device, type_, text, _sorted(info)].append(_Event(at, id_, partner))
    order = attrgetter("at", "id")
    return {content: sorted(events, key=order) for content, events in found.items()}


def _sorted(info: str | None) -> bytes | None:
    if info is None or info == "{}":  # a push has {} for what is not there
        return None
    return msgspec.json.encode(msgspec.json.decode(info), order="sorted")


def paired(pushes: Sequence[_Event], polled: Sequence[_Event]) -> dict[str, str]:
    """Return the partner of each push, by id; both are look-alikes in the order of time.

    Those detected at the same instant belong together; the rest are paired in order.
    """
    by_instant: dict[datetime, list[_Event]] = defaultdict(list)
    for event in reversed(polled):
        by_instant[event.at].append(event)
    pairs = {push: by_instant[push.at].pop() for push in pushes if by_instant[push.at]}
    taken = {event.id for event in pairs.values()}
    left = [push for push in pushes if push not in pairs]
    right = [event for event in polled if event.id not in taken]
    i = j = 0
    while i < len(left) and j < len(right):
        if abs(left[i].at - right[j].at) < SAME_INSTANT:
            pairs[left[i]] = right[j]
            i, j = i + 1, j + 1
        elif left[i].at < right[j].at:
            i += 1
        else:
            j += 1
    return {push.id: event.id for push, event in pairs.items()}


@dataclass(frozen=True)
class _Untimed:
    """A push without any time of its own; `is_read` says whether polls have read past it."""

    id: str
    received_at: datetime
    content: Content
    text: str | None
    is_read: bool


@dataclass(frozen=True)
class _Polled:
    at: datetime
    id: str
    text: str | None
    is_taken: bool


def _confirm_untimed(lake: Lake, span: _Span) -> None:
    """Settle the pushes without a time that a polled record is near enough to confirm."""
    pushes = _untimed(lake, span)
    if not pushes:
        return
    low, high = pushes[0].received_at - PUSHED_WITHIN, pushes[-1].received_at + CLOCKS_DIFFER
    devices, types = zip(*{push.content[:2] for push in pushes}, strict=True)
    polled: dict[Content, list[_Polled]] = defaultdict(list)
    with lake.view("alike", pa.table({"device": [*devices], "type": [*types]})):
        for at, id_, device, type_, info, text, is_taken in lake.rows(
            _SQL["polled_before"], {"low": low, "high": high}
        ):
            polled[device, type_, _sorted(info)].append(_Polled(at, id_, text, is_taken))
    if found := _settled(pushes, polled):
        _add(lake, span, found)


def _untimed(lake: Lake, span: _Span) -> list[_Untimed]:
    """Return the unconfirmed pushes without a time, in the order in which they arrived."""
    rows = lake.rows(_SQL["untimed"], span)
    read = {
        profile: [*chain.from_iterable(proven_intervals(lake, profile, POLLED).values())]
        for profile in {row[2] for row in rows}
    }
    return [
        _Untimed(
            id_,
            at,
            (device, type_, _sorted(info)),
            text,
            any(one.start <= at and at + CLOCKS_DIFFER < one.end for one in read[profile]),
        )
        for id_, at, profile, device, type_, info, text in rows
    ]


def _settled(
    pushes: Iterable[_Untimed], polled: Mapping[Content, Sequence[_Polled]]
) -> dict[str, str | None]:
    """Return the record that confirms each push, None for a push that was sent again."""
    free = {key: [one for one in alike if not one.is_taken] for key, alike in polled.items()}
    found: dict[str, str | None] = {}
    for push in pushes:
        left = free.get(push.content, [])
        nearest = _nearest(push, left)
        if nearest is not None:
            found[push.id] = left.pop(nearest).id
        elif push.is_read and _nearest(push, polled.get(push.content, ())) is not None:
            found[push.id] = None
    return found


def _nearest(push: _Untimed, alike: Sequence[_Polled]) -> int | None:
    """Return where the newest record is from before the push, or the first just after it."""
    now = bisect_right(alike, push.received_at, key=lambda one: one.at)
    first = bisect_right(alike, push.received_at - PUSHED_WITHIN, key=lambda one: one.at)
    last = bisect_right(alike, push.received_at + CLOCKS_DIFFER, key=lambda one: one.at)
    order = (*range(now - 1, first - 1, -1), *range(now, last))
    return next((n for n in order if push.text in (None, alike[n].text)), None)
