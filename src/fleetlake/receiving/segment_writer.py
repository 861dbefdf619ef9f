"""Appends records to a journal's segments, and returns once they are on disk.

After a failed write nobody knows what the disk holds of it, and a second `fsync` may report
success for data that is lost. So a segment ends with its first failure, and the next write starts
another one.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from errno import ENOENT
from pathlib import Path

from fleetlake.machine.atomic_files import flush_folder
from fleetlake.machine.ownership import open_own
from fleetlake.receiving.segments import last_segment, segment_path

SEGMENT_BYTES = 16 * 2**20
"""Size from which a segment is followed by another one."""

PROBE_BYTES = 4096
PROBE_FILE = "probe"

_CREATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND

flush_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class SegmentWriter:
    """The writing end of a journal. The caller holds its lock. Blocks; use it in one thread.

    `flush` waits until the data of an open file is on disk.
    """

    def __init__(
        self,
        journal: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        flush: Callable[[int], None] = flush_data,
    ) -> None:
        self._journal = journal
        self._segment_bytes = segment_bytes
        self._flush = flush
        self._number = last_segment(journal)
        self._file: int | None = None
        self._size = 0

    def append(self, records: bytes) -> None:
        """Write whole records and wait until they are on disk.

        Raises: OSError; then none of them counts as written, though some may be in the file.
        """
        try:
            if self._file is None or self._size >= self._segment_bytes:
                self._file = self._next_segment()
            _write(self._file, records)
            self._flush(self._file)
            if os.fstat(self._file).st_nlink == 0:
                raise FileNotFoundError(ENOENT, "the segment was removed", str(self._journal))
        except OSError:
            self._end_segment()
            raise
        self._size += len(records)

    def _next_segment(self) -> int:
        """Create the next segment, whose name is on disk before a record can be in it.

        Otherwise a power failure could remove the name after a reader has seen its records. The
        number would be used again, and the reader would skip what is new in it.
        """
        self.close()
        created = open_own(segment_path(self._journal, self._number + 1), _CREATE)
        self._number += 1
        try:
            flush_folder(self._journal)
        except OSError:
            os.close(created)
            raise
        return created

    def _end_segment(self) -> None:
        """Remove what a failed write left, as far as possible, and leave the segment."""
        if self._file is not None:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
        self.close()

    def probe(self) -> None:
        """Write a small file, flush and remove it. Raises: OSError if that fails."""
        file = self._journal / PROBE_FILE
        descriptor = open_own(file, os.O_CREAT | os.O_WRONLY)
        try:
            _write(descriptor, bytes(PROBE_BYTES))
            self._flush(descriptor)
        finally:
            os.close(descriptor)
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the open segment. The next write starts another one."""
        if self._file is not None:
            with suppress(OSError):  # every record was flushed
                os.close(self._file)
        self._file, self._size = None, 0


def _write(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
