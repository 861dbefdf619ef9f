"""A build on another engine, such as a Spark cluster: `fleetlake build --on TARGET`.

The target is an output of `profiles.yml`. It reads a mirror of the lake's raw tables and writes its
models as Parquet, both below a storage that it shares with this machine: a folder. What it has made
is then switched into the lake like the result of any other build, so readers, `publish` and exports
do not see where marts were built.

The scratch file of such a build holds what the target made, and the snapshot that each model read.
The target's own catalog is disposable: a build shows it the tables that it has lost.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.errors import BuildFailed, SettingsError
from fleetlake.lake.attach import UNCHECKED
from fleetlake.lake.ducklake import OpenLake
from fleetlake.lake.table_changes import changed_tables
from fleetlake.lake_address import LakeAddress
from fleetlake.machine.atomic_files import write_atomically
from fleetlake.machine.child_environment import engine_access
from fleetlake.marts.catalogue import marts, mirrored_tables
from fleetlake.marts.dbt import DbtRun, NodeResult, OnProgress
from fleetlake.marts.dbt_process import DbtProcess
from fleetlake.marts.mirror import (
    Mirror,
    for_dbt,
    own_mirror,
    remove_folder,
    remove_old_parts,
    write_mirror,
)
from fleetlake.marts.plan import SCRATCH, discard_scratch
from fleetlake.marts.session import attach_snapshot, limit_memory
from fleetlake.marts.spark_session import UNANSWERED
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.wording import install_command

_STATE = """
CREATE SCHEMA IF NOT EXISTS state;
CREATE SCHEMA IF NOT EXISTS marts;
CREATE TABLE IF NOT EXISTS state.made (
    schema_name VARCHAR, name VARCHAR, snapshot_id BIGINT, built_at TIMESTAMPTZ, versions VARCHAR[]
);
CREATE TABLE IF NOT EXISTS state.views (schema_name VARCHAR, name VARCHAR, query VARCHAR);
CREATE TABLE IF NOT EXISTS state.shown (mirror BIGINT)
"""
"""What the target has made: the snapshot that each model read, when, and the folders of its table.
Of several, each has days of it, and the last that has a day counts. And its views, in the order in
which they were made, and the version of the mirror it was shown. None was if the last build did not
end or a model failed: tables may then be in other folders.
"""

_REMEDIES = {
    "is not the one built by fleetlake": "Give each lake a Spark Connect server or catalog of its"
    " own. If its storage has moved, or no lake uses the schema: drop schema NAME cascade",
    "Could not find adapter": install_command("spark"),
    "'SPARK_REMOTE'": "Set SPARK_REMOTE to the cluster's address, such as sc://spark:15002.",
    "does not have a target named": "Name an output of profiles.yml, such as spark.",
}
"""What to do about dbt's messages about a target."""

_STORAGES = "storages"
"""The file of a work folder that names the storages it has used: they hold copies of the rows."""

_NO_CLUSTER = {UNANSWERED: "does not answer", "INVALID_CONNECT_URL": "has no valid address"}

_MADE_FOLDERS = """
SELECT 'tables/' || schema_name || '/' || name || '/' || unnest(versions)
FROM state.made ORDER BY ALL
"""

_NO_DAY = "0001-02-03"
"""The day that a build of a whole partitioned table writes, as the macro `write_table` does."""

_ODD = re.compile(r"[^\w /.,:@+-]")
_VERSION = re.compile(r"\d{8}T\d{12}")
_TABLES = frozenset({"table", "incremental", "seed"})
_MADE = frozenset({"success", "INSERT"})


@dataclass(frozen=True)
class BuildTarget:
    """An engine that builds: an output of `profiles.yml`, and the storage that it shares."""

    name: str
    storage: Path


