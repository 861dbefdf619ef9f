"""The password of the Prefect server that `fleetlake prefect server` starts.

Anyone who can reach a Prefect server can read its Secret blocks and run code on its workers. So
the server requires a password. It is created once and stored in PREFECT_HOME, where our commands
find it. A password set in the environment or in Prefect's profile takes precedence.

This module does not import Prefect, which reads its settings when it is first imported.
"""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fleetlake.errors import SettingsError
from fleetlake.machine.loopback import is_loopback
from fleetlake.machine.ownership import user_name
from fleetlake.machine.setting_files import read_toml

FILE = "fleetlake-auth"
USER = "fleetlake"
SERVER_AUTH = "PREFECT_SERVER_API_AUTH_STRING"
CLIENT_AUTH = "PREFECT_API_AUTH_STRING"
CLIENT_KEY = "PREFECT_API_KEY"
API_URL = "PREFECT_API_URL"

_RANDOM_BYTES = 32
_MAX_BYTES = 4096
_OTHERS = 0o077


def prefect_home() -> Path:
    """Return Prefect's folder."""
    return Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser().absolute()


def auth_file() -> Path:
    """Return the password file; the first start of the server creates it."""
    return prefect_home() / FILE


def prefect_setting(*names: str) -> str:
    """Return the first of these Prefect settings that the environment or its profile sets.

    Empty variables are skipped: Prefect would use one as the password and lock everybody out.
    """
    profile = _active_profile()
    values = [os.environ.get(name) or profile.get(name) for name in names]
    return next((str(value) for value in values if value), "")


def require_password() -> Path | None:
    """Make a server started in this process require a password.

    Returns the password file, or None if the environment or Prefect's profile sets the password.
    Raises: SettingsError for a file that others can read, or that belongs to another user.
    """
    if prefect_setting(SERVER_AUTH):
        return None
    path = auth_file()
    os.environ[SERVER_AUTH] = _read_password(path) or _create_password(path)
    return path


def use_password() -> None:
    """Give the password to Prefect's clients in this process and in its children.

    The stored password is used only for a server on this machine. Nothing changes if there is no
    file, or if a password or key is already set. Raises: SettingsError as above.
    """
    if not prefect_setting(CLIENT_AUTH) and (password := client_password()):
        os.environ[CLIENT_AUTH] = password


def client_password() -> str:
    """Return the password that clients send, "" if they send none or a key instead.

    Raises: SettingsError as above.
    """
    if given := prefect_setting(CLIENT_AUTH):
        return given
    if prefect_setting(CLIENT_KEY) or not is_loopback(prefect_setting(API_URL)):
        return ""
    return _read_password(auth_file())


def own_origins() -> str:
    """Return the origins of the server's own pages, comma-separated.

    Pages of any other origin then cannot read the server's responses in a visitor's browser.
    """
    host = prefect_setting("PREFECT_SERVER_API_HOST") or "127.0.0.1"
    port = prefect_setting("PREFECT_SERVER_API_PORT") or "4200"
    hosts = {"127.0.0.1", "localhost"} | ({host} - {"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
    origins = {f"http://{f'[{name}]' if ':' in name else name}:{port}" for name in hosts}
    shown = urlsplit(prefect_setting("PREFECT_SERVER_UI_API_URL", "PREFECT_UI_API_URL"))
    origins |= {f"{shown.scheme}://{shown.netloc}"} if shown.netloc else set()
    return ",".join(sorted(origins))


def _read_password(path: Path) -> str:
    """Return the password in a file, or "" if there is no file. Raises: SettingsError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unusable_file(path, error.strerror or "it cannot be opened") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable_file(path, "it is not a regular file")
        if found.st_uid != os.geteuid():
            raise _unusable_file(path, f"it belongs to user {user_name(found.st_uid)}")
        if found.st_mode & _OTHERS:
            mode = stat.S_IMODE(found.st_mode)
            raise _unusable_file(path, f"other users can read it (mode {mode:o})")
        password = file.read(_MAX_BYTES).decode("ascii", "replace").strip()
    if not (password.isascii() and password.isprintable() and password):
        raise _unusable_file(path, "it holds no password")
    return password


def _unusable_file(path: Path, reason: str) -> SettingsError:
    return SettingsError(
        f"The password of the Prefect server in {path} cannot be used: {reason}.",
        remedy=f"Remove the file and restart the server and the workers, which creates a new one, "
        f"or set {SERVER_AUTH} and {CLIENT_AUTH}.",
    )


def _create_password(path: Path) -> str:
    """Create a password and its file; return another process's password if that came first.

    The file is written under a temporary name and then linked, so no process sees it half written.
    Raises: SettingsError.
    """
    password = f"{USER}:{secrets.token_urlsafe(_RANDOM_BYTES)}"
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - by its descriptor
            file.write(f"{password}\n")
        try:
            os.link(draft, path)
        finally:
            draft.unlink()
    except FileExistsError:
        return _read_password(path)
    except OSError as error:
        raise SettingsError(
            f"The password of the Prefect server cannot be stored in {path}: {error.strerror}.",
            remedy=f"Set PREFECT_HOME to a folder that this user owns, or set {SERVER_AUTH}.",
        ) from None
    return password


def _active_profile() -> dict[str, Any]:
    """Return the settings of Prefect's active profile, if it can be read."""
    path = os.environ.get("PREFECT_PROFILES_PATH") or prefect_home() / "profiles.toml"
    with suppress(OSError, ValueError):
        read = read_toml(Path(path))
        profiles = read.get("profiles", {})
        found = profiles.get(os.environ.get("PREFECT_PROFILE") or read.get("active"))
        return found if isinstance(found, dict) else {}
    return {}
