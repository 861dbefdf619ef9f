"""A mirror of the lake: raw tables as Parquet files, for an engine that cannot read the lake.

A table with an event time has a part for each UTC day, any other table one part. Files do not
change: a part whose rows differ is written again, in a folder of another version, and then
`manifest.json` says which version of each part counts. So a mirror is either the old or the new
one, whatever stops the process; folders that no longer count are removed after the next build.

`<storage>/mirror/<schema>/<table>/mirror_day=<day>/mirror_version=<number>/*.parquet`
"""

import json
import logging
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import SettingsError
from fleetlake.lake.ducklake import OpenLake, lake_uuid
from fleetlake.machine.atomic_files import write_atomically
from fleetlake.text.quoting import literal, quoted

logger = logging.getLogger(__name__)

_MANIFEST = "manifest.json"
_WHOLE = "all"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}|all")
_COLUMNS = """
SELECT column_name, data_type FROM duckdb_columns()
WHERE database_name = 'lake' AND schema_name = ? AND table_name = ? ORDER BY column_index
"""
_MADE_AT = "SELECT snapshot_time::VARCHAR FROM lake.snapshots() WHERE snapshot_id = ?"
_ROW_GROUPS = "ROW_GROUP_SIZE 500000"


@dataclass(frozen=True)
class MirroredPart:
    """A part of a mirrored table: the version of its folder, and what its rows are known by.

    A part that has lost its rows stays, without rows, so that engines can be told.
    """

    version: int
    rows: int
    newest: int
    content: str


@dataclass(frozen=True)
class MirroredTable:
    """A mirrored table: its columns with DuckDB's types, and its parts by UTC day.

    It has these columns since a version.
    """

    columns: tuple[tuple[str, str], ...]
    since: int
    parts: dict[str, MirroredPart] = field(default_factory=dict)


@dataclass(frozen=True)
class Mirror:
    """The mirror of a lake's snapshot, made at a time; tables by their name, as `schema.table`.

    `lake` is the lake's id.
    """

    snapshot: int = -1
    made_at: str = ""
    version: int = 0
    tables: dict[str, MirroredTable] = field(default_factory=dict)
    lake: str = ""


def read_mirror(storage: Path) -> Mirror:
    """Return the mirror in a storage; an empty one if there is none, or none of ours."""
    file = storage / "mirror" / _MANIFEST
    if not file.exists():
        return Mirror()
    try:
        content = json.loads(file.read_text("utf-8"))
        tables = {str(name): _table(table) for name, table in content["tables"].items()}
        version, made_at = int(content["version"]), str(content["made_at"])
        return Mirror(int(content["snapshot"]), made_at, version, tables, str(content["lake"]))
    except (ValueError, LookupError, TypeError, AttributeError):  # others can write there
        return Mirror()


def own_mirror(storage: Path, lake: OpenLake, snapshot: int, *, is_used: bool) -> Mirror:
    """Return the mirror of an open lake, or what to begin with if there is none.

    None is one that was made of a later snapshot, or of another one with that number: the lake was
    restored, and other rows may have the ids of those that are mirrored. `is_used` says that builds
    of this lake have used the storage.

    Raises: SettingsError for a storage with folders that are not known to be this lake's.
    """
    found, own = read_mirror(storage), lake_uuid(lake)
    if found.lake != own and (found.lake or not is_used):
        for folder in (storage / "mirror", storage / "tables"):
            if folder.exists():
                raise of_others(folder)
    times = lake.rows(
        "select snapshot_time::varchar from lake.snapshots() where snapshot_id = ?",
        [found.snapshot],
    )
    if found.snapshot > snapshot or (times and times != [(found.made_at,)]):
        return Mirror(version=found.version, lake=own)
    return replace(found, lake=own)


def of_others(folder: Path) -> SettingsError:
    """Return the error that a storage has a folder of others."""
    return SettingsError(
        f"{folder} was not made by builds of this lake.",
        remedy="Set FLEETLAKE_BUILD_STORAGE to another folder, which only this lake uses. If no"
        " lake uses that one any more, delete it.",
    )


def _table(content: Mapping[str, Any]) -> MirroredTable:
    parts = {
        day: MirroredPart(**part) for day, part in content["parts"].items() if _DAY.fullmatch(day)
    }
    columns = tuple((str(name), str(kind)) for name, kind in content["columns"])
    return MirroredTable(columns, int(content["since"]), parts)


