"""PostgreSQL as a target, through ADBC: binary COPY writes rows straight into the table.

PostgreSQL creates tables within a transaction, so a stopped export leaves nothing behind.

Foreign keys say which columns name rows of which table. They are not enforced: rows may outlive
what they name, such as a removed device, and each table is exported in a transaction of its own.
PostgreSQL 18 has such keys. Earlier versions enforce a key for each new row, except in a session
whose role is `replica`; a user who may not set that gets no foreign keys.
"""

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
from adbc_driver_postgresql import dbapi

from fleetlake.exporters.contract import ExportMark
from fleetlake.exporters.sql import MARKS_TABLE, Dialect, SqlExporter, column_types

POSTGRES = Dialect(
    types=column_types("postgres"),
    columns=(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = {table}"
    ),
    has_comments=True,
)
_HAS_NOT_ENFORCED, _HAS_PRIVILEGE = 180_000, 150_000  # versions of the server
_SUFFIX = "_fleetlake_fk"
"""Ending of the names of foreign keys that exports add."""


def open_target(address: str) -> "PostgresExporter":
    """Connect to postgresql://user:password@host/database, or with libpq's name=value pairs."""
    return PostgresExporter(dbapi.connect(address), POSTGRES)


class PostgresExporter(SqlExporter):
    """Writes new rows without staging, because the driver supports every column type."""

    def purge(self, table: str) -> None:
        """Rewrite the table's file and statistics, without deleted rows."""
        self._connection.adbc_connection.set_autocommit(True)
        try:
            for name in (table, MARKS_TABLE):
                self._run(f"VACUUM (FULL, ANALYZE) {self._dialect.name(name)}")
        finally:
            self._connection.adbc_connection.set_autocommit(False)

    def _create(self, table: str, mark: ExportMark) -> None:
        for child, key in self._constraints(table, "f"):
            self._run(f"ALTER TABLE {child} DROP CONSTRAINT {self._dialect.name(key)}")
        super()._create(table, mark)

    def _finish(self, table: str, mark: ExportMark, *, is_new: bool) -> None:
        name, columns = self._dialect.name, self._dialect.names(mark.key)
        if mark.is_parent and not self._constraints(table, "p"):
            self._run(f"ALTER TABLE {name(table)} ADD PRIMARY KEY ({columns})")
        elif is_new and mark.key:
            self._run(f"CREATE INDEX {name(f'{table}_key')} ON {name(table)} ({columns})")
        if self._unenforced:
            self._relate(table, mark)

    def _relate(self, table: str, mark: ExportMark) -> None:
        """Add the foreign keys from and to a table that are missing."""
        name, marks = self._dialect.name, {table: mark}
        stored = f"SELECT {name('table_name')}, {name('mark')} FROM {name(MARKS_TABLE)}"
        for other, text in self._rows(stored):
            held = ExportMark.from_text(text)
            is_near = held and {table, other} & {*held.parents.values(), *mark.parents.values()}
            if is_near and (held := self.mark(other)):
                marks[other] = held
        present = {key for _, key in self._constraints(table, "f")}
        for child, column, parent in (
            (child, column, parent)
            for child, of_child in marks.items()
            for column, parent in of_child.parents.items()
            if table in {child, parent} and parent in marks and marks[parent].is_parent
        ):
            [id_] = marks[parent].key
            key = f"{child}_{column}"[: 63 - len(_SUFFIX)] + _SUFFIX
            is_same = marks[child].columns[column] == marks[parent].columns[id_]
            if is_same and key not in present:
                self._run(
                    f"ALTER TABLE {name(child)} ADD CONSTRAINT {name(key)} FOREIGN KEY "
                    f"({name(column)}) REFERENCES {name(parent)} ({name(id_)}) {self._unenforced}"
                )

    def _constraints(self, table: str, kind: str) -> list[tuple[str, str]]:
        """Return the table and name of each key that we add: `p` primary, `f` from and to it."""
        found = self._dialect.text(self._dialect.name(table))
        return self._rows(
            f"SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = '{kind}' "
            f"AND (conname LIKE '%{_SUFFIX}' OR contype = 'p') "
            "AND connamespace = current_schema()::regnamespace "
            f"AND to_regclass({found}) IN (conrelid, confrelid)"
        )

    @cached_property
    def _unenforced(self) -> str | None:
        """The clause of a foreign key that holds up no row; None if this user can have none."""
        [(version,)] = self._rows("SELECT current_setting('server_version_num')::int")
        if version >= _HAS_NOT_ENFORCED:
            return "NOT ENFORCED"
        may_skip = "SELECT has_parameter_privilege('session_replication_role', 'SET')"
        is_skipped = version >= _HAS_PRIVILEGE and self._rows(may_skip) == [(True,)]
        return "DEFERRABLE INITIALLY DEFERRED NOT VALID" if is_skipped else None

    def _load(
        self, table: str, rows: pa.RecordBatchReader | None, mark: ExportMark, before: Sequence[str]
    ) -> None:
        if self._unenforced and "NOT VALID" in self._unenforced and self._constraints(table, "f"):
            self._run("SET LOCAL session_replication_role = replica")
        for statement in before:
            self._run(statement)
        if rows:
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(table, rows, mode="append")
        for statement in self._mark_statements(table, mark.as_text()):
            self._run(statement)
