"""An open lake: SQL in DuckDB, transactions, and DuckDB's errors as errors of the lake."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from fleetlake.errors import LakeError
from fleetlake.lake.attach import (
    CATALOG,
    CATALOG_LOG,
    READ_HISTORY,
    attach_statements,
    explained,
    may_read_history,
    store_keys,
)
from fleetlake.lake.ducklake import FILES_OR_CATALOG, PRESENCE, columns_in
from fleetlake.lake.durable import flush_files
from fleetlake.lake_address import LakeAddress, SharedLake
from fleetlake.machine.io_faults import MORE_FILES, io_fault
from fleetlake.text.redaction import without_secrets

if TYPE_CHECKING:  # it takes as long to import as to open a lake, and only rows to write need it
    import pyarrow as pa

FEW_ROWS = 1_000
"""Up to this many rows of a view are copied, for which Arrow's scanner need not be imported.

The import takes 0.06 s, and a load with nothing new reads its last pages again: some hundred rows.
"""
_SHOW_TABLES = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
_TABLES = (
    "select table_schema, table_name from information_schema.tables "
    "where table_catalog in ('lake', 'temp') order by all"
)
"""DuckDB's own `show tables` would list those of one schema, which is empty."""

_BEGIN = re.compile(r"\b(?:begin|start)\b", re.IGNORECASE)

CommitMark = tuple[int, ...]
JUST_NOW_NS = 50_000_000
"""A file written less than this long ago may be written again and keep its time."""

Check = Callable[[duckdb.DuckDBPyConnection, duckdb.Statement, str], None]
"""Checks each statement of a user's SQL before it runs, and raises if it is not allowed."""


class _HeldRows:
    """Rows that DuckDB reads through a view, until they are taken away again.

    In a transaction, DuckDB 1.5.5 keeps what an unregistered view named until the transaction
    ends. A list of 400,000 rows, committed in parts, would be held whole: 300 MB.
    """

    def __init__(self, table: "pa.Table") -> None:
        self.table = table

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Lake:
    """An open lake; SQL runs with the lake as the default database and times in UTC."""

    def __init__(self, path: LakeAddress, connection: duckdb.DuckDBPyConnection) -> None:
        self.path = path
        self._connection = connection
        self._presence = connection.cursor()
        self.check: Check | None = None
        self._is_begun = False  # by a BEGIN in a user's SQL
        self._is_open = False  # a transaction begun by fleetlake
        self._is_reading = False  # one that only reads
        self.is_read_only = False

    def attach(self, *, read_only: bool) -> None:
        """Attach the lake; a catalog in a folder stays open from now on. Raises: LakeError."""
        self.is_read_only = read_only
        # In a notebook, or with `python -c`, DuckDB would draw a progress bar on standard output.
        self.execute("SET enable_progress_bar = false;")
        self.execute(f"{attach_statements(self.path, read_only=read_only)} USE lake;")
        if not read_only:
            self.execute(FILES_OR_CATALOG)
        if isinstance(self.path, Path):
            with lake_errors(self.path):
                self._presence.execute(PRESENCE)

    def execute(self, sql: str, parameters: object = None) -> duckdb.DuckDBPyConnection:
        """Run one or more statements. Raises: LakeError saying what to fix."""
        with lake_errors(self.path), stoppable(self._connection):
            return self._connection.execute(sql, parameters)

    def rows(self, sql: str, parameters: object = None) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raises: LakeError."""
        cursor = self.execute(sql, parameters)
        with lake_errors(self.path), stoppable(self._connection):
            return cursor.fetchall()

    def named_rows(self, sql: str, parameters: object = None) -> list[dict[str, Any]]:
        """Return all rows of a query, each as its values by column. Raises: LakeError."""
        cursor = self.execute(sql, parameters)
        names = [column[0] for column in cursor.description or ()]
        with lake_errors(self.path), stoppable(self._connection):
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def values(self, sql: str, parameters: object = None) -> list[Any]:
        """Return the rows of a query with one column as its values. Raises: LakeError."""
        return [value for (value,) in self.rows(sql, parameters)]

    def number(self, sql: str, parameters: object = None) -> int:
        """Return the one number of a query, or how many rows a statement changed."""
        [(number,)] = self.rows(sql, parameters)
        return int(number)

    def instant(self, sql: str, parameters: object = None) -> datetime | None:
        """Return the one time of a query."""
        [(found,)] = self.rows(sql, parameters)
        instant: datetime | None = found
        return instant

    def run_user_sql(self, sql: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Run a user's SQL; yield the rows of each statement, to be read before the next.

        Raises: duckdb.Error; UsageError for a statement that `check` refuses.
        """
        try:
            sql.encode()
        except UnicodeEncodeError:
            raise duckdb.InvalidInputException("the statement is not UTF-8 text") from None
        statements = self._connection.extract_statements(sql)
        if not statements:
            raise duckdb.InvalidInputException("it contains no statement")
        if may_read_history(sql):
            self.execute(READ_HISTORY)
        for statement in statements:
            if self.check:
                self.check(self._connection, statement, sql)
            if statement.type == duckdb.StatementType.TRANSACTION:
                self._is_begun = bool(_BEGIN.search(statement.query))
            is_listing = _SHOW_TABLES.fullmatch(statement.query)
            result = self._connection.execute(_TABLES if is_listing else statement)
            if duckdb.ExpectedResultType.QUERY_RESULT in statement.expected_result_type:
                yield result

    def end_failed_user_sql(self) -> None:
        """End the transaction that a user's failed SQL left open, unless the SQL began it.

        DuckDB turns a PIVOT into several statements in a transaction.
        """
        if not self._is_begun:
            self.roll_back()

    def begin_long_read(self) -> None:
        """Begin a transaction that reads one snapshot, also while maintenance overtakes it."""
        self.execute(f"{READ_HISTORY} BEGIN")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done within the block, or nothing if it raises an error.

        What the block has written is on the disk before the catalog names it. A rollback within
        the block ends the transaction, and nothing is committed.
        """
        self.execute("begin")
        self._is_open = True
        try:
            yield
            if self._is_open:
                flush_files(self.path)
                self.execute("commit")
        except BaseException:
            self.roll_back()
            raise
        finally:
            self._is_open = False

    @property
    def has_transaction(self) -> bool:
        """Whether a transaction of `transaction` or `single_snapshot` is open."""
        return self._is_open or self._is_reading

    @contextmanager
    def single_snapshot(self) -> Iterator[None]:
        """Run all queries of the block on one snapshot; the catalog is read only once."""
        if self.has_transaction:
            yield
            return
        self.execute("begin")
        self._is_reading = True
        try:
            yield
        finally:
            self._is_reading = False
            self.roll_back()

    def roll_back(self) -> None:
        """End the open transaction without its changes."""
        self._is_open = False
        try:
            self.execute("rollback")
        except LakeError:
            # A failed commit has already ended the transaction.
            return

    def commit_mark(self) -> CommitMark | None:
        """Return what another commit of any process would change; None if that is not known.

        It is the size and the time of the catalog's files. Times have steps of some milliseconds,
        so nothing is known of a file that was written just now.
        """
        if isinstance(self.path, SharedLake):
            return None
        mark: CommitMark = ()
        for name in (CATALOG, CATALOG_LOG):
            with suppress(FileNotFoundError):
                found = (self.path / name).stat()
                if time.time_ns() - found.st_mtime_ns < JUST_NOW_NS:
                    return None
                mark += (found.st_ino, found.st_size, found.st_mtime_ns)
        return mark

    @contextmanager
    def view(self, name: str, table: "pa.Table") -> Iterator[None]:
        """Let SQL within the block read an Arrow table under a name."""
        if table.num_rows <= FEW_ROWS:
            with self.stream("copied", table):
                self.execute(f"create or replace temp table {name} as from copied")
            try:
                yield
            finally:
                with suppress(LakeError):  # a failed transaction has already dropped the copy
                    self.execute(f"drop table temp.{name}")
            return
        held = _HeldRows(table)
        self._connection.register(name, held)
        try:
            yield
        finally:
            self._connection.unregister(name)
            held.table = table.schema.empty_table()

    @contextmanager
    def stream(self, name: str, table: "pa.Table") -> Iterator[None]:
        """Let one scan within the block read an Arrow table under a name; another one fails.

        An insert of many rows takes a fifth less CPU time than from a `view`, for which DuckDB has
        Arrow's scanner read the rows.
        """
        self._connection.register(name, table.__arrow_c_stream__())
        try:
            yield
        finally:
            self._connection.unregister(name)

    @cached_property
    def meta_columns(self) -> frozenset[tuple[str, str]]:
        """The columns of the tables of `meta` when this was first asked."""
        return columns_in(self, "meta")

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection itself, for operations without a method here."""
        return self._connection