def target_of(name: str, storage: Path | None) -> BuildTarget | None:
    """Return the target of that name; None for this machine, which has no name.

    A storage that is a link here keeps its path, which is what other machines have.

    Raises: SettingsError if there is no storage.
    """
    if not name:
        return None
    if storage is None:
        raise SettingsError(
            f"Builds on {name} need storage shared with this machine.",
            remedy="Set FLEETLAKE_BUILD_STORAGE to a folder that both can write.",
        )
    path = os.path.abspath(storage)  # noqa: PTH100 - `Path.absolute` keeps `..`
    if odd := _ODD.search(path):
        raise SettingsError(
            f"{path} has {odd[0]!r}, which queries read otherwise.",
            remedy="Set FLEETLAKE_BUILD_STORAGE to another folder.",
        )
    return BuildTarget(name, Path(path))


def forget_storages(
    work: Path, *, also: Iterable[Path] = (), but: BuildTarget | None = None
) -> list[Path]:
    """Remove mirror and tables from each storage that builds have used, but from that of a target.

    Returns the storages without either, such as one that is not mounted. Raises: BuildFailed.
    """
    used = {Path(line) for file in work.glob(f"on-*/{_STORAGES}") for line in _lines(file)}
    used.update(storage.resolve() for storage in also)
    used -= {but.storage.resolve()} if but else set()
    absent = [storage for storage in sorted(used) if not any(map(Path.exists, _folders(storage)))]
    for storage in sorted(used):
        for folder in _folders(storage):
            remove_rows(folder)
    return absent


