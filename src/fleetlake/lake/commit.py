"""One commit: rows, rejected records, proven ranges, watermark and load record, all or nothing.

A commit is done, refused or unknown. Its load id is chosen before it starts and stays the same
on retry, so an unknown commit is resolved by looking for the id in `meta.loads`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import CommitUnknown, LakeError
from fleetlake.lake.confirmation import confirm
from fleetlake.lake.connection import Lake
from fleetlake.lake.known_keys import KnownKeys
from fleetlake.lake.lateness import note_lateness
from fleetlake.lake.loads import Attempt, Batch, Committed, Proof, RowParts, StreamProof, Whole
from fleetlake.lake.locks import commit_lock
from fleetlake.lake.rows import write_rows
from fleetlake.lake.run_state import RunState
from fleetlake.lake.watermarks import STATEMENTS, add_intervals
from fleetlake.planning.intervals import Interval


def commit_load(
    state: RunState,
    batch: Batch,
    proof: Proof,
    attempt: Attempt,
    *,
    whole: Whole | None = None,
    keys: KnownKeys | None = None,
    only_changes: bool = False,
    is_marked: bool = True,
    also: Callable[[Lake], None] | None = None,
) -> Committed:
    """Commit a load exactly once, however often this is called with the same `attempt`.

    `whole` says that the batch is a complete list. `keys` is what the run knows of the tables'
    keys; pass the same one with each load of a run. With `only_changes`, a load without new rows is
    not committed; `commit_proofs` later commits what many such loads prove, in one transaction.
    Unless it `is_marked`, that also writes when the stream was read. `also` makes further writes in
    the transaction.

    Raises: LakeError if the commit was refused and nothing was kept; CommitUnknown if the outcome
    is unknown because the catalog no longer answers.
    """
    lake, keys = state.lake, keys or KnownKeys()
    with commit_lock(lake.path):
        keys.begin()
        is_retry = attempt.begun > 0
        attempt.begun += 1
        try:
            with lake.transaction():
                state.renew()
                committed = write_rows(state, batch, attempt.load_id, keys, whole)
                if committed.asks_again or (only_changes and committed.is_nothing):
                    lake.roll_back()
                    return replace(committed, snapshot=state.snapshot)
                # A load id is chosen in this process, so no other can have committed it.
                if is_retry and (earlier := _earlier(lake, attempt)):
                    lake.roll_back()
                    return earlier
                _write_proofs(state, batch, proof, attempt, committed)
                if is_marked and batch.endpoint.is_requested:  # a push proves nothing else
                    load_id = attempt.load_id
                    _mark(state, [StreamProof(batch.endpoint, batch.profile, proof, load_id)])
                if committed.added or proof.proven:
                    _confirm(state, batch.endpoint, proof, batch.rows)
                if also is not None:
                    also(lake)
        except LakeError as error:
            if settled := _settled(lake, batch.endpoint, attempt, error):
                return settled
            raise
        keys.note_commit()
        return replace(committed, snapshot=state.note_commit())


def _confirm(
    state: RunState, endpoint: Endpoint, proof: Proof, rows: RowParts | None = None
) -> None:
    confirm(state.lake, endpoint, proof.proven, rows, has_pushes=state.has_pushes)


def commit_proofs(
    state: RunState, proofs: Sequence[StreamProof], *, also: Callable[[Lake], None] | None = None
) -> None:
    """Commit what loads without new rows prove, in one transaction.

    `also` makes the other writes at the end of a run.
    """
    if not proofs and also is None:
        return
    lake = state.lake
    streams: dict[tuple[str, str], list[StreamProof]] = {}
    for one in proofs:
        streams.setdefault((one.profile, one.endpoint.name), []).append(one)
    with commit_lock(lake.path), lake.transaction():
        state.renew()
        for (profile, _), of_stream in streams.items():
            proven: dict[str, list[Interval]] = {}
            for one in of_stream:
                for partition, intervals in one.proof.proven.items():
                    proven.setdefault(partition, []).extend(intervals)
            if proven:
                add_intervals(lake, profile, of_stream[0].endpoint, proven)
                state.forget_proven(of_stream[0].endpoint)
        _mark(state, proofs)
        for one in proofs:
            _confirm(state, one.endpoint, one.proof)
        if also is not None:
            also(lake)
    state.note_commit()


def _write_proofs(
    state: RunState, batch: Batch, proof: Proof, attempt: Attempt, done: Committed
) -> None:
    lake, endpoint, profile = state.lake, batch.endpoint, batch.profile
    if proof.proven:
        add_intervals(lake, profile, endpoint, proof.proven)
        state.forget_proven(endpoint)
    if done.added and proof.overlap and endpoint.mode is Mode.APPEND:
        note_lateness(lake, batch, proof.overlap, attempt.load_id)
    stream = [attempt.load_id, attempt.run_id, profile, endpoint.name]
    lake.execute(
        "insert into meta.loads (load_id, run_id, account_profile, endpoint, records, "
        "rows_added, rows_changed, quarantined, committed_at) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, now())",
        [*stream, batch.records, done.added, done.changed, done.quarantined],
    )


def _mark(state: RunState, proofs: Sequence[StreamProof]) -> None:
    """Write how far streams were read, in the open transaction."""
    set_watermarks(state.lake, proofs)
    set_last_reads(state.lake, proofs)
    state.forget("meta.watermarks")
    state.forget("meta.reads")


def set_watermarks(lake: Lake, proofs: Sequence[StreamProof]) -> None:
    """Advance the streams' watermarks in the open transaction; none moves back."""
    if not proofs:
        return
    newest = [one.proof.newest for one in proofs]
    held = [one.proof.held for one in proofs]
    members = {
        "account_profile": [one.profile for one in proofs],
        "endpoint": [one.endpoint.name for one in proofs],
        "load_id": pa.array([one.load_id for one in proofs], pa.string()),
        "watermark_at": pa.array(newest, pa.timestamp("us", tz="UTC")),
        "list_digest": pa.array([one and one.digest for one in held], pa.string()),
        "list_snapshot": pa.array([one and one.snapshot for one in held], pa.int64()),
    }
    with lake.view("marks", pa.table(members)):
        updated = lake.number(STATEMENTS["advance"])
        if len(proofs) > 1 or not updated:
            lake.execute(STATEMENTS["add"])


