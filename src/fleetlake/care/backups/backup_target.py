"""Where backups are: a folder, or an object store by its URL (s3://bucket/prefix).

fleetlake-backup.json            marks the folder as ours; written first
files/<schema>/<table>/*.parquet the lake's files, shared by all backups in the folder
catalogs/<time>.sqlite           one per backup
manifests/<time>.json            one per backup, written last and in one step
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pydantic import SecretStr

from fleetlake.care.integrity.listing import OnBytes
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake.attach import store_keys
from fleetlake.lake.durable import flush_files
from fleetlake.machine.io_faults import io_fault
from fleetlake.machine.ownership import require_own
from fleetlake.text.redaction import without_secrets

MARK = "fleetlake-backup.json"
FILES = "files"
CATALOGS = "catalogs"
MANIFESTS = "manifests"
STAMP = "%Y%m%dT%H%M%S.%fZ"

_FORMAT, _FORMATS = 2, (1, 2)  # the first had no checksums of data files
_STAMPED = re.compile(r"\d{8}T\d{6}\.\d{6}Z")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One backup: when it began (UTC), of which snapshot of which lake, and its parts.

    `files` gives the bytes of each file, by its name relative to the folder of files; `sha256` its
    checksum, unless an earlier release made the backup. `marks` are small files of the lake's
    folder, with their text.
    """

    stamp: str
    lake_id: str
    snapshot_id: int
    release: str
    catalog_bytes: int
    catalog_sha256: str
    files: Mapping[str, int]
    sha256: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The manifest's own file."""
        return f"{MANIFESTS}/{self.stamp}.json"

    @property
    def catalog(self) -> str:
        """The file of the catalog."""
        return f"{CATALOGS}/{self.stamp}.sqlite"

    @property
    def size(self) -> int:
        """The bytes of the whole backup."""
        return self.catalog_bytes + sum(self.files.values())

    def to_text(self) -> str:
        """Return the content of the manifest's file."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_text(cls, text: bytes, place: str) -> Self:
        """Read a manifest. Raises: LakeError if it is damaged or of a later release."""
        try:
            content: dict[str, Any] = json.loads(text)
            written = content.pop("format")
            found = cls(**content) if written in _FORMATS else None
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise LakeError(
                f"The manifest {place} is damaged.", remedy="Choose another backup with --at."
            ) from None
        if found is None:
            raise LakeError(
                f"The manifest {place} has format {written}, which this release does not know.",
                remedy="Install the release of fleetlake that made the backup, or a later one.",
            )
        if not all(map(_is_inside, [*found.files, *found.marks])) or not is_stamp(found.stamp):
            raise LakeError(f"The manifest {place} names files outside of its folder.")
        return found


def is_stamp(text: str) -> bool:
    """Return whether a text is a backup's time, as its files are named.

    >>> is_stamp("20261123T031500.000001Z"), is_stamp("../20261123")
    (True, False)
    """
    return _STAMPED.fullmatch(text) is not None


def _is_inside(name: str) -> bool:
    """Return whether a name leads to a place inside the folder that it is relative to.

    >>> [_is_inside(name) for name in ("raw/alerts/a.parquet", "/etc/passwd", "raw/../../a", "")]
    [True, False, False, False]
    """
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


PART = ".part"
"""Ending of a file that is being copied."""

_UNFINISHED_MARK = re.compile(rf"{re.escape(MARK)}\.[0-9a-f]{{32}}{re.escape(PART)}")

_AT_ONCE = 8  # files; an object store answers slowly, and takes many requests side by side


class BackupTarget:
    """A folder or prefix that holds backups; names are relative to it.

    What is written appears under its name in one step. Raises: LakeError, within `errors`.
    """

    def __init__(self, address: str) -> None:
        self.folder: Path | None = None
        self._address = SecretStr(address)
        if "://" in address:
            try:
                self._system, root = fs.FileSystem.from_uri(address)
            except (pa.ArrowInvalid, OSError) as error:
                raise UsageError(
                    f"This is not an address of an object store: {self._without_secrets(error)}.",
                    remedy="Write s3://bucket/prefix, and put the keys into AWS_ variables.",
                ) from None
            self.name = f"{address.partition('://')[0]}://{root}"
        else:
            self.folder = Path(address).absolute()
            try:
                address.encode()
            except UnicodeEncodeError:
                raise UsageError(
                    f"The path of the backup, {address!r}, contains bytes that are not UTF-8.",
                    remedy="Choose another folder.",
                ) from None
            self._system, root = fs.LocalFileSystem(), str(self.folder)
            self.name = root
        self._root = root.rstrip("/")
        self._made: set[str] = set()

    def _without_secrets(self, error: Exception) -> str:
        return without_secrets(str(error), self._address, *store_keys()).rstrip(".")

    def require_own(self) -> None:
        """Refuse a folder in which another user could plant files. Raises: LakeError."""
        for part in ("", FILES, CATALOGS, MANIFESTS) if self.folder else ():
            path = Path(self._root, part)
            require_own(path, "backup", otherwise="back up to a folder of your own")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the system or the object store into a LakeError."""
        try:
            yield
        except OSError as error:
            fault = io_fault(error, self.folder) if self.folder else None
            remedy = "Check the folder, the address and its keys, and run again."
            raise LakeError(
                f"The backup in {self.name} could not be read or written: "
                f"{self._without_secrets(error)}.",
                remedy=f"{fault.remedy if fault else remedy} Complete backups are unchanged.",
            ) from None

    def sizes(self, part: str = "") -> dict[str, int]:
        """Return the bytes of each file below a part of the target, relative to that part."""
        base = f"{self._root}/{part}".rstrip("/")
        selector = fs.FileSelector(base, recursive=True, allow_not_found=True)
        return {
            str(PurePosixPath(found.path).relative_to(base)): found.size or 0
            for found in self._system.get_file_info(selector)
            if found.is_file
        }

    def stamps(self) -> list[str]:
        """Return the times of the complete backups, newest first."""
        names = [name.removesuffix(".json") for name in self.sizes(MANIFESTS)]
        return sorted(filter(is_stamp, names), reverse=True)

    def manifest(self, stamp: str) -> Manifest:
        """Return the manifest of a backup. Raises: LakeError if it is damaged."""
        name = f"{MANIFESTS}/{stamp}.json"
        with self._system.open_input_stream(f"{self._root}/{name}") as stream:
            text = stream.readall()
        return Manifest.from_text(text, f"{self.name}/{name}")

    def manifests(self) -> list[Manifest]:
        """Return the manifests of the complete backups, newest first; damaged ones left out."""
        found = []
        for stamp in self.stamps():
            with suppress(LakeError):
                found.append(self.manifest(stamp))
        return found

    def is_other_folder(self) -> bool:
        """Return whether the target has content, but none that a backup made or has begun."""
        held = self.sizes()
        return bool(held.keys() - self.unfinished_marks()) and MARK not in held

    def unfinished_marks(self) -> set[str]:
        """Return the parts of its mark: of a first backup that was killed, or is under way."""
        return {name for name in self.sizes() if _UNFINISHED_MARK.fullmatch(name)}

    def put(self, local: Path, name: str) -> None:
        """Copy a local file to the target."""
        self._written(name, lambda path: self._copy_in(local, path))

    def put_text(self, text: str, name: str) -> None:
        """Write a text to the target; a power cut leaves all of it or none."""

        def write(path: str) -> None:
            with self._system.open_output_stream(path) as stream:
                stream.write(text.encode())
            self.flush()

        self._written(name, write)

    def get(self, name: str, local: Path) -> None:
        """Copy a file of the target to a local path, which appears in one step."""
        local.parent.mkdir(parents=True, exist_ok=True)
        part = local.with_name(f"{local.name}{PART}")
        fs.copy_files(f"{self._root}/{name}", str(part), source_filesystem=self._system)
        part.replace(local)

    def sha256(self, name: str) -> str:
        """Return the checksum of a file of the target."""
        with self._system.open_input_stream(f"{self._root}/{name}") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def delete(self, names: Iterable[str]) -> int:
        """Delete files of the target; return how many."""
        count = 0
        for name in names:
            self._system.delete_file(f"{self._root}/{name}")
            count += 1
        return count

    def flush(self) -> None:
        """Wait until what was written is on the disk; an object store sees to that itself."""
        if self.folder:
            flush_files(self.folder)

    def _copy_in(self, local: Path, path: str) -> None:
        fs.copy_files(str(local), path, destination_filesystem=self._system)

    def _written(self, name: str, write: Callable[[str], None]) -> None:
        """Write a file in one step: an object store does, a folder needs a rename."""
        path = f"{self._root}/{name}"
        parent = path.rpartition("/")[0]
        if self.folder is None:
            write(path)
            return
        if parent not in self._made:
            self._system.create_dir(parent, recursive=True)
            self._made.add(parent)
        part = f"{path}.{uuid4().hex}{PART}"
        try:
            write(part)
            self._system.move(part, path)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise


def copy_all(sizes: Mapping[str, int], copy: Callable[[str], None], on_copied: OnBytes) -> None:
    """Copy files by name, several at once. Raises: what the first failed copy raised."""
    total = sum(sizes.values())
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="backup")
    try:
        for done in as_completed(futures := {pool.submit(copy, name): name for name in sizes}):
            done.result()
            on_copied(sizes[futures[done]], total)
    finally:
        pool.shutdown(cancel_futures=True)


def sha256_of(path: Path) -> str:
    """Return the checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
