"""Delta Lake as a target: one commit per table, with the mark in the commit's metadata."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyarrow import fs

from fleetlake.exporters.contract import ExportMark, TableChanges, foreign_table, require_own_parts
from fleetlake.lake_address import refuse_unusable
from fleetlake.text.quoting import quoted

MARK = "fleetlake"
_COMMENT = "comment"
_IS_DELETED = "_is_deleted"

_MISREAD = r"[\[\]^|]|%[0-9A-Fa-f]{2}"
"""What the library does not accept in a path, or decodes and writes elsewhere."""


def open_target(address: str) -> "DeltaExporter":
    """Open a folder or an object store URL; the store's keys come from the environment."""
    if "://" in address:
        return DeltaExporter(address)
    refuse_unusable("export", Path(address), setting="FLEETLAKE_EXPORTS__DELTA", also=_MISREAD)
    folder = Path(address).absolute()
    # As a URL, so that special characters in the path are escaped.
    return DeltaExporter(folder.as_uri(), folder)


class DeltaExporter:
    """Stores each table as a Delta table below the root."""

    def __init__(self, root: str, folder: Path | None = None) -> None:
        self._root = root.rstrip("/")
        self._folder = folder

    def mark(self, table: str) -> ExportMark | None:
        """Return the mark of the latest commit that has one.

        Raises: ExportFailed if no export created the table, or if it belongs to another user.
        """
        require_own_parts(self._folder, table, f"{table}/_delta_log")
        try:
            commits = DeltaTable(self._address(table)).history()
        except TableNotFoundError:
            return None
        marks = [commit[MARK] for commit in commits if MARK in commit]
        if not marks:
            raise foreign_table(table, elsewhere="folder")
        return ExportMark.from_text(marks[0])

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: ExportMark) -> None:
        """Overwrite the table. Delta keeps its older versions readable."""
        write_deltalake(
            self._address(table),
            _commented(rows, mark),
            mode="overwrite",
            schema_mode="overwrite",
            description=mark.about,  # of a new table
            commit_properties=_with_mark(mark),
        )
        self._describe(table, mark)

    def change(self, table: str, changes: TableChanges, mark: ExportMark) -> None:
        """Append if there are only new rows; otherwise merge by key."""
        self._describe(table, mark)  # first: an append requires the comments of its rows
        if changes.stale.num_rows == 0:
            write_deltalake(
                self._address(table),
                _commented(changes.rows, mark),
                mode="append",
                schema_mode="merge",
                commit_properties=_with_mark(mark),
            )
            return
        same = " AND ".join(_same(name, changes.stale) for name in mark.key)
        (
            DeltaTable(self._address(table))
            .merge(
                _upserts_and_deletes(changes),
                predicate=same,
                source_alias="new",
                target_alias="old",
                merge_schema=True,
                commit_properties=_with_mark(mark),
            )
            .when_matched_delete(predicate=f"new.{_IS_DELETED}")
            .when_matched_update(_assigned(mark.columns))
            .when_not_matched_insert(_assigned(mark.columns), predicate=f"NOT new.{_IS_DELETED}")
            .execute()
        )
        self._describe(table, mark)  # new columns; a merge that adds some also loses the table's

    def _describe(self, table: str, mark: ExportMark) -> None:
        """Describe the table and its columns where the descriptions differ: a commit for each."""
        held = DeltaTable(self._address(table))
        if (held.metadata().description or "") != mark.about:
            held.alter.set_table_description(mark.about)
        for column in held.schema().fields:
            meaning = mark.meanings.get(column.name)
            if meaning and column.metadata.get(_COMMENT) != meaning:
                held.alter.set_column_metadata(column.name, {_COMMENT: meaning})

    def purge(self, table: str) -> None:
        """Remove older files and older commits: both hold values of deleted rows.

        A checkpoint replaces the commits before it, as Delta's protocol allows.
        """
        held = DeltaTable(self._address(table))
        held.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        held = DeltaTable(self._address(table))
        nothing = pa.schema(held.schema().to_arrow()).empty_table()
        marked = _with_mark(_newest_mark(held))
        write_deltalake(held, nothing, mode="append", commit_properties=marked)
        held = DeltaTable(self._address(table))
        held.create_checkpoint()
        system, root = fs.FileSystem.from_uri(f"{self._address(table)}/_delta_log")
        for found in system.get_file_info(fs.FileSelector(root)):
            version = found.base_name.partition(".")[0]
            if found.is_file and version.isdecimal() and int(version) < held.version():
                system.delete_file(found.path)

    def close(self) -> None:
        """Do nothing: there is no connection to close."""

    def _address(self, table: str) -> str:
        return f"{self._root}/{table}"


def _newest_mark(held: DeltaTable) -> ExportMark:
    found = (ExportMark.from_text(commit[MARK]) for commit in held.history() if MARK in commit)
    mark = next(found, None)
    assert mark is not None  # the table was exported just now
    return mark


def _commented(rows: pa.RecordBatchReader, mark: ExportMark) -> pa.RecordBatchReader:
    """Return the same rows, with the meaning of each column as its comment."""
    schema = mark.described(rows.schema, _COMMENT)
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows))


def _with_mark(mark: ExportMark) -> CommitProperties:
    return CommitProperties(custom_metadata={MARK: mark.as_text()})


def _same(name: str, stale: pa.Table) -> str:
    """Return the condition on one key column; without nulls, a plain equality is much faster."""
    sign = "IS NOT DISTINCT FROM" if stale[name].null_count else "="
    return f"old.{quoted(name)} {sign} new.{quoted(name)}"


def _upserts_and_deletes(changes: TableChanges) -> pa.Table:
    """Return the new rows and the deleted keys as one table, with a flag for the latter."""
    flagged = [
        part.append_column(_IS_DELETED, pa.array([is_deleted] * part.num_rows, pa.bool_()))
        for part, is_deleted in ((changes.rows.read_all(), False), (changes.deleted, True))
    ]
    return pa.concat_tables(flagged, promote_options="default")


def _assigned(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: f"new.{quoted(name)}" for name in columns}
