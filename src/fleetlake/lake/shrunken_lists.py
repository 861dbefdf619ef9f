"""Records missing from a complete read of a list: deleted, or unconfirmed.

An empty or short list may be an error, or the result of keys with fewer rights. So if a list loses
more than a certain share of its records, the loss is unconfirmed: their versions stay open until a
person accepts the loss or the records return. `meta.absent` holds their keys. Later loads count
them neither as lost nor as present, so that new records cannot offset them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.connection import Lake
from fleetlake.lake.current import same_key
from fleetlake.lake.loads import Batch, Whole
from fleetlake.lake.rejects import waiting_rejects
from fleetlake.lake.run_state import RunState
from fleetlake.text.quoting import quoted

FEW = 3
"""Number of records that any list may lose at once, e.g. two of three routers."""

_Id = int | str | None  # of a fan-out
_Counts = Counter[_Id]


@dataclass(frozen=True, kw_only=True)
class MissingRecords:
    """Keys of the records missing from a list, out of `held` current ones.

    The versions of the `ended` records end. Those of the `unconfirmed` records stay open. With
    `asks_again`, nothing is decided: the list must be read once more.
    """

    ended: frozenset[str] = frozenset()
    unconfirmed: frozenset[str] = frozenset()
    held: int = 0
    is_noted: bool = False
    asks_again: bool = False


def judge_missing(state: RunState, batch: Batch, whole: Whole) -> MissingRecords:
    """Decide what happens to the records that are missing from a complete list.

    Updates `meta.absent` in the open transaction, unless the list must be read once more.
    """
    lake = state.lake
    gone, before = _gone(lake, batch), state.unconfirmed.get(batch.endpoint.name, frozenset())
    if not gone and not before:
        return MissingRecords()
    held = _held(lake, batch)
    # A rejected record has no readable key, so it may be any of the missing records.
    unreadable = waiting_rejects(lake, batch.endpoint, batch.rejects) if gone else 0
    divided = _divided(whole, gone, before, held, unreadable)
    if divided is None:
        return MissingRecords(asks_again=True)
    ended, unconfirmed = divided
    if unconfirmed != before:
        state.forget("meta.absent")
        _note(lake, batch, before - unconfirmed, unconfirmed - before)
    _record_changes(
        lake,
        batch,
        noted=len(unconfirmed - before),
        accepted=len(gone) if whole.shrink.is_accepted else 0,
        returned=len(before - gone.keys()),
    )
    return MissingRecords(
        ended=ended, unconfirmed=unconfirmed, held=held.total(), is_noted=unconfirmed != before
    )


def _divided(
    whole: Whole, gone: Mapping[str, _Id], before: frozenset[str], held: _Counts, unreadable: int
) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the keys of the missing records whose versions end, and of the unconfirmed ones.

    Returns None if the list must be read once more before a decision.
    """
    if whole.shrink.is_accepted:
        return frozenset(gone), frozenset()
    asked = None if whole.asked is None else {id_ for walk in whole.asked for id_ in walk}
    retired = {key for key, id_ in gone.items() if asked is not None and id_ not in asked}
    still = before & gone.keys() - retired
    new = gone.keys() - retired - before
    lost = Counter(gone[key] for key in new)
    held = held - Counter(gone[key] for key in still)
    if whole.may_ask_again and _is_too_much(whole, lost, held, few=0, unreadable=unreadable):
        return None
    if _is_too_much(whole, lost, held, few=FEW, unreadable=unreadable):
        return frozenset(retired), frozenset(still | new)
    return frozenset(retired if unreadable else retired | new), frozenset(still)


def _is_too_much(whole: Whole, lost: _Counts, held: _Counts, *, few: int, unreadable: int) -> bool:
    """Return whether the list, or the response of one walk, has lost too large a share."""
    walks = whole.asked or ()
    of_walks = [(sum(lost[i] for i in walk), sum(held[i] for i in walk)) for walk in walks]
    shares = [(lost.total(), held.total()), *of_walks]
    return any(
        losses - unreadable > few and (losses - unreadable) * 100 > whole.shrink.limit_pct * known
        for losses, known in shares
    )


def _key(batch: Batch) -> str:
    return f"json_array({', '.join(quoted(name) for name in batch.endpoint.key)})::varchar"


def _partition(batch: Batch) -> str:
    fan_out = batch.endpoint.fan_out
    return quoted(fan_out.partition) if fan_out else "null"


_IS_CURRENT = "valid_to is null and account_profile = ?"


def _gone(lake: Lake, batch: Batch) -> dict[str, _Id]:
    """Return the current records missing from the list: their keys and fan-out ids."""
    others = f"not exists (select 1 from batch b where {same_key(batch.endpoint)})"
    found = lake.rows(
        f"select {_key(batch)}, {_partition(batch)} from raw.{quoted(batch.endpoint.name)} t "
        f"where {_IS_CURRENT} and {others}",
        [batch.profile],
    )
    return dict(found)


def _held(lake: Lake, batch: Batch) -> _Counts:
    """Return the number of current records by fan-out id."""
    found = lake.rows(
        f"select {_partition(batch)} as fan_out_id, count(*) "
        f"from raw.{quoted(batch.endpoint.name)} where {_IS_CURRENT} group by fan_out_id",
        [batch.profile],
    )
    return Counter(dict(found))


def _note(lake: Lake, batch: Batch, back: frozenset[str], away: frozenset[str]) -> None:
    """Update `meta.absent`: remove the records that are `back`, add those that are `away`."""
    stream = [batch.profile, batch.endpoint.name]
    if back:
        with lake.view("back", pa.table({"record_key": sorted(back)})):
            lake.execute(
                "delete from meta.absent where account_profile = ? and endpoint = ? "
                "and record_key in (select record_key from back)",
                stream,
            )
    if away:
        with lake.view("away", pa.table({"record_key": sorted(away)})):
            lake.execute(
                "insert into meta.absent by name select ? as account_profile, ? as endpoint, "
                "record_key, ?::timestamptz as absent_since from away",
                [*stream, batch.seen_at],
            )


def _record_changes(lake: Lake, batch: Batch, *, noted: int, accepted: int, returned: int) -> None:
    """Record in the audit trail what has changed since the last load, by number of records."""
    name = batch.endpoint.name
    changes = {
        f"{name} lost too many records at once; their versions stay open.": noted,
        f"A person accepted that these records of {name} are gone.": accepted,
        f"Missing records of {name} are no longer missing.": returned,
    }
    for summary, rows in changes.items():
        if rows:
            record_event(
                lake,
                EventKind.SHRUNK_LIST,
                summary,
                profile=batch.profile,
                endpoint=name,
                rows=rows,
            )


def end_versions(lake: Lake, batch: Batch, keys: frozenset[str]) -> int:
    """End the current versions of the records with these keys; return their number."""
    if not keys:
        return 0
    with lake.view("leaving", pa.table({"record_key": sorted(keys)})):
        return lake.number(
            f"update raw.{quoted(batch.endpoint.name)} set valid_to = greatest(?, valid_from) "
            f"where {_IS_CURRENT} and {_key(batch)} in (select record_key from leaving)",
            [batch.seen_at, batch.profile],
        )
