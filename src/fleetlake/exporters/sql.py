"""A SQL database as a target, through ADBC: rows are staged, then moved in one transaction.

A `Dialect` holds the differences between databases, as values only. Marks are stored in a table
beside the exported ones. In some databases creating a table ends the transaction, so an empty
mark is committed first. If the export stops then, the next one recognises the table as its own
and exports it in full. No export changes a table without a mark.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fleetlake.exporters.contract import ExportMark, TableChanges, foreign_table
from fleetlake.text.tables_beside import rows_beside

MARKS_TABLE = "fleetlake_exports"
STAGE = "fleetlake_stage"

UNFINISHED = ""
"""Mark of a table that is being created."""


def column_types(database: str) -> dict[str, str]:
    """Return a database's column types by those of DuckDB.

    In PostgreSQL, JSON is `json`: `jsonb` rejects some texts that JSON allows, and queries can cast
    to it.
    """
    return {row["duckdb"]: row[database] for row in rows_beside(__file__, "column_types.csv")}


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The SQL dialect of a database.

    `columns` is the query for the names of a table's columns; `{table}` stands for the table's
    name as a literal. `from_stage` maps a type to the expression that converts a staged value.
    `is_script` sends a transaction as one script, for a database without transactions on
    connections. `has_comments` describes a table and its columns with `COMMENT ON`.
    """

    types: Mapping[str, str]
    columns: str
    quote: str = '"'
    has_backslash: bool = False
    from_stage: Mapping[str, str] = field(default_factory=dict)
    is_script: bool = False
    has_comments: bool = False

    def name(self, name: str) -> str:
        """Return a name quoted. Raises: ValueError for a name with a NUL.

        >>> print(Dialect(types={}, columns="").name('2"-pipe'))
        "2""-pipe"
        """
        if "\0" in name:
            raise ValueError("an SQL name cannot hold a NUL character")
        if self.quote == "`":  # names in backticks are escaped like texts
            name = name.replace("\\", "\\\\").replace("`", "\\`")
        else:
            name = name.replace(self.quote, self.quote * 2)
        return f"{self.quote}{name}{self.quote}"

    def names(self, names: Sequence[str]) -> str:
        """Return names quoted and separated by commas."""
        return ", ".join(map(self.name, names))

    def text(self, text: str) -> str:
        """Return a text as a literal."""
        if self.has_backslash:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


