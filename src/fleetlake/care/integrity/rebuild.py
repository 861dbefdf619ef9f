"""Rebuilding a lake's catalog from the files that the lost one named.

Files of every age are left: each update wrote a row again, and maintenance wrote many rows again
into one file. So a record's key decides, and of several rows the newest one stays. Proven ranges
are lost with the catalog: the next load proves again everything that the service still holds, and
rows that it no longer holds stay.

What was erased or is past its retention stays away, although older files hold it: tombstones and
the rules of retention are applied before the new catalog is used.

The new catalog is written beside the lake's place for it, and renamed once it is complete. The rows
are in new files; `fleetlake maintain` removes the old ones after a day.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from fleetlake.care.integrity.check import check_lake
from fleetlake.care.integrity.checksums import add_checksums
from fleetlake.care.integrity.damage import DamageKind
from fleetlake.care.integrity.listing import DELETES, FileStore, each_of
from fleetlake.care.integrity.meta_repair import balance_loads, restore_watermarks
from fleetlake.care.integrity.stand_in import is_stand_in
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import LakeError
from fleetlake.lake import tables
from fleetlake.lake.attach import CATALOG, FILES, UNCHECKED
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.catalog import READY, is_catalog_lost
from fleetlake.lake.confirmation import confirm_all
from fleetlake.lake.connection import Lake, lake_errors
from fleetlake.lake.ducklake import INTERNAL
from fleetlake.lake.durable import flush_files
from fleetlake.lake.erasure import erase_tombstoned
from fleetlake.lake.evolution.member_values import OLD
from fleetlake.lake.evolution.promotions import with_promoted, with_retyped
from fleetlake.lake.evolution.registry import take_values
from fleetlake.lake.locks import AT_ONCE, Patience, all_locks
from fleetlake.lake.retention_rules import delete_older, prepare_retention, require_rules
from fleetlake.lake_address import LakeAddress
from fleetlake.machine.io_faults import refuse_io_fault
from fleetlake.settings import ClockTrust
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.wording import counted

WORK = ".rebuild"
DAMAGED = "catalog.damaged.sqlite"
"""Where a damaged catalog goes."""

_KEPT = {
    "events": "",
    "calls": "",
    "builds": "",
    "stale_marts": "",
    "tombstones": "",
    "tombstone_key": "",
    "schema_drift": "",
    "loads": "",
    "promoted": "",
    "retyped": "",
    "messages": "sent_at",
    "gaps": "acknowledged_at",
    "quarantine": "resolved_at",
}
"""Tables of meta whose rows are only added, or get a time in this column once."""


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """The result: rows by raw table, and the files that could not be read or assigned."""

    rows: Mapping[str, int]
    files: int
    unreadable: tuple[str, ...]
    unknown: tuple[str, ...]


def rebuild_catalog(
    address: LakeAddress,
    *,
    days: Mapping[str, int] | None = None,
    trust: ClockTrust = ClockTrust.CHECKED,
    patience: Patience = AT_ONCE,
) -> Rebuilt:
    """Rebuild a lost or damaged catalog of a lake in a folder from the lake's files.

    `days` are the rules of retention; if the clock cannot be trusted, the next maintenance applies
    them.

    Raises: SettingsError for a rule that cannot be; LakeError if the catalog is intact, or the lake
    is a shared one; LakeBusy if a stream is being loaded for longer than `patience`.
    """
    require_rules(days or {})
    lake = _require_lost(address)
    with all_locks(lake, patience), _work_folder(lake) as work:
        store = FileStore(lake)
        found = store.stored()
        names = sorted(n for n in found if n.endswith(".parquet") and not n.endswith(DELETES))
        is_readable = each_of(names, partial(_is_readable, store))
        readable = dict(zip(names, is_readable, strict=True))
        with _new_lake(work) as new:
            tables.create_missing(new)
            with new.transaction():
                rebuilt = _fill(new, lake, readable)
                flush_files(lake)
            rebuilt = _without_old_rows(new, rebuilt, days or {}, trust)
        _switch_in(lake, work)
    return rebuilt


def _require_lost(address: LakeAddress) -> Path:
    if not isinstance(address, Path):
        raise LakeError(
            f"The catalog of {address} is a PostgreSQL database.",
            remedy="Restore it with pg_restore; fleetlake rebuilds only catalogs in folders.",
        )
    lake = address.resolve()
    if not is_catalog_lost(lake):
        kinds = {damage.kind for damage in check_lake(lake).damages}
        if DamageKind.CATALOG not in kinds:
            raise LakeError(
                f"The catalog of the lake in {lake} is intact, so it is not rebuilt.",
                remedy="Run `fleetlake check` to see what else is damaged.",
            )
    return lake


@contextmanager
def _work_folder(lake: Path) -> Iterator[Path]:
    """Return a folder whose files are those of the lake, for the new catalog."""
    work = lake / WORK
    shutil.rmtree(work, ignore_errors=True)  # of a rebuild that was stopped
    work.mkdir()
    (work / FILES).symlink_to(lake / FILES, target_is_directory=True)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _new_lake(work: Path) -> Iterator[Lake]:
    with lake_errors(work):
        connection = duckdb.connect(config=UNCHECKED)
    try:
        new = Lake(work, connection)
        new.attach(read_only=False)
        yield new
    finally:
        connection.close()


def _is_readable(store: FileStore, name: str) -> bool:
    """Return whether a file of a lake can be read to its end."""
    try:
        with pq.ParquetFile(store.path(name)) as opened:
            if is_stand_in(opened.metadata):
                return False
            for group in range(opened.metadata.num_row_groups):
                opened.read_row_group(group).validate(full=True)
    except (OSError, pa.ArrowException) as error:
        refuse_io_fault(error)
        return False
    return True


def _fill(new: Lake, lake: Path, readable: Mapping[str, bool]) -> Rebuilt:
    """Copy the rows of all readable files into the new lake, in the open transaction."""
    folders: dict[str, list[str]] = {}
    for name, is_readable in readable.items():
        if is_readable:
            folders.setdefault(name.rpartition("/")[0], []).append(str(lake / FILES / name))
    for table, finished_in in _KEPT.items():
        if paths := folders.pop(f"meta/{table}", None):
            columns = [name for name in tables.META[table] if name != finished_in]
            _copy(new, f"meta.{table}", paths, _latest(columns, finished_in))
    if paths := folders.pop("meta/findings", None):  # an erasure wrote some again, with other texts
        key = "partition by finding_id, made_at order by comment"
        one_each = f"from found qualify row_number() over ({key}) = 1"
        _copy(new, "meta.findings", paths, one_each)
    _retype(new)
    rows = {}
    for endpoint in ENDPOINTS.values():
        if paths := folders.pop(f"raw/{endpoint.name}", None):
            rows[endpoint.name] = _copy(new, f"raw.{endpoint.name}", paths, _newest_rows(endpoint))
    for endpoint in with_promoted(new, [*ENDPOINTS.values()]):
        take_values(new, endpoint)  # files from before a column or its type have them there
    erased = erase_tombstoned(new).deleted
    rows = {name: count - erased.get(f"raw.{name}", 0) for name, count in rows.items()}
    restore_watermarks(new)
    confirm_all(new)
    balance_loads(new, [*ENDPOINTS])
    add_checksums(new)
    total = sum(rows.values())
    files = sum(readable.values())
    record_event(
        new,
        EventKind.REPAIR,
        f"The catalog was rebuilt: {counted(total, 'row')} from {counted(files, 'file')}.",
        details={"rows": rows},
    )
    return Rebuilt(
        rows=rows,
        files=files,
        unreadable=tuple(name for name, is_readable in readable.items() if not is_readable),
        unknown=tuple(sorted(name for name in folders if name.startswith("raw/"))),
    )


def _retype(new: Lake) -> None:
    """Give the empty raw tables the types that the lake's own columns had."""
    for endpoint in with_retyped(new, [*ENDPOINTS.values()]):
        for column in endpoint.columns:
            if column.kind is not ENDPOINTS[endpoint.name].column(column.name).kind:
                table, name = f"raw.{quoted(endpoint.name)}", quoted(column.name)
                new.execute(f"alter table {table} drop column {name}")
                new.execute(f"alter table {table} add column {name} {column.sql_type}")


