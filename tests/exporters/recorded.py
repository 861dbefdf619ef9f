"""A driver that stands in for a warehouse: it records each statement and runs it in DuckDB.

sqlglot parses each statement in the warehouse's dialect, so one that the warehouse could not
parse fails here, and translates it to DuckDB.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import duckdb
import sqlglot
from sqlglot import exp


@dataclass
class Connection:
    """An ADBC-style connection to a warehouse of which only the dialect is real."""

    dialect: str
    file: Path
    statements: list[str] = field(default_factory=list)
    autocommit: bool = False

    def __post_init__(self) -> None:
        self.database = duckdb.connect(self.file)
        self.database.execute("SET TimeZone = 'UTC'")
        self.begin()

    def begin(self) -> None:
        """Open a transaction, if the warehouse has transactions."""
        if not self.autocommit:
            self.database.execute("BEGIN")

    def cursor(self) -> "Cursor":
        return Cursor(self)

    def commit(self) -> None:
        assert not self.autocommit, "such a connection has no transactions"
        self.statements.append("<commit>")
        self.database.execute("COMMIT")
        self.begin()

    def close(self) -> None:
        self.database.close()


class Cursor:
    """A cursor of the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, sql: str) -> None:
        self._connection.statements.append(sql)
        for statement in sqlglot.parse(sql, read=self._connection.dialect):
            assert statement is not None
            assert not isinstance(statement, exp.Command) or "TRANSACTION" in sql, sql
            is_definition = isinstance(statement, (exp.Create, exp.Drop, exp.Alter, exp.Comment))
            if is_definition and not self._connection.autocommit:
                self._connection.database.execute("COMMIT")  # as warehouses do
                self._connection.begin()
            self._connection.database.execute(_for_duckdb(statement))

    def adbc_ingest(self, table: str, rows: Any, mode: str) -> None:
        self._connection.statements.append(f"<ingest {mode} {table}>")
        assert mode == "replace"
        self._connection.database.register("ingested", rows)
        self._connection.database.execute(f'CREATE OR REPLACE TABLE "{table}" AS FROM ingested')

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._connection.database.fetchall()


def _for_duckdb(statement: exp.Expr) -> str:
    """Return a statement in DuckDB's dialect."""
    if isinstance(statement, exp.Transaction):
        return "BEGIN"
    if isinstance(statement, exp.Commit):
        return "COMMIT"
    sql = statement.sql(dialect="duckdb")
    columns = "information_schema.columns WHERE"
    sql = sql.replace(" VARIANT", " JSON")
    return re.sub(r'"main"\."INFORMATION_SCHEMA.COLUMNS" AS "COLUMNS" WHERE', columns, sql)
