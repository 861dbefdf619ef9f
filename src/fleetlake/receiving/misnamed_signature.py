"""A note that pushes are refused because the service has another name for the signature's header.

Only a message that a known secret signs leaves one, so no stranger can. `doctor` and `status` show
it as long as the receiver expects the same header.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from fleetlake.machine.atomic_files import write_atomically
from fleetlake.settings import Settings
from fleetlake.settings.contract_words import SIGNATURE_HEADER

FILE = "misnamed-signature.json"

PAUSE_SECONDS = 60.0
"""A note is not written more often than this."""

SHOWN_DAYS = 7


@dataclass(frozen=True, kw_only=True)
class MisnamedSignature:
    """A push that was refused: the header expected, the one that has its signature, and when."""

    expected: str
    found: str
    at: str

    @property
    def what(self) -> str:
        """What happened, in words."""
        return (
            f"A pushed message was refused at {self.at}: its signature is in the header "
            f"{self.found}, and {self.expected} is expected."
        )

    @property
    def remedy(self) -> str:
        """What to do."""
        return (
            f'Set {SIGNATURE_HEADER} = "{self.found}" in [vendor_words] of fleetlake.toml, or in '
            "the file that FLEETLAKE_VENDOR_WORDS names, and restart `fleetlake receive`."
        )


class SignatureNotes:
    """Writes notes into the folder of the journals."""

    def __init__(self, settings: Settings) -> None:
        self.expected = settings.words.header(SIGNATURE_HEADER)
        self._file = settings.push_journal / FILE
        self._next_at = 0.0

    def note(self, found: str) -> None:
        """Log that a signature is in another header, and leave a note; both at most once a minute.

        A note that cannot be written does not change the answer to the message.
        """
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + PAUSE_SECONDS
        at = datetime.now(UTC).isoformat(timespec="seconds")
        note = MisnamedSignature(expected=self.expected, found=found, at=at)
        logging.getLogger(__name__).warning("%s %s", note.what, note.remedy)
        with suppress(OSError):
            write_atomically(self._file, json.dumps(asdict(note)))


def misnamed_signature(settings: Settings) -> MisnamedSignature | None:
    """Return the last note of the week; None if there is none, or the mapping has changed since."""
    try:
        note = MisnamedSignature(**json.loads((settings.push_journal / FILE).read_text("utf-8")))
        age = datetime.now(UTC) - datetime.fromisoformat(note.at)
    except (OSError, ValueError, TypeError):
        return None
    is_current = note.expected == settings.words.header(SIGNATURE_HEADER)
    return note if is_current and age.days < SHOWN_DAYS else None


def misnamed_signature_lines(settings: Settings) -> Iterator[str]:
    """Yield a sentence about such a note, if there is one."""
    if note := misnamed_signature(settings):
        yield f"{note.what} {note.remedy}"
