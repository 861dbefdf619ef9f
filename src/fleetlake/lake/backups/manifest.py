"""The manifest of a backup: what it consists of. A backup without one does not exist.

fleetlake-backup.json            marks the folder as ours; written first
files/<schema>/<table>/*.parquet the lake's files, shared by all backups in the folder
catalogs/<time>.sqlite           one per backup
manifests/<time>.json            one per backup, written last and in one step
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Self

from fleetlake.errors import LakeError

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