class SqlExporter:
    """Stores each table in the connection's current schema."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        name, text = dialect.name, dialect.types["VARCHAR"]
        time = dialect.types["TIMESTAMP WITH TIME ZONE"]
        self._run(
            f"CREATE TABLE IF NOT EXISTS {name(MARKS_TABLE)} ({name('table_name')} {text}, "
            f"{name('mark')} {text}, {name('exported_at')} {time})"
        )
        self._commit()

    def mark(self, table: str) -> ExportMark | None:
        """Return the mark of a table if the table exists with all columns of the mark."""
        mark = ExportMark.from_text(self._stored_mark(table) or UNFINISHED)
        return mark if mark and mark.columns.keys() <= self._columns_of(table) else None

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: ExportMark) -> None:
        """Replace all rows of the table; create it again unless it only has more columns.

        Raises: ExportFailed for a table that no export created.
        """
        held = self.mark(table)
        if is_new := held is None or not held.columns.items() <= mark.columns.items():
            self._create(table, mark)
        else:
            self._add_columns(table, held, mark)
        self._describe(table, None if is_new else held, mark)
        self._load(table, rows, mark, [f"DELETE FROM {self._dialect.name(table)} WHERE true"])
        self._finish(table, mark, is_new=is_new)
        self._commit()

    def change(self, table: str, changes: TableChanges, mark: ExportMark) -> None:
        """Delete the stale rows by key, then insert the new ones."""
        held = self.mark(table)
        assert held is not None
        self._add_columns(table, held, mark)
        self._describe(table, held, mark)
        with self._staged("stale", changes.stale.to_reader(), changes.stale.num_rows) as stale:
            deletion = [self._deletion(table, stale, changes.stale)] if stale else []
            self._load(table, changes.rows if changes.count else None, mark, deletion)
        self._commit()

    def purge(self, table: str) -> None:
        """Do nothing: how long a warehouse keeps deleted rows is a setting of its own."""

    def close(self) -> None:
        """Close the connection, which rolls back an open transaction."""
        self._connection.close()

    def _stored_mark(self, table: str) -> str | None:
        """Return the text of a table's mark; None for a table that no export started."""
        name = self._dialect.name
        found = self._rows(
            f"SELECT {name('mark')} FROM {name(MARKS_TABLE)} "
            f"WHERE {name('table_name')} = {self._dialect.text(table)}"
        )
        return found[0][0] if found else None

    def _columns_of(self, table: str) -> set[str]:
        """Return the names of a table's columns; none if there is no such table."""
        listing = self._dialect.columns.replace("{table}", self._dialect.text(table))
        return {column for (column,) in self._rows(listing)}

    def _create(self, table: str, mark: ExportMark) -> None:
        dialect = self._dialect
        is_present = bool(self._columns_of(table))
        if is_present and self._stored_mark(table) is None:
            raise foreign_table(table, elsewhere="schema")
        columns = (f"{dialect.name(n)} {dialect.types[kind]}" for n, kind in mark.columns.items())
        self._run_together(self._mark_statements(table, UNFINISHED))
        if is_present:  # otherwise the name could match a table of another schema
            self._run(f"DROP TABLE {dialect.name(table)}")
        self._run(f"CREATE TABLE {dialect.name(table)} ({', '.join(columns)})")

    def _add_columns(self, table: str, held: ExportMark, mark: ExportMark) -> None:
        for name in mark.columns.keys() - held.columns.keys():
            kind = self._dialect.types[mark.columns[name]]
            self._run(
                f"ALTER TABLE {self._dialect.name(table)} "
                f"ADD COLUMN IF NOT EXISTS {self._dialect.name(name)} {kind}"
            )

    def _finish(self, table: str, mark: ExportMark, *, is_new: bool) -> None:
        """Add keys and indexes to a table that was replaced, in the same transaction."""

    def _describe(self, table: str, held: ExportMark | None, mark: ExportMark) -> None:
        """Comment on the table and on the columns whose descriptions have changed."""
        if not self._dialect.has_comments:
            return
        name, text = self._dialect.name, self._dialect.text
        if mark.about != (held.about if held else ""):
            self._run(f"COMMENT ON TABLE {name(table)} IS {text(mark.about)}")
        for column, meaning in mark.meanings.items():
            if held is None or held.meanings.get(column) != meaning:
                self._run(f"COMMENT ON COLUMN {name(table)}.{name(column)} IS {text(meaning)}")

    def _load(
        self, table: str, rows: pa.RecordBatchReader | None, mark: ExportMark, before: Sequence[str]
    ) -> None:
        """In one transaction: run `before`, add the rows, store the mark."""
        with self._staged("rows", rows, 1 if rows else 0) as stage:
            insertion = [self._insertion(table, stage, mark)] if stage else []
            marking = self._mark_statements(table, mark.as_text())
            self._run_together([*before, *insertion, *marking])
            self._commit()

    def _insertion(self, table: str, stage: str, mark: ExportMark) -> str:
        name, shape = self._dialect.name, self._dialect.from_stage
        values = (shape.get(kind, "{}").format(name(n)) for n, kind in mark.columns.items())
        return (
            f"INSERT INTO {name(table)} ({self._dialect.names([*mark.columns])}) "
            f"SELECT {', '.join(values)} FROM {name(stage)}"
        )

    def _deletion(self, table: str, stage: str, stale: pa.Table) -> str:
        """Return the statement that deletes stale rows; plain equalities can use an index."""
        name = self._dialect.name
        same = " AND ".join(
            f"s.{name(n)} {'IS NOT DISTINCT FROM' if stale[n].null_count else '='} t.{name(n)}"
            for n in stale.column_names
        )
        return (
            f"DELETE FROM {name(table)} AS t "
            f"WHERE EXISTS (SELECT 1 FROM {name(stage)} AS s WHERE {same})"
        )

    def _mark_statements(self, table: str, mark: str) -> tuple[str, str]:
        name, text = self._dialect.name, self._dialect.text
        values = f"{text(table)}, {text(mark)}, CURRENT_TIMESTAMP"
        columns = self._dialect.names(["table_name", "mark", "exported_at"])
        return (
            f"DELETE FROM {name(MARKS_TABLE)} WHERE {name('table_name')} = {text(table)}",
            f"INSERT INTO {name(MARKS_TABLE)} ({columns}) SELECT {values}",
        )

    @contextmanager
    def _staged(
        self, purpose: str, rows: pa.RecordBatchReader | None, count: int
    ) -> Iterator[str | None]:
        """Yield the name of a temporary table with the rows; None if there are no rows."""
        if not count:
            yield None
            return
        stage = f"{STAGE}_{purpose}"
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(stage, rows, mode="replace")
        yield stage
        self._run(f"DROP TABLE {self._dialect.name(stage)}")

    def _run_together(self, statements: Sequence[str]) -> None:
        """Run statements in the open transaction, or as one script with its own transaction."""
        if self._dialect.is_script:
            script = ["BEGIN TRANSACTION", *statements, "COMMIT TRANSACTION"]
            self._run(";\n".join(script) + ";")
            return
        for statement in statements:
            self._run(statement)

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def _commit(self) -> None:
        if not self._dialect.is_script:
            self._connection.commit()
