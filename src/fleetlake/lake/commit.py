"""One commit: rows, rejected records, proven ranges, watermark and load record, all or nothing.

A commit is done, refused or unknown. Its load id is chosen before it starts and stays the same
on retry, so an unknown commit is resolved by looking for the id in `meta.loads`.
"""

from collections.abc import Callable, Sequence

from fleetlake.endpoints.model import Mode
from fleetlake.errors import CommitUnknown, LakeError
from fleetlake.lake.clock_repair import TOLERANCE
from fleetlake.lake.confirmation import confirm
from fleetlake.lake.connection import Lake
from fleetlake.lake.known_keys import KnownKeys
from fleetlake.lake.lateness import note_lateness
from fleetlake.lake.loads import Committed, Load
from fleetlake.lake.locks import commit_lock
from fleetlake.lake.rows import write_rows
from fleetlake.lake.watermarks import (
    LastRead,
    StreamWatermark,
    add_intervals,
    set_last_reads,
    set_watermarks,
)
from fleetlake.planning.intervals import Interval


def commit_load(
    lake: Lake,
    load: Load,
    *,
    keys: KnownKeys | None = None,
    only_changes: bool = False,
    also: Callable[[Lake], None] | None = None,
) -> Committed:
    """Commit a load exactly once, however often this is called.

    `keys` is what the run knows of the tables' keys; pass the same one with each load of a run.
    With `only_changes`, a load without new rows is not committed; `commit_proofs` later commits
    what many such loads prove, in one transaction. `also` makes further writes in the transaction.

    Raises: LakeError if the commit was refused and nothing was kept; CommitUnknown if the outcome
    is unknown because the catalog no longer answers.
    """
    keys = keys or KnownKeys()
    with commit_lock(lake.path):
        keys.begin()
        is_retry = load.attempts.begun > 0
        load.attempts.begun += 1
        try:
            with lake.transaction():
                committed = write_rows(lake, load, keys)
                if only_changes and committed.is_nothing:
                    lake.roll_back()
                    return committed
                # A load id is chosen in this process, so no other can have committed it.
                if is_retry and (earlier := _earlier(lake, load)):
                    lake.roll_back()
                    return earlier
                _write_proofs(lake, load, committed)
                if committed.added or load.proven:
                    confirm(lake, load)
                if also is not None:
                    also(lake)
        except LakeError as error:
            if settled := _settled(lake, load, error):
                return settled
            raise
        keys.note_commit()
        return committed


def commit_proofs(
    lake: Lake, loads: Sequence[Load], *, also: Callable[[Lake], None] | None = None
) -> None:
    """Commit what loads without new rows prove, in one transaction.

    `also` makes the other writes at the end of a run.
    """
    if not loads and also is None:
        return
    with commit_lock(lake.path), lake.transaction():
        for (profile, _), of_stream in _by_stream(loads).items():
            endpoint = of_stream[0].endpoint
            if proven := _joined(of_stream):
                add_intervals(lake, profile, endpoint, proven)
        set_watermarks(lake, [_mark(load) for load in loads])
        set_last_reads(lake, _ends(loads))
        for load in loads:
            confirm(lake, load)
        if also is not None:
            also(lake)


def _by_stream(loads: Sequence[Load]) -> dict[tuple[str, str], list[Load]]:
    streams: dict[tuple[str, str], list[Load]] = {}
    for load in loads:
        streams.setdefault((load.profile, load.endpoint.name), []).append(load)
    return streams


def _joined(loads: Sequence[Load]) -> dict[str, list[Interval]]:
    proven: dict[str, list[Interval]] = {}
    for load in loads:
        for partition, intervals in load.proven.items():
            proven.setdefault(partition, []).extend(intervals)
    return proven


def _write_proofs(lake: Lake, load: Load, done: Committed) -> None:
    if load.proven:
        add_intervals(lake, load.profile, load.endpoint, load.proven)
    if done.added and load.overlap and load.endpoint.mode is Mode.APPEND:
        note_lateness(lake, load, load.overlap)
    if load.endpoint.is_requested:  # a push proves nothing about what else there is
        set_watermarks(lake, [_mark(load, load.load_id)])
        set_last_reads(lake, _ends([load]))
    lake.execute(
        "insert into meta.loads (load_id, run_id, account_profile, endpoint, records, "
        "rows_added, rows_changed, quarantined, committed_at) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, now())",
        [
            load.load_id,
            load.run_id,
            load.profile,
            load.endpoint.name,
            load.records,
            done.added,
            done.changed,
            done.quarantined,
        ],
    )


def _mark(load: Load, load_id: str | None = None) -> StreamWatermark:
    # A record may carry a future time, but nothing was read up to then.
    newest = load.newest
    if newest and newest > load.seen_at + TOLERANCE:
        newest = load.seen_at
    return StreamWatermark(
        profile=load.profile, endpoint=load.endpoint.name, newest=newest, load_id=load_id
    )


def _ends(loads: Sequence[Load]) -> list[tuple[str, str, LastRead]]:
    return [(load.profile, load.endpoint.name, load.ends) for load in loads if load.ends]


def _earlier(lake: Lake, load: Load) -> Committed | None:
    """Return the result of an earlier commit of this load, or None."""
    found = lake.rows(
        "select rows_added, rows_changed, quarantined from meta.loads where load_id = ?",
        [load.load_id],
    )
    return Committed(*found[0]) if found else None


def _settled(lake: Lake, load: Load, error: LakeError) -> Committed | None:
    """Return the result of a commit that ended with an error, or None if it was refused.

    Raises: CommitUnknown if the catalog does not answer.
    """
    try:
        return _earlier(lake, load)
    except LakeError:
        raise CommitUnknown(
            f"The outcome of load {load.load_id} of {load.endpoint.name} is unknown: {error.what}",
            remedy="Run again once the catalog answers. Nothing is loaded twice.",
        ) from error
