"""Switch finished marts into the lake: one transaction, after every test has passed.

dbt builds in a scratch file (`<lake>/dbt/build.duckdb`), so a failed or killed build changes
nothing in the lake. A reader always sees the marts of a single build, or of that and the live
builds after it. A mart whose rows have not changed is not rewritten. For an incremental mart that
names its unit, as all of ours do, only the units computed since the last switch are written.
"""

from dataclasses import dataclass
from functools import cached_property

import duckdb

from fleetlake.lake.tables import statistics_statements
from fleetlake.marts.dbt import NodeResult
from fleetlake.text.quoting import quoted

_DATABASES = ["build", "lake"]
BUILT_AT = "built_at"
"""Column of an incremental mart: when a build computed the row."""


@dataclass(frozen=True)
class Switcher:
    """Copies marts and staging views from a build file into the lake."""

    connection: duckdb.DuckDBPyConnection

    def replace_view(self, node: NodeResult) -> bool:
        """Create or replace a staging view of the lake. Returns True."""
        sql = node.sql.replace('"build".', '"lake".')
        name = f"lake.{quoted(node.schema)}.{quoted(node.name)}"
        self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {sql}")
        return True

    def update_table(self, node: NodeResult) -> bool:
        """Update a mart of the lake to the build's. Returns whether anything was written."""
        name = f"{quoted(node.schema)}.{quoted(node.name)}"
        new, old = f"build.{name}", f"lake.{name}"
        columns = (self._columns.get((database, node.schema, node.name)) for database in _DATABASES)
        is_other = len({*columns}) > 1
        if is_other or (node.unit and self._is_all_recomputed(new, old)):
            self.connection.execute(f"CREATE OR REPLACE TABLE {old} AS FROM {new}")
            if not self._count(old):
                self.connection.execute(statistics_statements(old))
            return True
        written = bool(node.unit) and self._replace_units(new, old, node.unit)
        if self._holds_same_rows(new, old, node):
            return written
        self.connection.execute(f"DELETE FROM {old}")
        self.connection.execute(f"INSERT INTO {old} BY NAME FROM {new}")
        return True

    def _replace_units(self, new: str, old: str, unit: tuple[str, ...]) -> bool:
        """Replace the units that were computed after the lake's newest."""
        keys = ", ".join(map(quoted, unit))
        fresh, newest = f"{new} WHERE {BUILT_AT} > ?::TIMESTAMPTZ", [self._newest(old)]
        self.connection.execute(
            f"DELETE FROM {old} WHERE ({keys}) IN (SELECT DISTINCT {keys} FROM {fresh})", newest
        )
        insert = f"INSERT INTO {old} BY NAME FROM {fresh}"
        count = self.connection.execute(insert, newest).fetchone()
        return bool(count and count[0])

    def _is_all_recomputed(self, new: str, old: str) -> bool:
        """Return whether every unit was computed since the last switch, as in a full build.

        The table is then replaced, because matching millions of units would exhaust the memory.
        """
        found = self.connection.execute(
            f"SELECT min({BUILT_AT}) > ?::TIMESTAMPTZ FROM {new}", [self._newest(old)]
        ).fetchone()
        return bool(found and found[0])

    def _newest(self, table: str) -> str:
        """Return when the newest unit of a table was computed, as text; -infinity if never."""
        found = self.connection.execute(
            f"SELECT coalesce(max({BUILT_AT}), '-infinity')::VARCHAR FROM {table}"
        ).fetchone()
        return str(found[0]) if found else ""

    @cached_property
    def _columns(self) -> dict[tuple[str, str, str], str]:
        """Return names and types of each table's columns, by database, schema and table."""
        found = self.connection.execute(
            "SELECT database_name, schema_name, table_name,"
            " list((column_name, data_type) ORDER BY column_index)::VARCHAR"
            " FROM duckdb_columns() WHERE list_contains(?, database_name) GROUP BY ALL",
            [_DATABASES],
        ).fetchall()
        return {(database, schema, table): columns for database, schema, table, columns in found}

    def _count(self, table: str) -> int:
        found = self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(found[0]) if found else 0

    def _holds_same_rows(self, new: str, old: str, node: NodeResult) -> bool:
        """Return whether two tables hold the same rows; an incremental mart is only counted."""
        count = self._count(new)
        if count != self._count(old):
            return False
        return not count or bool(node.unit) or self._digest(new) == self._digest(old)

    def _digest(self, table: str) -> int:
        """Return a hash of all values of a table, independent of the order of rows."""
        found = self.connection.execute(
            f"SELECT sum(hash(t)::HUGEINT) FROM {table} AS t"
        ).fetchone()
        return int(found[0]) if found else 0