def set_last_reads(lake: Lake, proofs: Sequence[StreamProof]) -> None:
    """Record the reads that have finished, in the open transaction."""
    reads = [(one.profile, one.endpoint.name, one.proof.ends) for one in proofs if one.proof.ends]
    if not reads:
        return
    instant = pa.timestamp("us", tz="UTC")
    unsettled = [read.unsettled for _, _, read in reads]
    members = {
        "account_profile": [profile for profile, _, _ in reads],
        "endpoint": [endpoint for _, endpoint, _ in reads],
        "shard": [read.shard for _, _, read in reads],
        "final_until": pa.array([tail and tail.start for tail in unsettled], instant),
        "read_until": pa.array([tail and tail.end for tail in unsettled], instant),
        "swept_at": pa.array([read.swept_at for _, _, read in reads], instant),
        "wanted_from": pa.array([read.wanted_from for _, _, read in reads], instant),
    }
    with lake.view("new_reads", pa.table(members)):
        lake.execute(STATEMENTS["forget_reads"])
        lake.execute("insert into meta.reads by name select *, now() as finished_at from new_reads")


def _earlier(lake: Lake, attempt: Attempt) -> Committed | None:
    """Return the result of an earlier commit of this load, or None."""
    found = lake.rows(
        "select rows_added, rows_changed, quarantined from meta.loads where load_id = ?",
        [attempt.load_id],
    )
    return Committed(*found[0]) if found else None


def _settled(
    lake: Lake, endpoint: Endpoint, attempt: Attempt, error: LakeError
) -> Committed | None:
    """Return the result of a commit that ended with an error, or None if it was refused.

    Raises: CommitUnknown if the catalog does not answer.
    """
    try:
        return _earlier(lake, attempt)
    except LakeError:
        raise CommitUnknown(
            f"The outcome of load {attempt.load_id} of {endpoint.name} is unknown: {error.what}",
            remedy="Run again once the catalog answers. Nothing is loaded twice.",
        ) from error
