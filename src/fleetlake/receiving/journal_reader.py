"""Reading a journal: whole messages after a position, and what to remove afterwards.

A reader sees a record as soon as it is written, perhaps before its sender got an answer. That does
no harm: the sender sends it again, and a message has the same id each time.
"""

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fleetlake.receiving.segments import (
    HEADER,
    MAGIC,
    TIME_BYTES,
    journal_folders,
    note_segment,
    segment_path,
    segments,
    split_payload,
)


@dataclass(frozen=True, order=True)
class Position:
    """A place in a journal: a segment, and the byte in it at which reading continues."""

    segment: int
    offset: int


START = Position(0, 0)
"""Before everything in a journal."""


@dataclass(frozen=True, kw_only=True)
class PushedMessage:
    """A message as it was sent, and when it arrived (UTC)."""

    body: bytes
    received_at: datetime


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Messages in the order of their arrival, and where the next batch begins.

    `damage` says what could not be read: one line per place in a segment. `until` may advance
    without messages: over damage, or into another segment. `has_more` is true if another message
    was there and did not fit.
    """

    messages: list[PushedMessage]
    until: Position
    damage: list[str]
    has_more: bool


def journals(folder: Path) -> dict[str, Path]:
    """Return the journals in a folder: id to path. A folder that does not exist has none."""
    return journal_folders(folder)


def newest_segment(journal: Path) -> int:
    """Return the number of a journal's newest segment, 0 if there is none.

    A position in a later segment belongs to a journal that was lost or replaced.
    """
    return max(segments(journal), default=0)


def bytes_after(journal: Path, position: Position) -> int:
    """Return how many bytes of a journal are after a position.

    A segment that is drained and removed meanwhile has none.
    """
    found = 0
    for number in segments(journal):
        if number >= position.segment:
            with suppress(FileNotFoundError):
                size = segment_path(journal, number).stat().st_size
                found += max(0, size - (position.offset if number == position.segment else 0))
    return found


def read_batch(journal: Path, after: Position, *, limit: int, max_bytes: int) -> Batch:
    """Return the whole messages after a position: at most `limit`, with at most `max_bytes`.

    A single larger message is returned alone. A message that ends with its segment incomplete was
    never acknowledged. If another segment follows, reading continues there; if not, the writer may
    still be writing it, so the batch ends before it. Unreadable bytes with messages after them are
    reported as damage and skipped.

    Raises: OSError.
    """
    # Listed before reading: a segment with a successor does not grow any more.
    numbers = [number for number in segments(journal) if number >= after.segment]
    messages: list[PushedMessage] = []
    damage: list[str] = []
    until, size = after, 0
    for number in numbers:
        if number != until.segment:
            until = Position(number, 0)
        for found in _scan(journal, until, is_closed=number != numbers[-1]):
            if found.payload is not None:
                size += len(found.payload)
                if len(messages) >= limit or (messages and size > max_bytes):
                    return Batch(messages=messages, until=until, damage=damage, has_more=True)
                received_at, body = split_payload(found.payload)
                messages.append(PushedMessage(body=body, received_at=received_at))
            else:
                damage.append(_in_words(until, found.end))
            until = Position(number, found.end)
    return Batch(messages=messages, until=until, damage=damage, has_more=False)


def remove_until(journal: Path, position: Position) -> None:
    """Remove the segments before that of a position, except the newest. Raises: OSError."""
    note_segment(journal, position.segment)
    for number in segments(journal)[:-1]:
        if number < position.segment:
            segment_path(journal, number).unlink(missing_ok=True)


class _Found(NamedTuple):
    """A record's payload, or None for bytes that are not a record; and the byte after them."""

    payload: bytes | None
    end: int


def _scan(journal: Path, start: Position, *, is_closed: bool) -> Iterator[_Found]:
    """Yield the records of a segment from a position on, and the damage between them."""
    with segment_path(journal, start.segment).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        offset = start.offset
        file.seek(offset)
        while offset < size:
            payload = _read_payload(file, size - offset)
            if payload is None:
                end = _next_record(file, offset, size)
                if end is None:
                    yield from _unread_end(file, offset, size) if is_closed else ()
                    return
                offset = file.seek(end)
                yield _Found(None, offset)
                continue
            offset += HEADER.size + len(payload)
            yield _Found(payload, offset)


def _read_payload(file: BinaryIO, available: int) -> bytes | None:
    """Return the payload of the record at the file's position, None if none is whole there."""
    head = file.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    magic, length, checksum = HEADER.unpack(head)
    if magic != MAGIC or not TIME_BYTES <= length <= available - HEADER.size:
        return None
    payload = file.read(length)
    return payload if len(payload) == length and zlib.crc32(payload) == checksum else None


def _next_record(file: BinaryIO, offset: int, size: int) -> int | None:
    """Return where the next whole record after a place without one begins, None if none does."""
    file.seek(offset)
    rest = file.read(size - offset)
    found = rest.find(MAGIC, 1)
    while found >= 0:
        file.seek(offset + found)
        if _read_payload(file, size - offset - found) is not None:
            return offset + found
        found = rest.find(MAGIC, found + 1)
    return None


def _unread_end(file: BinaryIO, offset: int, size: int) -> Iterator[_Found]:
    """Yield damage if the end of a segment is more than an unfinished write.

    A killed writer leaves the beginning of a record, a power failure often zeros.
    """
    file.seek(offset)
    rest = file.read(size - offset)
    is_beginning = rest.startswith(MAGIC[: len(rest)]) and (
        len(rest) < HEADER.size or HEADER.unpack(rest[: HEADER.size])[1] > len(rest) - HEADER.size
    )
    if not is_beginning and any(rest):
        yield _Found(None, size)


def _in_words(start: Position, end: int) -> str:
    """Return what is damaged.

    >>> _in_words(Position(3, 100), 164)
    'segment 3: 64 bytes from byte 100 on are not a message'
    """
    length = end - start.offset
    return f"segment {start.segment}: {length} bytes from byte {start.offset} on are not a message"