def write_mirror(
    lake: duckdb.DuckDBPyConnection,
    storage: Path,
    old: Mirror,
    names: frozenset[str],
    *,
    snapshot: int,
    changed: frozenset[str] | None,
) -> Mirror:
    """Bring the old mirror of these tables to the snapshot that is attached as `lake`.

    `changed` are the tables that commits changed since the mirror's snapshot, None if that is not
    known; other tables are left as they are. Raises: duckdb.Error, OSError.
    """
    # Never one that was used before, even if the storage was emptied or a process was killed.
    version, tables = max(old.version + 1, time.time_ns() // 1000), {}
    for name in sorted(names):
        known = old.tables.get(name)
        if known and not all((storage / place).is_dir() for place in folders(name, known).values()):
            known = None  # an engine would take a folder that was removed for an empty one
        if known and changed is not None and name not in changed:
            tables[name] = known
        else:
            tables[name] = _mirrored(lake, storage, name, known, version)
    made = lake.execute(_MADE_AT, [snapshot]).fetchone()
    new = Mirror(snapshot, str(made[0]) if made else "", version, tables, old.lake)
    if new.tables != old.tables or snapshot != old.snapshot:
        file = storage / "mirror" / _MANIFEST
        file.parent.mkdir(parents=True, exist_ok=True)  # no part was written without a row
        write_atomically(file, json.dumps(asdict(new)))
    return new


def remove_old_parts(storage: Path, mirror: Mirror) -> None:
    """Remove the folders that the manifest does not name."""
    kept = {
        folder for name, table in mirror.tables.items() for folder in folders(name, table).values()
    }
    for folder in (storage / "mirror").glob("*/*/*/mirror_version=*"):
        if str(folder.relative_to(storage)) not in kept:
            remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder that nothing reads any more; one that cannot be removed is a warning."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        logger.warning("%s is not needed any more, and still holds rows: %s", folder, error)


def folders(name: str, table: MirroredTable) -> dict[str, str]:
    """Return the folder of each part, below the storage, by its day."""
    place = "/".join(["mirror", *name.split(".", 1)])
    return {
        day: f"{place}/mirror_day={day}/mirror_version={part.version}"
        for day, part in table.parts.items()
        if part.rows
    }


def _mirrored(
    lake: duckdb.DuckDBPyConnection,
    storage: Path,
    name: str,
    known: MirroredTable | None,
    version: int,
) -> MirroredTable:
    """Write the parts of a table that differ from the known ones; return the table."""
    schema, table = name.split(".", 1)
    columns = tuple(lake.execute(_COLUMNS, [schema, table]).fetchall())
    relation = f"lake.{quoted(schema)}.{quoted(table)}"
    day = _day_of(table) if schema == "raw" else literal(_WHOLE)
    found = lake.execute(
        f"SELECT {day}, count(*), max(snapshot_id), sum(hash(rowid))::VARCHAR"
        f" FROM {relation} GROUP BY ALL"
    ).fetchall()
    since = known.since if known and known.columns == columns else version
    before = known.parts if known and since < version else {}
    parts = {
        part: old
        if (old := before.get(part)) and (old.rows, old.newest, old.content) == tuple(rest)
        else MirroredPart(version, *rest)
        for part, *rest in found
    }
    parts |= {
        day: old if not old.rows else MirroredPart(version, 0, 0, "")
        for day, old in before.items()
        if day not in parts
    }
    written = [part for part, one in parts.items() if one.version == version and one.rows]
    if written:
        place = storage / "mirror" / schema / table
        place.mkdir(parents=True, exist_ok=True)
        days = ", ".join(map(literal, written))
        lake.execute(
            f"COPY (SELECT *, snapshot_id, {day} AS mirror_day, {version} AS mirror_version"
            f" FROM {relation} WHERE {day} IN ({days}))"
            f" TO {literal(place)} (FORMAT parquet, COMPRESSION zstd, {_ROW_GROUPS},"
            " PARTITION_BY (mirror_day, mirror_version), OVERWRITE_OR_IGNORE)"
        )
    return MirroredTable(columns, since, parts)


def _day_of(table: str) -> str:
    """Return the expression of a row's part: its UTC day, or one for all rows of odd times."""
    row = ENDPOINTS.get(table)
    if row is None or row.event_time is None:
        return literal(_WHOLE)
    time = quoted(row.event_time)
    return (
        f"CASE WHEN {time} BETWEEN '1970-01-01' AND '2999-12-31'"
        f" THEN strftime({time}, '%Y-%m-%d') ELSE {literal(_WHOLE)} END"
    )


_SPARK = {
    "BIGINT": "bigint",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "DOUBLE": "double",
    "INTEGER": "int",
    "JSON": "string",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "VARCHAR": "string",
}
_LIST = re.compile(r"(.*)\[\]")


def spark_type(kind: str) -> str:
    """Return Spark's type of the values that DuckDB writes for one of its types. Raises: KeyError.

    >>> spark_type("VARCHAR[]"), spark_type("TIMESTAMP WITH TIME ZONE")
    ('array<string>', 'timestamp')
    """
    if of := _LIST.fullmatch(kind):
        return f"array<{spark_type(of[1])}>"
    return _SPARK[kind]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def for_dbt(storage: Path, mirror: Mirror, before: int) -> Iterator[dict[str, object]]:
    """Yield what the macro `show_mirrored` is to make of each table.

    `changed` are the days of parts that were written after version `before`.
    """
    for name, table in mirror.tables.items():
        places = folders(name, table)
        yield {
            "schema": name.split(".", 1)[0],
            "name": name.split(".", 1)[1],
            "columns": [f"{_quoted(name)} {spark_type(kind)}" for name, kind in table.columns],
            "place": str(storage / "mirror" / Path(*name.split(".", 1))),
            "parts": {day: str(storage / place) for day, place in places.items()},
            "changed": [day for day in places if table.parts[day].version > before],
            "gone": [day for day, part in table.parts.items() if not part.rows],
            "is_other": table.since > before,
        }
