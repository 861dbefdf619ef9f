"""Writing and reading journals in tests."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleetlake.receiving.journal_table import (
    JOURNAL_FILE,
    JournalTable,
    MessageBatch,
    Position,
    PushedMessage,
    read_batch,
)

ARRIVED = datetime(2026, 6, 15, 12, 0, 0, 123_457, tzinfo=UTC)
FILES = [JOURNAL_FILE, f"{JOURNAL_FILE}-wal", f"{JOURNAL_FILE}-shm"]


def write(folder: Path, *bodies: bytes, at: datetime = ARRIVED) -> None:
    """Store messages as a receiver does before it answers 200."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(JournalTable(folder)) as table:
        table.append([PushedMessage(body=body, received_at=at) for body in bodies])


def read(
    folder: Path, after: int = 0, *, limit: int = 1_000_000, max_bytes: int = 2**30
) -> MessageBatch:
    """Return what a journal holds after a number."""
    empty = read_batch(folder, {}, limit=0, max_bytes=0)
    assert empty is not None
    batch = read_batch(
        folder, {empty.journal_id: Position(after)}, limit=limit, max_bytes=max_bytes
    )
    assert batch is not None
    return batch


def bodies(folder: Path, after: int = 0) -> list[bytes]:
    """Return the bodies that a journal holds after a number."""
    if not (folder / JOURNAL_FILE).exists():
        return []
    return [message.body for message in read(folder, after).messages]


def delete(folder: Path, until: int) -> None:
    """Delete messages as a drain does when the lake has them."""
    with closing(JournalTable(folder)) as table:
        assert table.delete_until(until)


def on_disk(folder: Path) -> bytes:
    """Return every byte of a journal's files."""
    return b"".join((folder / name).read_bytes() for name in FILES if (folder / name).exists())


def later(seconds: float) -> datetime:
    """Return a time of arrival."""
    return ARRIVED + timedelta(seconds=seconds)
