"""A SQL database as a target, by ADBC: rows are staged, then moved in one transaction.

What databases differ in is a `Dialect`, values only. The marks are a table beside the exported
ones. Where making a table ends a transaction, an empty mark goes first: an export that is
stopped leaves the table with it, so the next one knows that the table is its own, and sends it
whole. A table without any mark is somebody else's.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from fleetlake.exporters.contract import Changes, Mark, in_the_way

MARKS = "fleetlake_exports"
STAGE = "fleetlake_stage"

UNFINISHED = ""
"""Mark of a table that is being made."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a database spells what an export says.

    `columns` asks for the names of a table's columns, with `{table}` for its name as a text.
    `from_stage` says by type how a staged value becomes a column's. `is_script` sends a
    transaction as one statement, for a database whose connections know none. `has_indexes` says
    that the key is worth one.
    """

    types: Mapping[str, str]
    columns: str
    quote: str = '"'
    has_backslash: bool = False
    from_stage: Mapping[str, str] = field(default_factory=dict)
    is_script: bool = False
    has_indexes: bool = False

    def name(self, name: str) -> str:
        """Return a name quoted. Raises: ValueError for a name with a NUL.

        >>> print(Dialect(types={}, columns="").name('2"-pipe'))
        "2""-pipe"
        """
        if "\0" in name:
            raise ValueError("an SQL name cannot hold a NUL character")
        if self.quote == "`":  # names are then escaped as texts are
            name = name.replace("\\", "\\\\").replace("`", "\\`")
        else:
            name = name.replace(self.quote, self.quote * 2)
        return f"{self.quote}{name}{self.quote}"

    def names(self, names: Sequence[str]) -> str:
        """Return names quoted, with commas between."""
        return ", ".join(map(self.name, names))

    def text(self, text: str) -> str:
        """Return a text as a literal."""
        if self.has_backslash:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


class SqlExporter:
    """Keeps each table as a table of the schema that the connection is in."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        name, text = dialect.name, dialect.types["VARCHAR"]
        time = dialect.types["TIMESTAMP WITH TIME ZONE"]
        self._run(
            f"CREATE TABLE IF NOT EXISTS {name(MARKS)} ({name('table_name')} {text}, "
            f"{name('mark')} {text}, {name('exported_at')} {time})"
        )
        self._commit()

    def mark(self, table: str) -> Mark | None:
        """Return the mark of a table that is there with all the columns that it names."""
        mark = Mark.from_text(self._noted(table) or UNFINISHED)
        return mark if mark and mark.columns.keys() <= self._present(table) else None

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: Mark) -> None:
        """Put the rows in place of the table's; a table of another shape is made anew.

        Raises: ExportFailed for a table that no export made.
        """
        held = self.mark(table)
        is_new = held is None or held.columns != mark.columns
        if is_new:
            self._make(table, mark)
        self._move(table, rows, mark, [f"DELETE FROM {self._dialect.name(table)} WHERE true"])
        if is_new and mark.key and self._dialect.has_indexes:
            self._run(
                f"CREATE INDEX {self._dialect.name(f'{table}_key')} "
                f"ON {self._dialect.name(table)} ({self._dialect.names(mark.key)})"
            )
        self._commit()

    def change(self, table: str, changes: Changes, mark: Mark) -> None:
        """Delete by key what is stale, insert what is new."""
        held = self.mark(table)
        assert held is not None
        for name in mark.columns.keys() - held.columns.keys():
            kind = self._dialect.types[mark.columns[name]]
            self._run(
                f"ALTER TABLE {self._dialect.name(table)} "
                f"ADD COLUMN IF NOT EXISTS {self._dialect.name(name)} {kind}"
            )
        with self._staged("stale", changes.stale.to_reader(), changes.stale.num_rows) as stale:
            deletion = [self._deletion(table, stale, changes.stale)] if stale else []
            self._move(table, changes.rows if changes.count else None, mark, deletion)
        self._commit()

    def close(self) -> None:
        """End the connection; what was not committed has not happened."""
        self._connection.close()

    def _noted(self, table: str) -> str | None:
        """Return the text of a table's mark, None for a table that no export began."""
        name = self._dialect.name
        found = self._rows(
            f"SELECT {name('mark')} FROM {name(MARKS)} "
            f"WHERE {name('table_name')} = {self._dialect.text(table)}"
        )
        return found[0][0] if found else None

    def _present(self, table: str) -> set[str]:
        """Return the names of a table's columns, none where there is no such table."""
        listing = self._dialect.columns.replace("{table}", self._dialect.text(table))
        return {column for (column,) in self._rows(listing)}

    def _make(self, table: str, mark: Mark) -> None:
        dialect = self._dialect
        is_present = bool(self._present(table))
        if is_present and self._noted(table) is None:
            raise in_the_way(table, elsewhere="schema")
        columns = (f"{dialect.name(n)} {dialect.types[kind]}" for n, kind in mark.columns.items())
        self._run_together(self._marking(table, UNFINISHED))
        if is_present:  # else the name may mean a table of another schema
            self._run(f"DROP TABLE {dialect.name(table)}")
        self._run(f"CREATE TABLE {dialect.name(table)} ({', '.join(columns)})")

    def _move(
        self, table: str, rows: pa.RecordBatchReader | None, mark: Mark, before: Sequence[str]
    ) -> None:
        """In one transaction: run `before`, add the rows, note the mark."""
        with self._staged("rows", rows, 1 if rows else 0) as stage:
            insertion = [self._insertion(table, stage, mark)] if stage else []
            self._transact([*before, *insertion, *self._marking(table, mark.as_text())])

    def _insertion(self, table: str, stage: str, mark: Mark) -> str:
        name, shape = self._dialect.name, self._dialect.from_stage
        values = (shape.get(kind, "{}").format(name(n)) for n, kind in mark.columns.items())
        return (
            f"INSERT INTO {name(table)} ({self._dialect.names([*mark.columns])}) "
            f"SELECT {', '.join(values)} FROM {name(stage)}"
        )

    def _deletion(self, table: str, stage: str, stale: pa.Table) -> str:
        """Return what deletes the rows with stale keys; plain equalities can use an index."""
        name = self._dialect.name
        same = " AND ".join(
            f"s.{name(n)} {'IS NOT DISTINCT FROM' if stale[n].null_count else '='} t.{name(n)}"
            for n in stale.column_names
        )
        return (
            f"DELETE FROM {name(table)} AS t "
            f"WHERE EXISTS (SELECT 1 FROM {name(stage)} AS s WHERE {same})"
        )

    def _marking(self, table: str, mark: str) -> tuple[str, str]:
        name, text = self._dialect.name, self._dialect.text
        values = f"{text(table)}, {text(mark)}, CURRENT_TIMESTAMP"
        columns = self._dialect.names(["table_name", "mark", "exported_at"])
        return (
            f"DELETE FROM {name(MARKS)} WHERE {name('table_name')} = {text(table)}",
            f"INSERT INTO {name(MARKS)} ({columns}) SELECT {values}",
        )

    @contextmanager
    def _staged(
        self, purpose: str, rows: pa.RecordBatchReader | None, count: int
    ) -> Iterator[str | None]:
        """Yield the name of a table that holds the rows for a while, None where there are none."""
        if not count:
            yield None
            return
        stage = f"{STAGE}_{purpose}"
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(stage, rows, mode="replace")
        yield stage
        self._run(f"DROP TABLE {self._dialect.name(stage)}")

    def _transact(self, statements: Sequence[str]) -> None:
        self._run_together(statements)
        self._commit()

    def _run_together(self, statements: Sequence[str]) -> None:
        """Run statements in the open transaction, or in one of their own where none is open."""
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
