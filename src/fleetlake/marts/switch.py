"""Switch finished marts into the lake: one transaction, after every test has passed.

dbt builds in a scratch file (`<lake>/dbt/build.duckdb`), so a build that fails or is killed
has touched nothing that anyone reads, and a reader of the lake sees all marts of one build or
all of the one before. A mart whose rows have not changed is not written again; of one that
is built incrementally only the units computed since the last switch are.
"""

from dataclasses import dataclass

import duckdb

from fleetlake.marts.dbt import NodeResult

BUILT_AT = "built_at"
"""Column of an incremental mart: when the build computed the row."""


@dataclass(frozen=True)
class Switcher:
    """Writes marts and staging views into a lake, from a build file."""

    connection: duckdb.DuckDBPyConnection

    def put_view(self, node: NodeResult) -> bool:
        """Make a staging view of the lake anew. Returns True."""
        sql = node.sql.replace('"build".', '"lake".')
        name = f'lake."{node.schema}"."{node.name}"'
        self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {sql}")
        return True

    def put_table(self, node: NodeResult) -> bool:
        """Bring a mart of the lake to what was built. Returns whether anything was written."""
        name = f'"{node.schema}"."{node.name}"'
        new, old = f"build.{name}", f"lake.{name}"
        is_other = self._columns("build", node) != self._columns("lake", node)
        if is_other or (node.kind == "incremental" and self._is_all_newer(new, old)):
            self.connection.execute(f"CREATE OR REPLACE TABLE {old} AS FROM {new}")
            return True
        written = node.kind == "incremental" and self._put_units(new, old, node.unit)
        if self._digest(new, node) == self._digest(old, node):
            return written
        self.connection.execute(f"DELETE FROM {old}")
        self.connection.execute(f"INSERT INTO {old} BY NAME FROM {new}")
        return True

    def _put_units(self, new: str, old: str, unit: tuple[str, ...]) -> bool:
        """Replace the units of recomputation that are newer than the lake's newest."""
        keys = ", ".join(f'"{column}"' for column in unit)
        fresh, newest = f"{new} WHERE {BUILT_AT} > ?::TIMESTAMPTZ", [self._newest(old)]
        self.connection.execute(
            f"DELETE FROM {old} WHERE ({keys}) IN (SELECT DISTINCT {keys} FROM {fresh})", newest
        )
        insert = f"INSERT INTO {old} BY NAME FROM {fresh}"
        count = self.connection.execute(insert, newest).fetchone()
        return bool(count and count[0])

    def _is_all_newer(self, new: str, old: str) -> bool:
        """Return whether every unit was computed since the last switch, as in a full build.

        To look for each of millions of units among those of the lake would fill the memory.
        """
        found = self.connection.execute(
            f"SELECT min({BUILT_AT}) > ?::TIMESTAMPTZ FROM {new}", [self._newest(old)]
        ).fetchone()
        return bool(found and found[0])

    def _newest(self, table: str) -> str:
        """Return when the newest unit of a table was computed, as text: it may be never."""
        found = self.connection.execute(
            f"SELECT coalesce(max({BUILT_AT}), '-infinity')::VARCHAR FROM {table}"
        ).fetchone()
        return str(found[0]) if found else ""

    def _columns(self, database: str, node: NodeResult) -> list[tuple[str, str]]:
        return self.connection.execute(
            "SELECT column_name, data_type FROM duckdb_columns()"
            " WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index",
            [database, node.schema, node.name],
        ).fetchall()

    def _digest(self, table: str, node: NodeResult) -> tuple[int, ...] | None:
        """Return what tells two tables apart: of a large one the count, else every value."""
        what = "0" if node.kind == "incremental" else "coalesce(sum(hash(t)::HUGEINT), 0)"
        return self.connection.execute(f"SELECT count(*), {what} FROM {table} AS t").fetchone()
