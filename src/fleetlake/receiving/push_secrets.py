"""Who may push: the secrets of destinations, signatures, and why a message is refused.

Secrets come from the settings and a file.

`fleetlake alerts setup` adds a secret to the file before it creates the destination, whose first
test message arrives at once. So a running receiver reads the file again whenever it has changed.

A signature is the hex digest of the SHA-256 HMAC of the body, keyed with the secret of the
destination. An empty body is signed as a single space. The header that has it is
`X-PORTAL-Signature`, or what the vendor's words call it.

A message that a known secret signs under another header leaves a note, which `doctor` and `status`
show as long as the receiver expects the same header. A stranger cannot leave one.
"""

import hmac
import json
import logging
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path

from fleetlake.errors import FleetlakeError, SettingsError
from fleetlake.machine.atomic_files import write_atomically
from fleetlake.machine.ownership import chmod_words, excess_rights, require_own
from fleetlake.settings import Settings
from fleetlake.settings.vendor_words import SIGNATURE_HEADER

EMPTY_BODY = b" "

_DIGEST = re.compile(rb"[0-9a-fA-F]{64}")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")


@dataclass(frozen=True)
class Signature:
    """A signature, in lower case, and the header that has it if it is not the expected one."""

    digest: bytes
    other_header: str = ""


_OTHERS = 0o077
_Version = tuple[int, int, int]


class PushSecrets:
    """All secrets that count now, as bytes."""

    def __init__(self, settings: Settings) -> None:
        """Read the secrets. Raises: SettingsError, LakeError for a file that is not only ours."""
        self._fixed = tuple(one.get_secret_value().encode() for one in settings.push_secrets)
        self._file = settings.push_secrets_file
        self._version = _version(self._file)
        self._in_file = read_secrets(self._file)
        self._expected = settings.words.header(SIGNATURE_HEADER)
        self._note_file = settings.push_journal / _NOTE_FILE
        self._next_note_at = 0.0

    def signature_in(self, headers: Sequence[tuple[bytes, bytes]]) -> Signature:
        """Return the signature that a request carries. Header names are in lower case, as in ASGI.

        If the expected header is missing and another one has the form of a signature, that is
        returned: if it fits, the service has another name for the header. Raises: Refused.
        """
        expected = self._expected
        found = [value for name, value in headers if name == expected.lower().encode()]
        if len(found) == 1 and _DIGEST.fullmatch(found[0].strip()):
            return Signature(found[0].strip().lower())
        if not found:
            others = [
                (b"signature" not in name, name, value)
                for name, value in headers
                if _NAME.fullmatch(name) and _DIGEST.fullmatch(value)
            ]
            for _, name, value in sorted(others)[:1]:
                return Signature(value.lower(), name.decode())
        raise Refused(
            PushRefusal.SIGNATURE if found else PushRefusal.UNSIGNED, f"one {expected} is needed"
        )

    def require_signed(self, body: bytes, signature: Signature) -> None:
        """Refuse a body that no secret signs in the expected header. Raises: Refused.

        All secrets are compared, each in constant time, so that the time of the answer tells
        nothing.
        """
        signed = body or EMPTY_BODY
        digests = [hmac.digest(one, signed, "sha256").hex().encode() for one in self.current()]
        matches = [hmac.compare_digest(one, signature.digest) for one in digests]
        if not any(matches):
            raise Refused(PushRefusal.SIGNATURE, "the signature does not match")
        if signature.other_header:
            self._note(signature.other_header)
            raise Refused(PushRefusal.UNSIGNED, f"one {self._expected} is needed")

    def _note(self, found: str) -> None:
        """Log that a signature is in another header, and leave a note; both at most once a minute.

        A note that cannot be written does not change the answer to the message.
        """
        if time.monotonic() < self._next_note_at:
            return
        self._next_note_at = time.monotonic() + _NOTE_PAUSE_SECONDS
        at = datetime.now(UTC).isoformat(timespec="seconds")
        note = MisnamedSignature(expected=self._expected, found=found, at=at)
        logging.getLogger(__name__).warning("%s %s", note.what, note.remedy)
        with suppress(OSError):
            write_atomically(self._note_file, json.dumps(asdict(note)))

    def current(self) -> tuple[bytes, ...]:
        """Return all secrets; after a change that cannot be read, those from before it."""
        version = _version(self._file)
        if version != self._version:
            self._version = version
            try:
                self._in_file = read_secrets(self._file)
            except FleetlakeError as error:
                logging.getLogger(__name__).warning("The secrets stay as they were. %s", error)
        return self._fixed + self._in_file


