"""Checking a lake: its catalog, every file that it names, and whether meta agrees with raw.

SQLite keeps no checksums, so a changed value within a page is found only if it contradicts another
one, such as a file's size.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from fleetlake.care.integrity.checksums import known_checksums
from fleetlake.care.integrity.damage import CheckReport, Damage, DamageKind, in_words
from fleetlake.care.integrity.file_checks import FileChecks
from fleetlake.care.integrity.listing import (
    FileStore,
    ListedFile,
    OnChecked,
    ignore_bytes,
    listed_files,
    names_to_remove,
)
from fleetlake.care.integrity.meta_repair import index_damages
from fleetlake.errors import LakeBusy, LakeError
from fleetlake.lake.attach import BUSY_MILLISECONDS, CATALOG
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.catalog import open_as_is, require_lake
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import contradictions
from fleetlake.lake.locks import commit_lock, open_lock
from fleetlake.lake_address import LakeAddress
from fleetlake.machine.io_faults import io_fault

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
    path: LakeAddress, *, is_full: bool = False, on_checked: OnChecked = ignore_bytes
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
    def __init__(self, lake: Lake, *, is_full: bool, on_checked: OnChecked) -> None:
        self._lake, self._is_full, self._on_checked = lake, is_full, on_checked
        self._store = FileStore(lake.path)
        self._notes: list[str] = []

    def run(self) -> CheckReport:
        lake = self._lake
        with lake.single_snapshot():
            files, leaving = listed_files(lake), names_to_remove(lake)
            faults = [_of_catalog(found) for found in contradictions(lake)]
            checksums = self._checksums()
        damages = self._check_files(files, leaving, checksums)
        is_readable = not any(damage.file for damage in damages)
        if is_readable:
            with lake.single_snapshot():
                damages += list(index_damages(lake))
        else:
            self._notes.append(
                "Watermarks, proven ranges and counts of loads were not compared with the rows, "
                "because files are damaged."
            )
        return CheckReport(
            files=len(files),
            size=sum(file.size for file in files),
            is_full=self._is_full,
            damages=(*faults, *damages),
            unproven=self._store.is_local * sum(file.name not in checksums for file in files),
            notes=(*self._about_store(files), *self._notes),
        )

    def _checksums(self) -> dict[str, str]:
        try:
            return known_checksums(self._lake)
        except LakeError:  # an older lake, or the file that holds them is damaged
            return {}

    def _check_files(
        self, files: list[ListedFile], leaving: set[str], checksums: dict[str, str]
    ) -> list[Damage]:
        try:
            checks = FileChecks(store=self._store, stored=self._store.stored(), checksums=checksums)
            found = list(
                checks.full(files, self._on_checked) if self._is_full else checks.quick(files)
            )
            found += checks.unknown([*leaving, *(file.name for file in files)])
        except OSError as error:
            if isinstance(self._lake.path, Path) and (fault := io_fault(error, self._lake.path)):
                raise fault from None
            raise LakeError(
                f"The files of the lake in {self._store.address} cannot be listed: {error}.",
                remedy="Check the disk, or the address of the object store and its keys.",
            ) from None
        return self._still_true(found)

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
