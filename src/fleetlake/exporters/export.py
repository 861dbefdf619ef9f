"""One export: each table's changes since the target's mark, or the table whole."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from pydantic import SecretStr

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Mode
from fleetlake.errors import ExportFailed, FleetlakeError, SettingsError, UsageError
from fleetlake.exporters import TARGETS, Target
from fleetlake.exporters.changes import (
    Source,
    all_rows,
    changes_since,
    mark_of,
    why_whole,
)
from fleetlake.exporters.contract import Exporter, counted
from fleetlake.lake import Lake
from fleetlake.lake.locks import export_lock
from fleetlake.marts.catalogue import mart_keys
from fleetlake.text.redaction import without_secrets

OnRows = Callable[[str, int], None]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What became of a table: rows sent, keys removed, and why it was sent whole if it was."""

    table: str
    sent: int
    removed: int
    whole: str | None
    seconds: float


def export(
    lake: Lake,
    target: Target,
    address: SecretStr,
    names: Sequence[str] = (),
    *,
    is_full: bool = False,
    on_rows: OnRows = lambda _table, _rows: None,
) -> list[Exported]:
    """Bring a target to what the lake holds now and return what that took, table by table.

    Names are marts, `raw.<endpoint>`, or a whole schema; all marts when left out. Raises:
    UsageError for a name that is no table; ExportFailed when the target refuses, without what
    the address keeps secret; LakeError.
    """
    sources = tables_named(lake, names)
    try:
        with export_lock(lake.path, target.name):
            return _export_tables(lake, target, address, sources, is_full=is_full, on_rows=on_rows)
    except FleetlakeError:
        raise
    except Exception as error:  # noqa: BLE001 - drivers share no ancestor below this one
        said = without_secrets(" ".join(f"{type(error).__name__}: {error}".split()), address)
    # Raised out here, so that it does not carry the driver's error, which may tell the address.
    raise ExportFailed(
        f"The export to {target.name} failed: {said.rstrip('.')}.",
        remedy="Mend the cause and run it again: the tables that were done are whole, "
        "and the one that was under way is as it was before.",
    )


def address_of(target: Target, addresses: dict[str, SecretStr]) -> SecretStr:
    """Return where a target is. Raises: SettingsError where that is not known."""
    if target.name in addresses:
        return addresses[target.name]
    if target.address is None:
        raise SettingsError(
            f"The address of {target.name} is not known.",
            remedy=f"Set FLEETLAKE_EXPORTS__{target.name.upper()}, as the README shows.",
        )
    return SecretStr(target.address)


def target_named(name: str) -> Target:
    """Return the row of a target. Raises: UsageError listing those that there are."""
    if name in TARGETS:
        return TARGETS[name]
    raise UsageError(
        f"There is no export target {name}.", remedy=f"Choose one of: {', '.join(TARGETS)}."
    )


def open_exporter(target: Target, address: SecretStr) -> Exporter:
    """Open a target. Raises: SettingsError where its driver is not installed."""
    try:
        module = import_module(f"fleetlake.exporters.{target.module}")
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"The driver of {target.name} is not installed ({error.name} is missing).",
            remedy=f"Install it: pip install 'fleetlake[{target.extra}]'.",
        ) from None
    options = [target.option] if target.option else []
    exporter: Exporter = module.open_target(address.get_secret_value(), *options)
    return exporter


def tables_named(lake: Lake, names: Sequence[str]) -> list[Source]:
    """Return the tables to export, in the lake's order. Raises: UsageError for unknown names."""
    present = lake.rows(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake' "
        "AND schema_name IN ('marts', 'raw', 'meta') ORDER BY ALL"
    )
    wanted = set(names or ["marts"])
    found = [
        Source(schema=schema, table=table, key=_key(schema, table))
        for schema, table in present
        if wanted & _names(schema, table)
    ]
    unknown = wanted - {"marts"} - {n for s in found for n in _names(s.schema, s.table)}
    if unknown or not found:
        raise UsageError(
            f"The lake has no table {', '.join(sorted(unknown)) or 'in marts'} to export.",
            remedy="Run `fleetlake build`, or name a mart, `raw.<endpoint>` or a schema.",
        )
    return found


def _names(schema: str, table: str) -> set[str]:
    """Return everything a table may be called on the command line."""
    return {schema, f"{schema}.{table}"} | ({table} if schema == "marts" else set())


def _key(schema: str, table: str) -> tuple[str, ...]:
    if schema == "raw" and table in ENDPOINTS:
        endpoint = ENDPOINTS[table]
        versions = ("valid_from",) if endpoint.mode is Mode.HISTORY else ()
        return (*endpoint.key, *versions)
    return mart_keys().get(table, ()) if schema == "marts" else ()


def _export_tables(
    lake: Lake,
    target: Target,
    address: SecretStr,
    sources: Sequence[Source],
    *,
    is_full: bool,
    on_rows: OnRows,
) -> list[Exported]:
    exporter = open_exporter(target, address)
    try:
        lake.execute("BEGIN")  # one moment of the lake for all tables
        return [_export_table(lake, exporter, source, is_full, on_rows) for source in sources]
    finally:
        lake.roll_back()
        exporter.close()


def _export_table(
    lake: Lake, exporter: Exporter, source: Source, is_full: bool, on_rows: OnRows
) -> Exported:
    began = time.monotonic()
    then, now = exporter.mark(source.name), mark_of(lake, source)
    whole = "asked to" if is_full else why_whole(lake, then, now)
    sent = removed = 0

    def note(rows: int) -> None:
        nonlocal sent
        sent += rows
        on_rows(source.name, rows)

    if whole is None and then is not None and then.snapshot_id != now.snapshot_id:
        changes = changes_since(lake, source, then, now)
        removed = changes.stale.num_rows
        if source.key or not (removed or changes.count):
            exporter.change(source.name, changes.told(note), now)
        else:
            whole, removed = "it has no key", 0
    if whole is not None:
        exporter.replace(source.name, counted(all_rows(lake, source, now), note), now)
    return Exported(
        table=source.name,
        sent=sent,
        removed=removed,
        whole=whole,
        seconds=time.monotonic() - began,
    )
