"""Erasing the rows of a device, a person or an account, and its mentions in other rows.

Tombstones are committed first: from then on no load brings anything back, whenever the erasure is
stopped. Rows and mentions go in one transaction, with the event; `privacy.erase` then deletes the
bytes.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Endpoint
from fleetlake.endpoints.relations import Thing, role, text_columns
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.confirmation import drop_dangling
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import FILES_ONLY, tables_in
from fleetlake.lake.durable import flush_files
from fleetlake.lake.erasure_plan import ErasurePlan, actor_condition, condition, plan_of_tombstones
from fleetlake.lake.evolution.promotions import with_promoted
from fleetlake.lake.suppression import Suppression
from fleetlake.lake.tombstones import Tombstones, add_tombstones, read_tombstones
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.wording import counted

MOST_PATTERNS = 300
"""Up to this many values, DuckDB looks for texts that may mention them; else each text is read."""


@dataclass(frozen=True, kw_only=True)
class ErasedRows:
    """Rows by table: deleted ones, and those of other things that mentioned what was erased."""

    deleted: Mapping[str, int]
    redacted: Mapping[str, int]


def count_rows(lake: Lake, plan: ErasurePlan) -> dict[str, int]:
    """Return how many rows of each raw table belong to what is to be erased."""
    found: dict[str, int] = {}
    for endpoint in ENDPOINTS.values():
        if where := condition(lake, endpoint, plan):
            name = f"raw.{endpoint.name}"
            found[name] = lake.number(
                f"select count(*) from raw.{quoted(endpoint.name)} where {where}"
            )
    return {name: rows for name, rows in found.items() if rows}


def commit_tombstones(lake: Lake, plan: ErasurePlan) -> Tombstones:
    """Commit the tombstones. The caller holds the locks of all streams and of the catalog.

    They become files at once, because a catalog rebuilt from the files must have them.
    """
    lake.execute(FILES_ONLY)
    with lake.transaction():
        return add_tombstones(lake, plan.pairs(), plan.all_values())


def erase_tombstoned(lake: Lake) -> ErasedRows:
    """Delete and redact again, in the open transaction, what tombstones name.

    For a rebuilt catalog: older files may hold rows from before an erasure.
    """
    tombstones = read_tombstones(lake)
    if not tombstones:
        return ErasedRows(deleted={}, redacted={})
    plan = plan_of_tombstones(lake, tombstones)
    return _Erasure(lake, plan, tombstones, are_words_known=False).run()


def erase_rows(lake: Lake, plan: ErasurePlan, tombstones: Tombstones) -> ErasedRows:
    """Delete and redact in one transaction, with the event; the caller holds the same locks."""
    with lake.transaction():
        done = _Erasure(lake, plan, tombstones).run()
        if done.deleted or done.redacted:
            things = [
                counted(number, thing.replace("_", " "))
                for thing, number in erased_things(plan).items()
            ]
            record_event(
                lake,
                EventKind.ERASURE,
                f"Erased: {', '.join(things)}.",
                rows=sum(done.deleted.values()),
                details={"deleted": done.deleted, "redacted": done.redacted},
            )
        flush_files(lake.path)
    return done


class _Erasure:
    """The work within the transaction, and what it did to each table.

    If only digests of the words to redact are known, every text is read.
    """

    def __init__(
        self, lake: Lake, plan: ErasurePlan, tombstones: Tombstones, *, are_words_known: bool = True
    ) -> None:
        self._lake, self._plan, self._tombstones = lake, plan, tombstones
        self.deleted, self.redacted = Counter[str](), Counter[str]()
        self._pattern = _pattern(plan, is_json=False) if are_words_known else ""
        self._json_pattern = _pattern(plan, is_json=True) if are_words_known else ""

    def run(self) -> ErasedRows:
        """Do all of it; return the rows by table."""
        self.raw_tables()
        self.marts()
        self.meta()
        return ErasedRows(
            deleted={table: rows for table, rows in self.deleted.items() if rows},
            redacted={table: rows for table, rows in self.redacted.items() if rows},
        )

    def raw_tables(self) -> None:
        # Conditions first: identifiers of a list are looked up before its rows go.
        endpoints = with_promoted(self._lake, [*ENDPOINTS.values()])
        conditions = [(e, condition(self._lake, e, self._plan)) for e in endpoints]
        for endpoint, where in conditions:
            if where:
                self._delete(f"raw.{endpoint.name}", where)
        for endpoint, _ in conditions:
            self._blank_actors(endpoint)
            for column in [*text_columns(endpoint), _EXTRA]:
                self._redact(endpoint, column)

    def marts(self) -> None:
        """Delete rows of marts that name the things; the next build computes all marts again."""
        for table, column in self._lake.rows(
            "select table_name, column_name from duckdb_columns() "
            "where database_name = 'lake' and schema_name = 'marts' and data_type = 'BIGINT' "
            "and table_name in (select unnest(?))",
            [[table for _, table in tables_in(self._lake, "marts")]],
        ):
            for thing, ids in self._plan.things.items():
                if ids and (column == f"{thing}_id" or column.endswith(f"_{thing}_id")):
                    listed = ", ".join(map(str, sorted(ids)))
                    self._delete(f"marts.{table}", f"{quoted(column)} in ({listed})")

    def meta(self) -> None:
        for endpoint in ENDPOINTS.values():
            name = literal(endpoint.name)
            for thing, ids in self._plan.things.items():
                fan_out = endpoint.fan_out
                if ids and fan_out and fan_out.partition == f"{thing}_id":
                    listed = ", ".join(literal(str(id_)) for id_ in sorted(ids))
                    for table in ("intervals", "gaps"):
                        where = f"endpoint = {name} and partition in ({listed})"
                        self._delete(f"meta.{table}", where)
            if self.deleted[f"raw.{endpoint.name}"]:
                self._forget_keys(endpoint)
                self._lake.execute(
                    f"update meta.schema_drift set example = null where endpoint = {name}"
                )
        drop_dangling(self._lake)
        self._findings()
        self._quarantine()
        self._examples()

    def _delete(self, table: str, where: str) -> None:
        schema, name = table.split(".", 1)
        rows = self._lake.number(f"delete from {schema}.{quoted(name)} where {where}")
        self.deleted[table] += rows

    def _forget_keys(self, endpoint: Endpoint) -> None:
        """Forget the keys of missing records whose rows are gone."""
        key = f"json_array({', '.join(map(quoted, endpoint.key))})::varchar"
        self._delete(
            "meta.absent",
            f"endpoint = {literal(endpoint.name)} and record_key not in "
            f"(select {key} from raw.{quoted(endpoint.name)})",
        )

    def _blank_actors(self, endpoint: Endpoint) -> None:
        where, by = actor_condition(endpoint, self._plan), role(endpoint, "actor")
        if where and by:
            sets = ", ".join(f"{quoted(name)} = null" for name in (by.id, *by.others))
            self.redacted[f"raw.{endpoint.name}"] += self._lake.number(
                f"update raw.{quoted(endpoint.name)} set {sets} where {where}"
            )

    def _redact(self, endpoint: Endpoint, column: Column) -> None:
        """Replace mentions in a column; each distinct text is looked at once."""
        name, table = quoted(column.name), f"raw.{quoted(endpoint.name)}"
        pattern = self._json_pattern if column.kind is Kind.JSON else self._pattern
        found = f"regexp_matches({name}::varchar, {literal(pattern)})" if pattern else "true"
        texts = self._lake.values(
            f"select distinct {name}::varchar from {table} where {name} is not null and {found}"
        )
        redact = self._tombstones.redaction(column)
        changes = {text: new for text in texts if (new := redact(text)) != text}
        if not changes:
            return
        pairs = pa.table({"old": list(changes), "new": list(changes.values())})
        with self._lake.view("redactions", pairs):
            self.redacted[f"raw.{endpoint.name}"] += self._lake.number(
                f"update {table} set {name} = r.new from redactions r "
                f"where {table}.{name}::varchar = r.old"
            )

    def _quarantine(self) -> None:
        """Delete quarantined records that belong to what is erased, or mention it."""
        rows = self._lake.rows("select distinct endpoint, raw, partition from meta.quarantine")
        for name, raw, partition in rows:
            if name not in ENDPOINTS:
                continue
            suppression = Suppression(
                endpoint=ENDPOINTS[name], kept_from=None, tombstones=self._tombstones
            )
            if suppression.is_erased_record(raw, partition):
                self.deleted["meta.quarantine"] += self._lake.number(
                    "delete from meta.quarantine where endpoint = ? and raw = ? "
                    "and partition is not distinct from ?",
                    [name, raw, partition],
                )

    def _findings(self) -> None:
        """Delete steps and messages about findings of what is erased; redact other mentions."""
        if routers := self._plan.things[Thing.ROUTER]:
            listed = ", ".join(map(str, sorted(routers)))
            self._delete("meta.messages", f"router_id in ({listed})")
        for thing, column in ((Thing.ROUTER, "router_id"), (Thing.NET_DEVICE, "net_device_id")):
            if ids := self._plan.things[thing]:
                listed = ", ".join(map(str, sorted(ids)))
                self._delete("meta.findings", f"{column} in ({listed})")
        for name in ("comment", "assignee", "actor"):
            for text in self._lake.values(
                f"select distinct {name} from meta.findings where {name} is not null"
            ):
                if (new := self._tombstones.redacted(text)) != text:
                    self.redacted["meta.findings"] += self._lake.number(
                        f"update meta.findings set {name} = ? where {name} = ?", [new, text]
                    )

    def _examples(self) -> None:
        """Forget examples of new members that mention what is erased."""
        for example in self._lake.values(
            "select distinct example from meta.schema_drift where example is not null"
        ):
            if self._tombstones.redacted_json(example) != example:
                self._lake.execute(
                    "update meta.schema_drift set example = null where example = ?", [example]
                )


_EXTRA = Column(field="_extra", kind=Kind.JSON, meaning="Members without a column.")


def _pattern(plan: ErasurePlan, *, is_json: bool) -> str:
    """Return a pattern that finds all texts with a mention, and perhaps others; empty: read all.

    JSON may name an id apart from the thing's name, and may escape characters.
    """
    values = plan.all_values()
    found = {r"\W+".join(map(re.escape, value.split())) for value in values}
    if is_json:
        found |= {str(id_) for _, id_ in plan.pairs()}
        escaped = {json.dumps(value)[1:-1] for value in values} - values
        found |= {re.escape(value) for value in escaped}
    if len(found) > MOST_PATTERNS or not all(value.isascii() for value in values):
        return ""
    return f"(?i){'|'.join(sorted(found))}" if found else ""


def erased_things(plan: ErasurePlan) -> dict[Thing, int]:
    """Return how many things of each kind a plan erases."""
    return {thing: len(ids) for thing, ids in plan.things.items() if ids}
