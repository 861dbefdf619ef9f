"""What a load must not bring back: rows past their table's days, and everything erased.

Consulted wherever rows are written, whichever command reads them, and by the comparison with the
service, which must not call such records missing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from fleetlake.decoding.arrow import EXTRA
from fleetlake.decoding.records import RejectedRecord
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.endpoints.relations import (
    Thing,
    identifiers,
    is_known_by_value,
    naming_columns,
    role,
    text_columns,
    thing_of_type,
)
from fleetlake.lake.connection import Lake
from fleetlake.lake.loads import Batch, bounds_of
from fleetlake.lake.retention_rules import events_kept_from
from fleetlake.lake.run_state import RunState
from fleetlake.lake.tombstones import Tombstones, add_tombstones, read_tombstones
from fleetlake.text.quoting import quoted


@dataclass(frozen=True, kw_only=True)
class Suppression:
    """What is withheld from one endpoint's rows."""

    endpoint: Endpoint
    kept_from: datetime | None
    tombstones: Tombstones

    def admitted(self, rows: pa.Table) -> pa.Table:
        """Return the rows that may be written; texts in them may still mention what was erased."""
        if self.kept_from and rows.num_rows:
            times = rows[self.endpoint.event_time]
            if bounds_of(times)[0] < self.kept_from:
                start = self.kept_from
                rows = rows.filter(pa.array([moment >= start for moment in times.to_pylist()]))
        withheld = self._erased(rows)
        return rows.filter(pa.array([not one for one in withheld])) if any(withheld) else rows

    def redacted(self, rows: pa.Table) -> pa.Table:
        """Return rows without the names, identifiers and addresses of what was erased."""
        if not (self.tombstones and rows.num_rows):
            return rows
        for column in text_columns(self.endpoint):
            rows = _mapped(rows, column.name, self.tombstones.redaction(column))
        if EXTRA in rows.column_names:
            rows = _mapped(rows, EXTRA, self.tombstones.redacted_json)
        return self._without_actors(rows)

    def admitted_rejects(self, rejects: Sequence[RejectedRecord]) -> list[RejectedRecord]:
        """Return the rejected records that do not mention what was erased."""
        if not self.tombstones:
            return list(rejects)
        return [
            reject for reject in rejects if not self.is_erased_record(reject.raw, reject.partition)
        ]

    def is_erased_record(self, raw: str, partition: str | None) -> bool:
        """Return whether a record as received belongs to what was erased, or mentions it."""
        fan_out = self.endpoint.fan_out
        asked = [t for t in Thing if fan_out and fan_out.partition == f"{t}_id"]
        if partition and any(self.tombstones.has(thing, partition) for thing in asked):
            return True
        own = next((str(t) for t in Thing if t.listing.name == self.endpoint.name), "")
        return self.tombstones.redacted_json(raw, own) != raw

    def _erased(self, rows: pa.Table) -> list[bool]:
        """Return for each row whether it belongs to what was erased; empty if none does."""
        if not (self.tombstones and rows.num_rows):
            return []
        found = [False] * rows.num_rows
        for thing in Thing:
            for name in naming_columns(self.endpoint, thing):
                ids = rows[name].to_pylist()
                found = [
                    f or self.tombstones.has(thing, i) for f, i in zip(found, ids, strict=True)
                ]
        if upon := role(self.endpoint, "object"):
            things = self._acting(rows, upon.id, upon.type)
            found = [f or t for f, t in zip(found, things, strict=True)]
        if is_known_by_value(self.endpoint):
            for column in identifiers(self.endpoint):
                values = rows[column.name].to_pylist()
                known = map(self.tombstones.has_value, values)
                found = [f or k for f, k in zip(found, known, strict=True)]
        return found

    def _acting(self, rows: pa.Table, id_: str, type_: str) -> list[bool]:
        pairs = zip(rows[id_].to_pylist(), rows[type_].to_pylist(), strict=True)
        return [
            (t := thing_of_type(name)) is not None and self.tombstones.has(t, i)
            for i, name in pairs
        ]

    def _without_actors(self, rows: pa.Table) -> pa.Table:
        """Return rows in which an erased actor has no id and no address."""
        by = role(self.endpoint, "actor")
        if by is None or not any(erased := self._acting(rows, by.id, by.type)):
            return rows
        for name in (by.id, *by.others):
            old = rows[name].to_pylist()
            new = [None if gone else value for value, gone in zip(old, erased, strict=True)]
            rows = _with_column(rows, name, new)
        return rows


