"""One commit: rows, misfits, proven ranges, watermark and load record, or nothing of them.

A commit is done, refused or unknown. Its load id is chosen before it starts and stays the same
when it is tried again, so an unknown one is settled by looking for the id in `meta.loads`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from fleetlake.endpoint import Endpoint, Mode
from fleetlake.errors import CommitUnknown, LakeError
from fleetlake.intervals import Interval
from fleetlake.lake.lateness import note_lateness
from fleetlake.lake.locks import commit_lock
from fleetlake.lake.watermarks import LastRead, Mark, add_intervals, set_last_reads, set_watermarks
from fleetlake.normalise import EXTRA
from fleetlake.plan import Overlap
from fleetlake.records import Misfit

if TYPE_CHECKING:
    from fleetlake.lake.catalog import Lake


def new_load_id() -> str:
    """Return an id that no other load has."""
    return str(uuid4())


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one commit brings: rows of one stream, and what they prove.

    `seen_at` is the service's clock at the read; a snapshot's versions begin and end there.
    `is_whole` says that the rows are the whole list, so what is not among them has gone.
    `overlap` is what the load before has read already; `ends`, on the last commit of a read that
    came to its end, is what the next load is to know of it.
    """

    endpoint: Endpoint
    profile: str
    run_id: str
    rows: pa.Table
    seen_at: datetime
    misfits: Sequence[Misfit] = ()
    proven: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    is_whole: bool = False
    overlap: Overlap | None = None
    ends: LastRead | None = None
    load_id: str = field(default_factory=new_load_id)


@dataclass(frozen=True)
class Committed:
    """What a commit changed, in rows."""

    added: int
    changed: int
    quarantined: int

    @property
    def is_nothing(self) -> bool:
        """True when the lake's rows are what they were."""
        return not (self.added or self.changed or self.quarantined)


def commit_load(lake: "Lake", load: Load, *, only_changes: bool = False) -> Committed:
    """Commit a load once, however often it is asked for.

    With `only_changes`, a load that brings nothing new is not committed at all; what it proves
    is for `commit_proofs`, which takes many such loads at the price of one.

    Raises: LakeError when it was refused and nothing of it is kept; CommitUnknown when that
    cannot be told, because the catalog no longer answers.
    """
    with commit_lock(lake.path):
        lake.execute("begin")
        try:
            committed = _write(lake, load)
            if only_changes and committed.is_nothing:
                lake.roll_back()
                return committed
            if earlier := _earlier(lake, load):
                lake.roll_back()
                return earlier
            _write_proofs(lake, load, committed)
            lake.execute("commit")
        except BaseException as error:
            lake.roll_back()
            if isinstance(error, LakeError) and (settled := _settled(lake, load, error)):
                return settled
            raise
        return committed


def _write(lake: "Lake", load: Load) -> Committed:
    rows = load.rows
    if load.endpoint.mode is not Mode.APPEND:
        rows = rows.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
    with lake.view("batch", rows):
        write = {Mode.APPEND: _append, Mode.UPSERT: _upsert, Mode.HISTORY: _version}
        added, changed = write[load.endpoint.mode](lake, load)
    quarantined = _quarantine(lake, load)
    _note_drift(lake, load)
    return Committed(added, changed, quarantined)


def commit_proofs(
    lake: "Lake", loads: Sequence[Load], *, also: Callable[[], None] | None = None
) -> None:
    """Commit what loads prove whose rows were all there already, in one transaction.

    `also` writes what else belongs to the end of a run.
    """
    if not loads and also is None:
        return
    with commit_lock(lake.path):
        lake.execute("begin")
        try:
            for (profile, _), of_stream in _by_stream(loads).items():
                endpoint = of_stream[0].endpoint
                if proven := _joined(of_stream):
                    add_intervals(lake, profile, endpoint, proven)
            set_watermarks(lake, [_mark(load) for load in loads])
            set_last_reads(lake, _ends(loads))
            if also is not None:
                also()
            lake.execute("commit")
        except BaseException:
            lake.roll_back()
            raise


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


