"""The secrets of push destinations: from the settings and from a file that may change meanwhile.

`fleetlake alerts setup` adds a secret to the file before it creates the destination, whose first
test message arrives at once. So a running receiver reads the file again whenever it has changed.
"""

import logging
from pathlib import Path

from fleetlake.errors import FleetlakeError, SettingsError
from fleetlake.machine.ownership import chmod_words, excess_rights, require_own
from fleetlake.settings import Settings

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
