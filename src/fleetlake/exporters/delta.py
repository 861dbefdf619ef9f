"""Delta Lake as a target: one commit a table, with the mark in the commit's own entry."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from fleetlake.exporters.contract import Changes, Mark, in_the_way
from fleetlake.exporters.local import require_own_parts
from fleetlake.lake_address import refuse_unusable
from fleetlake.text.quoting import quoted

MARK = "fleetlake"
_GONE = "_is_gone"


def open_target(address: str) -> "DeltaExporter":
    """Open a folder, or an object store by its URL; its keys come from the environment."""
    if "://" in address:
        return DeltaExporter(address)
    refuse_unusable("export", Path(address), setting="FLEETLAKE_EXPORTS__DELTA")
    folder = Path(address).absolute()
    # As a URL, in which each sign of a path has one meaning.
    return DeltaExporter(folder.as_uri(), folder)


class DeltaExporter:
    """Keeps each table as a Delta table of its own below the root."""

    def __init__(self, root: str, folder: Path | None = None) -> None:
        self._root = root.rstrip("/")
        self._folder = folder

    def mark(self, table: str) -> Mark | None:
        """Return the mark of the latest commit that carries one.

        Raises: ExportFailed for a table that no export made, or another user's.
        """
        require_own_parts(self._folder, table, f"{table}/_delta_log")
        try:
            commits = DeltaTable(self._place(table)).history()
        except TableNotFoundError:
            return None
        marks = [commit[MARK] for commit in commits if MARK in commit]
        if not marks:
            raise in_the_way(table, elsewhere="folder")
        return Mark.from_text(marks[0])

    def replace(self, table: str, rows: pa.RecordBatchReader, mark: Mark) -> None:
        """Overwrite the table; its older versions remain readable as Delta keeps them."""
        write_deltalake(
            self._place(table),
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=_told(mark),
        )

    def change(self, table: str, changes: Changes, mark: Mark) -> None:
        """Append where rows only came, else merge by key."""
        if changes.stale.num_rows == 0:
            write_deltalake(
                self._place(table),
                changes.rows,
                mode="append",
                schema_mode="merge",
                commit_properties=_told(mark),
            )
            return
        same = " AND ".join(_same(name, changes.stale) for name in mark.key)
        (
            DeltaTable(self._place(table))
            .merge(
                _both(changes),
                predicate=same,
                source_alias="new",
                target_alias="old",
                merge_schema=True,
                commit_properties=_told(mark),
            )
            .when_matched_delete(predicate=f"new.{_GONE}")
            .when_matched_update(_assigned(mark.columns))
            .when_not_matched_insert(_assigned(mark.columns), predicate=f"NOT new.{_GONE}")
            .execute()
        )

    def close(self) -> None:
        """Do nothing: every commit stands by itself."""

    def _place(self, table: str) -> str:
        return f"{self._root}/{table}"


def _told(mark: Mark) -> CommitProperties:
    return CommitProperties(custom_metadata={MARK: mark.as_text()})


def _same(name: str, stale: pa.Table) -> str:
    """Return the condition on one key column: a plain equality is much quicker where it can be."""
    sign = "IS NOT DISTINCT FROM" if stale[name].null_count else "="
    return f"old.{quoted(name)} {sign} new.{quoted(name)}"


def _both(changes: Changes) -> pa.Table:
    """Return the new rows and the keys that are gone as one table, told apart by a flag."""
    rows, gone = changes.rows.read_all(), changes.gone
    flagged = [
        part.append_column(_GONE, pa.array([is_gone] * part.num_rows, pa.bool_()))
        for part, is_gone in ((rows, False), (gone, True))
    ]
    return pa.concat_tables(flagged, promote_options="default")


def _assigned(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: f"new.{quoted(name)}" for name in columns}
