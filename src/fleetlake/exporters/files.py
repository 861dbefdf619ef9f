"""Files as a target: Parquet, CSV or JSON lines, in a folder or an object store.

A table is a folder of files that never change once they are there, and `_export.json`, which
lists those that count and carries the mark. The list is replaced last, in one step; a file that
is in no list is left over from an export that was stopped, and the next one removes it.

DuckDB writes and reads the formats in a folder of its own; Arrow carries the files to and fro.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
from pyarrow import fs

from fleetlake.exporters.contract import Changes, Mark
from fleetlake.exporters.local import require_own_parts
from fleetlake.lake_address import refuse_unusable
from fleetlake.text.quoting import exact, literal, quoted
from fleetlake.text.spreadsheet import guarded_sql, unguarded_sql

LIST = "_export.json"
_FILE_SIZE = "256MB"
_OWN = re.compile(
    r"\d{9,}-[0-9a-f]{8}-\d+\.(parquet|csv|jsonl)|_export\.json(\.[0-9a-f]{32})?\.new"
)
"""Names that this target gives its files."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """How rows are written as files, and the SQL that reads files of given columns.

    `json` is the type that JSON is written as: text, where a reader would not expect more.
    `is_guarded` says that no text is a formula for a spreadsheet.
    """

    ending: str
    copy: str
    json: str = "VARCHAR"
    read: Callable[[str, Mapping[str, str]], str]
    is_guarded: bool = False


def _read_parquet(files: str, _: Mapping[str, str]) -> str:
    return f"read_parquet({files})"


def _read_csv(files: str, columns: Mapping[str, str]) -> str:
    return (
        f"read_csv({files}, header = true, auto_detect = false, quote = '\"', escape = '\"', "
        f"nullstr = '', allow_quoted_nulls = false, columns = {_structure(columns)})"
    )


def _read_jsonl(files: str, columns: Mapping[str, str]) -> str:
    return f"read_ndjson({files}, columns = {_structure(columns)})"


FORMATS = {
    "parquet": Format(
        ending="parquet", copy="FORMAT parquet, COMPRESSION zstd", read=_read_parquet
    ),
    # Every text is quoted, which tells an empty one from a null.
    "csv": Format(ending="csv", copy="FORMAT csv, HEADER, FORCE_QUOTE *", read=_read_csv),
    "csv guarded": Format(
        ending="csv", copy="FORMAT csv, HEADER, FORCE_QUOTE *", read=_read_csv, is_guarded=True
    ),
    "jsonl": Format(ending="jsonl", copy="FORMAT json", json="JSON", read=_read_jsonl),
}


def open_target(address: str, kind: str) -> "FileExporter":
    """Open a folder, or an object store by its URL (s3://bucket/prefix, gs://bucket/prefix)."""
    if "://" in address:
        system, root = fs.FileSystem.from_uri(address)
    else:
        refuse_unusable("export", Path(address), setting=f"FLEETLAKE_EXPORTS__{kind.upper()}")
        system, root = fs.LocalFileSystem(), str(Path(address).absolute())
    return FileExporter(system, root.rstrip("/"), FORMATS[kind])


@dataclass(frozen=True, kw_only=True)
class _File:
    """A file that counts, by its name in the table's folder."""

    name: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class _List:
    """What `_export.json` says."""

    mark: Mark
    files: Sequence[_File]
    is_guarded: bool


class FileExporter:
    """Keeps each table as a folder of files in one format."""

    def __init__(self, system: fs.FileSystem, root: str, form: Format) -> None:
        self._system = system
        self._root = root
        self._format = form
        self._work = Path(tempfile.mkdtemp(prefix="fleetlake-export-"))
        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET TimeZone = 'UTC'")

    def mark(self, table: str) -> Mark | None:
        """Return the mark of the table's list, and remove what a stopped export left behind.

        Raises: ExportFailed for a folder, table or list of another user.
        """
        is_local = isinstance(self._system, fs.LocalFileSystem)
        require_own_parts(Path(self._root) if is_local else None, table, f"{table}/{LIST}")
        listed = self._list(table)
        self._clear(table, listed.files if listed else ())
        return listed.mark if listed and listed.is_guarded == self._format.is_guarded else None

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: Mark) -> None:
        """Write new files, and list only these."""
        self._switch(table, self._write(table, rows, mark), mark)

    def change(self, table: str, changes: Changes, mark: Mark) -> None:
        """Write the new rows, together with what stays of each file that cannot stay whole.

        A file no larger than what is written anyway goes in with it.
        """
        listed = self._list(table)
        assert listed is not None  # the mark came from it
        self._duckdb.register("stale", changes.stale)
        left = self._left(table, listed, changes, is_grown=listed.mark.columns != mark.columns)
        kept = [file for file in listed.files if file not in left]
        if not (left or changes.count):
            self._switch(table, kept, mark)
            return
        rest = self._without_stale(table, left, listed.mark) if left else ""
        self._switch(table, [*kept, *self._write(table, changes.rows, mark, rest)], mark)

    def close(self) -> None:
        """Remove the folder of work."""
        self._duckdb.close()
        shutil.rmtree(self._work, ignore_errors=True)

    def _left(self, table: str, listed: _List, changes: Changes, *, is_grown: bool) -> list[_File]:
        """Return the files to write anew, together with the new rows, so that few are small."""
        left: list[_File] = []
        rows = changes.count
        for file in sorted(listed.files, key=lambda file: file.rows):
            is_small = 0 < rows >= file.rows
            if is_grown or is_small or self._is_stale(table, file, listed, changes):
                left.append(file)
                rows += file.rows if is_small else 0
        return left

    def _is_stale(self, table: str, file: _File, listed: _List, changes: Changes) -> bool:
        """Return whether a file holds a row that must go."""
        if changes.stale.num_rows == 0:
            return False
        read = self._read(table, [file], listed.mark)
        found = f"SELECT 1 FROM {read} f WHERE EXISTS ({_same_key(listed.mark)}) LIMIT 1"
        return self._duckdb.execute(found).fetchone() is not None

    def _without_stale(self, table: str, files: Sequence[_File], old: Mark) -> str:
        read = self._read(table, files, old)
        return f"UNION ALL BY NAME SELECT * FROM {read} f WHERE NOT EXISTS ({_same_key(old)})"

    def _read(self, table: str, files: Sequence[_File], mark: Mark) -> str:
        listed = ", ".join(literal(exact(self._at_hand(table, file))) for file in files)
        read = self._format.read(f"[{listed}]", mark.columns)
        texts = self._guarded_columns(mark)
        given = ", ".join(f"{unguarded_sql(quoted(n))} AS {quoted(n)}" for n in texts)
        return f"(SELECT * REPLACE ({given}) FROM {read})" if texts else read

    def _guarded_columns(self, mark: Mark) -> list[str]:
        """Return the names of the columns whose texts are guarded."""
        is_text = (name for name, kind in mark.columns.items() if kind == "VARCHAR")
        return list(is_text) if self._format.is_guarded else []

    def _at_hand(self, table: str, file: _File) -> Path:
        """Return where DuckDB can read a file, fetched if need be."""
        place = f"{self._root}/{table}/{file.name}"
        if isinstance(self._system, fs.LocalFileSystem):
            return Path(place)
        copy = self._work / "fetched" / file.name
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            fs.copy_files(place, str(copy), source_filesystem=self._system)
        return copy

    def _write(
        self, table: str, rows: pa.RecordBatchReader, mark: Mark, rest: str = ""
    ) -> list[_File]:
        """Write rows, and the rest that a query adds, as new files that are not listed yet."""
        folder = self._work / uuid4().hex[:8]
        self._duckdb.register("rows_to_write", rows)
        self._duckdb.execute(
            f"COPY (SELECT {self._selected(mark)} FROM (FROM rows_to_write {rest})) "
            f"TO {literal(folder)} ({self._format.copy}, FILE_SIZE_BYTES '{_FILE_SIZE}')"
        )
        self._system.create_dir(f"{self._root}/{table}", recursive=True)
        return [
            self._carry(table, path, f"{mark.snapshot_id:09}-{folder.name}-{number}", mark)
            for number, path in enumerate(sorted(folder.iterdir()))
        ]

    def _selected(self, mark: Mark) -> str:
        kinds = {name: self._format.json if k == "JSON" else k for name, k in mark.columns.items()}
        written = {name: f"{quoted(name)}::{kind}" for name, kind in kinds.items()}
        written |= {n: guarded_sql(quoted(n)) for n in self._guarded_columns(mark)}
        return ", ".join(f"{sql} AS {quoted(name)}" for name, sql in written.items())

    def _carry(self, table: str, path: Path, stem: str, mark: Mark) -> _File:
        """Take a written file to its place under a name that no file has had."""
        read = self._format.read(f"[{literal(exact(path))}]", mark.columns)
        [rows] = self._duckdb.execute(f"SELECT count(*) FROM {read}").fetchone() or [0]
        name = f"{stem}.{self._format.ending}"
        place = f"{self._root}/{table}/{name}"
        fs.copy_files(str(path), place, destination_filesystem=self._system)
        path.unlink()
        return _File(name=name, rows=rows)

    def _list(self, table: str) -> _List | None:
        place = f"{self._root}/{table}/{LIST}"
        if self._system.get_file_info(place).type is not fs.FileType.File:
            return None
        with self._system.open_input_stream(place) as stream:
            content = stream.readall()
        try:
            told = json.loads(content)
            mark = Mark.from_text(told["mark"])
            files = [_File(**file) for file in told["files"]]
            is_guarded = bool(told.get("guarded"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None  # a power cut may have left it empty: all is written anew
        return _List(mark=mark, files=files, is_guarded=is_guarded) if mark else None

    def _switch(self, table: str, files: Sequence[_File], mark: Mark) -> None:
        """Let the list name these files from now on, and remove all others."""
        told: dict[str, Any] = {"files": [asdict(file) for file in files], "mark": mark.as_text()}
        told |= {"guarded": True} if self._format.is_guarded else {}
        place = f"{self._root}/{table}/{LIST}"
        content = json.dumps(told, indent=1).encode()
        if isinstance(self._system, fs.LocalFileSystem):
            _replace_file(Path(place), content)
        else:  # an object appears whole
            with self._system.open_output_stream(place) as stream:
                stream.write(content)
        self._clear(table, files)

    def _clear(self, table: str, files: Sequence[_File]) -> None:
        """Remove the files that this target wrote and no longer lists; others are not its own."""
        kept = {file.name for file in files}
        here = fs.FileSelector(f"{self._root}/{table}", allow_not_found=True)
        for found in self._system.get_file_info(here):
            is_own = _OWN.fullmatch(found.base_name) is not None
            if found.is_file and is_own and found.base_name not in kept:
                self._system.delete_file(found.path)


def _replace_file(place: Path, content: bytes) -> None:
    """Put a new file in a file's place, by a name that nobody can have planted a link under."""
    new = place.with_name(f"{place.name}.{uuid4().hex}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(new, flags, 0o666), "wb") as file:
        file.write(content)
    new.replace(place)


def _same_key(mark: Mark) -> str:
    same = " AND ".join(
        f"s.{quoted(name)} IS NOT DISTINCT FROM f.{quoted(name)}" for name in mark.key
    )
    return f"SELECT 1 FROM stale s WHERE {same or 'false'}"


def _structure(columns: Mapping[str, str]) -> str:
    members = (f"{literal(name)}: {literal(kind)}" for name, kind in columns.items())
    return "{" + ", ".join(members) + "}"
