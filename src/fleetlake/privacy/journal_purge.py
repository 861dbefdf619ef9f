"""Erasing from the journals of pushed messages: a message that is in the lake is not kept here too.

What waits in the journals is brought into the lake first, so that it is erased there. Then the
bytes of everything that is in the lake are overwritten. A message that arrives later about
something erased is kept out of the lake by the tombstones; its bytes stay until its segment is
removed, or until the same erasure is run again.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from fleetlake.lake import open_lake
from fleetlake.privacy.receipt import OutletReceipt
from fleetlake.receiving.drain import drain_quiet, read_positions
from fleetlake.receiving.journal_reader import Position, journals, newest_segment, remove_until
from fleetlake.receiving.segments import encode_record, segment_path
from fleetlake.settings import Settings
from fleetlake.text.wording import counted

_BLANK = b'{"type":"test"}'
"""A message without content, which leaves no row if a restored lake reads it again."""


def drain_for_erasure(settings: Settings) -> None:
    """Bring what waits in the journals into the lake; the caller holds `quiet_lake`.

    Journals that cannot be read are reported later. Raises: LakeError.
    """
    with suppress(OSError):
        while not drain_quiet(
            settings.lake, settings.push_journal, profile=settings.profile
        ).is_nothing:
            pass


def purge_journals(settings: Settings) -> Iterator[OutletReceipt]:
    """Overwrite what the lake has taken from the journals; yield what was done."""
    with open_lake(settings.lake, read_only=True) as lake:
        positions = read_positions(lake)
    outlet, found = f"pushed messages in {settings.push_journal}", dict[str, Path]()
    try:
        found = journals(settings.push_journal)
        blanked = sum(
            blank_until(path, positions[id_]) for id_, path in found.items() if id_ in positions
        )
    except OSError as error:
        yield OutletReceipt(outlet=outlet, done=f"failed: {error.strerror}")
        return
    if found:
        done = f"{counted(len(found), 'journal')}: {blanked:,} bytes overwritten"
        yield OutletReceipt(outlet=outlet, done=done)
    if elsewhere := positions.keys() - found.keys():
        yield OutletReceipt(
            outlet="pushed messages in other folders",
            done="not changed",
            left_to_do=f"{counted(len(elsewhere), 'journal')} elsewhere: run the same command "
            "where their receivers run, or remove those that are no longer used.",
        )


def blank_until(journal: Path, position: Position) -> int:
    """Remove or overwrite everything before a position; return the overwritten bytes.

    The newest segment stays, because its writer appends to it. So does a journal that was replaced
    and not drained since: the position is beyond its end. Raises: OSError.
    """
    if position.segment > newest_segment(journal):
        return 0
    remove_until(journal, position)
    path = segment_path(journal, position.segment)
    if not (position.offset and path.exists()):
        return 0
    with path.open("r+b") as file:
        file.write(_blank(position.offset))
        file.flush()
        os.fsync(file.fileno())
    return position.offset


def _blank(size: int) -> bytes:
    r"""Return that many bytes: one record without content; zeros if that does not fit.

    >>> len(_blank(100)), _blank(3)
    (100, b'\x00\x00\x00')
    """
    received_at = datetime(2000, 1, 1, tzinfo=UTC)
    rest = size - len(encode_record(b"", received_at))
    if rest < len(_BLANK):
        return bytes(size)
    return encode_record(_BLANK.ljust(rest), received_at)
