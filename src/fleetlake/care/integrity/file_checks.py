"""Checking data and delete files: quickly by size and footer, or fully by every byte."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fleetlake.care.integrity.checksums import checksum_of
from fleetlake.care.integrity.damage import Damage, DamageKind
from fleetlake.care.integrity.listing import FileStore, ListedFile, OnChecked, StoredFile, each_of
from fleetlake.care.integrity.stand_in import is_stand_in
from fleetlake.machine.io_faults import refuse_io_fault

OLDEST_UNKNOWN = timedelta(days=1)
"""Younger unknown files may belong to a load in progress."""

_ORDERED = (int, float, str, bytes, bool, datetime, date, Decimal)


@dataclass(frozen=True, kw_only=True)
class FileChecks:
    """Checks of the files in one store; `checksums` are those kept in the lake, by name."""

    store: FileStore
    stored: Mapping[str, StoredFile]
    checksums: Mapping[str, str]

    def quick(self, files: Iterable[ListedFile]) -> Iterator[Damage]:
        """Yield what sizes and footers show."""
        for damage in each_of(files, self._look):
            if damage:
                yield damage

    def full(self, files: list[ListedFile], on_checked: OnChecked) -> Iterator[Damage]:
        """Yield what reading every byte shows."""
        total = sum(file.size for file in files)
        for file, damage in zip(files, each_of(files, self._read), strict=True):
            on_checked(file.size, total)
            if damage:
                yield damage

    def unknown(self, known: Iterable[str]) -> Iterator[Damage]:
        """Yield the files that are old and that the catalog does not name."""
        oldest = datetime.now(UTC) - OLDEST_UNKNOWN
        for name in sorted(self.stored.keys() - set(known)):
            written = self.stored[name].written_at
            if written is None or written < oldest:
                table = ".".join(name.split("/")[:2]) if name.count("/") > 1 else ""
                found = "no snapshot reads it; `fleetlake maintain` removes it"
                yield Damage(kind=DamageKind.UNKNOWN, table=table, name=name, found=found)

    def _look(self, file: ListedFile) -> Damage | None:
        stored = self.stored.get(file.name)
        if stored is None:
            return damage_of(file, DamageKind.MISSING, "the file is gone")
        if stored.size != file.size:
            found = f"it has {stored.size:,} bytes instead of {file.size:,}"
            return damage_of(file, DamageKind.SIZE, found)
        return None if file.is_encrypted else self._look_at_footer(file)

    def _look_at_footer(self, file: ListedFile) -> Damage | None:
        try:
            footer = pq.read_metadata(self.store.path(file.name), filesystem=self.store.system)
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
        known = self.checksums.get(file.name)
        if known is not None and self.store.is_local:
            if checksum_of(self.store, file) != known:
                return damage_of(file, DamageKind.CONTENT, "its bytes differ from its checksum")
            return None
        return None if file.is_encrypted else self._decode(file)

    def _decode(self, file: ListedFile) -> Damage | None:
        """Read all values of a file without a checksum, and compare them with its footer."""
        try:
            with pq.ParquetFile(self.store.path(file.name), filesystem=self.store.system) as opened:
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
