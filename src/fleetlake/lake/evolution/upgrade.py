"""Upgrading a lake: the first command of a newer release that writes brings it up to date.

Each migration is one transaction with the format that it leads to, so a kill leaves the lake as it
was before a migration or after it, and the next command continues there. Migrations run while no
stream is being loaded, by any release: all of them take the same locks.
"""

import logging
from collections.abc import Mapping
from contextlib import ExitStack

from fleetlake.endpoints import ENDPOINTS, own_lists
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import LakeBusy, SettingsError, StreamBusy
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
from fleetlake.text.quoting import literal, quoted
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
    load; SettingsError if the project describes a list otherwise than the lake holds it.
    """
    noted = require_as_described(lake)
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
    note_sources(lake, noted)
    if is_newer or changes:
        before = f" from {known.release}" if known and known.release else ""
        to = f"upgraded{before} to fleetlake {this_release()}" if is_newer else "extended"
        done = "; ".join(changes) or "no change was needed"
        logger.warning("The lake in %s was %s: %s.", lake.path, to, done)


def note_sources(lake: Lake, noted: Mapping[str, str | None]) -> None:
    """Note of each table of the project's own lists what its rows are, as the table's comment.

    `noted` are the comments that tables have already.
    """
    new = {name: _source(own.endpoint) for name, own in own_lists().items() if not noted.get(name)}
    if new:
        with commit_lock(lake.path), lake.transaction():
            for name, source in new.items():
                lake.execute(f"comment on table lake.raw.{quoted(name)} is {literal(source)}")


def _source(row: Endpoint) -> str:
    """Return what identifies the rows of a list, and what their proven ranges are ranges of."""
    timed = f"; by {row.event_time} from {row.service.root if row.service else row.api} {row.path}"
    return f"key {', '.join(row.key)}{timed if row.event_time else ''}"


def require_as_described(lake: Lake) -> Mapping[str, str | None]:
    """Return what is noted of raw tables; require own lists to be as their files describe them.

    The rows of a column are of one kind; those of another kind would be read wrongly, or lost. With
    another key, rows of one record would be taken for several, or the reverse. Raises:
    SettingsError.
    """
    own = own_lists()
    if not own:
        return {}
    noted: dict[str, str | None] = dict(
        lake.rows(
            "select table_name, comment from duckdb_tables() "
            "where database_name = 'lake' and schema_name = 'raw'"
        )
    )
    for table, source in noted.items():
        if source and table in own and source != (now := _source(own[table].endpoint)):
            raise SettingsError(
                f"{own[table].file}:{own[table].line}: the rows of raw.{table} are {source!r}, and "
                f"the file makes them {now!r}.",
                remedy="Restore that, or give the list another name, which starts a new table.",
            )
    held = lake.rows(
        "select table_name, column_name, data_type from duckdb_columns() "
        "where database_name = 'lake' and schema_name = 'raw'"
    )
    for table, column, held_type in held:
        if table not in own:
            continue
        row, where = own[table].endpoint, f"{own[table].file}:{own[table].line}"
        wanted = tables.raw_columns(row).get(column, held_type)
        if wanted != held_type:
            raise SettingsError(
                f"{where}: raw.{table} holds {column} as {held_type}, and the file makes it "
                f"{wanted}.",
                remedy="Restore its kind, or give the list another name, which starts a new table.",
            )
        if column == "valid_to" and row.mode is not Mode.HISTORY:
            raise SettingsError(
                f"{where}: raw.{table} holds every version of a record, which kind history writes.",
                remedy='Restore kind = "history", or give the list another name, which starts a '
                "new table.",
            )
    return noted


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
                if missing := tables.missing_of_meta(lake):  # of what a migration writes to
                    lake.execute(";\n".join(missing))
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
