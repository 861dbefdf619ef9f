"""Publish the marts as plain files: complete snapshots, switched atomically.

A snapshot is an immutable folder: Parquet files per mart, a DuckDB file with views over exactly
these files, and `snapshot.json`. `published` is a symbolic link to the newest snapshot. A rename
replaces the link, so a reader sees either one snapshot or the next. The previous snapshot stays
for readers that still use it.

Other programs must not read the lake's own files: after a compaction, each row is in two files.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.endpoints import endpoints_named
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.connection import lake_errors
from fleetlake.lake.gaps import gaps
from fleetlake.lake_address import DEMO_MARK, LakeAddress, not_writable, refuse_unusable
from fleetlake.machine.file_locks import FOR_EVER, file_lock
from fleetlake.machine.ownership import require_own
from fleetlake.publishing.coarse import coarse_columns
from fleetlake.publishing.layout import Layout, layout_of, read_call
from fleetlake.settings import DAY_ROWS, Settings
from fleetlake.text.quoting import literal, quoted

DATABASE = "fleet.duckdb"
DESCRIPTION = "snapshot.json"
MARKER = ".fleetlake"
"""Marker file, created first in every snapshot: folders without it are never removed."""

NEXT_LINK = "next"
"""Temporary name of the new link, until it is renamed to the published one."""

_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published snapshot: rows per table, tables reused from the previous one, wall seconds.

    `nothing_loaded` is true if the lake never received a row.
    """

    path: Path
    snapshot: str
    rows: dict[str, int]
    reused: frozenset[str]
    nothing_loaded: bool
    seconds: float


def published_folder(settings: Settings) -> Path:
    """Return the published folder; a demo lake has its own, so it never replaces a real fleet's."""
    if (settings.lake / DEMO_MARK).exists():
        return settings.lake / "published"
    return settings.published


def publish(
    lake_path: LakeAddress,
    published: Path,
    *,
    raw: Sequence[str] = (),
    day_rows: int = DAY_ROWS,
    is_coarse: bool = False,
) -> Published:
    """Write the lake's marts as a new snapshot and make `published` point to it.

    `raw` names endpoints whose raw tables are included as `raw_<endpoint>`. Files of a table that
    has not changed since the last snapshot are hard-linked, not written again. A mart with
    `day_rows` rows per day or more is partitioned by date. `is_coarse` rounds places and leaves out
    names; an earlier snapshot with all of them does not stay.

    Raises: LakeError if there is no lake, no mart or no disk space; the old snapshot then stays.
    UsageError for an unknown endpoint.
    """
    also = {f"raw_{endpoint.name}": ("raw", endpoint.name) for endpoint in endpoints_named(raw)}
    began = time.monotonic()
    published = published.absolute()
    store = published.parent / f".{published.name}"
    refuse_unusable("published", published, setting="FLEETLAKE_PUBLISHED or --to")
    with open_lake(lake_path, read_only=True) as lake, _folder_errors(published):
        for folder in (published, store):
            require_own(folder, "published", otherwise="set FLEETLAKE_PUBLISHED to another folder")
        _require_own_link(published, store)
        store.mkdir(parents=True, exist_ok=True)
        with file_lock(store / "publish.lock", seconds=FOR_EVER):
            _refuse_other_link(store / NEXT_LINK)
            _clear(store, keep=published)
            before = published.resolve() if published.is_symlink() else None
            new = store / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            snapshot = _Snapshot(
                lake=lake,
                folder=new,
                before=before,
                also=also,
                day_rows=day_rows,
                is_coarse=is_coarse,
            )
            is_finer = is_coarse and not is_published_coarse(published)
            description = snapshot.write()
            _switch(published, new)
            _clear(store, keep=published, and_keep=new if is_finer else before)
    tables = description["tables"]
    return Published(
        path=published,
        snapshot=new.name,
        rows={name: table["rows"] for name, table in tables.items()},
        reused=frozenset(name for name, table in tables.items() if table["is_reused"]),
        nothing_loaded=not description["watermarks"],
        seconds=time.monotonic() - began,
    )


def published_raw(published: Path) -> list[str]:
    """Return the endpoints whose raw tables the newest snapshot holds."""
    tables = _described(published).get("tables", {})
    return [name.removeprefix("raw_") for name in tables if name.startswith("raw_")]


