"""The file of the secrets that sign pushed alerts, which the receiver reads.

It holds one secret per line and nothing else. A second file beside it says which URL each secret
was made for, by a digest of the secret. So a setup that was stopped goes on with the secret that it
had made, and a second setup makes none.
"""

import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetlake.errors import SettingsError
from fleetlake.machine.atomic_files import write_atomically
from fleetlake.machine.file_locks import LockTaken, file_lock
from fleetlake.machine.ownership import chmod_words, excess_rights, foreign_owner, user_name

_PRIVATE = 0o600
_BYTES = 32
_WAIT_SECONDS = 10.0


class KeptSecrets:
    """The secrets in a file that only this user may read.

    Raises: SettingsError if other users may read or replace it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._urls = file.with_name(f"{file.name}.urls")
        self.place = str(file)

    def find(self, url: str) -> str | None:
        """Return the newest secret that was made for a URL and is still in the file."""
        made_for = self._read_urls().get(url)
        return next((one for one in self.all() if _digest(one) == made_for), None)

    def all(self) -> list[str]:
        """Return all secrets, oldest first."""
        return [line.strip() for line in self._read().splitlines() if line.strip()]

    def keep_new(self, url: str) -> str:
        """Make a secret for a URL, and return it once it is on the disk.

        Secrets made before stay: messages that the service repeats are signed with them.
        """
        with self._locked():
            secret = new_secret()
            # In this order, a stop in between leaves a digest without a secret, which counts for
            # nothing, and never a secret that belongs to no URL.
            made_for = {**self._read_urls(), url: _digest(secret)}
            write_atomically(self._urls, f"{json.dumps(made_for, indent=1)}\n", mode=_PRIVATE)
            before = self._read()  # kept as it is: others may have written secrets of any kind
            end = "" if before.endswith("\n") or not before else "\n"
            write_atomically(self._file, f"{before}{end}{secret}\n", mode=_PRIVATE)
            return secret

    def _read(self) -> str:
        self._refuse_exposed()
        try:
            return self._file.read_text("utf-8")
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise SettingsError(
                f"The secrets in {self._file} cannot be read: {why}.",
                remedy="Fix the file, or set FLEETLAKE_PUSH_SECRETS_FILE to another one.",
            ) from None

    def _read_urls(self) -> dict[str, str]:
        try:
            return dict(json.loads(self._urls.read_text("utf-8")))
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError):
            raise SettingsError(
                f"{self._urls} is not a JSON object.", remedy="Remove it; new secrets will be made."
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._refuse_exposed()
        lock = self._file.with_name(f"{self._file.name}.lock")
        try:
            with file_lock(lock, seconds=_WAIT_SECONDS):
                yield
        except LockTaken:
            raise SettingsError(
                f"Another process is changing {self._file}.", remedy="Run again when it has ended."
            ) from None

    def _refuse_exposed(self) -> None:
        """Raise SettingsError if other users can read or replace the file."""
        for path in (self._file.parent, self._file):
            if (owner := foreign_owner(path)) is not None:
                raise SettingsError(
                    f"{path} belongs to user {user_name(owner)}.",
                    remedy="Set FLEETLAKE_PUSH_SECRETS_FILE to a file of your own.",
                )
        if excess_rights(self._file, 0o077):
            raise SettingsError(
                f"Other users can read or write {self._file}, which holds secrets.",
                remedy=f"Run: chmod {chmod_words(0o077)} {self._file}. Then give each destination "
                "a new secret with `fleetlake alerts destinations change ID --new-secret`.",
            )


def new_secret() -> str:
    """Return a secret that cannot be guessed, of less than the service's 256 characters."""
    return secrets.token_urlsafe(_BYTES)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:32]
