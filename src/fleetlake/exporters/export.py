"""Run an export: send each table's changes since the target's mark, or the full table.

The targets have the marks themselves, but the lake does not know every target's address. So it
keeps the snapshots (`fleetlake.care.thinning`). Without its snapshot, a target gets a full export.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Mode
from fleetlake.errors import ExportFailed, FleetlakeError, SettingsError, UsageError
from fleetlake.exporters import TARGETS, Target, plugged_in, plugin_names
from fleetlake.exporters.changes import Source, all_rows, changes_since, full_export_reason, mark_of
from fleetlake.exporters.contract import HISTORY, Exporter, ExportMark, reported
from fleetlake.exporters.geometry import has_geometry, with_geometry
from fleetlake.lake import Lake
from fleetlake.lake.ducklake import expired_condition, tables_in
from fleetlake.lake.locks import commit_lock, export_lock
from fleetlake.machine.io_faults import io_fault
from fleetlake.machine.project import in_project
from fleetlake.marts.catalogue import descriptions_of, mart_keys
from fleetlake.settings import ExportMode
from fleetlake.text.redaction import without_secrets
from fleetlake.text.wording import did_you_mean, install_command

OnRows = Callable[[str, int], None]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The result for a table: rows sent, keys removed, and why it was sent in full (or None).

    `before` and `snapshot` are the snapshots of the target's rows before and after it.
    """

    table: str
    sent: int
    removed: int
    full_reason: str | None
    before: int | None
    snapshot: int
    seconds: float


def export(
    lake: Lake,
    target: Target,
    address: SecretStr,
    names: Sequence[str] = (),
    *,
    is_full: bool = False,
    mode: ExportMode | None = None,
    modes: Mapping[str, ExportMode] | None = None,
    on_rows: OnRows = lambda _table, _rows: None,
) -> list[Exported]:
    """Bring a target up to date with the lake; return the result for each table.

    Names are marts, `raw.<endpoint>` or a whole schema; the default is all marts. `mode` is for
    those that are lists kept as history, `modes` for each by its endpoint; without one, a list
    keeps the mode that it has at the target. Raises: UsageError for a name that is not a table, or
    a mode without a list; ExportFailed if the target fails, without the secrets of the address;
    LakeError.
    """
    sources, is_default = tables_named(lake, names), not names
    lists = [source.table for source in sources if source.mode]
    if mode and not lists:
        raise UsageError(
            "Only lists that the lake keeps as history have an export mode.",
            remedy="Name one, e.g. --table raw.routers, or all with --table raw.",
        )
    wanted = dict.fromkeys(lists, mode) if mode else modes or {}

    def work(exporter: Exporter) -> list[Exported]:
        return [
            _export_table(
                lake,
                exporter,
                source,
                is_full=is_full,
                mode=wanted.get(source.table) if source.mode else None,
                on_rows=on_rows,
            )
            for source in _to_send(lake, target, sources, is_default=is_default)
        ]

    done = _guarded(lake, target, address, work)
    _hold(lake, target, done)
    return done


def renew(lake: Lake, target: Target, address: SecretStr) -> list[str]:
    """Rewrite every table that a target holds, and remove its earlier rows; return the names.

    Raises: as `export`.
    """
    sources = tables_named(lake, ["marts", "raw", "meta"])

    def work(exporter: Exporter) -> list[str]:
        marks = [(source, _mark_or_none(exporter, source)) for source in sources]
        found = [source.in_mode(mark.mode) for source, mark in marks if mark]
        held = _to_send(lake, target, found)
        for source in held:
            now = mark_of(lake, source)
            exporter.replace(source.name, all_rows(lake, source, now), now)
            exporter.purge(source.name)
        return [source.name for source in held]

    return _guarded(lake, target, address, work)


def catch_up(
    lake: Lake, target: Target, address: SecretStr, *, before: datetime, are_earlier_removed: bool
) -> list[str]:
    """Export the tables that a target holds as they were before an instant; return the names.

    `are_earlier_removed` also removes their earlier rows from the target. Raises: as `export`.
    """
    sources = _to_send(lake, target, tables_named(lake, ["marts", "raw", "meta"]))

    def work(exporter: Exporter) -> list[Exported]:
        stale = [s for s in sources if _is_older(lake, _mark_or_none(exporter, s), before)]
        done = []
        for source in stale:
            done += [_export_table(lake, exporter, source, is_full=False)]
            if are_earlier_removed:
                exporter.purge(source.name)
        return done

    done = _guarded(lake, target, address, work)
    _hold(lake, target, done)
    return [one.table for one in done]


