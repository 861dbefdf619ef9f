"""An open lake in Python: its schemas and tables by name, SQL, and the lake as of a past time.

Every read has a connection of its own, to one DuckDB that has the lake attached read-only. DuckLake
keeps each snapshot, so a reader sees one, holds no lock, and never makes a load wait.
"""

import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import duckdb

from fleetlake.analysis.frames import MetricRows, OpenRelation, Selection, Table, described
from fleetlake.analysis.metric_calls import with_metrics
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import READ_HISTORY, UNCHECKED, may_read_history
from fleetlake.lake.connection import lake_errors
from fleetlake.lake_address import LakeAddress, parse_lake_address
from fleetlake.marts.session import attach_snapshot
from fleetlake.publishing.snapshot_folders import DATABASE, FOLDER, published_folder
from fleetlake.settings import load_settings
from fleetlake.text.quoting import exact, literal, quoted
from fleetlake.text.wording import did_you_mean

if TYPE_CHECKING:  # a stub, so that editors know the tables
    from fleetlake.analysis.known_tables import Marts, Raw
    from fleetlake.lake.guard import Reads
    from fleetlake.monitoring.proof import AnswerProof

Close = Callable[[], object]

_OF_DEVICES = {
    **{name: f"{name}_name" for name in ("account", "group", "product")},
    **{name: name for name in ("account_name", "group_name", "product_name", "router_name")},
    "account_id": "account_id",
    "group_id": "group_id",
    "router": "router_id",
}
"""Columns of `device_inventory`, by the dimension that every device has."""

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

    def proof(self, query: str) -> "AnswerProof":
        """Return what the rows of a query rest on. Raises: UsageError for a published snapshot."""
        from fleetlake.lake.guard import tables_read  # noqa: PLC0415 - few ask for it

        if self.folder:
            raise UsageError(
                "A published snapshot does not say what its rows rest on.",
                remedy="Open the lake itself, `fleetlake.open()`, or read `snapshot.json`.",
            )
        with self.cursor() as cursor:
            lake = self.lake_on(cursor)
            return self.proof_of(lake, tables_read(lake, query))

    def lake_on(self, cursor: duckdb.DuckDBPyConnection) -> Lake:
        """Return the lake on one of these connections, to read it."""
        lake = Lake(self.address, cursor)
        lake.is_read_only = True
        return lake

    def proof_of(self, lake: Lake, reads: "Reads") -> "AnswerProof":
        """Return what an answer that reads some tables rests on."""
        from fleetlake.monitoring.proof import prove  # noqa: PLC0415 - few ask for it
        from fleetlake.monitoring.streams import lake_now  # noqa: PLC0415

        return prove(lake, reads, now=lake_now(lake, load_settings().clock))


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


Moment = str | date | datetime

_NAMES = (
    "select distinct table_name from duckdb_columns()"
    " where database_name = ? and schema_name = ? order by table_name"
)


