"""Checking a lake: its catalog, every file that it names, and whether meta agrees with raw.

SQLite keeps no checksums, so a changed value within a page is found only if it contradicts another
one, such as a file's size.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fleetlake.care.integrity.checksums import checksum_of, known_checksums
from fleetlake.care.integrity.damage import CheckReport, Damage, DamageKind, in_words
from fleetlake.care.integrity.listing import (
    FileStore,
    ListedFile,
    OnBytes,
    StoredFile,
    each_of,
    ignore_bytes,
    listed_files,
    names_to_remove,
)
from fleetlake.care.integrity.meta_repair import index_damages
from fleetlake.care.integrity.stand_in import is_stand_in
from fleetlake.errors import LakeBusy, LakeError
from fleetlake.lake.attach import BUSY_MILLISECONDS, CATALOG
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.catalog import open_as_is, require_lake
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import contradictions
from fleetlake.lake.locks import commit_lock, open_lock
from fleetlake.lake_address import LakeAddress
from fleetlake.machine.io_faults import io_fault, refuse_io_fault

OLDEST_UNKNOWN = timedelta(days=1)
"""Younger unknown files may belong to a load in progress."""

_ORDERED = (int, float, str, bytes, bool, datetime, date, Decimal)


def _contradictions(opened: pq.ParquetFile, group: int) -> Iterator[str]:
    """Yield the columns of a row group whose values are outside what the footer says of them."""
    described = opened.metadata.row_group(group)
    rows = opened.read_row_group(group)
    rows.validate(full=True)
    for position in range(described.num_columns):
        chunk = described.column(position)
        name, statistics = chunk.path_in_schema, chunk.statistics
        if name not in rows.column_names or statistics is None:
            continue
        column = rows[name]
        is_counted = not statistics.has_null_count or statistics.null_count == column.null_count
        if not (is_counted and _is_within(column, statistics)):
            yield name


def _is_within(column: pa.ChunkedArray, statistics: pq.Statistics) -> bool:
    """Return whether all values are between the smallest and the largest that a footer names."""
    low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
    if not (isinstance(low, _ORDERED) and isinstance(high, _ORDERED)):
        return True
    try:
        found = pc.min_max(column).as_py()
        if found["min"] is None:
            return True
        return bool(low <= found["min"] and found["max"] <= high)
    except (pa.ArrowException, TypeError):  # a type without an order, or read as another one
        return True


def damage_of(file: ListedFile, kind: DamageKind, found: str) -> Damage:
    """Return the damage of a listed file."""
    return Damage(kind=kind, table=file.of_table, name=file.name, found=found, file=file)


def _unreadable(file: ListedFile, error: Exception) -> Damage:
    reason = " ".join(str(error).split()).rstrip(".")[:200]
    return damage_of(file, DamageKind.UNREADABLE, f"it cannot be read: {reason}")


_MOST_FAULTS = 10


def page_faults(lake: Path) -> list[str]:
    """Return what SQLite finds wrong with the pages of a catalog in a folder.

    This process must not have the lake open: closing the file here would release the locks of
    DuckDB's own SQLite. Raises: LakeError, SettingsError if the disk or another fault of the
    machine prevents the check.
    """
    address = f"file:{quote(str(lake / CATALOG))}?mode=ro"
    try:
        with open_lock(lake):
            opened = sqlite3.connect(address, uri=True, timeout=BUSY_MILLISECONDS / 1000)
        try:
            found = opened.execute(f"pragma integrity_check({_MOST_FAULTS})").fetchall()
        finally:
            with open_lock(lake), closing(opened):
                pass
    except sqlite3.DatabaseError as error:
        if fault := io_fault(error, lake):
            raise fault from None
        if "locked" in str(error):
            raise LakeBusy(
                f"Another program has locked the catalog of the lake in {lake}.",
                remedy="Wait for it, or end it, and run again. Nothing was changed.",
            ) from None
        return [str(error)]
    return [" ".join(str(text).split()) for (text,) in found if text != "ok"]


def check_lake(
    path: LakeAddress, *, is_full: bool = False, on_checked: OnBytes = ignore_bytes
) -> CheckReport:
    """Return what is wrong with a lake; nothing is changed. Loads may go on meanwhile.

    `is_full` reads every byte of every file instead of sizes and footers. This process must not
    have the lake open. Raises: LakeError if there is no lake, or if it cannot be opened at all.
    """
    path = path.resolve()
    require_lake(path)
    faults = page_faults(path) if isinstance(path, Path) else []
    if faults:
        damages = tuple(_of_catalog(fault) for fault in faults)
        return CheckReport(files=0, size=0, is_full=is_full, damages=damages)
    with open_as_is(path) as lake:
        return _Check(lake, is_full=is_full, on_checked=on_checked).run()


def note_damage(path: LakeAddress, report: CheckReport) -> None:
    """Record an event about what a check found, unless the last one says the same.

    A lake that is too damaged to be written keeps no event, nor does one of an earlier release that
    has no place for it: a check upgrades nothing.
    """
    if not report.damages:
        return
    summary, details = in_words(report.damages), event_details(report)
    with (
        suppress(LakeError),
        open_as_is(path, read_only=False) as lake,
        commit_lock(path),
        lake.transaction(),
    ):
        last = lake.rows(
            "select summary from meta.events where kind in (?, ?) "
            "order by happened_at desc limit 1",
            [EventKind.CHECK, EventKind.REPAIR],
        )
        if last != [(summary,)]:
            record_event(lake, EventKind.CHECK, summary, details=details)


def damage_error(path: LakeAddress, report: CheckReport) -> LakeError:
    """Return the error of a damaged lake: what is wrong, and what to do about it."""
    kinds = {damage.kind for damage in report.damages}
    remedy = (
        "Run `fleetlake repair --dry-run`: it says what was lost and can be read again. If a "
        "backup holds the files, copying them back loses nothing."
    )
    if DamageKind.CATALOG in kinds:
        remedy = (
            "Restore the lake from a backup with `fleetlake restore`, or run `fleetlake repair "
            "--rebuild-catalog`, which makes a catalog from the files."
        )
    elif kinds == {DamageKind.UNKNOWN}:
        remedy = "Run `fleetlake maintain`, which removes them."
    return LakeError(f"{in_words(report.damages)[:-1]}: {path}.", remedy=remedy)


def event_details(report: CheckReport) -> dict[str, object]:
    """Return what an event keeps of a report: files and kinds of damage, nothing of their rows."""
    damages = [f"{one.kind}: {one.name or one.table}" for one in report.damages]
    return {"damages": damages[:_MOST_NAMED], "count": len(damages)}


_MOST_NAMED = 50


def _of_catalog(found: str) -> Damage:
    return Damage(kind=DamageKind.CATALOG, table="", name=CATALOG, found=found)


class _Check:
    """One check of an open lake."""

    def __init__(self, lake: Lake, *, is_full: bool, on_checked: OnBytes) -> None:
        self._lake, self._is_full, self._on_checked = lake, is_full, on_checked
        self._store = FileStore(lake.path)
        self._stored: Mapping[str, StoredFile] = {}
        self._checksums: Mapping[str, str] = {}
        self._notes: list[str] = []

    def run(self) -> CheckReport:
        lake = self._lake
        with lake.single_snapshot():
            files, leaving = listed_files(lake), names_to_remove(lake)
            faults = [_of_catalog(found) for found in contradictions(lake)]
            with suppress(LakeError):  # an older lake, or the file that holds them is damaged
                self._checksums = known_checksums(lake)
        damages = self._check_files(files, leaving)
        is_readable = not any(damage.file for damage in damages)
        if is_readable:
            with lake.single_snapshot():
                damages += list(index_damages(lake))
        else:
            self._notes.append(
                "Watermarks, proven ranges and counts of loads were not compared with the rows, "
                "because files are damaged."
            )
        unproven = sum(file.name not in self._checksums for file in files)
        return CheckReport(
            files=len(files),
            size=sum(file.size for file in files),
            is_full=self._is_full,
            damages=(*faults, *damages),
            unproven=self._store.is_local * unproven,
            notes=(*self._about_store(files), *self._notes),
        )

    def _check_files(self, files: list[ListedFile], leaving: set[str]) -> list[Damage]:
        try:
            self._stored = self._store.stored()
            found = [*self._damaged(files)]
            found += self._unknown(leaving | {file.name for file in files})
        except OSError as error:
            if isinstance(self._lake.path, Path) and (fault := io_fault(error, self._lake.path)):
                raise fault from None
            raise LakeError(
                f"The files of the lake in {self._store.address} cannot be listed: {error}.",
                remedy="Check the disk, or the address of the object store and its keys.",
            ) from None
        return self._still_true(found)

    def _damaged(self, files: list[ListedFile]) -> Iterator[Damage]:
        """Yield what sizes and footers show or, in a full check, reading every byte."""
        total = sum(file.size for file in files)
        look = self._read if self._is_full else self._look
        for file, damage in zip(files, each_of(files, look), strict=True):
            if self._is_full:
                self._on_checked(file.size, total)
            if damage:
                yield damage

    def _unknown(self, known: set[str]) -> Iterator[Damage]:
        """Yield the files that are old and that the catalog does not name."""
        oldest = datetime.now(UTC) - OLDEST_UNKNOWN
        for name in sorted(self._stored.keys() - known):
            written = self._stored[name].written_at
            if written is None or written < oldest:
                table = ".".join(name.split("/")[:2]) if name.count("/") > 1 else ""
                found = "no snapshot reads it; `fleetlake maintain` removes it"
                yield Damage(kind=DamageKind.UNKNOWN, table=table, name=name, found=found)

    def _look(self, file: ListedFile) -> Damage | None:
        stored = self._stored.get(file.name)
        if stored is None:
            return damage_of(file, DamageKind.MISSING, "the file is gone")
        if stored.size != file.size:
            found = f"it has {stored.size:,} bytes instead of {file.size:,}"
            return damage_of(file, DamageKind.SIZE, found)
        return None if file.is_encrypted else self._look_at_footer(file)

    def _look_at_footer(self, file: ListedFile) -> Damage | None:
        try:
            footer = pq.read_metadata(self._store.path(file.name), filesystem=self._store.system)
        except (OSError, pa.ArrowException) as error:
            refuse_io_fault(error)
            return _unreadable(file, error)
        if is_stand_in(footer):
            return damage_of(file, DamageKind.CONTENT, "a repair that was stopped has begun it")
        if footer.num_rows != file.rows:
            found = f"it has {footer.num_rows:,} rows instead of {file.rows:,}"
            return damage_of(file, DamageKind.ROWS, found)
        if footer.serialized_size != file.footer_size:
            return damage_of(file, DamageKind.CONTENT, "its footer is that of another file")
        return None

    def _read(self, file: ListedFile) -> Damage | None:
        if damage := self._look(file):
            return damage
        known = self._checksums.get(file.name)
        if known is not None and self._store.is_local:
            if checksum_of(self._store, file) != known:
                return damage_of(file, DamageKind.CONTENT, "its bytes differ from its checksum")
            return None
        return None if file.is_encrypted else self._decode(file)

    def _decode(self, file: ListedFile) -> Damage | None:
        """Read all values of a file without a checksum, and compare them with its footer."""
        try:
            with pq.ParquetFile(
                self._store.path(file.name), filesystem=self._store.system
            ) as opened:
                wrong = [
                    name
                    for group in range(opened.metadata.num_row_groups)
                    for name in _contradictions(opened, group)
                ]
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            refuse_io_fault(error)
            return _unreadable(file, error)
        if wrong:
            found = f"values of {', '.join(sorted(set(wrong)))} contradict its footer"
            return damage_of(file, DamageKind.CONTENT, found)
        return None

    def _still_true(self, found: list[Damage]) -> list[Damage]:
        """Leave out what maintenance or a load has meanwhile removed or added."""
        if not found:
            return []
        with self._lake.single_snapshot():
            listed = {file.name: file for file in listed_files(self._lake)}
            leaving = names_to_remove(self._lake)
        still = [one for one in found if (one.name in listed) == (one.file is not None)]
        return [
            replace(one, file=listed.get(one.name))
            for one in still
            if one.file or one.name not in leaving
        ]

    def _about_store(self, files: list[ListedFile]) -> Iterator[str]:
        if not isinstance(self._lake.path, Path):
            yield "The PostgreSQL database itself was not checked: pg_amcheck does that."
        if not self._store.is_local:
            yield "Files in an object store have no checksums of ours: the store keeps its own."
        if any(file.is_encrypted for file in files):
            yield "Encrypted files were checked by size and checksum only."
