"""A build on another engine, such as a Spark cluster: `fleetlake build --on TARGET`.

The target is an output of `profiles.yml`. It reads a mirror of the lake's raw tables and writes its
models as Parquet, both below a storage that it shares with this machine: a folder. What it has made
is then switched into the lake like the result of any other build, so readers, `publish` and exports
do not see where marts were built.

What builds have made is noted beside the tables, so they may run on several machines, one after the
other. The target's own catalog is disposable: a build shows it the tables that it has lost.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.errors import BuildFailed, SettingsError
from fleetlake.lake.attach import UNCHECKED
from fleetlake.lake.ducklake import OpenLake, lake_uuid, newest_in_marts
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
    of_others,
    own_mirror,
    read_mirror,
    remove_folder,
    remove_old_parts,
    write_mirror,
)
from fleetlake.marts.plan import SCRATCH, EarlierBuilds, build_time, discard_scratch, record_built
from fleetlake.marts.session import attach_snapshot, limit_memory
from fleetlake.marts.spark_session import UNANSWERED
from fleetlake.marts.switch import BUILT_AT
from fleetlake.marts.target_state import (
    STATE,
    VERSION,
    Key,
    TargetState,
    TargetTable,
    read_state,
    version_of,
    write_state,
)
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.wording import install_command

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

_NO_DAY = "0001-02-03"
"""The day that a build of a whole partitioned table writes, as the macro `write_table` does."""

_ODD = re.compile(r"[^\w /.,:@+-]")
_TABLES = frozenset({"table", "incremental", "seed"})
_MADE = frozenset({"success", "INSERT"})


@dataclass(frozen=True)
class BuildTarget:
    """An engine that builds: an output of `profiles.yml`, and the storage that it shares."""

    name: str
    storage: Path

    @property
    def tables(self) -> Path:
        """The folder of what builds have made."""
        return self.storage / "tables"

    def place(self, schema: str, name: str, version: str) -> Path:
        """Return the folder of a table's version, as the macro `place_of` names it."""
        return self.tables / schema / name / version


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


def target_build(
    target: BuildTarget,
    lake: OpenLake,
    *,
    address: LakeAddress,
    work: Path,
    snapshot: int,
    memory: str,
    is_full: bool,
) -> "TargetBuild":
    """Return a build of an open lake on a target, which goes on from earlier ones of any machine.

    It goes on from nothing if it is the first one, a full one after tables were lost, or the first
    one after the lake was restored: other rows may have the ids of those that were built. A lake in
    a folder was, if that does not know the storage.

    Raises: SettingsError for a storage that is not this lake's; BuildFailed if tables that builds
    have made are not there. Without them, an incremental model would keep only its new rows.
    """
    storage, own = target.storage, lake_uuid(lake)
    discard_scratch(work)  # what it has is in the lake, or was erased since
    noted = str(storage.resolve()) in _lines(work / _STORAGES)
    found = read_state(storage)
    if found and found.lake != own:
        raise of_others(target.tables)
    mirror = own_mirror(storage, lake, snapshot, is_used=noted or found is not None)
    state = found or TargetState()
    places = [target.place(*key, v) for key, table in state.tables.items() for v in table.versions]
    lost = [place for place in places if not place.is_dir()]
    if noted and not found:
        lost.append(target.tables / STATE)
    if lost and not is_full:
        raise BuildFailed(
            f"{storage} lacks what builds wrote there, such as {lost[0]}.",
            remedy="Mount it. If it was emptied or moved, run `fleetlake build --full`.",
        )
    is_restored = mirror.snapshot < 0 or (isinstance(address, Path) and not noted)
    if lost or is_restored or not found:
        state = TargetState(latest=state.latest)
        record_built(target.tables, None)
    return TargetBuild(
        target=target,
        lake=address,
        work=work,
        snapshot=snapshot,
        memory=memory,
        built_at=build_time(state.latest, newest_in_marts(lake, BUILT_AT)),
        mirror=mirror,
        state=replace(state, lake=own),
    )


