"""The rows of a large list, compressed while the list is being read.

Only the whole list shows which records are gone, so it is committed at once. Of 100,000 routers,
the lists of one ingest would take 500 MB; compressed, they take a sixth of that.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

ROWS_PER_PACK = 5_000
"""Rows that are compressed together; a shorter list is not compressed."""

ROWS_PER_PART = 25_000
"""Rows that are unpacked together. DuckDB needs up to 2 KB of memory for each."""


class PackedRows:
    """Rows in their order, added batch by batch and read again in parts."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.num_rows = 0
        self._packs: list[pa.Buffer] = []
        self._loose: list[pa.RecordBatch] = []
        self._loose_rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of the schema."""
        self.num_rows += rows.num_rows
        self._loose.append(rows)
        self._loose_rows += rows.num_rows
        if self._loose_rows >= ROWS_PER_PACK:
            self._packs.append(_packed(pa.Table.from_batches(self._loose, self.schema)))
            self._loose, self._loose_rows = [], 0

    def parts(self) -> Iterator[pa.Table]:
        """Yield all rows, about `ROWS_PER_PART` at once; one empty table if there are none."""
        tables: list[pa.Table] = []
        for pack in self._packs:
            if not tables:
                _return_memory()
            tables.append(pa.ipc.open_stream(pack).read_all())
            if sum(table.num_rows for table in tables) >= ROWS_PER_PART:
                part, tables = pa.concat_tables(tables), []
                yield part
                del part
        if self._loose or not self._packs:
            tables.append(pa.Table.from_batches(self._loose, self.schema))
        if tables:
            yield pa.concat_tables(tables)

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return some columns of all rows; the others stay packed."""
        places = [self.schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=places)
        tables = [pa.ipc.open_stream(pack, options=options).read_all() for pack in self._packs]
        loose = pa.Table.from_batches(self._loose, self.schema).select(names)
        return pa.concat_tables([*(table.select(names) for table in tables), loose])


def _return_memory() -> None:
    """Return freed memory to the system.

    The C library keeps it in pieces between what is still used, and DuckDB's allocator cannot take
    it from there. At 100,000 routers, an ingest of lists and events held 120 MB of it.
    """
    pa.default_memory_pool().release_unused()


def _packed(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
        stream.write_table(rows.combine_chunks())
    return sink.getvalue()
