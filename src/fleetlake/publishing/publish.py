"""Publish the marts as plain files: complete snapshots, switched atomically.

A snapshot is an immutable folder: Parquet files per mart, a DuckDB file with views over exactly
these files, and `snapshot.json`. `published` is a symbolic link to the newest snapshot. A rename
replaces the link, so a reader sees either one snapshot or the next. The previous snapshot stays
for readers that still use it.

Other programs must not read the lake's own files: after a compaction, each row is in two files.

How complete each day is follows from the proven ranges, the gaps and the calls in `meta`, which is
not published itself. A row names a stream and a day, never a device.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.endpoints import endpoints_named
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import ONE_THREAD
from fleetlake.lake.ducklake import columns_in, files_of, read_snapshot
from fleetlake.lake.durable import flush_files
from fleetlake.lake.gaps import gaps
from fleetlake.lake.run_log import stale_marts
from fleetlake.lake.table_changes import changed_tables
from fleetlake.lake_address import LakeAddress, refuse_unusable
from fleetlake.machine.file_locks import FOR_EVER, file_lock
from fleetlake.machine.ownership import require_own
from fleetlake.marts.catalogue import (
    Description,
    comments,
    descriptions_of,
    mart_dates,
    mart_keys,
    parquet_metadata,
)
from fleetlake.marts.finding_states import STEP_COLUMNS
from fleetlake.marts.findings import steps_of_present
from fleetlake.publishing.layout import coarse_columns, layout_of, read_call
from fleetlake.publishing.snapshot_folders import (
    DATABASE,
    DESCRIPTION,
    FOLDER,
    MARKER,
    NEXT_LINK,
    STAMP,
    clear,
    description_of,
    folder_errors,
    is_demo,
    is_published_coarse,
    refuse_other_link,
    require_own_link,
    switch,
)
from fleetlake.settings import DAY_ROWS
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.tables_beside import text_beside

DAYS = 35
"""Days that are described, the last of them being the day of the newest proven range."""


def completeness(lake: Lake) -> list[dict[str, Any]]:
    """Return a row per stream and UTC day: how much is proven, missing between, and lost."""
    return lake.named_rows(text_beside(__file__, "completeness.sql"), {"days": DAYS})


def calls_by_day(lake: Lake) -> list[dict[str, Any]]:
    """Return a row per stream and UTC day with its calls, and those refused and tried again."""
    return lake.named_rows(text_beside(__file__, "calls_by_day.sql"), {"days": DAYS})


STORAGE_VERSION = "v1.0.0"
"""The oldest format of files: DuckDB 2.0 would by default write one that only it reads."""

OLDEST_READER = "v1.1.0"
"""The oldest DuckDB that has the function `getvariable`, which the views call."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published snapshot: rows per table, tables reused from the previous one, wall seconds.

    `left_out` are tables that the previous snapshot held and this one does not. `nothing_loaded` is
    true if the lake never received a row.
    """

    path: Path
    snapshot: str
    rows: dict[str, int]
    reused: frozenset[str]
    left_out: frozenset[str]
    nothing_loaded: bool
    seconds: float


def refuse_real_snapshot(lake: LakeAddress, published: Path) -> None:
    """Raise LakeError if a demo's snapshot would replace that of a real fleet."""
    if not is_demo(lake) or published.absolute().is_relative_to(str(lake.resolve())):
        return
    found = description_of(published)
    if found and not found.get("is_demo"):
        raise LakeError(
            f"The snapshot in {published} is of a real fleet. The demo in {lake} does not replace "
            "it.",
            remedy="Name another folder: FLEETLAKE_PUBLISHED or --to.",
        )


