"""Upgrading a lake: the first command of a newer release that writes brings it up to date.

Each migration is one transaction with the format that it leads to, so a kill leaves the lake as it
was before a migration or after it, and the next command continues there. Migrations run while no
stream is being loaded, by any release: all of them take the same locks.
"""

import logging
from contextlib import ExitStack

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeBusy, StreamBusy
from fleetlake.lake import tables
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution import format as lake_format
from fleetlake.lake.evolution.format import (
    FIRST_FORMAT,
    LakeFormat,
    has_tables,
    is_older,
    newest_format,
    note_format,
    read_format,
    this_release,
)
from fleetlake.lake.locks import commit_lock, stream_lock, upgrade_lock
from fleetlake.text.wording import counted

logger = logging.getLogger(__name__)


def is_upgradable(lake: Lake) -> bool:
    """Return whether a lake lacks a format, table or column that `upgrade` would bring."""
    known = read_format(lake)
    is_old = (known.version if known else FIRST_FORMAT) < newest_format()
    return is_old or any(tables.count_missing(lake))


def upgrade(lake: Lake, known: LakeFormat | None) -> None:
    """Bring a lake up to this release's format, tables and columns; log what changed as one line.

    `known` is what the lake records about itself. Raises: LakeError if a migration must wait for a
    load.
    """
    changes: list[str] = []
    # A new lake in an emptied folder has no tables, and nothing to migrate.
    if (known.version if known else FIRST_FORMAT) < newest_format() and has_tables(lake):
        changes += _migrate(lake)
    missing = tables.count_missing(lake)
    if any(missing):
        with commit_lock(lake.path):
            tables.create_missing(lake)
        changes += [f"{counted(missing[0], 'table')} and {counted(missing[1], 'column')} added"]
    is_newer = is_older(known.release if known else None, this_release())
    if is_newer and not any(missing):  # else `create_missing` has noted it
        with commit_lock(lake.path), lake.transaction():
            note_format(lake)
    if is_newer or changes:
        before = f" from {known.release}" if known and known.release else ""
        done = "; ".join(changes) or "no change was needed"
        logger.warning(
            "The lake in %s was upgraded%s to fleetlake %s: %s.",
            lake.path,
            before,
            this_release(),
            done,
        )


def _migrate(lake: Lake) -> list[str]:
    """Run the migrations that the lake lacks, each in a transaction; return what they are about."""
    done = []
    with ExitStack() as locks:
        locks.enter_context(upgrade_lock(lake.path))
        known = read_format(lake)  # another process may have upgraded it meanwhile
        first = known.version if known else FIRST_FORMAT
        pending = lake_format.MIGRATIONS[first - FIRST_FORMAT :]
        if pending:
            _hold_streams(lake, locks)
        for number, migration in enumerate(pending, start=first + 1):
            with commit_lock(lake.path), lake.transaction():
                _prepare(lake)
                for step in migration.steps:
                    step.apply(lake)
                note_format(lake, number)
            done.append(migration.about)
    return done


def _hold_streams(lake: Lake, locks: ExitStack) -> None:
    """Take the locks of all streams."""
    try:
        for name in ENDPOINTS:
            locks.enter_context(stream_lock(lake.path, name))
    except StreamBusy as busy:
        raise LakeBusy(
            f"The lake in {lake.path} must be upgraded to fleetlake {this_release()}, but a "
            f"stream is being loaded. {busy.what}",
            remedy="Wait until the load has ended, then run again. Nothing was changed.",
        ) from None


def _prepare(lake: Lake) -> None:
    """Create what a migration writes to and an older lake lacks, in the open transaction."""
    missing = tables.missing_of_meta(lake)
    if missing:
        lake.execute(";\n".join(missing))