class Schema:
    """The tables of a schema as attributes: `lake.marts.trips`. `dir()` and `list()` name them."""

    def __init__(self, source: ReadSource, name: str) -> None:
        self._source, self._name = source, name

    def __getattr__(self, name: str) -> Table:
        """Return a table. Raises: AttributeError naming the nearest one."""
        if name.startswith("_"):  # notebooks look for methods that draw an object
            raise AttributeError(name)
        names = [*self]
        if name not in names:
            nearest = get_close_matches(name, names, n=1)
            meant = f"Did you mean {nearest[0]}?" if nearest else f"It has: {', '.join(names)}."
            raise AttributeError(f"There is no table {self._name}.{name}. {meant}")
        return self[name]

    def __getitem__(self, name: str) -> Table:
        """Return a table by any name, also one that is not a Python name."""
        query = f"FROM {self._name}.{quoted(name)}"
        relation, prove = self._source.reading(query), partial(self._source.proof, query)
        about, meanings = _description(self._name, name)
        kinds = Selection(relation, prove).columns
        columns = {column: (kind, meanings.get(column, "")) for column, kind in kinds.items()}
        return described(f"{self._name}.{name}", about, columns)(relation, prove, meanings)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tables."""
        with self._source.cursor() as cursor:
            rows = cursor.execute(_NAMES, [self._source.database, self._name]).fetchall()
        yield from (name for (name,) in rows)

    def __dir__(self) -> list[str]:
        """Return the names of the tables, for completion."""
        return [*self]

    def __repr__(self) -> str:
        """Return the tables with what they hold."""
        lines = (f"{self._name}.{name}: {_description(self._name, name)[0]}" for name in self)
        return "\n".join(lines)


def _description(schema: str, table: str) -> tuple[str, dict[str, str]]:
    """Return what a table holds, and what its columns mean."""
    from fleetlake.marts.catalogue import described_in  # noqa: PLC0415 - it reads all models

    return described_in(schema, table)


class LakeReader:
    """An open lake, for reading. Close it with `close()`, or use it in a `with` block.

    `raw`, `current`, `staging`, `marts` and `meta` hold its tables.
    """

    def __init__(
        self, source: ReadSource, close: Callable[[], object], *, can_travel: bool
    ) -> None:
        self._source, self._can_travel = source, can_travel
        # With the source, which frames hold, too: they outlive this object in a chain of calls.
        self._finalizer = weakref.finalize(source, close)
        self.raw = cast("Raw", Schema(source, "raw"))
        self.marts = cast("Marts", Schema(source, "marts"))
        self.staging, self.meta = Schema(source, "staging"), Schema(source, "meta")
        self.current = Schema(source, "current")

    def sql(self, query: str, parameters: object = None) -> Selection:
        """Return the rows of one query; `?` in it stand for parameters. Nothing is read yet.

        It may read metrics: `from metrics.failovers(by := 'carrier')`.

        Raises: UsageError for a statement that is not a query, or that DuckDB rejects.
        """
        query = with_metrics(query)
        with self._source.cursor() as cursor:
            if may_read_history(query):
                cursor.execute(READ_HISTORY)
            try:
                statements = cursor.extract_statements(query)
                if [s.type for s in statements] == [duckdb.StatementType.SELECT]:
                    cursor.sql(query, params=parameters)
                    prove = partial(self._source.proof, query)
                    return Selection(self._source.reading(query, parameters), prove)
            except duckdb.ProgrammingError as error:
                raise UsageError(f"DuckDB rejected this query: {error}") from None
        raise UsageError("This is not one query.", remedy="Pass one statement that returns rows.")

    def metric(
        self,
        *names: str,
        by: str | Sequence[str] = (),
        grain: str | None = None,
        since: str | date | None = None,
        until: str | date | None = None,
        only: Mapping[str, object] | None = None,
    ) -> "MetricRows":
        """Return metrics by dimensions and time: `lake.metric("failovers", by="carrier")`.

        `since` and `until` are UTC days, the second exclusive; `30d` means the newest 30 days of
        the lake. `only` has values that dimensions must have. `fleetlake metric` lists the metrics.

        Raises: UsageError for a name that there is not; LakeError for a mart that is not built.
        """
        from fleetlake.semantic_layer import MetricQuery, compile_metrics  # noqa: PLC0415 - it takes 0.7 s

        asked = MetricQuery(
            metrics=names,
            by=(by,) if isinstance(by, str) else tuple(by),
            grain=grain or "",
            since=self._day(since),
            until=self._day(until),
            only=only or {},
        )
        compiled = compile_metrics(asked)
        self._require_marts(compiled.marts)
        if "device_inventory" in self.marts:
            self._require_devices(asked.only)
        relation = self._source.reading(compiled.sql, compiled.parameters)
        return MetricRows(relation, partial(self._source.proof, compiled.sql), compiled.sql)

    def _require_marts(self, names: Sequence[str]) -> None:
        if missing := sorted({*names} - {*self.marts}):
            raise LakeError(
                f"There is no mart {' and no '.join(missing)}.", remedy="Run `fleetlake build`."
            )

    def _require_devices(self, only: Mapping[str, object]) -> None:
        """Raise UsageError for a group and the like that no device has: it would count as 0."""
        for name in _OF_DEVICES.keys() & {one for one in only if only[one] is not None}:
            sql = f"select distinct {_OF_DEVICES[name]}::varchar from marts.device_inventory"
            with self._source.cursor() as cursor:
                known = {value for (value,) in cursor.execute(sql).fetchall() if value}
            if str(only[name]) not in known:
                what = name.replace("_", " ")
                raise UsageError(
                    f"No device has the {what} {str(only[name])!r}.",
                    remedy=f"{did_you_mean(str(only[name]), known)}"
                    f"`fleetlake metric devices --by {name}` lists them.",
                )

    def _day(self, given: str | date | None) -> date | None:
        """Return a UTC day; `30d` is counted back from the newest event. Raises: UsageError."""
        if isinstance(given, str) and (days := re.fullmatch(r"([1-9]\d{0,4})d", given)):
            self._require_marts(["pipeline_freshness"])
            newest = "select max(newest_event_at)::date from marts.pipeline_freshness"
            with self._source.cursor() as cursor:
                row = cursor.execute(newest).fetchone()
            if not (row and row[0]):
                raise UsageError(
                    f"The lake has no event to count {given} back from.", remedy="Name a day."
                )
            last: date = row[0]
            return last - timedelta(days=int(days[1]) - 1)
        try:
            return None if given is None else _instant(given).date()
        except UsageError as error:
            raise UsageError(error.what, remedy="Write it like 2026-11-01, or 30d.") from None

    def as_of(self, moment: Moment) -> "LakeReader":
        """Return the lake as it was at a time: a date means its start, and no zone means UTC.

        Raises: UsageError if the lake has no snapshot from then.
        """
        if not self._can_travel:
            raise UsageError(
                "A published snapshot is one moment of the lake.",
                remedy="Open the lake itself: `fleetlake.open()`.",
            )
        at = _instant(moment)
        with self._source.cursor() as cursor:
            found = cursor.execute(
                "select max(snapshot_id) filter (snapshot_time <= $1), min(snapshot_time)"
                " from lake.snapshots()",
                [at],
            ).fetchone()
        snapshot, oldest = found or (None, None)
        if not snapshot:
            raise UsageError(
                f"The lake has no snapshot from {at:%Y-%m-%d %H:%M} UTC or before.",
                remedy=f"Its oldest one is from {oldest:%Y-%m-%d %H:%M} UTC.",
            )
        source, close = snapshot_source(self._source, int(snapshot))
        return LakeReader(source, close, can_travel=True)

    def close(self) -> None:
        """Close the lake; its frames can no longer be read."""
        self._finalizer()

    def __enter__(self) -> Self:
        """Return the lake itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the lake."""
        self.close()

    def __repr__(self) -> str:
        """Return where the lake is."""
        return f"<lake in {self._source.address}>"


def open_for_reading(path: str | Path | None, *, published: bool) -> LakeReader:
    """Open the lake of the settings, or in a folder; or the snapshot published from it.

    Raises: LakeError if there is none.
    """
    if published:
        folder = Path(path) if path is not None else published_folder(load_settings())
        source, close = published_source(folder)
        return LakeReader(source, close, can_travel=False)
    settings = load_settings()
    address = settings.lake
    if path is not None:
        address = parse_lake_address(str(path), settings.lake_files)
    with ExitStack() as opened:
        lake = opened.enter_context(open_lake(address, read_only=True))
        source = ReadSource(connection=lake.connection, address=lake.path, database="lake")
        return LakeReader(source, opened.pop_all().close, can_travel=True)


def _instant(moment: Moment) -> datetime:
    """Return a time in UTC; a text is a date or a time in ISO format. Raises: UsageError.

    >>> _instant("2026-11-01").isoformat()
    '2026-11-01T00:00:00+00:00'
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise UsageError(
                f"{moment!r} is not a time.", remedy="Write it like 2026-11-01 or 2026-11-01T09:00."
            ) from None
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
