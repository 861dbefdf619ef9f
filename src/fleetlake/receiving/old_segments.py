"""Journals of builds before 2026-11-25: folders of segments, whose messages move into the table.

Each writer had a folder named by a UUID with `00000001.log` and so on. A record is a magic number,
the length and the CRC-32 of its payload, and the payload: the time of receipt and the body. What
such a journal still holds is read again as a whole; what the lake has already adds nothing.
Remove this module one release after the table: no release wrote such journals.
"""

import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from fleetlake.machine.file_locks import LockTaken, file_lock
from fleetlake.machine.ownership import require_own
from fleetlake.receiving.journal_table import LOCK_FILE, JournalTable, PushedMessage

MAGIC = b"\xf5PJ1"
HEADER = struct.Struct(">4sII")
TIME_BYTES = 8

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def move_old_journals(folder: Path) -> dict[str, list[str]]:
    """Move the messages of old journals into the table; return what was damaged in each, by id.

    A journal that a receiver of an earlier build still writes to stays until that has ended.
    Raises: OSError, LakeError.
    """
    moved = {}
    for journal in old_journals(folder):
        require_own(journal, "journal", otherwise="set FLEETLAKE_PUSH_JOURNAL to another folder")
        with suppress(LockTaken), file_lock(journal / LOCK_FILE, seconds=0):
            moved[journal.name] = _move(journal, JournalTable(folder))
            shutil.rmtree(journal)
    return moved


def old_journals(folder: Path) -> list[Path]:
    """Return the old journals in a folder. A folder that does not exist has none."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return [path for path in sorted(folder.iterdir()) if path.is_dir() and _is_id(path.name)]
    return []


def _is_id(name: str) -> bool:
    with suppress(ValueError):
        return str(UUID(name)) == name
    return False


def _move(journal: Path, table: JournalTable) -> list[str]:
    damaged = []
    for segment in sorted(journal.glob("*.log"), key=lambda file: int(file.stem)):
        content = segment.read_bytes()
        messages = [*_messages(content)]
        records = sum(HEADER.size + TIME_BYTES + len(one.body) for one in messages)
        if (rest := len(content.rstrip(b"\0")) - records) > 0:  # power failures leave zeros
            damaged.append(f"{segment.name}: {rest} bytes are not a whole message")
        table.append(messages)
    table.close()
    return damaged


def _messages(content: bytes) -> Iterator[PushedMessage]:
    start = 0
    while (start := content.find(MAGIC, start)) >= 0:
        head, body = content[start : start + HEADER.size], start + HEADER.size
        if len(head) == HEADER.size:
            _, length, checksum = HEADER.unpack(head)
            payload = content[body : body + length]
            if len(payload) == length >= TIME_BYTES and zlib.crc32(payload) == checksum:
                micros = int.from_bytes(payload[:TIME_BYTES], "big", signed=True)
                yield PushedMessage(
                    body=payload[TIME_BYTES:], received_at=_EPOCH + timedelta(microseconds=micros)
                )
                start = body + length
                continue
        start += 1
