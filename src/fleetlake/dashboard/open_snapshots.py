"""The published snapshot, opened: a private DuckDB over its files, and the switch to the next one.

`publish` replaces a link, so a new snapshot is noticed by reading that link. Requests that began on
the old snapshot finish on it; it is closed after the last of them.
"""

import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Timer
from typing import Any

import duckdb
import pyarrow as pa

from fleetlake.dashboard.column_sources import SNAPSHOT_TABLES, column_types
from fleetlake.dashboard.panels import Panel
from fleetlake.errors import LakeError, UsageError
from fleetlake.marts.catalogue import mart_meanings
from fleetlake.marts.finding_states import STEP_COLUMNS, findings_sql
from fleetlake.publishing.layout import read_call
from fleetlake.publishing.snapshot_folders import description_of
from fleetlake.text.quoting import exact, literal, quoted

_LOG = logging.getLogger(__name__)

MEMORY = "160MB"
"""DuckDB's memory per open snapshot; two are open during a switch."""

THREADS = 2
QUERY_SECONDS = 10.0
BATCH_ROWS = 10_000

MOST_STEPS = 10_000
"""Steps about findings that a server remembers until a snapshot has them."""

NOTHING = "Nothing is published yet."
PUBLISH = "Run `fleetlake build` and `fleetlake publish`; an open dashboard then fills by itself."


class QueryTooLong(LakeError):
    """A query was stopped because it took too long."""


class SnapshotGone(LakeError):
    """The files of a snapshot were removed: newer ones were published since."""


class MartMissing(LakeError):
    """The snapshot lacks a mart that a panel shows."""