def remove_rows(folder: Path) -> None:
    """Remove a folder that builds have written rows to, if it exists. Raises: BuildFailed."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BuildFailed(
            f"{folder} still holds rows that builds have written: {error}",
            remedy="Delete that folder, then run the same command again.",
        ) from error


def _folders(storage: Path) -> tuple[Path, Path]:
    return storage / "mirror", storage / "tables"


def require_tables(work: Path, target: BuildTarget, *, is_full: bool) -> None:
    """Require the tables of earlier builds in a target's storage; a full build does without them.

    Without them, an incremental model would keep only its new rows. Raises: BuildFailed.
    """
    if not (work / SCRATCH).exists():
        return
    try:
        with duckdb.connect(work / SCRATCH, read_only=True) as connection:
            made = connection.execute(_MADE_FOLDERS).fetchall()
    except duckdb.CatalogException:  # the first build was killed before it made any
        return
    except duckdb.BinderException:  # noted in the form of an earlier version
        discard_scratch(work)
        return
    folders = [target.storage / folder for (folder,) in made]
    lost = [folder for folder in folders if not folder.is_dir()]
    if lost and not is_full:
        raise BuildFailed(
            f"{target.storage} lacks tables that builds wrote there, such as {lost[0]}.",
            remedy="Mount it. If it was emptied or moved, run `fleetlake build --full`.",
        )
    if lost:
        discard_scratch(work)


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


@dataclass(frozen=True, kw_only=True)
class TargetBuild:
    """One build on a target: the lake, the work's folder and scratch file, and the snapshot."""

    target: BuildTarget
    lake: LakeAddress
    work: Path
    file: Path
    snapshot: int
    memory: str

    def run(
        self, lake: OpenLake, words: list[str], dbt: DbtProcess, on_progress: OnProgress
    ) -> DbtRun:
        """Mirror the raw tables, run dbt on the target, and take what it made."""
        began, storage = datetime.now(UTC), self.target.storage
        used, real = {*_lines(self.work / _STORAGES)}, str(storage.resolve())
        old = own_mirror(storage, lake, self.snapshot, is_used=real in used)
        write_atomically(self.work / _STORAGES, "\n".join(sorted({*used, real})))
        remove_old_parts(storage, old)  # of builds that did not end: the disk may be full of them
        changed = changed_tables(lake, old.snapshot, self.snapshot, made_at=old.made_at)
        with self._connected() as connection:
            attach_snapshot(connection, self.lake, self.snapshot)
            connection.execute(_STATE)
            try:
                mirror = write_mirror(
                    connection,
                    storage,
                    old,
                    mirrored_tables(),
                    snapshot=self.snapshot,
                    changed=changed,
                )
            except (duckdb.Error, OSError) as error:
                raise BuildFailed(
                    f"The raw tables could not be written to {storage}: {error}",
                    remedy="Check the folder in FLEETLAKE_BUILD_STORAGE, then build again.",
                ) from error
            made = connection.execute("SELECT * FROM state.made").fetchall()
            views = connection.execute("SELECT * FROM state.views ORDER BY rowid").fetchall()
            [(shown,)] = connection.execute(
                "SELECT coalesce(max(mirror), 0) FROM state.shown"
            ).fetchall()
            connection.execute("DELETE FROM state.shown")
        self._show_tables(dbt, mirror, shown, made, views)
        version = f"{began:%Y%m%dT%H%M%S%f}"
        self._remove_old_tables(
            {(schema, name): kept for schema, name, _, _, kept in made}, version
        )
        variables = {
            "build": version,
            "built_at": f"{began}",
            "storage": str(storage),
            "built": {name: {"snapshot": n, "at": f"{at}"} for _, name, n, at, _ in made},
        }
        run = self._dbt(dbt, [*words, "--vars", json.dumps(variables)], on_progress)
        with self._connected() as connection:
            connection.execute("SET TimeZone = 'UTC'; BEGIN")
            if "--full-refresh" in words and "--select" not in words:
                # Tables of models that were removed go, and with them rows that are deleted since.
                connection.execute("DELETE FROM state.made; DELETE FROM state.views")
            try:
                kept = self._take(connection, run, began, version)
            except duckdb.Error as error:
                raise BuildFailed(
                    f"What {self.target.name} built could not be read from {storage}: {error}",
                    remedy=f"Check that {self.target.name} has this folder at the same path, on its"
                    " driver and each executor, then build again.",
                ) from error
            if not any(node.status == "error" for node in run.nodes):
                connection.execute("INSERT INTO state.shown VALUES (?)", [mirror.version])
            connection.execute("COMMIT")
        remove_old_parts(storage, mirror)
        self._remove_old_tables(kept, version)
        return run

    def _connected(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(self.file, config=UNCHECKED)
        limit_memory(connection, self.memory, self.work / "spill")
        return connection

    def _dbt(
        self, dbt: DbtProcess, words: list[str], on_progress: OnProgress = lambda _: None
    ) -> DbtRun:
        try:
            return dbt.run(
                words,
                work=self.work,
                environment=engine_access(),
                on_progress=on_progress,
                target=self.target.name,
            )
        except BuildFailed as failed:
            for sign, fault in _NO_CLUSTER.items():
                if sign in failed.what:
                    raise BuildFailed(
                        f"The cluster {self.target.name} {fault}.",
                        remedy="Check that SPARK_REMOTE is its address, such as sc://spark:15002,"
                        " and that its server runs.",
                    ) from None
            for sign, remedy in _REMEDIES.items():
                if sign in failed.what:
                    raise BuildFailed(failed.what, remedy=remedy) from None
            raise

    def _show_tables(
        self,
        dbt: DbtProcess,
        mirror: Mirror,
        shown: int,
        made: Iterable[tuple[Any, ...]],
        views: Iterable[tuple[Any, ...]],
    ) -> None:
        """Show the target the new parts of the mirror, and the tables that its catalog has lost.

        If nothing is known to be `shown`, it is shown all of them.
        """
        tables = []
        for schema, name, _, _, versions in made:
            days = self._days((schema, name), versions)
            tables.append(
                {
                    "schema": schema,
                    "name": name,
                    "place": str(self._place(schema, name, versions[0])),
                    "column": next((part.partition("=")[0] for part in days), ""),
                    "days": {part.partition("=")[2]: str(place) for part, place in days.items()},
                }
            )
        mirrored = [*for_dbt(self.target.storage, mirror, shown)]
        arguments = {
            "mirrored": mirrored,
            "made": tables,
            "views": [*views],
            "is_known": bool(shown),
            "storage": str(self.target.storage),
        }
        self._dbt(dbt, ["run-operation", "show_tables", "--args", json.dumps(arguments)])

    def _place(self, schema: str, name: str, version: str) -> Path:
        """Return the folder of a table's version, as the macro `place_of` names it."""
        return self.target.storage / "tables" / schema / name / version

    def _take(
        self, connection: duckdb.DuckDBPyConnection, run: DbtRun, began: datetime, version: str
    ) -> dict[tuple[str, str], list[str]]:
        """Note what each model has read, and make good marts visible in the scratch file.

        Returns the versions of each table whose folders it needs.
        """
        kinds = {mart["name"]: _kinds(mart) for mart in marts()}
        query = "SELECT schema_name, name, versions FROM state.made"
        versions = {(s, name): old for s, name, old in connection.execute(query).fetchall()}
        for node in run.nodes:
            key = node.schema, node.name
            if node.kind == "view" and node.status in _MADE:
                connection.execute(
                    "DELETE FROM state.views WHERE (schema_name, name) = (?, ?)", key
                )
                connection.execute("INSERT INTO state.views VALUES (?, ?, ?)", [*key, node.sql])
            if node.kind not in _TABLES or node.status not in _MADE:
                continue
            versions[key] = self._versions(key, versions.get(key, []), version)
            connection.execute("DELETE FROM state.made WHERE (schema_name, name) = (?, ?)", key)
            connection.execute(
                "INSERT INTO state.made VALUES (?, ?, ?, ?, ?)",
                [*key, self.snapshot, began, versions[key]],
            )
            if node.schema == "marts" and node.name not in run.stale:
                days = self._days(key, versions[key])
                places = [*days.values()] or [self._place(*key, versions[key][-1])]
                _show(connection, node, places, kinds.get(node.name, {}))
        return versions

    def _days(self, key: tuple[str, str], versions: Iterable[str]) -> dict[str, Path]:
        """Return the folder of each day of a partitioned table, by its name, as `column=day`."""
        places = (self._place(*key, version) for version in versions)
        return {day.name: day for place in places for day in sorted(place.glob("*=*"))}

    def _versions(self, key: tuple[str, str], old: list[str], new: str) -> list[str]:
        """Return the versions of a table whose folders it needs after a build."""
        place = self._place(*key, new)
        if not place.exists():
            return old or [new]
        if not old or any(place.glob(f"*={_NO_DAY}")) or any(place.glob("*.parquet")):
            return [new]
        days = self._days(key, [*old, new]).values()
        return sorted({day.parent.name for day in days})

    def _remove_old_tables(self, kept: Mapping[tuple[str, str], list[str]], version: str) -> None:
        """Remove the folders of what was replaced, and of builds that did not end."""
        for folder in (self.target.storage / "tables").glob("*/*/*"):
            schema, name, other = folder.parts[-3:]
            is_ours = _VERSION.fullmatch(other) and other <= version
            if is_ours and other not in kept.get((schema, name), []):
                remove_folder(folder)
        for key, versions in kept.items():
            needed = {*self._days(key, versions).values()}
            for other in versions:
                for day in self._place(*key, other).glob("*=*"):
                    if day not in needed:
                        remove_folder(day)


def _kinds(mart: Mapping[str, Any]) -> dict[str, str]:
    """Return DuckDB's type of each column of a mart that has a contract."""
    return {c["name"]: c["data_type"] for c in mart.get("columns") or () if "data_type" in c}


def _show(
    connection: duckdb.DuckDBPyConnection,
    node: NodeResult,
    places: Iterable[Path],
    kinds: Mapping[str, str],
) -> None:
    """Create a mart of the scratch file from the target's files in some folders.

    A mart of units is a view, because the lake takes only the units that are new. Any other is
    compared with the lake's row by row, and copied.
    """
    found = ", ".join(literal(place / "*.parquet") for place in places)
    files = f"read_parquet([{found}], hive_partitioning = true)"
    name = quoted(node.name)
    columns = ", ".join(f"{quoted(c)}::{kind} AS {quoted(c)}" for c, kind in kinds.items()) or "*"
    held = connection.execute(
        "SELECT table_type = 'VIEW' FROM information_schema.tables"
        " WHERE table_catalog = current_database() AND table_schema = 'marts' AND table_name = ?",
        [node.name],
    )
    for (is_view,) in held.fetchall():
        connection.execute(f"DROP {'VIEW' if is_view else 'TABLE'} marts.{name}")
    kind = "VIEW" if node.unit else "TABLE"
    connection.execute(f"CREATE {kind} marts.{name} AS SELECT {columns} FROM {files}")