def is_published_coarse(published: Path) -> bool:
    """Return whether the newest snapshot has rounded places and no names."""
    return bool(_described(published).get("is_coarse"))


def _described(snapshot: Path) -> dict[str, Any]:
    """Return the description of a snapshot; empty if there is none, or if it is damaged."""
    try:
        described = json.loads((snapshot / DESCRIPTION).read_bytes())
    except (OSError, ValueError):
        return {}
    return described if isinstance(described, dict) else {}


def remove_earlier(published: Path) -> int:
    """Remove all snapshots but the newest; return their number. Readers of those lose them."""
    published = published.absolute()
    store = published.parent / f".{published.name}"
    with _folder_errors(published), file_lock(store / "publish.lock", seconds=FOR_EVER):
        before = sum(map(_is_snapshot, store.iterdir()))
        _clear(store, keep=published, and_keep=published.resolve())
        return before - sum(map(_is_snapshot, store.iterdir()))


@dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """A snapshot being written; no reader sees it before the switch."""

    lake: Lake
    folder: Path
    before: Path | None
    also: Mapping[str, tuple[str, str]]
    day_rows: int
    is_coarse: bool

    def write(self) -> dict[str, Any]:
        """Write all files of the snapshot, the description last; return the description."""
        self.folder.mkdir()
        (self.folder / MARKER).touch()
        self.lake.execute("BEGIN")  # one snapshot of the lake for all tables
        tables = {name: ("marts", name) for (name,) in self.lake.rows(_MARTS)}
        if not tables:
            raise LakeError("The lake holds no mart yet.", remedy="Run `fleetlake build` first.")
        tables |= self.also
        description: dict[str, Any] = {
            "snapshot": self.folder.name,
            "published_at": _as_text(datetime.now(UTC)),
            "is_coarse": self.is_coarse,
            "tables": {name: self._write_table(name, *table) for name, table in tables.items()},
            "watermarks": self._watermarks(),
            "gaps": self._gaps(),
        }
        self.lake.execute("ROLLBACK")
        self._write_views(description["tables"])
        text = json.dumps(description, indent=2)
        (self.folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
        return description

    def _write_table(self, name: str, schema: str, table: str) -> dict[str, Any]:
        """Write or link one table's Parquet files and return its entry in the description."""
        relation = f"{schema}.{quoted(table)}"
        columns = [
            # Parquet has no 128-bit integer, and a double would lose digits.
            (column, "BIGINT" if kind == "HUGEINT" else kind)
            for column, kind in self.lake.rows(
                f"SELECT column_name, column_type FROM (DESCRIBE {relation})"
            )
        ]
        shown = [(column, f"{quoted(column)}::{kind}") for column, kind in columns]
        if self.is_coarse:
            shown = [*coarse_columns(schema, table, columns)]
            columns = [(column, kind) for column, kind in columns if column in dict(shown)]
        names = [column for column, _ in shown]
        layout = layout_of(self.lake, schema, table, columns=names, day_rows=self.day_rows)
        version = self._version(schema, table, shown if self.is_coarse else columns, layout)
        folder = self.folder / name
        is_reused = self._was_published_as(name) == version
        if is_reused and self.before:
            shutil.copytree(self.before / name, folder, copy_function=os.link)
        else:
            selected = ", ".join(f"{value} AS {quoted(column)}" for column, value in shown)
            self.lake.execute(
                f"COPY (SELECT {selected} FROM {relation} {layout.order}) "
                f"TO {literal(folder)} ({layout.options})"
            )
        ((rows,),) = self.lake.rows(f"SELECT count(*) FROM {relation}")
        return {
            "rows": rows,
            "columns": [{"name": column, "type": kind} for column, kind in columns],
            **asdict(layout),
            "version": version,
            "is_reused": is_reused,
        }

    def _version(
        self, schema: str, table: str, columns: list[tuple[str, str]], layout: Layout
    ) -> str:
        """Return a digest of the table's files and layout."""
        listed = f"ducklake_list_files('lake', {literal(table)}, schema => {literal(schema)})"
        files = self.lake.rows(f"SELECT data_file, delete_file FROM {listed} ORDER BY ALL")
        inlined = self.lake.rows(f"SELECT count(*), max(snapshot_id) FROM {schema}.{quoted(table)}")
        return hashlib.sha256(repr((columns, layout, files, inlined)).encode()).hexdigest()

    def _was_published_as(self, name: str) -> str | None:
        if self.before is None:
            return None
        try:
            version: str | None = _described(self.before)["tables"][name]["version"]
        except (LookupError, TypeError):
            return None  # a new table, or a description damaged by a power failure
        return version

    def _watermarks(self) -> list[dict[str, Any]]:
        """Return the watermark of each stream."""
        rows = self.lake.rows(_WATERMARKS)
        return [
            {"account_profile": profile, "endpoint": endpoint, "watermark_at": _as_text(at)}
            for profile, endpoint, at in rows
        ]

    def _gaps(self) -> list[dict[str, Any]]:
        """Return the ranges that expired before they were read, for dashboards."""
        return [
            {
                "endpoint": gap.endpoint,
                "partition": gap.partition,
                "start_at": _as_text(gap.start_at),
                "end_at": _as_text(gap.end_at),
            }
            for gap in gaps(self.lake)
        ]

    def _write_views(self, tables: Mapping[str, dict[str, Any]]) -> None:
        """Write a DuckDB file with views over this snapshot's files, by absolute path."""
        with duckdb.connect(self.folder / DATABASE) as connection:
            for name, table in tables.items():
                read = read_call(self.folder / name, table["partitioned_by"])
                # Columns by name: a parent folder called `env=prod` would add a column.
                names = ", ".join(quoted(column["name"]) for column in table["columns"])
                connection.execute(f"CREATE VIEW {quoted(name)} AS SELECT {names} FROM {read}")


@contextmanager
def _folder_errors(published: Path) -> Iterator[None]:
    """Turn errors of the system or DuckDB about the published folder into a LakeError."""
    try:
        with lake_errors(published):
            yield
    except OSError as error:
        setting = "FLEETLAKE_PUBLISHED or --to"
        raise not_writable("published", published, error, setting=setting) from None


_MARTS = """
SELECT table_name FROM duckdb_tables()
WHERE database_name = 'lake' AND schema_name = 'marts' ORDER BY table_name
"""
_WATERMARKS = """
SELECT account_profile, endpoint, watermark_at FROM meta.watermarks ORDER BY ALL
"""


def _switch(published: Path, new: Path) -> None:
    """Point the link to the new snapshot by a rename, so that it exists at all times."""
    link = new.parent / NEXT_LINK
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(new, published.parent), target_is_directory=True)
    link.replace(published)


