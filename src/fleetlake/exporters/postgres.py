"""PostgreSQL as a target, through ADBC: binary COPY writes rows straight into the table.

PostgreSQL creates tables within a transaction, so a stopped export leaves nothing behind.
"""

from collections.abc import Sequence

import pyarrow as pa
from adbc_driver_postgresql import dbapi

from fleetlake.exporters.contract import ExportMark
from fleetlake.exporters.sql import MARKS_TABLE, Dialect, SqlExporter

POSTGRES = Dialect(
    types={
        "BOOLEAN": "boolean",
        "BIGINT": "bigint",
        "DOUBLE": "double precision",
        "DATE": "date",
        "TIMESTAMP WITH TIME ZONE": "timestamptz",
        "VARCHAR": "text",
        "JSON": "json",  # jsonb rejects some texts that JSON allows; queries can cast to it
    },
    columns=(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = {table}"
    ),
    has_indexes=True,
    has_comments=True,
)


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

    def _load(
        self, table: str, rows: pa.RecordBatchReader | None, mark: ExportMark, before: Sequence[str]
    ) -> None:
        for statement in before:
            self._run(statement)
        if rows:
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(table, rows, mode="append")
        for statement in self._mark_statements(table, mark.as_text()):
            self._run(statement)
