"""What a reader in Python reads: the lake, one of its snapshots, or a published snapshot.

Every read has a connection of its own, to one DuckDB that has the lake attached read-only. DuckLake
keeps each snapshot, so a reader sees one, holds no lock, and never makes a load wait.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from fleetlake.analysis.frames import OpenRelation
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake.attach import UNCHECKED
from fleetlake.lake.connection import lake_errors
from fleetlake.lake_address import LakeAddress
from fleetlake.marts.session import attach_snapshot
from fleetlake.publishing.publish import DATABASE, FOLDER
from fleetlake.text.quoting import exact, literal, quoted

Close = Callable[[], object]

_RAW = "raw_"
"""Starts the name of a published raw table."""

_VIEWS = "select view_name from duckdb_views() where database_name = 'published' and not internal"


_OF_VALUES = ("Conversion Error", "Out of Range Error", "Mismatch Type Error")
"""Start DuckDB's messages about values that a query computes; they say nothing of the lake."""


@dataclass(frozen=True, kw_only=True)
class ReadSource:
    """A DuckDB connection that reads a lake or a snapshot, and the database that holds it there.

    `newest` is the source of the whole lake, which stays open for as long as that of a snapshot.
    `folder` is that of a published snapshot, which may have been moved.
    """

    connection: duckdb.DuckDBPyConnection
    address: LakeAddress
    database: str
    newest: "ReadSource | None" = None
    folder: Path | None = None

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection of its own. Raises: LakeError; UsageError for a query that fails."""
        with lake_errors(self.address), self.connection.cursor() as cursor, _query_errors():
            cursor.execute(
                f"USE {self.database}; SET TimeZone = 'UTC'; SET enable_progress_bar = false;"
                # A name in SQL is a table, never a variable of this program.
                "SET python_enable_replacements = false;"
            )
            if self.folder:
                cursor.execute(f"SET VARIABLE {FOLDER} = {literal(exact(self.folder))}")
            yield cursor

    def reading(self, query: str, parameters: object = None) -> OpenRelation:
        """Return what opens a query on a connection of its own, and closes it."""

        @contextmanager
        def relation() -> Iterator[duckdb.DuckDBPyRelation]:
            with self.cursor() as cursor:
                yield cursor.sql(query, params=parameters)

        return relation


@contextmanager
def _query_errors() -> Iterator[None]:
    """Turn DuckDB's errors about values into a UsageError. Raises: duckdb.Error for all others.

    While batches are read, Arrow passes on DuckDB's errors as OSError.
    """
    try:
        yield
    except (duckdb.Error, OSError) as error:
        if str(error).startswith(_OF_VALUES):
            raise UsageError(f"DuckDB rejected this query: {error}") from None
        if isinstance(error, OSError):
            raise duckdb.Error(str(error)) from None
        raise


def snapshot_source(newest: ReadSource, snapshot: int) -> tuple[ReadSource, Close]:
    """Open one snapshot of an open lake. Raises: LakeError."""
    connection = duckdb.connect(config=UNCHECKED)
    with lake_errors(newest.address):
        attach_snapshot(connection, newest.address, snapshot)
    source = ReadSource(
        connection=connection, address=newest.address, database="lake", newest=newest
    )
    return source, connection.close


def published_source(folder: Path) -> tuple[ReadSource, Close]:
    """Open a published snapshot, with the names that its tables have in the lake.

    Raises: LakeError if there is none.
    """
    file = (folder / DATABASE).resolve()
    if not file.exists():
        raise LakeError(
            f"There is no published snapshot in {folder}.",
            remedy="Run `fleetlake publish` first, or set FLEETLAKE_PUBLISHED.",
        )
    connection = duckdb.connect()
    with lake_errors(folder):
        connection.execute(f"ATTACH {literal(file)} AS published (READ_ONLY)")
        for schema in ("raw", "staging", "marts", "meta"):
            connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET VARIABLE {FOLDER} = {literal(exact(file.parent))}")
        for (name,) in connection.execute(_VIEWS).fetchall():
            schema = "raw" if name.startswith(_RAW) else "marts"
            view = f"{schema}.{quoted(name.removeprefix(_RAW))}"
            connection.execute(f"CREATE VIEW {view} AS FROM published.main.{quoted(name)}")
    source = ReadSource(
        connection=connection, address=folder, database="memory", folder=file.parent
    )
    return source, connection.close
