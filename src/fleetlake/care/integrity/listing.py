"""The data and delete files that a lake's catalog names, and those that its store holds."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from fleetlake.errors import LakeError
from fleetlake.lake.attach import FILES
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import files_of_all_snapshots, files_to_remove
from fleetlake.lake_address import LakeAddress

if TYPE_CHECKING:
    from pyarrow import fs

DELETES = "-delete.parquet"
"""Ending of the name of a file that lists deleted rows."""

OnBytes = Callable[[int, int], None]
"""Called after each file that was checked or copied, with its bytes and those of all files."""


def ignore_bytes(_: int, __: int) -> None:
    """Ignore progress."""


_AT_ONCE = 8  # files that are read side by side
_RELATIVE = 3  # the paths of a schema, a table and a file are relative to each other

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ListedFile:
    """A file that the catalog names; `name` is relative to the lake's folder of files.

    `rows` counts the rows of a data file, or the deleted rows of a delete file. `data_file_id` is
    the data file that it is, or belongs to. `begun` is the first snapshot that reads it; `ended`
    the first that does not, None for a file of the newest snapshot.
    """

    name: str
    schema: str
    table: str
    table_id: int
    data_file_id: int
    is_delete: bool
    rows: int
    size: int
    footer_size: int
    begun: int
    ended: int | None
    is_encrypted: bool

    @property
    def of_table(self) -> str:
        """The table as users write it, e.g. raw.alerts."""
        return f"{self.schema}.{self.table}"


def listed_files(lake: Lake) -> list[ListedFile]:
    """Return the files that any snapshot of a lake reads, by name.

    Raises: LakeError for a file outside the lake, which fleetlake never writes.
    """
    found = files_of_all_snapshots(lake)
    return sorted((_listed(lake, row) for row in found), key=lambda file: file.name)


def _listed(lake: Lake, row: tuple[Any, ...]) -> ListedFile:
    schema, table, name, relative, *values = row
    if relative < _RELATIVE:
        raise LakeError(
            f"The catalog of the lake in {lake.path} names a file outside the lake, {name}.",
            remedy="fleetlake does not write such files: check them with the tool that did.",
        )
    members = [field for field in ListedFile.__dataclass_fields__ if field != "name"]
    path = str(PurePosixPath(schema, table, name))
    return ListedFile(name=path, **dict(zip(members, values, strict=True)))


def names_to_remove(lake: Lake) -> set[str]:
    """Return the files that no snapshot reads any more and the next maintenance removes."""
    return {str(PurePosixPath(name)) for name in files_to_remove(lake)}


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file that the store holds: its bytes, and when it was written (UTC, if known)."""

    size: int
    written_at: datetime | None


class FileStore:
    """Where a lake's files are: a folder, or an object store by its URL. Names are relative.

    Errors are those of the system (OSError).
    """

    def __init__(self, lake: LakeAddress) -> None:
        self.address = str(lake / FILES) if isinstance(lake, Path) else lake.files
        self.is_local = "://" not in self.address

    @property
    def system(self) -> "fs.FileSystem":
        """What reads and writes the files."""
        return self._system_and_root[0]

    @cached_property
    def _system_and_root(self) -> "tuple[fs.FileSystem, str]":
        # Here, because pyarrow takes 0.02 s of CPU time to import the clients of all object stores.
        from pyarrow import fs  # noqa: PLC0415

        if self.is_local:
            return fs.LocalFileSystem(), self.address.rstrip("/")
        system, root = fs.FileSystem.from_uri(self.address)
        return system, root.rstrip("/")

    def path(self, name: str) -> str:
        """Return the path of a file for `system`."""
        return f"{self._system_and_root[1]}/{name}"

    def url(self, name: str) -> str:
        """Return the path of a file as DuckDB spells it."""
        return f"{self.address.rstrip('/')}/{name}"

    def stored(self) -> dict[str, StoredFile]:
        """Return every file by name."""
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - as above

        system, root = self._system_and_root
        selector = FileSelector(root, recursive=True, allow_not_found=True)
        start = len(root) + 1
        return {
            found.path[start:]: StoredFile(size=found.size or 0, written_at=found.mtime)
            for found in system.get_file_info(selector)
            if found.is_file
        }

    def size(self, name: str) -> int | None:
        """Return the bytes of a file, or None if there is none."""
        found = self.system.get_file_info(self.path(name))
        return found.size if found.is_file else None

    def replace(self, name: str, content: bytes) -> None:
        """Write a file in one step: an object store does, a folder needs a rename."""
        path = self.path(name)
        if not self.is_local:
            with self.system.open_output_stream(path) as stream:
                stream.write(content)
            return
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.{uuid4().hex}.part")
        try:
            part.write_bytes(content)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def each_of(items: Iterable[Item], work: Callable[[Item], Result]) -> Iterator[Result]:
    """Yield the result for each item in their order, several computed side by side."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="files") as pool:
        yield from pool.map(work, items)
