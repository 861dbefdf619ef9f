"""The files of a journal: segments of records that are only ever appended to.

A journal folder holds one folder per writer, named by a UUID: the journal's id. In it are
`00000001.log`, `00000002.log` and so on. A record is a magic number, the length and the CRC-32 of
its payload, and the payload: the time of receipt and the body as it was sent. It holds no header,
secret or address.
"""

import struct
import zlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from fleetlake.machine.atomic_files import write_atomically

MAGIC = b"\xf5PJ1"
"""First bytes of a record. No UTF-8 text contains the byte F5."""

HEADER = struct.Struct(">4sII")
TIME_BYTES = 8
SUFFIX = ".log"
POSITION_FILE = "position"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def encode_record(body: bytes, received_at: datetime) -> bytes:
    """Return a message as a record. `received_at` has a time zone."""
    stamp = ((received_at - _EPOCH) // _MICROSECOND).to_bytes(TIME_BYTES, "big", signed=True)
    payload = stamp + body
    return HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


def split_payload(payload: bytes) -> tuple[datetime, bytes]:
    """Return the time of receipt, in UTC, and the body of a payload."""
    micros = int.from_bytes(payload[:TIME_BYTES], "big", signed=True)
    return _EPOCH + micros * _MICROSECOND, payload[TIME_BYTES:]


def segment_path(journal: Path, number: int) -> Path:
    """Return the file of a segment.

    >>> segment_path(Path("journal"), 7).name
    '00000007.log'
    """
    return journal / f"{number:08d}{SUFFIX}"


def segments(journal: Path) -> list[int]:
    """Return the numbers of a journal's segments, oldest first."""
    return sorted(int(file.stem) for file in journal.glob(f"*{SUFFIX}") if file.stem.isdecimal())


def last_segment(journal: Path) -> int:
    """Return the highest number that a segment of a journal is known to have had, 0 if none.

    A number is never used twice, even if somebody removed the segments: a reader would take the
    new records for those it has read.
    """
    return max([*segments(journal), _noted_segment(journal)])


def note_segment(journal: Path, number: int) -> None:
    """Remember that a reader is in a segment or beyond it. Raises: OSError."""
    if number > _noted_segment(journal):
        write_atomically(journal / POSITION_FILE, f"{number}\n", mode=0o600)


def _noted_segment(journal: Path) -> int:
    with suppress(OSError, ValueError):
        return int((journal / POSITION_FILE).read_text("ascii"))
    return 0


def journal_folders(folder: Path) -> dict[str, Path]:
    """Return the journals in a folder: id to path. A folder that does not exist has none."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return {path.name: path for path in sorted(folder.iterdir()) if _is_journal(path)}
    return {}


def _is_journal(path: Path) -> bool:
    try:
        return str(UUID(path.name)) == path.name and path.is_dir()
    except ValueError:
        return False
