"""What a build must compute: everything, a selection, or what depends on changed tables."""

import json
import logging
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from fleetlake.lake import Lake
from fleetlake.lake.audit_trail import count_removals
from fleetlake.lake.table_changes import changed_tables
from fleetlake.lake_address import LakeAddress
from fleetlake.machine.atomic_files import write_atomically
from fleetlake.machine.io_faults import io_fault
from fleetlake.machine.ownership import require_own
from fleetlake.machine.umask import apply_umask
from fleetlake.marts.catalogue import live_tables, tracked_tables
from fleetlake.marts.sql_project import project_digest, project_folder

logger = logging.getLogger(__name__)

SCRATCH = "build.duckdb"
_RECORD = "built.json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = "SELECT epoch_us(max(built_at)) FROM state.built"
_LIVE = ("tag:live+,+tag:live", "--exclude", "config.materialized:view")
"""dbt's options for what lies between a live table and a live mart, both included."""


@dataclass(frozen=True)
class Built:
    """The last good build: a digest of its project, and the snapshot of its last full selection.

    `snapshot` is None if only selections were ever built. `removals` counts what had removed rows
    from the lake before it: rows from the middle of tables, so the build after one is a full one.
    `live` is the snapshot of a later good build of the live marts.
    """

    project: str
    snapshot: int | None
    removals: int = 0
    live: int | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """dbt's options for a build (None: nothing to build), and what to record afterwards.

    `changed` are the source tables whose models are built; empty if these do not follow from them.
    """

    options: tuple[str, ...] | None
    is_full: bool
    is_live: bool = False
    changed: frozenset[str] = frozenset()
    record: Built | None


@dataclass(frozen=True)
class EarlierBuilds:
    """What builds before have left: the folder of their record, and the time of the latest one.

    `is_new` says that none has made anything.
    """

    folder: Path
    is_new: bool
    latest: datetime | None = None


def work_folder(lake: LakeAddress) -> Path:
    """Return the folder of a lake's builds on this machine; create it if necessary."""
    apply_umask()
    work = lake / "dbt"
    require_own(work, "build", otherwise="set FLEETLAKE_LAKE to a folder of your own")
    work.mkdir(parents=True, exist_ok=True)
    return work


def plan_build(
    lake: Lake,
    last: Built | None,
    *,
    select: str | None,
    is_full: bool,
    is_live: bool = False,
    is_new: bool = False,
    until: int,
) -> Plan:
    """Return what to build at an open lake's snapshot `until`, given the last good build.

    `is_new` says that no build has made anything. Only the live marts are computed if `is_live`,
    unless there are no marts to keep.

    After rows were removed on purpose, everything is computed again: new rows alone touch the units
    of an incremental mart.

    Building a selection leaves the record of the last build unchanged, unless it is new. Until
    everything has been built once, a selection includes the models it depends on.
    """
    project, changed = project_digest(project_folder()), None
    removals = count_removals(lake)
    if last and last.removals != removals:
        last = None
    elif last and last.snapshot is not None:
        since = last.live if is_live and last.live is not None else last.snapshot
        changed = changed_tables(lake, since, until)
    is_full = is_full or last is None
    if is_live and last and last.snapshot is not None:
        return _plan_live(replace(last, live=until), changed)
    if select:
        record = Built(project, None, removals) if is_new else last
        words = select.split()
        if last is None or last.snapshot is None:
            words = [_with_parents(word) for word in words]
        # A test that needs a model which is neither selected nor above a selected one is left out.
        selected = ("--select", *words, "--indirect-selection", "buildable")
        return Plan(options=selected, is_full=is_full, record=record)
    record = Built(project, until, removals)
    if is_full or changed is None:
        return Plan(options=(), is_full=is_full, record=record)
    changed &= tracked_tables()
    return Plan(options=_downstream(changed), is_full=False, changed=changed, record=record)


def _plan_live(record: Built, changed: frozenset[str] | None) -> Plan:
    """Return a plan of the live marts, which computes nothing if no live table has changed."""
    is_due = changed is None or bool(changed & live_tables())
    options = ("--select", *_LIVE) if is_due else None
    return Plan(options=options, is_full=False, is_live=True, record=record)


def _with_parents(selection: str) -> str:
    """Return a dbt selection extended by all models that it depends on.

    >>> _with_parents("trips"), _with_parents("+trips"), _with_parents("tag:a,trips+")
    ('+trips', '+trips', '+tag:a,+trips+')
    """
    parts = selection.split(",")
    return ",".join(part if part.startswith(("+", "@")) else f"+{part}" for part in parts)


def last_built(folder: Path) -> Built | None:
    """Return the last good build that is recorded in a folder.

    None if there was none, the project has changed since, or the record cannot be read.
    """
    try:
        built = Built(**json.loads((folder / _RECORD).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    numbers = built.snapshot, built.removals, built.live
    if not all(number is None or isinstance(number, int) for number in numbers):
        return None
    return built if built.project == project_digest(project_folder()) else None


def earlier_builds(work: Path) -> EarlierBuilds:
    """Return what a build on this machine goes on from: its scratch file, unless it is damaged."""
    discard_damaged(work)
    file = work / SCRATCH
    if not file.exists():
        return EarlierBuilds(work, is_new=True)
    try:
        with duckdb.connect(file, read_only=True) as connection:
            [(found,)] = connection.execute(_LATEST).fetchall()
    except duckdb.Error:  # a first build has not ended, or what builds will say why
        found = None
    latest = None if found is None else _EPOCH + timedelta(microseconds=found)
    return EarlierBuilds(work, is_new=False, latest=latest)


def discard_damaged(work: Path) -> None:
    """Delete a scratch file that DuckDB cannot read; the next build then starts from scratch.

    A process that is killed while DuckDB creates the file leaves one without a header.
    """
    file = work / SCRATCH
    if not file.exists():
        discard_scratch(work)  # a record of it counts for nothing
        return
    try:
        duckdb.connect(file, read_only=True).close()
    except (duckdb.IOException, duckdb.SerializationException, duckdb.InternalException) as error:
        if "set lock" in str(error).lower():  # another process has it open
            return
        if fault := io_fault(error, work):
            raise fault from None
        logger.warning("The scratch file of builds is damaged, so everything is built again.")
        discard_scratch(work)


def build_time(*earlier: datetime | None) -> datetime:
    """Return the time of a build that begins now: the clock's, but later than earlier builds.

    The clock may have been put back since, or be behind that of another machine. Rows that a model
    or the lake does not have yet are then still newer than those that it has.
    """
    after = [time + timedelta(microseconds=1) for time in earlier if time]
    return max(datetime.now(UTC), *after, _EPOCH)


def discard_scratch(work: Path) -> None:
    """Delete the scratch file and its record; the next build here then starts from scratch."""
    for file in (_RECORD, SCRATCH, f"{SCRATCH}.wal"):
        (work / file).unlink(missing_ok=True)


def record_built(work: Path, built: Built | None) -> None:
    """Record a good build; None removes the record while what builds have made is incomplete."""
    file = work / _RECORD
    if built is None:
        file.unlink(missing_ok=True)
    else:
        write_atomically(file, json.dumps(asdict(built)))


def _downstream(sources: frozenset[str]) -> tuple[str, ...] | None:
    """Return dbt's options for all models downstream of some sources; None without sources.

    Views are excluded because they need no rebuild. Data tests on views still run.
    """
    if not sources:
        return None
    return (
        *("--select", *(f"source:{name}+" for name in sorted(sources))),
        *("--exclude", "config.materialized:view", "--indirect-selection", "empty"),
    )
