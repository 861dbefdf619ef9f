"""Confirming pushed events by polled ones: which row of each kind is the same event.

The polled row is the truth. A pushed row counts only until a polled one confirms it, in the same
transaction as the later of the two. The rule, first match wins:

1. The push carries the event's UUID: the polled record with this UUID confirms it.
2. Otherwise a polled record confirms it that has the same device (or, without a device, the same
   account), the same type, the same text and the same `info` as JSON, and was detected less than a
   second apart. Records whose own UUID was pushed are left out. Of several, those detected at the
   same instant belong together, then the rest in the order of time, one to one. So the same alert
   raised twice within a second stays two alerts.

A push without any time of its own cannot be matched by the second rule; it stays unconfirmed.

Pairs of the second rule may change as further pushes and records arrive, because only then is it
known which of two look-alikes a push belongs to.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa

from fleetlake.decoding.pushed import WITHOUT_ID
from fleetlake.endpoints import ENDPOINTS, PUSHED
from fleetlake.endpoints.model import Endpoint
from fleetlake.lake.connection import Lake
from fleetlake.lake.loads import Load, bounds_of
from fleetlake.text.quoting import literal, quoted

SAME_INSTANT = timedelta(seconds=1)
"""Detection times of the same event differ by less: some are in whole seconds."""

_MARGIN = timedelta(days=1)
"""How much later than it was detected an event may have been created, or pushed."""

_TIMES = ("alerted_at", "received_at", "created_at", "detected_at")
_DEVICE = "coalesce('router ' || router_id, 'account ' || account_id)"
_AT = "coalesce(detected_at, created_at)"
_HAS_NO_ID = f"starts_with(push_id, {literal(WITHOUT_ID)})"
_INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class _Span:
    """The times between which both rows of any new pair are."""

    low: datetime
    high: datetime

    @property
    def parameters(self) -> dict[str, datetime]:
        return {"low": self.low, "high": self.high}


def polled_endpoint() -> Endpoint:
    """Return the endpoint whose records confirm the pushed ones."""
    return ENDPOINTS[str(PUSHED.confirmed_by)]


def confirm(lake: Lake, load: Load) -> None:
    """Pair the rows that a load has just written with those of the other kind.

    Joins the open transaction. A load of polled records costs one small query while no push was
    ever received near their time.
    """
    is_polled = load.endpoint.name == PUSHED.confirmed_by
    if load.rows.num_rows and (is_polled or load.endpoint.name == PUSHED.name):
        span = _span_of(load.rows)
        if not is_polled or _has_pushes(lake, span):
            _confirm(lake, span)


def confirm_all(lake: Lake) -> None:
    """Pair everything that can be paired, in the open transaction."""
    [(low, high)] = lake.rows(
        "select min(least(alerted_at, received_at)), max(greatest(alerted_at, received_at)) "
        f"from raw.{PUSHED.name}"
    )
    if low is not None:
        _confirm(lake, _Span(_shifted(low, -_MARGIN), _shifted(high, _MARGIN)))


def drop_dangling(lake: Lake, *, polled_from: datetime | None = None) -> None:
    """Forget confirmations whose pushed row is gone, in the open transaction.

    With `polled_from`, forget those too whose polled row from then on is gone: their pushes count
    again.
    """
    if not lake.rows("select 1 from meta.confirmations limit 1"):
        return
    key = quoted(polled_endpoint().key[0])
    lake.execute(
        "delete from meta.confirmations "
        f"where push_id not in (select push_id from raw.{PUSHED.name}) or (alerted_at >= ? "
        f"and alert_id not in (select {key} from raw.{polled_endpoint().name}))",
        [polled_from],
    )


def _span_of(rows: pa.Table) -> _Span:
    bounds = [_bounds(rows[name]) for name in _TIMES if name in rows.column_names]
    given = [bound for bound in bounds if bound]
    low, high = min(low for low, _ in given), max(high for _, high in given)
    return _Span(_shifted(low, -_MARGIN), _shifted(high, _MARGIN))


def _bounds(instants: pa.ChunkedArray) -> tuple[datetime, datetime] | None:
    """Return the first and the last of the given times, or None if none is given."""
    if not instants.null_count:
        return bounds_of(instants)
    given = [instant for instant in instants.to_pylist() if instant is not None]
    return (min(given), max(given)) if given else None


def _shifted(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment + by
    except OverflowError:
        return moment


def _has_pushes(lake: Lake, span: _Span) -> bool:
    if not lake.recall(f"select 1 from raw.{PUSHED.name} limit 1"):
        return False
    found = lake.rows(
        f"select 1 from raw.{PUSHED.name} where alerted_at between $low and $high limit 1",
        span.parameters,
    )
    return bool(found)


def _confirm(lake: Lake, span: _Span) -> None:
    _confirm_by_id(lake, span)
    alike = lake.rows(_ALIKE, span.parameters)
    if alike:
        _confirm_by_content(lake, span, alike)


_UNCONFIRMED = (
    f"select * from raw.{PUSHED.name} anti join "
    "(select push_id from meta.confirmations where alerted_at between $low and $high) "
    "using (push_id) where alerted_at between $low and $high"
)


def _confirm_by_id(lake: Lake, span: _Span) -> None:
    key = quoted(polled_endpoint().key[0])
    lake.execute(
        "insert into meta.confirmations by name "
        "select push_id, min(a.alert_id) as alert_id, min(p.alerted_at) as alerted_at, "
        f"now() as confirmed_at from ({_UNCONFIRMED}) p "
        f"join (select {key} as alert_id, lower({key}) as push_id "
        f"from raw.{polled_endpoint().name} where created_at between $low and $high) a "
        "using (push_id) group by push_id",
        span.parameters,
    )


_ALIKE = (
    f"select distinct device, type from (select {_DEVICE} as device, type, {_AT} as moment "
    f"from ({_UNCONFIRMED}) where {_HAS_NO_ID}) p join (select {_DEVICE} as device, type, "
    f"{_AT} as moment from raw.{polled_endpoint().name} where created_at between $low and $high) a "
    "using (device, type) where abs(epoch_us(p.moment) - epoch_us(a.moment)) < 1000000"
)
"""The devices and types with an unconfirmed push that a polled record may confirm."""


@dataclass(frozen=True, order=True)
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
        pushes = _by_content(lake.rows(_PUSHES, span.parameters))
        polled = _by_content(lake.rows(_POLLED, span.parameters))
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
    new = [push for push in changed if push in after]
    pairs = pa.table({"push_id": new, "alert_id": [after[push] for push in new]})
    with lake.view("pairs", pairs):
        lake.execute(
            "insert into meta.confirmations by name select push_id, pairs.alert_id, alerted_at, "
            f"now() as confirmed_at from pairs join raw.{PUSHED.name} using (push_id) "
            "where alerted_at between $low and $high",
            span.parameters,
        )


_LOOKS = f"{_AT} as moment, {_DEVICE} as device, type, friendly_info, info::varchar"
_PUSHES = (
    f"select push_id, c.alert_id, p.* exclude (push_id) from (select push_id, {_LOOKS} "
    f"from raw.{PUSHED.name} where alerted_at between $low and $high and {_HAS_NO_ID}) p "
    "left join (select push_id, alert_id from meta.confirmations "
    "where alerted_at between $low and $high) c using (push_id) "
    "semi join alike using (device, type) where moment is not null"
)
_POLLED = (
    f"select alert_id, null, a.* exclude (alert_id) from (select "
    f"{quoted(polled_endpoint().key[0])} as alert_id, {_LOOKS} "
    f"from raw.{polled_endpoint().name} where created_at between $low and $high) a "
    "semi join alike using (device, type) where lower(alert_id) not in "
    f"(select push_id from raw.{PUSHED.name} where alerted_at between $low and $high)"
)


def _by_content(rows: Iterable[tuple[Any, ...]]) -> Mapping[Content, list[_Event]]:
    """Return events by what must be the same; JSON is compared without the order of members."""
    found: dict[Content, list[_Event]] = defaultdict(list)
    for id_, partner, at, device, type_, text, info in rows:
        found[device, type_, text, _sorted(info)].append(_Event(at, id_, partner))
    return {content: sorted(events, key=_order) for content, events in found.items()}


def _order(event: _Event) -> tuple[datetime, str]:
    return event.at, event.id


def _sorted(info: str | None) -> bytes | None:
    if info is None:
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