class QueryRejected(UsageError):
    """DuckDB rejected a query: its SQL is wrong, or it would leave the snapshot."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """What a snapshot says of itself; `as_of` is the time of its newest event.

    `stale` names the marts whose build failed before the snapshot, `set_aside` has the records in
    quarantine by account profile and endpoint, `unavailable` names what an account may not read.
    """

    name: str
    published_at: datetime
    as_of: datetime
    is_coarse: bool
    tables: frozenset[str]
    rows: int
    gaps: tuple[Mapping[str, Any], ...]
    stale: tuple[str, ...]
    set_aside: Mapping[tuple[str, str], int]
    unavailable: frozenset[str]


class PublishedSnapshot:
    """One snapshot in a DuckDB of its own, which can read this snapshot's folder and nothing else.

    A column that the snapshot lacks (a coarse one has no names, an older one lacks new columns) is
    null, so that a panel still shows the others.

    Raises: LakeError if the folder holds no complete snapshot.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.leases = 0
        self.is_retired = False
        self._since: dict[str, int | None] = {}
        self.proofs: dict[tuple[str, ...], dict[str, Any]] = {}
        """What panels rest on, by their marts: it is the same for as long as the snapshot is."""
        written = description_of(folder)
        if "tables" not in written:
            raise LakeError(NOTHING, remedy=PUBLISH)
        self._database = duckdb.connect(
            ":memory:",
            config={
                "threads": THREADS,
                "memory_limit": MEMORY,
                "temp_directory": "",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        self._database.execute("SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
        for name, table in written["tables"].items():
            self._database.execute(_view(folder, name, table))
        for old, new in written.get("earlier_names", {}).items():
            self._database.execute(f"CREATE VIEW {quoted(old)} AS FROM {quoted(new)}")
        for name in SNAPSHOT_TABLES:
            rows = written.get(name.removeprefix("snapshot_"), [])
            if name == "snapshot_tables":
                rows = _tables_in(written["tables"])
            made = f"CREATE TABLE {quoted(name)} AS {_rows_of_json(name)}"
            self._database.execute(made, [json.dumps(rows)])
        if "attention" in written["tables"]:
            found = findings_sql("attention", "snapshot_findings")
            self._database.execute(f"CREATE VIEW findings AS {found}")
        # Both are compared: the pattern of the files, and the files that it finds.
        allowed = ", ".join(literal(f"{path}/") for path in (folder, exact(folder)))
        self._database.execute(
            f"SET allowed_directories = [{allowed}];"
            "SET python_enable_replacements = false; SET enable_external_access = false;"
            "SET lock_configuration = true;"
        )
        self.described = self._describe(written)
        self.columns = self._columns()
        """The columns of each table that a query can read, with their types."""

    def rows(
        self, sql: str, parameters: Mapping[str, object], *, seconds: float = QUERY_SECONDS
    ) -> pa.Table:
        """Return the rows of a query as Arrow.

        Raises: QueryTooLong after `seconds`, or if it needs more memory than a query may have.
        """
        with self._running(sql, parameters, seconds) as result:
            return result.to_arrow_table()

    @contextmanager
    def batches(
        self, sql: str, parameters: Mapping[str, object], *, seconds: float
    ) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows of a query in batches, which need not all be in memory. Raises: as above.

        They can be read inside the context only.
        """
        with self._running(sql, parameters, seconds) as result:
            yield result.to_arrow_reader(BATCH_ROWS)

    @contextmanager
    def _running(
        self, sql: str, parameters: Mapping[str, object], seconds: float
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Run a query for at most `seconds`, and turn DuckDB's errors into ours."""
        with self._database.cursor() as cursor:
            timer = Timer(seconds, cursor.interrupt)
            timer.start()
            try:
                yield cursor.execute(sql, dict(parameters))
            except (duckdb.InterruptException, duckdb.OutOfMemoryException):
                raise _too_long() from None
            except duckdb.IOException:
                raise _gone() from None
            except duckdb.Error as error:
                what = str(error).partition("\n\n")[0]
                raise QueryRejected(
                    f"DuckDB rejected the query: {what}.", remedy="Correct the SQL of the panel."
                ) from None
            except OSError as error:  # so Arrow passes on DuckDB's errors, while batches are read
                raise (_gone() if "IO Error" in str(error) else _too_long()) from None
            finally:
                timer.cancel()

    def statement(
        self, panel: Panel, given: Mapping[str, object], *, rows: int
    ) -> tuple[str, dict[str, object]]:
        """Return a panel's SQL and parameters, once every name in it is one of this snapshot.

        Raises: MartMissing, UsageError.
        """
        composed = panel.statement(given, rows=rows)
        self.require(panel.marts)
        column = str(given.get("sort", "")).removeprefix("-") if "{order}" in panel.sql else ""
        if column and not any(column in self.columns[mart] for mart in panel.marts):
            raise UsageError(
                f"There is no column {column!r} to sort by.", remedy="Choose another one."
            )
        return composed

    def since(self, column: str) -> int | None:
        """Return the earliest time of a column, given as `mart.column`, in milliseconds."""
        if column not in self._since:
            mart, _, name = column.partition(".")
            earliest = (
                f"SELECT epoch_ms(min({quoted(name)})::timestamptz) AS at FROM {quoted(mart)}"
            )
            [self._since[column]] = self.rows(earliest, {}).column("at").to_pylist()
        return self._since[column]

    def add_steps(self, steps: Iterable[tuple[Any, ...]]) -> None:
        """Add steps about findings that were made after the snapshot, each once."""
        rows = [dict(zip(STEP_COLUMNS, step, strict=True)) for step in steps]
        if not rows:
            return
        made = _rows_of_json("snapshot_findings")
        with self._database.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO snapshot_findings FROM ({made}) AS made "
                "ANTI JOIN snapshot_findings USING (finding_id, made_at)",
                [json.dumps(rows, default=str)],
            )

    def require(self, marts: tuple[str, ...]) -> None:
        """Raise MartMissing if the snapshot lacks one of these marts."""
        if missing := sorted({*marts} - self.described.tables):
            raise MartMissing(
                f"The published snapshot has no {' and no '.join(missing)}.",
                remedy="Run `fleetlake build` and `fleetlake publish` with this release.",
            )

    def _columns(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {}
        listed = (
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
        )
        for table, column, kind in self._database.execute(listed).fetchall():
            found.setdefault(table, {})[column] = kind.lower()
        return found

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _describe(self, written: Mapping[str, Any]) -> Described:
        published_at = datetime.fromisoformat(written["published_at"])
        marks = [mark["watermark_at"] for mark in written["watermarks"] if mark["watermark_at"]]
        newest = max(map(datetime.fromisoformat, marks), default=published_at)
        return Described(
            name=str(written["snapshot"]),
            published_at=published_at.astimezone(UTC),
            as_of=newest.astimezone(UTC),
            is_coarse=bool(written.get("is_coarse")),
            tables=frozenset({*written["tables"], *SNAPSHOT_TABLES}),
            rows=sum(table["rows"] for table in written["tables"].values()),
            gaps=tuple(written.get("gaps", ())),
            stale=tuple(str(one["mart"]) for one in written.get("stale_marts", ())),
            set_aside={
                (one["account_profile"], one["endpoint"]): one["records"]
                for one in written.get("quarantined", ())
            },
            unavailable=frozenset(written.get("unavailable", ())),
        )


class OpenSnapshots:
    """The newest snapshot of a published folder, and older ones until their requests end."""

    def __init__(self, published: Path) -> None:
        self._published = published.absolute()
        self._lock = Lock()
        self._newest: PublishedSnapshot | None = None
        self._steps: deque[tuple[Any, ...]] = deque(maxlen=MOST_STEPS)

    def add_steps(self, steps: Iterable[tuple[Any, ...]]) -> None:
        """Show steps that were just made, in this snapshot and in later ones without them."""
        with self._lock:
            self._steps.extend(steps)
            if self._newest:
                self._newest.add_steps(steps)

    @contextmanager
    def lease(self) -> Iterator[PublishedSnapshot]:
        """Yield the newest snapshot and keep it open meanwhile. Raises: LakeError."""
        self.refresh()
        with self._lock:
            snapshot = self._newest
            if snapshot is None:
                raise LakeError(NOTHING, remedy=PUBLISH)
            snapshot.leases += 1
        try:
            yield snapshot
        finally:
            with self._lock:
                snapshot.leases -= 1
                self._close_if_unused(snapshot)

    def refresh(self) -> str | None:
        """Open the newest snapshot if it is not open yet; return its name, None without one."""
        folder = self._published.resolve()
        with self._lock:
            before = self._newest
            if before is None or before.folder != folder:
                try:
                    self._newest = PublishedSnapshot(folder)
                    self._newest.add_steps(self._steps)
                except (LakeError, duckdb.Error, OSError) as error:  # half-copied, or gone
                    _LOG.debug("cannot open %s: %s", folder, error)
                    return before.described.name if before else None
                if before:
                    before.is_retired = True
                    self._close_if_unused(before)
            return self._newest.described.name if self._newest else None

    def close(self) -> None:
        """Close the newest snapshot once it is unused."""
        with self._lock:
            if self._newest:
                self._newest.is_retired = True
                self._close_if_unused(self._newest)
                self._newest = None

    @staticmethod
    def _close_if_unused(snapshot: PublishedSnapshot) -> None:
        if snapshot.is_retired and not snapshot.leases:
            snapshot.close()


def _too_long() -> QueryTooLong:
    return QueryTooLong(
        "The query is too large.", remedy="Choose a shorter time, one account or one router."
    )


def _gone() -> SnapshotGone:
    return SnapshotGone(
        "The files of this snapshot are no longer there.", remedy="Run `fleetlake publish` again."
    )


def _rows_of_json(name: str) -> str:
    """Return the query of the rows of a table that is not a mart, in a JSON parameter."""
    shape = json.dumps([{column: kind.upper() for column, kind in column_types(name).items()}])
    return f"SELECT unnest(from_json(?::JSON, {literal(shape)}), recursive := true)"


def _tables_in(written: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return the rows of the table of published tables."""
    meanings = mart_meanings()
    return [
        {
            "table_name": name,
            "about": meanings[name][0] if name in meanings else "",
            "rows": table["rows"],
            "columns": len(table["columns"]),
        }
        for name, table in sorted(written.items())
    ]


def _view(folder: Path, name: str, table: Mapping[str, Any]) -> str:
    """Return the statement of a view over a table's files, with every column that it may lack."""
    held = [column["name"] for column in table["columns"]]
    selected = [quoted(column) for column in held]
    selected += [
        f"NULL::{kind} AS {quoted(column)}"
        for column, kind in column_types(name).items()
        if column not in held
    ]
    read = read_call(folder / name, table["partitioned_by"])
    return f"CREATE VIEW {quoted(name)} AS SELECT {', '.join(selected)} FROM {read}"