@contextmanager
def lake_errors(path: LakeAddress) -> Iterator[None]:
    """Turn DuckDB's errors about the lake into one LakeError that says what to do."""
    try:
        yield
    except duckdb.Error as error:
        text = str(error)
        if refusal := explained(text, path):
            raise refusal from None
        if fault := io_fault(error, path if isinstance(path, Path) else None):
            raise LakeError(fault.what, remedy=fault.remedy) from None
        if isinstance(path, SharedLake):
            text = without_secrets(text, path.catalog, *store_keys())
        failure = LakeError(f"The lake in {path} failed: {text}.", remedy=_remedy(text))
        # DuckDB's errors about a shared lake may contain the password.
        raise failure from (None if isinstance(path, SharedLake) else error)


@contextmanager
def stoppable(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Re-raise the exception of a signal: KeyboardInterrupt, or Prefect's own for SIGTERM.

    DuckDB 1.5.5 turns it into a RuntimeError, as if the query had failed, but its threads continue
    the query. The next use of the connection, even closing it, would wait for them.
    """
    try:
        yield
    except RuntimeError as error:
        cause = error.__cause__
        if cause is None or isinstance(cause, Exception):
            raise
        connection.interrupt()
        raise cause from None


def _remedy(text: str) -> str:
    lowered = text.lower()
    if "readonly" in lowered or "read-only" in lowered:
        return "Make the folder writable for this user, or set FLEETLAKE_LAKE to a writable one."
    if "unable to open database file" in lowered:  # SQLite's message for any cause
        return f"Check that this user may read and write it. {MORE_FILES}."
    if "not a database" in lowered or "malformed" in lowered:
        return "The catalog is damaged: run `fleetlake check`, which says how to get it back."
    return "Run `fleetlake doctor`. Committed data is intact."


def has_meta(lake: Lake, name: str) -> bool:
    """Return whether a lake, as it was at some time, had a table of `meta`.

    Opening it for writing creates all of them.
    """
    return not lake.is_read_only or name in {table for table, _ in lake.meta_columns}