def publish(
    lake_path: LakeAddress,
    published: Path,
    *,
    raw: Sequence[str] = (),
    day_rows: int = DAY_ROWS,
    is_coarse: bool = False,
    budgets: Mapping[str, int] | None = None,
) -> Published:
    """Write the lake's marts as a new snapshot and make `published` point to it.

    `raw` names endpoints whose raw tables are included as `raw_<endpoint>`. Files of a table that
    has not changed since the last snapshot are hard-linked, not written again. A mart with
    `day_rows` rows per day or more is partitioned by date. `is_coarse` rounds places and leaves out
    names; an earlier snapshot with all of them does not stay. `budgets` are the calls that each
    account profile may make a day (0: no limit), for readers who compare them with those made.

    Raises: LakeError if there is no lake, no mart or no disk space, or if a demo would replace a
    real fleet's snapshot; the old snapshot then stays.
    UsageError for an unknown endpoint.
    """
    also = {f"raw_{endpoint.name}": ("raw", endpoint.name) for endpoint in endpoints_named(raw)}
    began = time.monotonic()
    published = published.absolute()
    store = published.parent / f".{published.name}"
    refuse_unusable("published", published, setting="FLEETLAKE_PUBLISHED or --to")
    with open_lake(lake_path, read_only=True) as lake, folder_errors(published):
        for folder in (published, store):
            require_own(folder, "published", otherwise="set FLEETLAKE_PUBLISHED to another folder")
        require_own_link(published, store)
        refuse_real_snapshot(lake_path, published)
        store.mkdir(parents=True, exist_ok=True)
        with file_lock(store / "publish.lock", seconds=FOR_EVER):
            refuse_other_link(store / NEXT_LINK)
            clear(store, keep=published)
            before = published.resolve() if published.is_symlink() else None
            new = store / datetime.now(UTC).strftime(STAMP)
            snapshot = _Snapshot(
                lake=lake,
                folder=new,
                before=before,
                also=also,
                day_rows=day_rows,
                is_coarse=is_coarse,
                budgets=budgets or {},
            )
            is_finer = is_coarse and not is_published_coarse(published)
            description = snapshot.write()
            flush_files(store)  # before a reader, or the next snapshot, relies on them
            switch(published, new)
            clear(store, keep=published, and_keep=new if is_finer else before)
    tables = description["tables"]
    return Published(
        path=published,
        snapshot=new.name,
        rows={name: table["rows"] for name, table in tables.items()},
        reused=frozenset(name for name, table in tables.items() if table["is_reused"]),
        left_out=frozenset(snapshot.tables_before.keys() - tables.keys()),
        nothing_loaded=not description["watermarks"],
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """A snapshot being written; no reader sees it before the switch."""

    lake: Lake
    folder: Path
    before: Path | None
    also: Mapping[str, tuple[str, str]]
    day_rows: int
    is_coarse: bool
    budgets: Mapping[str, int]

    def write(self) -> dict[str, Any]:
        """Write all files of the snapshot, the description last; return the description."""
        self.folder.mkdir()
        (self.folder / MARKER).touch()
        self.lake.begin_long_read()  # one snapshot of the lake for all tables
        tables = self._tables
        steps = [] if self.is_coarse else steps_of_present(self.lake)  # comments and names
        description: dict[str, Any] = {
            "snapshot": self.folder.name,
            "lake_snapshot": self._lake_snapshot,
            "made_as": self._made_as,
            "published_at": datetime.now(UTC),
            "is_coarse": self.is_coarse,
            "is_demo": is_demo(self.lake.path),
            "tables": {name: self._write_table(name, *table) for name, table in tables.items()},
            "watermarks": self.lake.named_rows(_WATERMARKS),
            "gaps": [{name: getattr(gap, name) for name in _OF_GAPS} for gap in gaps(self.lake)],
            "quarantined": self.lake.named_rows(_SET_ASIDE),
            "unavailable": [endpoint for (endpoint,) in self.lake.rows(_UNAVAILABLE)],
            "findings": [dict(zip(STEP_COLUMNS, row, strict=True)) for row in steps],
            "stale_marts": [asdict(one) for one in stale_marts(self.lake)],
            "completeness": completeness(self.lake),
            "calls": calls_by_day(self.lake),
            "budgets": [
                {"account_profile": profile, "calls_per_day": calls}
                for profile, calls in sorted(self.budgets.items())
            ],
        }
        self.lake.execute("ROLLBACK")
        self._write_views(description["tables"])
        text = json.dumps(description, indent=2, default=_as_text)
        (self.folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
        return description

    @cached_property
    def _tables(self) -> dict[str, tuple[str, str]]:
        """The schema and the table of the lake behind each name. Raises: LakeError for no mart."""
        marts = {
            name: ("marts", name)
            for name in sorted({table for table, _ in columns_in(self.lake, "marts")})
        }
        if not marts:
            raise LakeError("The lake holds no mart yet.", remedy="Run `fleetlake build` first.")
        return marts | dict(self.also)

    @cached_property
    def _descriptions(self) -> dict[tuple[str, str], Description]:
        """The description of each table of the lake."""
        return descriptions_of(self._tables.values())

    @cached_property
    def _lake_snapshot(self) -> tuple[int, str]:
        """The number and the time of the lake's snapshot."""
        return read_snapshot(self.lake)

    @cached_property
    def _made_as(self) -> str:
        """A digest of what the files of tables depend on, apart from their rows and columns."""
        content = (self.day_rows, mart_keys(), mart_dates(), sorted(self._descriptions.items()))
        return hashlib.sha256(repr(content).encode()).hexdigest()

    @cached_property
    def _unchanged(self) -> frozenset[str]:
        """The names of tables that are as in the previous snapshot, as far as the lake knows."""
        before = self._description_before
        if self.is_coarse or before.get("is_coarse") or before.get("made_as") != self._made_as:
            return frozenset()
        (number, made_at), (newest, _) = before["lake_snapshot"], self._lake_snapshot
        changed = changed_tables(self.lake, number, newest, made_at=made_at)
        if changed is None:
            return frozenset()
        return frozenset(n for n, table in self._tables.items() if ".".join(table) not in changed)

    def _write_table(self, name: str, schema: str, table: str) -> dict[str, Any]:
        """Write or link one table's Parquet files and return its entry in the description."""
        before = self.tables_before.get(name)
        if before and name in self._unchanged:
            self._link(name)
            return {**before, "is_reused": True}
        relation = f"{schema}.{quoted(table)}"
        columns = [
            # Parquet has no 128-bit integer, and a double would lose digits.
            (column, "BIGINT" if kind == "HUGEINT" else kind)
            for column, kind in self.lake.rows(
                f"SELECT column_name, column_type FROM (DESCRIBE {relation})"
            )
        ]
        shown = [(column, f"{quoted(column)}::{kind}") for column, kind in columns]
        if self.is_coarse:
            shown = [*coarse_columns(schema, table, columns)]
            columns = [(column, kind) for column, kind in columns if column in dict(shown)]
        names = [column for column, _ in shown]
        layout = layout_of(self.lake, schema, table, columns=names, day_rows=self.day_rows)
        about, meanings = self._descriptions[schema, table]
        metadata = parquet_metadata((about, {n: m for n, m in meanings.items() if n in names}))
        content = (shown if self.is_coarse else columns, layout, metadata)
        version = self._version(schema, table, content)
        is_reused = before is not None and before["version"] == version
        if is_reused:
            self._link(name)
        else:
            selected = ", ".join(f"{value} AS {quoted(column)}" for column, value in shown)
            self.lake.execute(
                f"COPY (SELECT {selected} FROM {relation} {layout.order}) "
                f"TO {literal(self.folder / name)} ({layout.options}, {metadata})"
            )
        ((rows,),) = self.lake.rows(f"SELECT count(*) FROM {relation}")
        return {
            "rows": rows,
            "columns": [{"name": column, "type": kind} for column, kind in columns],
            **asdict(layout),
            "version": version,
            "is_reused": is_reused,
        }

    def _link(self, name: str) -> None:
        """Link a table's files of the previous snapshot."""
        if self.before:
            shutil.copytree(self.before / name, self.folder / name, copy_function=os.link)

    def _version(self, schema: str, table: str, content: tuple[object, ...]) -> str:
        """Return a digest of the table's files in the lake, and of what is written of them."""
        listed = files_of(schema, table)
        files = self.lake.rows(f"SELECT data_file, delete_file FROM {listed} ORDER BY ALL")
        inlined = self.lake.rows(f"SELECT count(*), max(snapshot_id) FROM {schema}.{quoted(table)}")
        return hashlib.sha256(repr((*content, files, inlined)).encode()).hexdigest()

    @cached_property
    def _description_before(self) -> dict[str, Any]:
        """The description of the previous snapshot."""
        return description_of(self.before) if self.before else {}

    @cached_property
    def tables_before(self) -> dict[str, dict[str, Any]]:
        """The entry of each table of the previous snapshot."""
        try:
            described = self._description_before["tables"]
            return {name: table for name, table in described.items() if table["version"]}
        except (LookupError, TypeError, AttributeError):
            return {}  # a description damaged by a power failure

    def _write_views(self, tables: Mapping[str, dict[str, Any]]) -> None:
        """Write a DuckDB file with described views over this snapshot's files.

        DuckDB lets no view find the file that it is in: a table function takes neither a subquery
        nor a column, and a relative path starts at the reader's working folder (observed 2026-11-25
        with 1.5.5). So the paths are absolute, unless the variable names another folder.
        """
        with duckdb.connect(config=ONE_THREAD) as connection:
            connection.execute(
                f"ATTACH {literal(self.folder / DATABASE)} AS fleet "
                f"(STORAGE_VERSION {literal(STORAGE_VERSION)}); USE fleet; BEGIN"
            )
            for name, table in tables.items():
                read = read_call(self.folder / name, table["partitioned_by"], moved_to=FOLDER)
                # Columns by name: a parent folder called `env=prod` would add a column.
                names = ", ".join(quoted(column["name"]) for column in table["columns"])
                connection.execute(f"CREATE VIEW {quoted(name)} AS SELECT {names} FROM {read}")
                present = dict.fromkeys(column["name"] for column in table["columns"])
                described = self._descriptions[self._tables[name]]
                connection.execute("; ".join(comments(quoted(name), "VIEW", described, present)))
            connection.execute("COMMIT")


_OF_GAPS = ("endpoint", "partition", "start_at", "end_at")
_SET_ASIDE = """
SELECT account_profile, endpoint, count(*) AS records FROM meta.quarantine WHERE resolved_at IS NULL
GROUP BY ALL ORDER BY ALL
"""
_UNAVAILABLE = "SELECT DISTINCT endpoint FROM meta.capabilities WHERE NOT is_available ORDER BY 1"
_WATERMARKS = """
SELECT account_profile, endpoint, watermark_at FROM meta.watermarks ORDER BY ALL
"""


def _as_text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat()
