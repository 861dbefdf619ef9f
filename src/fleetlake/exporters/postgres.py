"""PostgreSQL as a target, by ADBC: rows go straight into the table, by binary COPY.

Making tables is part of a transaction here, so an export that is stopped has left nothing.
"""

from collections.abc import Sequence

import pyarrow as pa
from adbc_driver_postgresql import dbapi

from fleetlake.exporters.contract import Mark
from fleetlake.exporters.sql import Dialect, SqlExporter

POSTGRES = Dialect(
    types={
        "BOOLEAN": "boolean",
        "BIGINT": "bigint",
        "DOUBLE": "double precision",
        "DATE": "date",
        "TIMESTAMP WITH TIME ZONE": "timestamptz",
        "VARCHAR": "text",
        "JSON": "json",  # jsonb refuses some texts that JSON allows; cast where it is wanted
    },
    columns=(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = {table}"
    ),
    has_indexes=True,
)


def open_target(address: str) -> "PostgresExporter":
    """Connect to postgresql://user:password@host/database, or by libpq's name=value pairs."""
    return PostgresExporter(dbapi.connect(address), POSTGRES)


class PostgresExporter(SqlExporter):
    """Spares the staging of rows, since the driver writes every type that a table has."""

    def _move(
        self, table: str, rows: pa.RecordBatchReader | None, mark: Mark, before: Sequence[str]
    ) -> None:
        for statement in before:
            self._run(statement)
        if rows:
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(table, rows, mode="append")
        for statement in self._marking(table, mark.as_text()):
            self._run(statement)