def _clear(store: Path, *, keep: Path, and_keep: Path | None = None) -> None:
    """Remove unfinished snapshots, and finished ones except the current and the previous one."""
    current = keep.resolve()
    snapshots = [folder for folder in store.iterdir() if _is_snapshot(folder)]
    finished = [folder for folder in snapshots if (folder / DESCRIPTION).is_file()]
    kept = {current, and_keep} if and_keep else {current, *(path.resolve() for path in finished)}
    for folder in snapshots:
        if folder.resolve() not in kept:
            shutil.rmtree(folder)


def _is_snapshot(folder: Path) -> bool:
    """Return whether `publish` created a folder, judged by its name and its files."""
    if folder.is_symlink() or not folder.is_dir() or not _NAME.fullmatch(folder.name):
        return False
    return (folder / MARKER).is_file() or (folder / DESCRIPTION).is_file()


def _require_own_link(published: Path, store: Path) -> None:
    """Raise LakeError unless `published` is missing or a link to a snapshot in the store."""
    is_link = published.is_symlink()
    is_ours = is_link and published.resolve().parent == store.resolve()
    if (is_link or published.exists()) and not is_ours:
        raise LakeError(
            f"{published} already exists and fleetlake did not publish it.",
            remedy="Move it elsewhere, or set FLEETLAKE_PUBLISHED to another folder.",
        )


def _refuse_other_link(link: Path) -> None:
    """Raise LakeError if a file or folder has the name of the temporary link."""
    if link.exists() and not link.is_symlink():
        raise LakeError(
            f"{link} already exists, and fleetlake needs that name for a symbolic link.",
            remedy="Move it elsewhere, or set FLEETLAKE_PUBLISHED to another folder.",
        )


def _as_text(instant: datetime | None) -> str | None:
    return instant.astimezone(UTC).isoformat() if instant else None
