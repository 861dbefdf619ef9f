"""The format of a lake; a release refuses a format that it does not support.

A new column or table is not a new format, because releases ignore those they do not know. The
number increases only if an older release would misread or damage the lake.
"""

import duckdb

from fleetlake.errors import LakeError
from fleetlake.lake.connection import Lake

FORMAT_VERSION = 1
"""The newest format that this release reads and writes."""


def format_version(opened: Lake) -> int | None:
    """Return a lake's format, or None if none is recorded yet."""
    # No variable here may be called `lake`: DuckDB would read it in place of the missing table.
    try:
        found = opened.connection.execute("select max(format_version) from meta.lake").fetchone()
    except duckdb.CatalogException:
        return None
    version: int | None = found[0] if found else None
    return version


def require_known_format(lake: Lake) -> int | None:
    """Return the recorded format. Raises: LakeError if this release is too old for the lake."""
    version = format_version(lake)
    if version is not None and version > FORMAT_VERSION:
        raise LakeError(
            f"The lake in {lake.path} has format {version}, but this release of fleetlake "
            f"supports formats up to {FORMAT_VERSION}.",
            remedy="Upgrade fleetlake to the release that wrote the lake, or a later one. Nothing "
            "was read or changed.",
        )
    return version


def note_format(lake: Lake) -> None:
    """Record the format of a lake without one, in the open transaction."""
    lake.execute(
        "insert into meta.lake (format_version, noted_at) select ?, now() "
        "where not exists (select 1 from meta.lake)",
        [FORMAT_VERSION],
    )
