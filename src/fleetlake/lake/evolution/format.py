"""The format of a lake, and that a release refuses one that it does not know.

A new column or table is no new format: releases tolerate what they do not know. The number rises
when an older release would read the lake wrongly or damage it.
"""

import duckdb

from fleetlake.errors import LakeError
from fleetlake.lake.connection import Lake

FORMAT_VERSION = 1
"""The newest format that this release reads and writes."""


def format_version(opened: Lake) -> int | None:
    """Return a lake's format, or None where no release has noted it yet."""
    # No variable here may be called `lake`: DuckDB would take it for a table that is missing.
    try:
        found = opened.connection.execute("select max(format_version) from meta.lake").fetchone()
    except duckdb.CatalogException:
        return None
    version: int | None = found[0] if found else None
    return version


def require_known_format(lake: Lake) -> int | None:
    """Return a lake's format, as noted. Raises: LakeError where this release is too old for it."""
    version = format_version(lake)
    if version is not None and version > FORMAT_VERSION:
        raise LakeError(
            f"The lake in {lake.path} has format {version}, and this release of fleetlake "
            f"reads formats up to {FORMAT_VERSION}.",
            remedy="Upgrade fleetlake to the release that wrote the lake, or a later one; nothing "
            "was read or changed.",
        )
    return version


def note_format(lake: Lake) -> None:
    """Write the format of a lake that has none noted, within the open transaction."""
    lake.execute(
        "insert into meta.lake (format_version, noted_at) select ?, now() "
        "where not exists (select 1 from meta.lake)",
        [FORMAT_VERSION],
    )
