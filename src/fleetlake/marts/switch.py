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
        if self._columns("build", node) != self._columns("lake", node):
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
        newer = f"{BUILT_AT} > coalesce((SELECT max({BUILT_AT}) FROM {old}), '-infinity')"
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE fresh AS FROM {new} WHERE {newer}")
        self.connection.execute(
            f"DELETE FROM {old} WHERE ({keys}) IN (SELECT DISTINCT {keys} FROM fresh)"
        )
        count = self.connection.execute(f"INSERT INTO {old} BY NAME FROM fresh").fetchone()
        return bool(count and count[0])

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
