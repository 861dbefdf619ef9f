"""Files as a target: Parquet, CSV or JSON lines, in a folder or an object store.

A table is a folder of immutable files and a manifest, `_export.json`, which lists the current
files and holds the mark. An export replaces the manifest last and atomically. A file that is not
in the manifest was left by a stopped export; the next export removes it.

A CSV table is one file. It also has a name that stays, `<table>.csv` beside the folder, which a
spreadsheet or a script can point to: each export moves the name to the new file, atomically.

DuckDB reads and writes the files in a temporary folder; Arrow copies them to and from the target.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
from pyarrow import fs

from fleetlake.exporters.contract import ExportMark, TableChanges, foreign_table, require_own_parts
from fleetlake.exporters.geometry import GEOMETRY
from fleetlake.lake.durable import flush_files
from fleetlake.lake_address import refuse_unusable
from fleetlake.machine.atomic_files import flush_folder, write_atomically
from fleetlake.marts.catalogue import parquet_metadata
from fleetlake.text.quoting import exact, guarded_sql, literal, quoted, unguarded_sql

MANIFEST = "_export.json"
_FILE_SIZE, _UNLIMITED = "256MB", "1000TB"
_OWN = re.compile(
    r"\d{9,}-[0-9a-f]{8}-\d+\.(parquet|csv|jsonl)(\.new)?|_export\.json(\.[0-9a-f]{32})?\.new"
)
"""File names that this target uses; it deletes no others."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """How to write rows as files, and the SQL that reads such files back.

    `json` is the SQL type that JSON columns are written as; it is text in formats without nested
    values. `is_guarded` escapes texts that a spreadsheet would run as a formula. With `is_spatial`,
    the column `geometry`, text elsewhere, is a geometry in the file. `is_single` keeps a table in
    one file with a lasting name.
    """

    ending: str
    copy: str
    json: str = "VARCHAR"
    read: Callable[[str, Mapping[str, str]], str]
    is_guarded: bool = False
    is_spatial: bool = False
    is_single: bool = False


def _read_geoparquet(files: str, columns: Mapping[str, str]) -> str:
    if GEOMETRY not in columns:
        return f"read_parquet({files})"
    return f"(SELECT * REPLACE ({GEOMETRY}::VARCHAR AS {GEOMETRY}) FROM read_parquet({files}))"


def _read_csv(files: str, columns: Mapping[str, str]) -> str:
    return (
        f"read_csv({files}, header = true, auto_detect = false, quote = '\"', escape = '\"', "
        f"nullstr = '', allow_quoted_nulls = false, columns = {_structure(columns)})"
    )


def _read_jsonl(files: str, columns: Mapping[str, str]) -> str:
    return f"read_ndjson({files}, columns = {_structure(columns)})"


_CSV = FileFormat(
    ending="csv", copy="FORMAT csv, HEADER, FORCE_QUOTE *", read=_read_csv, is_single=True
)

FORMATS = {
    "parquet": FileFormat(
        ending="parquet",
        copy="FORMAT parquet, COMPRESSION zstd",
        read=lambda files, _: f"read_parquet({files})",
    ),
    # Version 1 is what Polars and pyarrow read, too; it has no bounding box for each row, so the
    # columns of latitude and longitude stay.
    "geoparquet": FileFormat(
        ending="parquet",
        copy="FORMAT parquet, COMPRESSION zstd, GEOPARQUET_VERSION 'V1'",
        read=_read_geoparquet,
        is_spatial=True,
    ),
    # Every text is quoted, so that an empty text differs from a null.
    "csv": _CSV,
    "csv guarded": replace(_CSV, is_guarded=True),
    "jsonl": FileFormat(ending="jsonl", copy="FORMAT json", json="JSON", read=_read_jsonl),
}


def open_target(address: str, kind: str) -> "FileExporter":
    """Open a folder or an object store URL (s3://bucket/prefix, gs://bucket/prefix)."""
    if "://" in address:
        system, root = fs.FileSystem.from_uri(address)
    else:
        refuse_unusable("export", Path(address), setting=f"FLEETLAKE_EXPORTS__{kind.upper()}")
        system, root = fs.LocalFileSystem(), str(Path(address).absolute())
    return FileExporter(system, root.rstrip("/"), FORMATS[kind])


@dataclass(frozen=True, kw_only=True)
class _File:
    """A current file, by its name in the table's folder."""

    name: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class _Manifest:
    """The content of `_export.json`."""

    mark: ExportMark
    files: Sequence[_File]
    is_guarded: bool
    is_named: bool


class FileExporter:
    """Keeps each table as a folder of files in one format."""

    def __init__(self, system: fs.FileSystem, root: str, form: FileFormat) -> None:
        self._system = system
        self._root = root
        self._format = form
        self._work = Path(tempfile.mkdtemp(prefix="fleetlake-export-"))
        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET TimeZone = 'UTC'")

    def mark(self, table: str) -> ExportMark | None:
        """Return the mark in the table's manifest, and repair what a stopped export left.

        Raises: ExportFailed if the folder, table or manifest belongs to another user, or if no
        export made the file with the table's lasting name.
        """
        is_local = isinstance(self._system, fs.LocalFileSystem)
        require_own_parts(Path(self._root) if is_local else None, table, f"{table}/{MANIFEST}")
        manifest = self._manifest(table)
        self._remove_unlisted(table, manifest.files if manifest else ())
        if self._format.is_single and not self._is_named(table, manifest):
            return None
        if manifest is None or manifest.is_guarded != self._format.is_guarded:
            return None
        return manifest.mark

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: ExportMark) -> None:
        """Write new files, and a manifest that lists only these."""
        self._write_manifest(table, self._write(table, rows, mark), mark)

    def change(self, table: str, changes: TableChanges, mark: ExportMark) -> None:
        """Write the new rows, and rewrite the files that hold stale rows.

        A file with no more rows than those written anyway is merged into the new files.
        """
        manifest = self._manifest(table)
        assert manifest is not None  # the mark came from it
        self._duckdb.register("stale", changes.stale)
        rewritten = self._files_to_rewrite(
            table, manifest, changes, is_grown=manifest.mark.columns != mark.columns
        )
        kept = [file for file in manifest.files if file not in rewritten]
        if not (rewritten or changes.count):
            self._write_manifest(table, kept, mark)
            return
        rest = self._without_stale(table, rewritten, manifest.mark) if rewritten else ""
        self._write_manifest(table, [*kept, *self._write(table, changes.rows, mark, rest)], mark)

    def purge(self, table: str) -> None:
        """Do nothing: files that the manifest does not list are removed with each export."""

    def close(self) -> None:
        """Remove the temporary folder."""
        self._duckdb.close()
        shutil.rmtree(self._work, ignore_errors=True)

    def _files_to_rewrite(
        self, table: str, manifest: _Manifest, changes: TableChanges, *, is_grown: bool
    ) -> list[_File]:
        """Return the files to rewrite together with the new rows, so that few files are small."""
        if self._format.is_single:
            is_changed = is_grown or changes.count or changes.stale.num_rows
            return [*manifest.files] if is_changed else []
        rewritten: list[_File] = []
        rows = changes.count
        for file in sorted(manifest.files, key=lambda file: file.rows):
            is_small = 0 < rows >= file.rows
            if is_grown or is_small or self._is_stale(table, file, manifest, changes):
                rewritten.append(file)
                rows += file.rows if is_small else 0
        return rewritten

    def _is_stale(
        self, table: str, file: _File, manifest: _Manifest, changes: TableChanges
    ) -> bool:
        """Return whether a file holds a row with a stale key."""
        if changes.stale.num_rows == 0:
            return False
        read = self._read(table, [file], manifest.mark)
        found = f"SELECT 1 FROM {read} f WHERE EXISTS ({_same_key(manifest.mark)}) LIMIT 1"
        return self._duckdb.execute(found).fetchone() is not None

    def _without_stale(self, table: str, files: Sequence[_File], old: ExportMark) -> str:
        read = self._read(table, files, old)
        return f"UNION ALL BY NAME SELECT * FROM {read} f WHERE NOT EXISTS ({_same_key(old)})"

    def _read(self, table: str, files: Sequence[_File], mark: ExportMark) -> str:
        listed = ", ".join(literal(exact(self._local_copy(table, file))) for file in files)
        read = self._format.read(f"[{listed}]", mark.columns)
        texts = self._guarded_columns(mark)
        given = ", ".join(f"{unguarded_sql(quoted(n))} AS {quoted(n)}" for n in texts)
        return f"(SELECT * REPLACE ({given}) FROM {read})" if texts else read

    def _guarded_columns(self, mark: ExportMark) -> list[str]:
        """Return the names of the columns whose texts are escaped for spreadsheets."""
        is_text = (name for name, kind in mark.columns.items() if kind == "VARCHAR")
        return list(is_text) if self._format.is_guarded else []

    def _local_copy(self, table: str, file: _File) -> Path:
        """Return a local path of a file; download it from an object store."""
        path = f"{self._root}/{table}/{file.name}"
        if isinstance(self._system, fs.LocalFileSystem):
            return Path(path)
        copy = self._work / "fetched" / file.name
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            fs.copy_files(path, str(copy), source_filesystem=self._system)
        return copy

    def _write(
        self, table: str, rows: pa.RecordBatchReader, mark: ExportMark, rest: str = ""
    ) -> list[_File]:
        """Write the rows and those of the query `rest` as files, not in the manifest yet."""
        folder = self._work / uuid4().hex[:8]
        self._duckdb.register("rows_to_write", rows)
        size = _UNLIMITED if self._format.is_single else _FILE_SIZE
        options = f"{self._format.copy}, FILE_SIZE_BYTES '{size}'"
        if self._format.ending == "parquet":
            options += f", {parquet_metadata((mark.about, mark.meanings))}"
        self._duckdb.execute(
            f"COPY (SELECT {self._selected(mark)} FROM (FROM rows_to_write {rest})) "
            f"TO {literal(folder)} ({options})"
        )
        self._system.create_dir(f"{self._root}/{table}", recursive=True)
        return [
            self._upload(table, path, f"{mark.snapshot_id:09}-{folder.name}-{number}", mark)
            for number, path in enumerate(sorted(folder.iterdir()))
        ]

    def _selected(self, mark: ExportMark) -> str:
        kinds = {name: self._format.json if k == "JSON" else k for name, k in mark.columns.items()}
        if self._format.is_spatial and GEOMETRY in kinds:
            kinds[GEOMETRY] = "GEOMETRY"
        written = {name: f"{quoted(name)}::{kind}" for name, kind in kinds.items()}
        written |= {n: guarded_sql(quoted(n)) for n in self._guarded_columns(mark)}
        return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in written.items())

    def _upload(self, table: str, path: Path, stem: str, mark: ExportMark) -> _File:
        """Move a written file to the target under a name that was never used before."""
        read = self._format.read(f"[{literal(exact(path))}]", mark.columns)
        [rows] = self._duckdb.execute(f"SELECT count(*) FROM {read}").fetchone() or [0]
        name = f"{stem}.{self._format.ending}"
        fs.copy_files(
            str(path), f"{self._root}/{table}/{name}", destination_filesystem=self._system
        )
        path.unlink()
        return _File(name=name, rows=rows)

    def _manifest(self, table: str) -> _Manifest | None:
        path = f"{self._root}/{table}/{MANIFEST}"
        if self._system.get_file_info(path).type is not fs.FileType.File:
            return None
        with self._system.open_input_stream(path) as stream:
            text = stream.readall()
        try:
            content = json.loads(text)
            mark = ExportMark.from_text(content["mark"])
            files = [_File(**file) for file in content["files"]]
            is_guarded, is_named = bool(content.get("guarded")), bool(content.get("named"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None  # a power failure may have emptied it: export the table in full
        if mark is None:
            return None
        return _Manifest(mark=mark, files=files, is_guarded=is_guarded, is_named=is_named)

    def _write_manifest(self, table: str, files: Sequence[_File], mark: ExportMark) -> None:
        """Replace the manifest with one that lists these files, and remove all others."""
        content: dict[str, Any] = {
            "files": [asdict(file) for file in files],
            "mark": mark.as_text(),
        }
        content |= {"guarded": True} if self._format.is_guarded else {}
        content |= {"named": True} if self._format.is_single else {}
        path = f"{self._root}/{table}/{MANIFEST}"
        text = json.dumps(content, indent=1)
        if isinstance(self._system, fs.LocalFileSystem):
            flush_files(Path(self._root))  # before the manifest names them
            write_atomically(Path(path), text)
        else:  # an object store replaces an object atomically
            with self._system.open_output_stream(path) as stream:
                stream.write(text.encode())
        if self._format.is_single:
            self._move_name(table, files[0])
        self._remove_unlisted(table, files)

    def _is_named(self, table: str, manifest: _Manifest | None) -> bool:
        """Return whether the table is one file with its lasting name, which it gets if it lost it.

        Raises: ExportFailed if another file has the name.
        """
        held = [f"{self._root}/{table}.csv", f"{self._root}/{table}/{MANIFEST}"]
        named, listing = self._system.get_file_info(held)
        if manifest is None or not manifest.is_named:
            is_own = manifest is None and listing.is_file  # its manifest is damaged
            if named.is_file and not is_own:
                raise foreign_table(f"{table}.csv", elsewhere="folder")
            return False
        [file] = manifest.files
        is_there = self._system.get_file_info(f"{self._root}/{table}/{file.name}").is_file
        if is_there:
            self._move_name(table, file)
        return bool(is_there)

    def _move_name(self, table: str, file: _File) -> None:
        """Give a file the lasting name of its table, unless it has it."""
        path, name = f"{self._root}/{table}/{file.name}", f"{self._root}/{table}.csv"
        if isinstance(self._system, fs.LocalFileSystem):
            last = Path(name)
            if not last.exists() or not last.samefile(path):
                new = Path(f"{path}.new")
                new.unlink(missing_ok=True)
                try:
                    new.hardlink_to(path)
                except OSError:  # not every file system has hard links
                    shutil.copyfile(path, new)
                new.replace(last)
                flush_folder(last.parent)
            return
        named, current = self._system.get_file_info([name, f"{self._root}/{table}/{MANIFEST}"])
        if not named.is_file or named.mtime < current.mtime:
            self._system.copy_file(path, name)

    def _remove_unlisted(self, table: str, files: Sequence[_File]) -> None:
        """Remove the files that this target wrote and no longer lists; keep files of others."""
        kept = {file.name for file in files}
        here = fs.FileSelector(f"{self._root}/{table}", allow_not_found=True)
        for found in self._system.get_file_info(here):
            is_own = _OWN.fullmatch(found.base_name) is not None
            if found.is_file and is_own and found.base_name not in kept:
                self._system.delete_file(found.path)


def _same_key(mark: ExportMark) -> str:
    same = " AND ".join(
        f"s.{quoted(name)} IS NOT DISTINCT FROM f.{quoted(name)}" for name in mark.key
    )
    return f"SELECT 1 FROM stale s WHERE {same or 'false'}"


def _structure(columns: Mapping[str, str]) -> str:
    members = (f"{literal(name)}: {literal(kind)}" for name, kind in columns.items())
    return "{" + ", ".join(members) + "}"