def read_secrets(file: Path) -> tuple[bytes, ...]:
    """Return the secrets in a file, one per line. A file that does not exist has none.

    Raises: SettingsError if others can read it or it cannot be read, LakeError if it is another
    user's.
    """
    require_own(
        file, "secrets", kind="file", otherwise="set FLEETLAKE_PUSH_SECRETS_FILE to your own"
    )
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise SettingsError(
            f"The secrets in {file} cannot be read: {error.strerror}.",
            remedy="Fix the file, or set FLEETLAKE_PUSH_SECRETS_FILE to another one.",
        ) from None
    if excess_rights(file, _OTHERS):
        raise SettingsError(
            f"Other users can read or change the secrets in {file}.",
            remedy=f"Run chmod {chmod_words(_OTHERS)} {file}.",
        )
    return tuple(line.strip() for line in content.splitlines() if line.strip())


def _version(file: Path) -> _Version | None:
    """Return what changes when a file is written, replaced or opened to others."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size


class PushRefusal(StrEnum):
    """The reasons, as metrics name them."""

    SIGNATURE = "signature"  # given twice, or of no known secret
    UNSIGNED = "unsigned"  # no signature in the expected header
    SOURCE = "source"  # not from an allowed network
    HOST = "host"  # addressed by a name that another site may have pointed here
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    HEADERS_TOO_LARGE = "headers_too_large"
    INCOMPLETE = "incomplete"  # the sender left before the end of its message
    OVERLOADED = "overloaded"  # too much waits for memory or for the disk
    NOT_STORED = "not_stored"  # the disk is full or broken, or the receiver is stopping
    PATH = "path"
    METHOD = "method"


class Refused(Exception):
    """A request is refused. The text says why, for the sender."""

    def __init__(self, reason: PushRefusal, text: str) -> None:
        super().__init__(text)
        self.reason = reason


REFUSAL_STATUS = {
    PushRefusal.SIGNATURE: HTTPStatus.FORBIDDEN,
    PushRefusal.UNSIGNED: HTTPStatus.FORBIDDEN,
    PushRefusal.SOURCE: HTTPStatus.FORBIDDEN,
    PushRefusal.HOST: HTTPStatus.MISDIRECTED_REQUEST,
    PushRefusal.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    PushRefusal.TOO_SLOW: HTTPStatus.REQUEST_TIMEOUT,
    PushRefusal.HEADERS_TOO_LARGE: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    PushRefusal.INCOMPLETE: HTTPStatus.BAD_REQUEST,
    PushRefusal.OVERLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
    PushRefusal.NOT_STORED: HTTPStatus.SERVICE_UNAVAILABLE,
    PushRefusal.PATH: HTTPStatus.NOT_FOUND,
    PushRefusal.METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
}

RETRY_AFTER_SECONDS = {PushRefusal.OVERLOADED: 1, PushRefusal.NOT_STORED: 5}
"""When the sender of a refused message may try again."""


_NOTE_FILE = "misnamed-signature.json"

_NOTE_PAUSE_SECONDS = 60.0
"""A note is not written more often than this."""

_NOTE_DAYS = 7


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


def misnamed_signature(settings: Settings) -> MisnamedSignature | None:
    """Return the last note of the week; None if there is none, or the mapping has changed since."""
    try:
        note = MisnamedSignature(
            **json.loads((settings.push_journal / _NOTE_FILE).read_text("utf-8"))
        )
        age = datetime.now(UTC) - datetime.fromisoformat(note.at)
    except (OSError, ValueError, TypeError):
        return None
    is_current = note.expected == settings.words.header(SIGNATURE_HEADER)
    return note if is_current and age.days < _NOTE_DAYS else None