def read_suppression(lake: Lake, endpoint: Endpoint) -> Suppression:
    """Return what is withheld from an endpoint's rows."""
    return Suppression(
        endpoint=endpoint,
        kept_from=events_kept_from(lake, endpoint),
        tombstones=read_tombstones(lake),
    )


def without_suppressed(state: RunState, batch: Batch) -> Batch:
    """Return a batch without the rows and records that must not be written, in its transaction.

    An interface of an erased router that the lake has never held gets a tombstone of its own, and
    loses rows that were loaded before its list was.
    """
    suppression = Suppression(
        endpoint=batch.endpoint,
        kept_from=state.events_kept_from(batch.endpoint),
        tombstones=state.tombstones,
    )
    if not (suppression.tombstones or suppression.kept_from):
        return batch
    return replace(
        batch,
        rows=batch.rows.changed(lambda part: _suppressed(state, suppression, part)),
        rejects=suppression.admitted_rejects(batch.rejects),
    )


def _suppressed(state: RunState, suppression: Suppression, rows: pa.Table) -> pa.Table:
    admitted = suppression.admitted(rows)
    if suppression.tombstones and admitted.num_rows < rows.num_rows:
        _bury_members(state, suppression, rows)
    return suppression.redacted(admitted)


def _bury_members(state: RunState, suppression: Suppression, rows: pa.Table) -> None:
    endpoint, tombstones = suppression.endpoint, suppression.tombstones
    thing = next((t for t in Thing if t.listing.name == endpoint.name), None)
    if thing is None:
        return
    [key] = endpoint.key
    erased = suppression._erased(rows)  # noqa: SLF001 - the same module's
    ids = [i for i, gone in zip(rows[key].to_pylist(), erased, strict=True) if gone]
    new = {i for i in ids if not tombstones.has(thing, i)}
    if not new:
        return
    lake = state.lake
    new -= set(
        lake.values(
            f"select {quoted(key)} from raw.{quoted(endpoint.name)} "
            f"where {quoted(key)} in (select unnest(?::bigint[]))",
            [sorted(new)],
        )
    )
    state.forget("meta.tombstones")
    add_tombstones(lake, [(thing, i) for i in new], ())
    for other in ENDPOINTS.values():
        for name in naming_columns(other, thing):
            lake.execute(
                f"delete from raw.{quoted(other.name)} "
                f"where {quoted(name)} in (select unnest(?::bigint[]))",
                [sorted(new)],
            )


def _mapped(rows: pa.Table, name: str, change: Callable[[str | None], str | None]) -> pa.Table:
    """Return rows with a column's texts changed; each text is looked at once."""
    old = rows[name].to_pylist()
    new = {text: change(text) for text in set(old)}
    if all(text == changed for text, changed in new.items()):
        return rows
    return _with_column(rows, name, [new[text] for text in old])


def _with_column(rows: pa.Table, name: str, values: list[Any]) -> pa.Table:
    index = rows.schema.get_field_index(name)
    field = rows.schema.field(index)
    if isinstance(field.type, pa.BaseExtensionType):
        storage = pa.array(values, field.type.storage_type)
        return rows.set_column(index, field, pa.ExtensionArray.from_storage(field.type, storage))
    return rows.set_column(index, field, pa.array(values, field.type))