def _without_old_rows(
    new: Lake, rebuilt: Rebuilt, days: Mapping[str, int], trust: ClockTrust
) -> Rebuilt:
    """Delete the rows that the rules of retention no longer keep; return what is left."""
    with suppress(LakeError):
        prepare_retention(new, days, trust=trust)
    rows = dict(rebuilt.rows)
    for name in delete_older(new):
        rows[name] = new.number(f"select count(*) from raw.{quoted(name)}")
    return replace(rebuilt, rows=rows)


def _copy(new: Lake, table: str, paths: Sequence[str], chosen: str) -> int:
    """Copy the rows of files that the SQL `chosen` leaves into a table; return how many."""
    schema, name = (quoted(part) for part in table.split(".", 1))
    source = f"read_parquet([{', '.join(map(literal, paths))}], union_by_name => true)"
    held = dict(new.rows(f"select column_name, column_type from (describe {schema}.{name})"))
    found = new.rows(f"select column_name, column_type from (describe from {source})")
    for column, kind in found:
        if column not in held and not column.startswith((INTERNAL, OLD)):
            new.execute(f"alter table {schema}.{name} add column {quoted(column)} {kind}")
            held[column] = kind
    names = [column for column, _ in found if column in held]
    listed = ", ".join(f"{quoted(column)}::{held[column]} as {quoted(column)}" for column in names)
    new.execute(f"create or replace temp view found as select {listed} from {source}")
    return new.number(f"insert into {schema}.{name} by name {chosen}")


def _latest(columns: Sequence[str], finished_in: str) -> str:
    """Return SQL for the distinct rows; of rows that differ only in a time, one that has it."""
    if not finished_in:
        return "select distinct * from found order by all"  # events are listed as inserted
    return (
        "from found qualify row_number() over "
        f"(partition by {', '.join(columns)} order by {finished_in} nulls last) = 1"
    )


def _newest_rows(endpoint: Endpoint) -> str:
    """Return SQL for the newest row of each record or, in a history, of each version.

    An open version that a later one follows was ended in a file that is lost.
    """
    key = ", ".join(map(quoted, endpoint.key))
    if endpoint.mode is not Mode.HISTORY:
        return (
            "from found qualify row_number() over "
            f"(partition by {key} order by _loaded_at desc) = 1"
        )
    return (
        "select * replace (coalesce(valid_to, lead(valid_from) over "
        f"(partition by {key} order by valid_from)) as valid_to) from ("
        "from found qualify row_number() over "
        f"(partition by {key}, valid_from order by valid_to nulls last, _loaded_at desc) = 1)"
    )


def _switch_in(lake: Path, work: Path) -> None:
    """Put the new catalog in its place; the log of an old one must not be applied to it."""
    old = lake / CATALOG
    if old.exists():
        old.replace(lake / DAMAGED)
    for suffix in ("-wal", "-shm"):
        (lake / f"{CATALOG}{suffix}").unlink(missing_ok=True)
    flush_files(lake)
    (lake / READY).touch()
    (work / CATALOG).replace(old)
    flush_files(lake)
