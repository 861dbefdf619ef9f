"""Writing and reading journals in tests."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleetlake.receiving.journal_reader import START, Batch, Position, read_batch
from fleetlake.receiving.segments import encode_record, segment_path

ARRIVED = datetime(2026, 6, 15, 12, 0, 0, 123_457, tzinfo=UTC)


def record(body: bytes) -> bytes:
    """Return a message as it is in a segment."""
    return encode_record(body, ARRIVED)


def write_segment(journal: Path, number: int, content: bytes) -> None:
    """Write a segment as a writer would have left it."""
    journal.mkdir(exist_ok=True)
    segment_path(journal, number).write_bytes(content)


def read(journal: Path, after: Position = START, *, limit: int = 1000) -> Batch:
    """Return what a journal holds after a position."""
    return read_batch(journal, after, limit=limit, max_bytes=2**20)


def bodies(journal: Path, after: Position = START) -> list[bytes]:
    """Return the bodies that a journal holds after a position."""
    return [message.body for message in read(journal, after).messages]


def later(seconds: float) -> datetime:
    """Return a time of arrival."""
    return ARRIVED + timedelta(seconds=seconds)
