"""The certificate of a receiver that speaks TLS itself; a renewed one is used without a restart."""

import logging
import ssl
from pathlib import Path

from fleetlake.errors import UsageError


class Certificate:
    """A certificate with its key, in PEM files, and the context of connections that use it."""

    def __init__(self, cert: Path, key: Path | None) -> None:
        """Read the files; without `key`, the key is in `cert`. Raises: UsageError."""
        self._cert = cert
        self._key = key or cert
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2  # the service speaks 1.2 and 1.3
        self._version = self._times()
        try:
            self._load()
        except OSError as error:  # ssl.SSLError too
            raise UsageError(
                f"The certificate {cert} with the key {self._key} cannot be used: "
                f"{error.strerror or error}.",
                remedy="Name PEM files that belong together; the key must not be encrypted.",
            ) from None

    def _load(self) -> None:
        # A context that was given files which do not belong together can use neither them nor its
        # old ones. So another one tries them: between two files of a renewal they do not fit.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
            # Without a password, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self._cert, self._key, password="")

    def reload_if_changed(self) -> None:
        """Use the files again if they changed; keep the old certificate if they do not fit."""
        version = self._times()
        if version == self._version:
            return
        try:
            self._load()
        except OSError as error:
            logging.getLogger(__name__).warning(
                "The new certificate cannot be used; the old one stays: %s.",
                error.strerror or error,
            )
        else:
            self._version = version

    def _times(self) -> tuple[float, ...]:
        try:
            return tuple(file.stat().st_mtime for file in (self._cert, self._key))
        except OSError:
            return ()