def _hold(lake: Lake, target: Target, done: Sequence[Exported]) -> None:
    """Keep the snapshots that exported tables have reached: the next export continues there."""
    hold_snapshots(lake, target.name, {one.table: (one.before, one.snapshot) for one in done})


def _to_send(
    lake: Lake, target: Target, sources: Sequence[Source], *, is_default: bool = False
) -> Sequence[Source]:
    """Return the tables as a target takes them; `is_default` leaves out those it has no use for."""
    if not target.has_geometry:
        return sources
    located = with_geometry(lake, sources)
    return [source for source in located if has_geometry(source) or not is_default]


def _guarded(
    lake: Lake, target: Target, address: SecretStr, work: Callable[[Exporter], Result]
) -> Result:
    """Return the result of work on a target, under its lock and over one snapshot of the lake.

    Raises: ExportFailed if it fails.
    """
    try:
        with (
            export_lock(lake.path, target.name),
            closing(open_exporter(target, address)) as exporter,
        ):
            try:
                lake.begin_long_read()
                return work(exporter)
            finally:
                lake.roll_back()
    except FleetlakeError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers have no other common base class
        folder = Path(address.get_secret_value())
        fault = io_fault(error, folder if folder.is_dir() else None)
        message = without_secrets(" ".join(f"{type(error).__name__}: {error}".split()), address)
    # Raised outside of `except`: the driver's error may contain the address and is not chained.
    raise ExportFailed(
        f"The export to {target.name} failed: {message.rstrip('.')}.",
        remedy=f"{fault.remedy if fault else 'Fix the cause and run it again.'} Tables exported "
        "before are complete; the current one is unchanged.",
    )


def _mark_or_none(exporter: Exporter, source: Source) -> ExportMark | None:
    """Return the mark of a target's table; None if no export created it: it is not ours."""
    try:
        return exporter.mark(source.name)
    except ExportFailed:
        return None


def _is_older(lake: Lake, mark: ExportMark | None, moment: datetime) -> bool:
    """Return whether a table was exported from a snapshot of the lake before an instant."""
    if mark is None:
        return False
    [(is_older,)] = lake.rows("SELECT ?::TIMESTAMPTZ < ?", [mark.committed_at, moment])
    return bool(is_older)


def address_of(target: Target, addresses: dict[str, SecretStr]) -> SecretStr:
    """Return the address of a target; a relative folder starts at the project's.

    Raises: SettingsError if the address is not set.
    """
    address = addresses.get(target.name) or (target.address and SecretStr(target.address))
    if not address:
        raise SettingsError(
            f"The address of {target.name} is not set.",
            remedy=f"Set FLEETLAKE_EXPORTS__{target.name.upper()}, e.g. {target.example}.",
        )
    if not is_folder(target, address):
        return address
    return SecretStr(str(in_project(Path(address.get_secret_value()))))


def is_folder(target: Target, address: SecretStr) -> bool:
    """Return whether a target's address is a folder: others may have a password in them."""
    return target.address is not None and "://" not in address.get_secret_value()


def target_named(name: str) -> Target:
    """Return a target by its name.

    Raises: UsageError, which lists the targets; SettingsError for an unusable plug-in.
    """
    if name in TARGETS:
        return TARGETS[name]
    if name in (others := plugin_names()):
        return plugged_in(name)
    known = ", ".join([*TARGETS, *others])
    raise UsageError(f"There is no export target {name}.", remedy=f"Choose one of: {known}.")


def open_exporter(target: Target, address: SecretStr) -> Exporter:
    """Open a target. Raises: SettingsError if its driver is not installed."""
    try:
        module = import_module(target.module, package="fleetlake.exporters")
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"The driver of {target.name} is not installed ({error.name} is missing).",
            remedy=install_command(target.extra) if target.extra else f"Install {error.name}.",
        ) from None
    options = [target.option] if target.option else []
    exporter: Exporter = module.open_target(address.get_secret_value(), *options)
    return exporter


