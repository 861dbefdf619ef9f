"""Iceberg as a target: one transaction per table, with the mark in the table's properties."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import And, BooleanExpression, In, IsNull, Or
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table, Transaction

from fleetlake.exporters.contract import ExportMark, TableChanges, foreign_table, require_own_parts
from fleetlake.lake_address import refuse_unusable
from fleetlake.text.quoting import quoted

NAMESPACE = "fleet"
MARK = "fleetlake.mark"
_CATALOG = "catalog.db"
_DOC = "doc"
_DELETED = ManifestEntryStatus.DELETED


def open_target(address: str) -> "IcebergExporter":
    """Open a folder with a SQLite catalog in it, or a catalog that pyiceberg is configured for.

    `iceberg://name` names a configured catalog. Its configuration, keys included, is in
    `.pyiceberg.yaml` or in the environment, as pyiceberg's documentation describes.
    """
    if address.startswith("iceberg://"):
        return IcebergExporter(load_catalog(urlsplit(address).netloc))
    root = Path(address).absolute()
    refuse_unusable("export", root, setting="FLEETLAKE_EXPORTS__ICEBERG")
    require_own_parts(root, _CATALOG)
    root.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("fleetlake", uri=f"sqlite:///{root / _CATALOG}", warehouse=root.as_uri())
    return IcebergExporter(catalog, root)


class IcebergExporter:
    """Stores each table as an Iceberg table in the namespace `fleet`."""

    def __init__(self, catalog: Catalog, root: Path | None = None) -> None:
        self._catalog = catalog
        self._root = root
        self._catalog.create_namespace_if_not_exists(NAMESPACE)

    def mark(self, table: str) -> ExportMark | None:
        """Return the mark in the table's properties.

        Raises: ExportFailed if no export created the table, or if it belongs to another user.
        """
        folder = f"{NAMESPACE}/{table}"
        require_own_parts(self._root, NAMESPACE, folder, f"{folder}/data", f"{folder}/metadata")
        found = self._found(table)
        if found is None:
            return None
        if MARK not in found.properties:
            raise foreign_table(table, elsewhere="folder or catalog")
        return ExportMark.from_text(found.properties[MARK])

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: ExportMark) -> None:
        """Overwrite or create the table. Iceberg keeps its older snapshots."""
        found = self._found(table)
        if found is None:
            name = f"{NAMESPACE}.{table}"
            shape = mark.described(rows.schema, _DOC)
            with self._catalog.create_table_transaction(name, shape) as new:
                new.append(rows)
                _note(new, mark)
            return
        with found.transaction() as changing:
            _reshape(changing, found, mark.described(rows.schema, _DOC))
            if found.current_snapshot() and found.scan().count():
                changing.overwrite(rows)
            else:
                changing.append(rows)
            _note(changing, mark)

    def change(self, table: str, changes: TableChanges, mark: ExportMark) -> None:
        """Delete the stale rows by key, then append the new ones."""
        found = self._catalog.load_table(f"{NAMESPACE}.{table}")
        with found.transaction() as changing:
            _reshape(changing, found, mark.described(changes.rows.schema, _DOC))
            if changes.stale.num_rows:
                near = _near(changes.stale)
                stays = _without(found.scan(row_filter=near).to_arrow(), changes.stale)
                changing.delete(near)
                changing.append(stays)
            if changes.count:
                changing.append(changes.rows)
            _note(changing, mark)

    def purge(self, table: str) -> None:
        """Expire older snapshots and remove their files, and older metadata files."""
        held = self._catalog.load_table(f"{NAMESPACE}.{table}")
        before = _files_of(held)
        older = [s.snapshot_id for s in held.snapshots()]
        current = held.current_snapshot()
        older = [id_ for id_ in older if current is None or id_ != current.snapshot_id]
        if older:
            held.maintenance.expire_snapshots().by_ids(older).commit()
        held = self._catalog.load_table(f"{NAMESPACE}.{table}")
        before |= _files_of(held)
        kept = _files_of(held, is_current_only=True)
        for path in before - kept:
            held.io.delete(path)

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()

    def _found(self, table: str) -> Table | None:
        try:
            return self._catalog.load_table(f"{NAMESPACE}.{table}")
        except NoSuchTableError:
            return None


def _files_of(table: Table, *, is_current_only: bool = False) -> set[str]:
    """Return every file that a table's snapshots name, and its metadata files.

    Of an older metadata file, `is_current_only` leaves out the path; the newest one still names it.
    """
    files = {table.metadata_location}
    if not is_current_only:
        files |= {entry.metadata_file for entry in table.metadata.metadata_log}
    for snapshot in table.snapshots():
        files.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            files.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            live = (e for e in entries if not is_current_only or e.status != _DELETED)
            files |= {entry.data_file.file_path for entry in live}
    return files


def _note(changing: Transaction, mark: ExportMark) -> None:
    changing.set_properties({MARK: mark.as_text(), "comment": mark.about})


def _reshape(changing: Transaction, found: Table, wanted: pa.Schema) -> None:
    """Give the table the wanted columns: drop those that do not fit, add the new ones.

    A column that is described in another way gets its new description.
    """
    present = schema_to_pyarrow(found.schema(), include_field_ids=False)
    dropped = [field.name for field in present if not _is_same(field, wanted)]
    if dropped:
        with changing.update_schema(allow_incompatible_changes=True) as update:
            for name in dropped:
                update.delete_column(name)
    docs = {field.name: (field.doc or "").encode() for field in found.schema().fields}
    wanted_docs = {field.name: field.metadata[_DOC.encode()] for field in wanted if field.metadata}
    is_grown = bool(set(wanted.names) - set(present.names))
    if dropped or is_grown or wanted_docs.items() - docs.items():
        with changing.update_schema() as update:
            update.union_by_name(wanted)


def _is_same(field: pa.Field, wanted: pa.Schema) -> bool:
    if field.name not in wanted.names:
        return False
    kind = wanted.field(field.name).type
    texts = (pa.types.is_string, pa.types.is_large_string)
    return field.type == kind or all(any(t(k) for t in texts) for k in (field.type, kind))


# Both take positional arguments; mypy's plugin for pydantic expects them by name.
_is_in: Callable[..., BooleanExpression] = In
_is_null: Callable[..., BooleanExpression] = IsNull


def _near(stale: pa.Table) -> BooleanExpression:
    """Return a filter that matches all rows with stale keys, and few others.

    It filters each key column separately, so it stays small even with many keys.
    """
    filters: list[BooleanExpression] = []
    for name in stale.column_names:
        keys = stale[name].drop_null().unique().to_pylist()
        values = [key.isoformat() if isinstance(key, date) else key for key in keys]
        either: list[BooleanExpression] = []
        if values:
            either.append(_is_in(name, values))
        if stale[name].null_count:
            either.append(_is_null(name))
        filters.append(either[0] if len(either) == 1 else Or(*either))
    return filters[0] if len(filters) == 1 else And(*filters)


def _without(rows: pa.Table, stale: pa.Table) -> pa.Table:
    """Return the rows whose key is not stale."""
    names = stale.column_names
    same = " AND ".join(f"s.{quoted(name)} IS NOT DISTINCT FROM r.{quoted(name)}" for name in names)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("r", rows)
        connection.register("s", stale)
        return connection.execute(
            f"SELECT r.* FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE {same})"
        ).to_arrow_table()
