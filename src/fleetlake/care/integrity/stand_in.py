"""A stand-in for a lost file: a valid footer without readable rows.

DuckLake drops a whole file in a transaction without reading its rows, if it can open the file and
all of its rows are deleted. So a stand-in takes the place of a lost file until that transaction.
Its footer has the recorded length and row count, which DuckDB 1.5.5 verifies. Its pages are
unreadable on purpose: if the process is killed before the commit, a query fails, as it did before,
instead of returning empty rows.
"""

import io
import struct
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from fleetlake.care.integrity.listing import ListedFile
from fleetlake.errors import LakeError

MARK = "fleetlake.lost"
"""Key in the footer of a stand-in."""

_MAGIC = b"PAR1"
_TAIL = 8  # bytes of a footer's length and the magic number at the end
_VARINT_BYTES = 5  # how much the length of a text can change the length of its length
_FILE_PATH_ID, _POSITION_ID = "2147483546", "2147483545"


def stand_in(file: ListedFile, columns: Sequence[tuple[str, int]]) -> bytes:
    """Return the content of a stand-in for a file with these columns, by name and field id.

    The stand-in of a delete file lists no deleted rows. Raises: LakeError if the file's footer is
    too short for any stand-in.
    """
    # A short footer has no room for all columns.
    counts = range(len(columns), -1, -1)
    lost = (_lost_rows(file.rows, columns[:count]) for count in counts)
    for table in [_no_deletes()] if file.is_delete else lost:
        content = _fitted(file, table)
        if content is not None:
            return content
    raise LakeError(
        f"The lost file {file.name} cannot be replaced: its footer was too short.",
        remedy="Restore the lake from a backup with `fleetlake restore`.",
    )


def is_stand_in(footer: pq.FileMetaData) -> bool:
    """Return whether a footer is that of a stand-in."""
    return MARK.encode() in (footer.metadata or {})


def _no_deletes() -> pa.Table:
    fields = [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": _FILE_PATH_ID}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": _POSITION_ID}),
    ]
    return pa.schema(fields).empty_table()


def _lost_rows(rows: int, columns: Sequence[tuple[str, int]]) -> pa.Table:
    fields = [
        pa.field(name, pa.int32(), metadata={"PARQUET:field_id": str(number)})
        for name, number in columns
    ] or [pa.field("lost", pa.int32())]
    return pa.table([pa.nulls(rows, pa.int32())] * len(fields), schema=pa.schema(fields))


def _fitted(file: ListedFile, table: pa.Table) -> bytes | None:
    """Return a file of the recorded footer length and, if possible, of the recorded size."""
    room = file.footer_size - _footer_length(_written(table, 0))
    for padding in range(room, max(room - _VARINT_BYTES, -1), -1):
        content = _written(table, padding)
        if _footer_length(content) == file.footer_size:
            return _with_unreadable_pages(content, file)
    return None


def _written(table: pa.Table, padding: int) -> bytes:
    target = io.BytesIO()
    with pq.ParquetWriter(
        target,
        table.schema,
        store_schema=False,
        write_statistics=False,
        use_dictionary=False,
        compression="none",
    ) as writer:
        writer.write_table(table, row_group_size=max(table.num_rows, 1))
        writer.add_key_value_metadata({MARK: "x" * padding})
    return target.getvalue()


def _footer_length(content: bytes) -> int:
    (length,) = struct.unpack("<I", content[-_TAIL : -len(_MAGIC)])
    return int(length)


def _with_unreadable_pages(content: bytes, file: ListedFile) -> bytes:
    end = len(content) - _TAIL - file.footer_size
    missing = max(0, file.size - len(content))
    return _MAGIC + b"\xff" * (end - len(_MAGIC) + missing) + content[end:]
