"""Forgetting lost rows, so that the next load reads them again.

One transaction drops the damaged files, unproves the ranges of time that they held, moves the
watermarks back to the newest row that is left, and records what was forgotten. Snapshots that read
the files expire, so that nothing fails there later: exports to other tools then start in full, and
the next build computes the marts again.
"""

from collections.abc import Sequence

from fleetlake.care.integrity.checksums import forget_checksums
from fleetlake.care.integrity.listing import FileStore, ListedFile, listed_files
from fleetlake.care.integrity.losses import REPROVED, Loss
from fleetlake.care.integrity.meta_repair import (
    balance_loads,
    forget_all_proofs,
    read_stream_again,
    restore_meta,
)
from fleetlake.care.integrity.stand_in import stand_in
from fleetlake.care.maintenance import one_thread
from fleetlake.endpoints import ENDPOINTS, POLLED, PUSHED
from fleetlake.errors import LakeError
from fleetlake.lake import ducklake
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.confirmation import drop_dangling
from fleetlake.lake.connection import Lake
from fleetlake.lake.gaps import add_gap
from fleetlake.lake.locks import AT_ONCE, Patience, all_locks
from fleetlake.lake.retention_rules import kept_from
from fleetlake.planning.intervals import BEGINNING
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.wording import counted

_MOST_NAMED = 50


def forget_losses(
    lake: Lake,
    losses: Sequence[Loss],
    damaged: Sequence[ListedFile],
    contradicted: Sequence[str],
    *,
    patience: Patience = AT_ONCE,
) -> None:
    """Forget the rows of lost files, and what meta claims about `contradicted` endpoints.

    `damaged` are all damaged files, those of earlier snapshots included. Raises: LakeBusy if a
    stream is being loaded for longer than `patience`; LakeError if the lake has changed since the
    losses were described.
    """
    tables: dict[str, list[Loss]] = {}
    for loss in losses:
        tables.setdefault(loss.file.of_table, []).append(loss)
    with all_locks(lake.path, patience):
        _require_listed(lake, [file for loss in losses for file in loss.files])
        _put_stand_ins(lake, losses)
        _flush_deletes(lake, losses)
        # Otherwise DuckLake lists few deleted rows in the catalog and keeps their file.
        lake.execute(ducklake.FILES_ONLY)
        with lake.transaction():
            rows = {name: _drop_rows(lake, of_table) for name, of_table in tables.items()}
            for of_table in tables.values():
                _unprove(lake, of_table)
            for name in contradicted:
                read_stream_again(lake, ENDPOINTS[name], None)
            if {name.removeprefix("meta.") for name in tables} & REPROVED:
                forget_all_proofs(lake)
            for name, of_table in tables.items():
                _record(lake, of_table, rows[name])
            restore_meta(lake, tables.keys())
            if tables.keys() & {f"raw.{e.name}" for e in (PUSHED, POLLED)}:
                drop_dangling(lake, polled_from=kept_from(lake).get(POLLED.name, BEGINNING))
            forget_checksums(lake, {file.name for file in damaged})
            balance_loads(lake, contradicted)
        _expire(lake, [*damaged, *(file for loss in losses for file in loss.files)])


def _require_listed(lake: Lake, files: Sequence[ListedFile]) -> None:
    current = {file for file in listed_files(lake) if file.ended is None}
    if not current.issuperset(files):
        raise LakeError("The lake has changed since the check.", remedy="Run the repair again.")
    if any(file.is_encrypted for file in files):
        raise LakeError(
            "A damaged file is encrypted, so it cannot be dropped without its rows.",
            remedy="Restore the lake from a backup with `fleetlake restore`.",
        )


def _put_stand_ins(lake: Lake, losses: Sequence[Loss]) -> None:
    """Replace the lost files. Data files go first: without them no deleted row can return."""
    store = FileStore(lake.path)
    files = [file for loss in losses if not loss.is_of_mart for file in loss.files]
    for file in sorted(files, key=lambda file: file.is_delete):
        columns = [] if file.is_delete else ducklake.file_columns(lake, file.data_file_id)
        store.replace(file.name, stand_in(file, columns))


def _flush_deletes(lake: Lake, losses: Sequence[Loss]) -> None:
    """Write the deleted rows that the catalog itself lists into files.

    Otherwise DuckLake would keep a file of which some rows are on that list.
    """
    files = [loss.file for loss in losses if not loss.is_of_mart]
    with one_thread(lake):
        for schema, table in dict.fromkeys((file.schema, file.table) for file in files):
            ducklake.flush_rows(lake, schema, table)


def _drop_rows(lake: Lake, losses: Sequence[Loss]) -> int:
    """Drop the lost files of a table, in the open transaction; return their rows."""
    table = f"{quoted(losses[0].file.schema)}.{quoted(losses[0].file.table)}"
    count = f"select count(*) from {table}"
    before = lake.number(count)
    if losses[0].is_of_mart:  # the next build creates it; half of a mart would be wrong
        lake.execute(f"drop table {table}")
        return before
    store = FileStore(lake.path)
    names = ", ".join(literal(store.url(loss.file.name)) for loss in losses)
    lake.execute(f"delete from {table} where filename in ({names})")
    return before - lake.number(count)


def _unprove(lake: Lake, losses: Sequence[Loss]) -> None:
    endpoint = losses[0].endpoint
    if endpoint is None or not endpoint.is_requested:
        return
    ranges = [loss.held for loss in losses if loss.held]
    if not endpoint.is_snapshot:
        read_stream_again(lake, endpoint, ranges if len(ranges) == len(losses) else None)
        return
    for loss in losses:
        if loss.held:
            reason = f"a lost file held {counted(loss.rows, 'row')}; {loss.prospect}"
            add_gap(lake, loss.profile, endpoint, loss.held, reason, partition="")


def _record(lake: Lake, losses: Sequence[Loss], rows: int) -> None:
    """Record what was forgotten of one table: an event without names or ids of devices."""
    table, endpoint = losses[0].file.of_table, losses[0].endpoint
    held = [[loss.held.start, loss.held.end] for loss in losses if loss.held]
    record_event(
        lake,
        EventKind.REPAIR,
        f"{counted(rows, 'row')} of {table} deleted with "
        f"{counted(len(losses), 'lost file')}: {losses[0].prospect}.",
        endpoint=endpoint.name if endpoint else table,
        rows=rows,
        details={
            "files": [loss.file.name for loss in losses][:_MOST_NAMED],
            "ranges": held[:_MOST_NAMED],
        },
    )


def _expire(lake: Lake, files: Sequence[ListedFile]) -> None:
    """Expire the snapshots that read lost files, and remove what is left of the files."""
    newest = lake.number("select max(snapshot_id) from lake.snapshots()")
    ends = {file.name: file.ended or newest for file in files}
    sql = "select snapshot_id from lake.snapshots() where snapshot_id < ?"
    lost = [
        number
        for number in lake.values(sql, [newest])
        if any(file.begun <= number < ends[file.name] for file in files)
    ]
    if lost:
        ducklake.expire(lake, lost)
    ducklake.remove_unused_files(lake)