def _write_proofs(lake: "Lake", load: Load, done: Committed) -> None:
    if load.proven:
        add_intervals(lake, load.profile, load.endpoint, load.proven)
    if done.added and load.overlap and load.endpoint.mode is Mode.APPEND:
        note_lateness(lake, load, load.overlap)
    set_watermarks(lake, [_mark(load, load.load_id)])
    set_last_reads(lake, _ends([load]))
    lake.execute(
        "insert into meta.loads values (?, ?, ?, ?, ?, ?, ?, ?, now())",
        [
            load.load_id,
            load.run_id,
            load.profile,
            load.endpoint.name,
            load.rows.num_rows + len(load.misfits),
            done.added,
            done.changed,
            done.quarantined,
        ],
    )


def _append(lake: "Lake", load: Load) -> tuple[int, int]:
    """Insert the records that the table does not hold; their time bounds spare its old files."""
    endpoint = load.endpoint
    if load.rows.num_rows == 0:
        return 0, 0
    first, last = _bounds(load.rows[endpoint.event_time])
    [(added,)] = lake.rows(
        f"insert into raw.{endpoint.name} by name "
        f"select *, {_PROVENANCE} from ({_once(endpoint)}) anti join ("
        f"select {_listed(endpoint.key)} from raw.{endpoint.name} "
        f'where "{endpoint.event_time}" between ? and ?) using ({_listed(endpoint.key)})',
        [load.profile, load.load_id, first, last],
    )
    return added, 0


def _upsert(lake: "Lake", load: Load) -> tuple[int, int]:
    """Insert new records and overwrite those whose content changed."""
    endpoint, table = load.endpoint, f"raw.{load.endpoint.name}"
    sets = ", ".join(f'"{c.name}" = b."{c.name}"' for c in endpoint.columns)
    [(changed,)] = lake.rows(
        f"update {table} t set {sets}, _extra = b._extra, account_profile = ?, "
        f"_load_id = ?, _loaded_at = now() from ({_once(endpoint)}) b "
        f"where {_same_key(endpoint)} and {_differs(endpoint)}",
        [load.profile, load.load_id],
    )
    return _insert_unknown(lake, load, "", "", []), changed


def _version(lake: "Lake", load: Load) -> tuple[int, int]:
    """Close the versions whose content changed or whose record has gone; insert the new ones."""
    endpoint, table = load.endpoint, f"raw.{load.endpoint.name}"
    [(changed,)] = lake.rows(
        f"update {table} t set valid_to = ? from ({_once(endpoint)}) b "
        f"where t.valid_to is null and {_same_key(endpoint)} and {_differs(endpoint)}",
        [load.seen_at],
    )
    if load.is_whole:
        [(gone,)] = lake.rows(
            f"update {table} t set valid_to = ? where valid_to is null "
            f"and account_profile = ? and not exists "
            f"(select 1 from batch b where {_same_key(endpoint)})",
            [load.seen_at, load.profile],
        )
        changed += gone
    added = _insert_unknown(
        lake, load, "where valid_to is null", ", ?::timestamptz as valid_from", [load.seen_at]
    )
    return added, changed


def _insert_unknown(
    lake: "Lake", load: Load, known: str, more: str, parameters: list[object]
) -> int:
    endpoint = load.endpoint
    [(added,)] = lake.rows(
        f"insert into raw.{endpoint.name} by name "
        f"select *, {_PROVENANCE}{more} from ({_once(endpoint)}) anti join ("
        f"select {_listed(endpoint.key)} from raw.{endpoint.name} {known}) "
        f"using ({_listed(endpoint.key)})",
        [load.profile, load.load_id, *parameters],
    )
    return int(added)


_PROVENANCE = "?::varchar as account_profile, ?::varchar as _load_id, now() as _loaded_at"


def _once(endpoint: Endpoint) -> str:
    """Return the batch with each key once: pages may overlap while records are being added.

    Where a record may change between two readings of it, the last reading counts.
    """
    key = _listed(endpoint.key)
    if endpoint.mode is Mode.APPEND:
        return f"select distinct on ({key}) * from batch"
    return f"select distinct on ({key}) * exclude _row from batch order by {key}, _row desc"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _same_key(endpoint: Endpoint) -> str:
    return " and ".join(f't."{name}" = b."{name}"' for name in endpoint.key)


