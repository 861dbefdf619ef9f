"""Switch finished marts into the lake: one transaction, after all tests have run.

dbt builds in a scratch file (`<lake>/dbt/build.duckdb`), so a killed build changes nothing in the
lake, and a failed mart keeps its last good rows. A reader always sees the marts of a single build,
or of that and the live builds after it, apart from those that are marked as stale. Of a large mart,
only the rows that differ are written; of an incremental mart that names its unit, as all of ours
do, the units computed since the last switch. Each write is a file. The catalog would keep small
ones in rows of its own, which do not go when snapshots expire.
"""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import duckdb

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Mode
from fleetlake.lake.ducklake import files_of
from fleetlake.marts.dbt import NodeResult
from fleetlake.text.quoting import quoted

_DATABASES = ["build", "lake"]
BUILT_AT = "built_at"
"""Column of an incremental mart: when a build computed the row."""

FEW_ROWS = 50_000
"""A table of up to this many rows is rewritten: it stays one file of a few megabytes."""

MOST_FILES = 20
"""A table of this many files is rewritten as one: readers open them all.

An incremental mart may have another file for each `FEW_ROWS` rows, so that rewriting it costs no
more, on average, than rewriting a small table each time.
"""


def replace_current_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create or replace `current.<list>` for each list with history: what the service lists now."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS lake.current")
    for endpoint in ENDPOINTS.values():
        if endpoint.mode is Mode.HISTORY:
            name = quoted(endpoint.name)
            connection.execute(
                f"CREATE OR REPLACE VIEW lake.current.{name} AS"
                f" SELECT * EXCLUDE (valid_to) FROM lake.raw.{name} WHERE valid_to IS NULL"
            )


@dataclass(frozen=True)
class Switcher:
    """Copies marts and staging views from a build file into the lake.

    `built_at` is the build's time in the rows that it computed.
    """

    connection: duckdb.DuckDBPyConnection
    built_at: datetime
    created: list[str] = field(default_factory=list, init=False)
    """Names of the tables that were created or replaced, and so have lost their comments."""

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
        newest = self._newest(old) if node.unit and not is_other else None
        if is_other or (newest and self._is_whole(new, newest)):
            self.connection.execute(f"CREATE OR REPLACE TABLE {old} AS FROM {new}")
            self.created.append(node.name)
            return True
        if newest is None:
            return self._replace_rows(new, old, node)
        written = self._replace_units(new, old, node.unit, newest)
        if self._rewrite_unless_complete(new, old):
            return True
        if written and self._files(node) >= MOST_FILES + self._count(old) // FEW_ROWS:
            self._rewrite(new, old)
        return written

    def _replace_rows(self, new: str, old: str, node: NodeResult) -> bool:
        """Replace the rows that differ, or all of a small mart. Returns whether any differ."""
        total = "(SELECT count(*) AS n, coalesce(sum(hash(t)::HUGEINT), 0) AS sum FROM {} AS t)"
        found = self.connection.execute(
            "SELECT new.n, new.n - old.n, new.sum - old.sum"
            f" FROM {total.format(new)} AS new, {total.format(old)} AS old"
        ).fetchone()
        rows, *grown = found or (0, 1, 0)
        if grown == [0, 0]:
            return False
        if rows <= FEW_ROWS or self._files(node) >= MOST_FILES:
            self._rewrite(new, old)
            return True
        self.connection.execute(
            "CREATE OR REPLACE TEMP TABLE different AS"
            " SELECT o.id AS old_id, n.id AS new_id, content"
            f" FROM (SELECT rowid AS id, hash(t) AS content FROM {old} AS t) AS o"
            f" FULL JOIN (SELECT rowid AS id, hash(t) AS content FROM {new} AS t) AS n"
            " USING (content) WHERE o.id IS NULL OR n.id IS NULL"
        )
        found = self.connection.execute(
            "SELECT count(*), count(new_id) - count(old_id),"
            " coalesce(sum(if(new_id IS NULL, -1, 1) * content::HUGEINT), 0) FROM different"
        ).fetchone()
        different, *replaced = found or (0, 0, 0)
        # The join does not show a row that is there twice in one of them: the totals do.
        if different > rows or replaced != grown:
            self._rewrite(new, old)
            return True
        self.connection.execute(f"DELETE FROM {old} WHERE rowid IN (SELECT old_id FROM different)")
        self.connection.execute(
            f"INSERT INTO {old} BY NAME FROM {new} WHERE rowid IN (SELECT new_id FROM different)"
        )
        return True

    def _rewrite_unless_complete(self, new: str, old: str) -> bool:
        """Replace all rows if their number differs: some are there twice, or were deleted."""
        is_complete = self._count(new) == self._count(old)
        if not is_complete:
            self._rewrite(new, old)
        return not is_complete

    def _rewrite(self, new: str, old: str) -> None:
        """Replace all rows of a table."""
        self.connection.execute(f"DELETE FROM {old}")
        self.connection.execute(f"INSERT INTO {old} BY NAME FROM {new}")

    def _files(self, node: NodeResult) -> int:
        """Return how many data files of the lake hold a mart."""
        found = self.connection.execute(
            f"SELECT count(*) FROM {files_of(node.schema, node.name)}"
        ).fetchone()
        return int(found[0]) if found else 0

    def _replace_units(self, new: str, old: str, unit: tuple[str, ...], newest: str) -> bool:
        """Replace the units that were computed after the lake's newest."""
        keys = ", ".join(map(quoted, unit))
        fresh = f"{new} WHERE {BUILT_AT} > ?::TIMESTAMPTZ"
        self.connection.execute(
            f"DELETE FROM {old} WHERE ({keys}) IN (SELECT DISTINCT {keys} FROM {fresh})", [newest]
        )
        self._delete_units_with_null(old, fresh, newest, unit)
        insert = f"INSERT INTO {old} BY NAME FROM {fresh}"
        count = self.connection.execute(insert, [newest]).fetchone()
        return bool(count and count[0])

    def _delete_units_with_null(
        self, old: str, fresh: str, newest: str, unit: tuple[str, ...]
    ) -> None:
        """Delete the units with a null: they equal nothing, except as rows, which is slower."""
        keys = ", ".join(map(quoted, unit))
        is_null = f"({' OR '.join(f'{quoted(key)} IS NULL' for key in unit)})"
        found = self.connection.execute(f"SELECT 1 FROM {fresh} AND {is_null} LIMIT 1", [newest])
        if found.fetchone():
            self.connection.execute(
                f"DELETE FROM {old} WHERE {is_null}"
                f" AND row({keys}) IN (SELECT row({keys}) FROM {fresh} AND {is_null})",
                [newest],
            )

    def _is_whole(self, new: str, newest: str) -> bool:
        """Return whether every unit was computed since the last switch, as in a full build.

        Also if the lake has units of later times, as after the clock was put back: which ones are
        new does not follow from times then. The table is replaced, because matching millions of
        units would exhaust the memory.
        """
        found = self.connection.execute(
            f"SELECT min({BUILT_AT}) > $1::TIMESTAMPTZ OR $2::TIMESTAMPTZ <= $1::TIMESTAMPTZ"
            f" FROM {new}",
            [newest, f"{self.built_at}"],
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