def tables_named(lake: Lake, names: Sequence[str]) -> list[Source]:
    """Return the tables to export, in the lake's order. Raises: UsageError for unknown names."""
    present = tables_in(lake, "marts", "raw", "meta")
    wanted = set(names or ["marts"])
    named = [(schema, table) for schema, table in present if wanted & _names(schema, table)]
    found = [
        Source(
            schema=schema,
            table=table,
            key=_key(schema, table),
            about=about,
            meanings=meanings,
            mode=HISTORY if schema == "raw" and _has_versions(table) else None,
        )
        for (schema, table), (about, meanings) in descriptions_of(named).items()
    ]
    unknown = wanted - {"marts"} - {n for s in found for n in _names(s.schema, s.table)}
    if unknown or not found:
        suggestion = "".join(_nearest(name, present) for name in sorted(unknown))
        raise UsageError(
            f"The lake has no table {', '.join(sorted(unknown)) or 'in marts'} to export.",
            remedy=f"{suggestion}Run `fleetlake build`, or name a mart, `raw.<endpoint>` or a "
            "schema.",
        )
    return found


def _nearest(name: str, present: Sequence[tuple[str, str]]) -> str:
    """Return a question with the table of the same schema that a misspelt name may mean."""
    schema, dot, table = name.rpartition(".")
    known = [other for of, other in present if of == (schema or "marts")]
    return did_you_mean(table, known, prefix=f"{schema}{dot}")


def _names(schema: str, table: str) -> set[str]:
    """Return every name that the command line accepts for a table."""
    return {schema, f"{schema}.{table}"} | ({table} if schema == "marts" else set())


def _key(schema: str, table: str) -> tuple[str, ...]:
    if schema == "raw" and table in ENDPOINTS:
        return (*ENDPOINTS[table].key, *(("valid_from",) if _has_versions(table) else ()))
    return mart_keys().get(table, ()) if schema == "marts" else ()


def _has_versions(table: str) -> bool:
    return table in ENDPOINTS and ENDPOINTS[table].mode is Mode.HISTORY


def require_lists(modes: Mapping[str, ExportMode]) -> None:
    """Refuse a mode of a table that has none. Raises: SettingsError."""
    for name in modes:
        if not _has_versions(name):
            lists = [table for table in ENDPOINTS if _has_versions(table)]
            raise SettingsError(
                f"FLEETLAKE_EXPORT_MODES__{name.upper()}: {name} is not a list kept as history.",
                remedy=f"{did_you_mean(name, lists)}It takes {', '.join(lists)}.",
            )


def _export_table(
    lake: Lake,
    exporter: Exporter,
    source: Source,
    *,
    is_full: bool,
    mode: ExportMode | None = None,
    on_rows: OnRows = lambda _table, _rows: None,
) -> Exported:
    began = time.monotonic()
    old = exporter.mark(source.name)
    source = source.in_mode(mode or (old.mode if old else None))
    now = mark_of(lake, source)
    full_reason = "requested" if is_full else full_export_reason(lake, old, now)
    sent = removed = 0

    def note(rows: int) -> None:
        nonlocal sent
        sent += rows
        on_rows(source.name, rows)

    if full_reason is None and old is not None and old.snapshot_id != now.snapshot_id:
        changes = changes_since(lake, source, old, now)
        removed = changes.stale.num_rows
        if source.key or not (removed or changes.count):
            exporter.change(source.name, replace(changes, rows=reported(changes.rows, note)), now)
        else:
            full_reason, removed = "it has no key", 0
    if full_reason is not None:
        exporter.replace(source.name, reported(all_rows(lake, source, now), note), now)
    return Exported(
        table=source.name,
        sent=sent,
        removed=removed,
        full_reason=full_reason,
        before=old.snapshot_id if old else None,
        snapshot=now.snapshot_id,
        seconds=time.monotonic() - began,
    )


_GONE = f"delete from meta.exports where {expired_condition('snapshot_id')}"
_EARLIER = """
delete from meta.exports where rowid in (
    select min(rowid) from meta.exports
    where target = ? and table_name = ? and snapshot_id = ?
)
"""
_LATEST = "insert into meta.exports values (?, ?, ?, now())"


def hold_snapshots(lake: Lake, target: str, marks: Mapping[str, tuple[int | None, int]]) -> None:
    """Keep the snapshot that each exported table has reached, in place of the one before it.

    Another address of the same target may hold that one, too: each has a row. A lake that is open
    for reading only keeps none.
    """
    if lake.is_read_only:
        return
    with commit_lock(lake.path), lake.transaction():
        lake.execute(_GONE)
        for table, (before, now) in marks.items():
            lake.execute(_EARLIER, [target, table, before])
            lake.execute(_LATEST, [target, table, now])