def _differs(endpoint: Endpoint) -> str:
    names = [*endpoint.tracked, "_extra"]
    left, right = (", ".join(f'{side}."{name}"' for name in names) for side in "tb")
    return f"row({left}) is distinct from row({right})"


def _mark(load: Load, load_id: str | None = None) -> Mark:
    return Mark(
        profile=load.profile, endpoint=load.endpoint.name, newest=_newest(load), load_id=load_id
    )


def _ends(loads: Sequence[Load]) -> list[tuple[str, str, LastRead]]:
    return [(load.profile, load.endpoint.name, load.ends) for load in loads if load.ends]


def _newest(load: Load) -> datetime | None:
    if load.endpoint.event_time is None:
        return load.seen_at
    return _bounds(load.rows[load.endpoint.event_time])[1] if load.rows.num_rows else None


def _bounds(instants: pa.ChunkedArray) -> tuple[datetime, datetime]:
    """Return the first and the last instant; pyarrow.compute would take 0.1 s to import."""
    chunks = [chunk.view(pa.int64()).to_numpy() for chunk in instants.chunks if len(chunk)]
    first = min(int(chunk.min()) for chunk in chunks)
    last = max(int(chunk.max()) for chunk in chunks)
    return _EPOCH + timedelta(microseconds=first), _EPOCH + timedelta(microseconds=last)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _quarantine(lake: "Lake", load: Load) -> int:
    """Keep the misfits; one that was met before is not kept again."""
    if not load.misfits:
        return 0
    members = {
        "reason": [misfit.reason for misfit in load.misfits],
        "raw": [misfit.raw for misfit in load.misfits],
        "partition": [misfit.partition for misfit in load.misfits],
    }
    with lake.view("misfits", pa.table(members)):
        [(added,)] = lake.rows(
            "insert into meta.quarantine by name select ? as account_profile, ? as endpoint, "
            "any_value(reason) as reason, raw, ? as load_id, now() as quarantined_at, partition "
            "from misfits where not exists (select 1 from meta.quarantine q "
            "where q.endpoint = ? and q.raw = misfits.raw and q.partition = misfits.partition) "
            "group by raw, partition",
            [load.profile, load.endpoint.name, load.load_id, load.endpoint.name],
        )
    return int(added)


def _note_drift(lake: "Lake", load: Load) -> None:
    """Keep the first sight of every member that has no column, with an example."""
    if load.rows[EXTRA].null_count == load.rows.num_rows:
        return
    with lake.view("batch", load.rows):
        lake.execute(
            "insert into meta.schema_drift by name select ? as account_profile, "
            "? as endpoint, member, any_value(example) as example, ? as load_id, "
            "now() as first_seen_at from (select key as member, value::varchar as example "
            "from batch, json_each(batch._extra) where batch._extra is not null) "
            "where not exists (select 1 from meta.schema_drift d "
            "where d.endpoint = ? and d.member = member) group by member",
            [load.profile, load.endpoint.name, load.load_id, load.endpoint.name],
        )


def _earlier(lake: "Lake", load: Load) -> Committed | None:
    """Return what a commit of the load did that has taken place already, or None."""
    found = lake.rows(
        "select rows_added, rows_changed, quarantined from meta.loads where load_id = ?",
        [load.load_id],
    )
    return Committed(*found[0]) if found else None


def _settled(lake: "Lake", load: Load, error: LakeError) -> Committed | None:
    """Return what a commit did that was answered with an error, or None if it was refused.

    Raises: CommitUnknown when the catalog does not tell.
    """
    try:
        return _earlier(lake, load)
    except LakeError:
        raise CommitUnknown(
            f"It is not known whether load {load.load_id} of {load.endpoint.name} took place: "
            f"{error.what}",
            remedy="Run again once the catalog answers: nothing is loaded twice.",
        ) from error