def is_storage_of(storage: Path, uuid: str) -> bool:
    """Return whether a storage has a mirror of the lake with an id, or tables made of it."""
    try:
        state = read_state(storage)
    except BuildFailed:  # who knows whose it is
        state = None
    return uuid in {read_mirror(storage).lake, state.lake if state else ""}


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


@dataclass(frozen=True, kw_only=True)
class TargetBuild:
    """One build on a target: the lake, the work's folder, snapshot, time, and what is made already.

    No build before it was at that time, which names its folders.
    """

    target: BuildTarget
    lake: LakeAddress
    work: Path
    snapshot: int
    memory: str
    built_at: datetime
    mirror: Mirror
    state: TargetState

    @property
    def earlier(self) -> EarlierBuilds:
        """What builds before have left to go on from."""
        return EarlierBuilds(self.target.tables, not self.state.tables, self.state.latest)

    @property
    def version(self) -> str:
        """The name of the folders that this build writes."""
        return version_of(self.built_at)

    def run(
        self, lake: OpenLake, words: list[str], dbt: DbtProcess, on_progress: OnProgress
    ) -> DbtRun:
        """Mirror the raw tables, run dbt on the target, and take what it made."""
        storage, state, shown = self.target.storage, self.state, self.state.shown
        if "--full-refresh" in words and "--select" not in words:
            # Tables of models that were removed go, and with them rows that are deleted since.
            state, shown = TargetState(state.lake), 0
        state = replace(state, shown=0, latest=self.built_at)
        write_state(storage, state)
        used = {*_lines(self.work / _STORAGES), str(storage.resolve())}
        write_atomically(self.work / _STORAGES, "\n".join(sorted(used)))
        mirror = self._mirrored(lake)
        self._show_tables(dbt, mirror, state, shown)
        self._remove_old_tables(state)
        variables = {
            "build": self.version,
            "built_at": f"{self.built_at}",
            "storage": str(storage),
            "built": {
                name: {"snapshot": table.snapshot, "at": table.built_at}
                for (_, name), table in state.tables.items()
            },
        }
        run = self._dbt(dbt, [*words, "--vars", json.dumps(variables)], on_progress)
        state = self._noted(state, run)
        self._take(state, run)
        is_whole = not any(node.status == "error" for node in run.nodes)
        write_state(storage, replace(state, shown=mirror.version if is_whole else 0))
        remove_old_parts(storage, mirror)
        self._remove_old_tables(state)
        return run

    def _mirrored(self, lake: OpenLake) -> Mirror:
        """Bring the mirror to the snapshot; return it."""
        # A version that the target was shown names no other parts, even if the clock was put back.
        storage, known = self.target.storage, max(self.mirror.version, self.state.shown)
        old = replace(self.mirror, version=known)
        remove_old_parts(storage, old)  # of builds that did not end: the disk may be full of them
        changed = changed_tables(lake, old.snapshot, self.snapshot, made_at=old.made_at)
        with self._connected() as connection:
            attach_snapshot(connection, self.lake, self.snapshot)
            try:
                return write_mirror(
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

    def _connected(self, file: Path | str = ":memory:") -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(file, config=UNCHECKED)
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

    def _show_tables(self, dbt: DbtProcess, mirror: Mirror, state: TargetState, shown: int) -> None:
        """Show the target the new parts of the mirror, and the tables that its catalog has lost.

        `shown` is the version of the mirror that it was shown last, if the last build has ended.
        """
        tables = []
        for (schema, name), table in state.tables.items():
            days = self._days((schema, name), table.versions)
            tables.append(
                {
                    "schema": schema,
                    "name": name,
                    "place": str(self.target.place(schema, name, table.versions[0])),
                    "column": next((part.partition("=")[0] for part in days), ""),
                    "days": {part.partition("=")[2]: str(place) for part, place in days.items()},
                }
            )
        arguments = {
            "mirrored": [*for_dbt(self.target.storage, mirror, shown)],
            "made": tables,
            "views": state.views,
            "shown": shown,
            "version": mirror.version,
            "storage": str(self.target.storage),
        }
        self._dbt(dbt, ["run-operation", "show_tables", "--args", json.dumps(arguments)])

    def _noted(self, state: TargetState, run: DbtRun) -> TargetState:
        """Return the state after a run."""
        tables, views = {**state.tables}, [*state.views]
        for node in run.nodes:
            key = node.schema, node.name
            if node.status not in _MADE:
                continue
            if node.kind == "view":
                views = [view for view in views if view[:2] != key] + [(*key, node.sql)]
            elif node.kind in _TABLES:
                old = tables[key].versions if key in tables else ()
                versions = self._versions(key, old, self.version)
                tables[key] = TargetTable(*key, self.snapshot, f"{self.built_at}", versions)
        return replace(state, tables=tables, views=tuple(views))

    def _take(self, state: TargetState, run: DbtRun) -> None:
        """Make the good marts of a run visible in the scratch file. Raises: BuildFailed."""
        kinds = {mart["name"]: _kinds(mart) for mart in marts()}
        with self._connected(self.work / SCRATCH) as connection:
            connection.execute("SET TimeZone = 'UTC'; CREATE SCHEMA IF NOT EXISTS marts")
            for node in run.nodes:
                key = node.schema, node.name
                is_made = node.kind in _TABLES and node.status in _MADE
                if is_made and node.schema == "marts" and node.name not in run.stale:
                    versions = state.tables[key].versions
                    places = [*self._days(key, versions).values()]
                    try:
                        _show(
                            connection,
                            node,
                            places or [self.target.place(*key, versions[-1])],
                            kinds.get(node.name, {}),
                        )
                    except duckdb.Error as error:
                        raise BuildFailed(
                            f"What {self.target.name} built could not be read from"
                            f" {self.target.storage}: {error}",
                            remedy=f"Check that {self.target.name} has this folder at the same"
                            " path, on its driver and each executor, then build again.",
                        ) from error

    def _days(self, key: Key, versions: Iterable[str]) -> dict[str, Path]:
        """Return the folder of each day of a partitioned table, by its name, as `column=day`."""
        places = (self.target.place(*key, version) for version in versions)
        return {day.name: day for place in places for day in sorted(place.glob("*=*"))}

    def _versions(self, key: Key, old: tuple[str, ...], new: str) -> tuple[str, ...]:
        """Return the versions of a table whose folders it needs after a build."""
        place = self.target.place(*key, new)
        if not place.exists():
            return old or (new,)
        if not old or any(place.glob(f"*={_NO_DAY}")) or any(place.glob("*.parquet")):
            return (new,)
        days = self._days(key, [*old, new]).values()
        return tuple(sorted({day.parent.name for day in days}))

    def _remove_old_tables(self, state: TargetState) -> None:
        """Remove the folders of what was replaced, and of builds that did not end."""
        kept = {key: table.versions for key, table in state.tables.items()}
        for folder in self.target.tables.glob("*/*/*"):
            schema, name, other = folder.parts[-3:]
            is_ours = VERSION.fullmatch(other) and other <= self.version
            if is_ours and other not in kept.get((schema, name), ()):
                remove_folder(folder)
        for key, versions in kept.items():
            needed = {*self._days(key, versions).values()}
            for other in versions:
                for day in self.target.place(*key, other).glob("*=*"):
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
    columns = ", ".join(f"{quoted(c)}::{kind} AS {quoted(c)}" for c, kind in kinds.items()) or "*"
    made = "VIEW" if node.unit else "TABLE"
    connection.execute(f"CREATE {made} marts.{quoted(node.name)} AS SELECT {columns} FROM {files}")
