"""The password of the Prefect server that `fleetlake prefect-server` starts.

Whoever reaches a Prefect server reads its Secret blocks and lets its workers run code. So the
server asks for a password, which is made once and kept in PREFECT_HOME, where the commands that
talk to the server find it. What the environment or Prefect's profile says of its own wins.

Nothing here imports Prefect, which reads its settings when it is first imported.
"""

import os
import secrets
import stat
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fleetlake.errors import SettingsError
from fleetlake.machine.loopback import is_loopback
from fleetlake.machine.ownership import user_name

FILE = "fleetlake-auth"
USER = "fleetlake"
SERVER_AUTH = "PREFECT_SERVER_API_AUTH_STRING"
CLIENT_AUTH = "PREFECT_API_AUTH_STRING"
CLIENT_KEY = "PREFECT_API_KEY"
API_URL = "PREFECT_API_URL"

_RANDOM_BYTES = 32
_MOST_BYTES = 4096
_OTHERS = 0o077


def prefect_home() -> Path:
    """Return the folder in which Prefect keeps what it needs."""
    return Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser().absolute()


def auth_file() -> Path:
    """Return the file that holds the password, made by the first start of the server."""
    return prefect_home() / FILE


def prefect_setting(*names: str) -> str:
    """Return the first of Prefect's settings that is set, by the environment or its profile.

    Prefect takes an empty variable for a value, which as a password would keep everybody out.
    """
    profile = _active_profile()
    values = [os.environ.get(name) or profile.get(name) for name in names]
    return next((str(value) for value in values if value), "")


def require_password() -> Path | None:
    """Let a server that is started in this process ask for a password.

    Returns the file that holds it, or None where the environment or Prefect's profile says it.
    Raises: SettingsError for a file that others can read, or that is not ours.
    """
    if prefect_setting(SERVER_AUTH):
        return None
    path = auth_file()
    os.environ[SERVER_AUTH] = _stored(path) or _made(path)
    return path


def use_password() -> None:
    """Give the password to Prefect's clients in this process and in those that it starts.

    The file's goes to a server on this machine only: another has its own. Where there is no
    file, or a password or key is set, nothing changes. Raises: SettingsError as above.
    """
    if prefect_setting(CLIENT_AUTH, CLIENT_KEY) or not is_loopback(prefect_setting(API_URL)):
        return
    if password := _stored(auth_file()):
        os.environ[CLIENT_AUTH] = password


def own_origins() -> str:
    """Return the web origins from which the server's own pages are opened, comma-separated.

    Pages of other origins can then not read answers of the server in a visitor's browser.
    """
    host = prefect_setting("PREFECT_SERVER_API_HOST") or "127.0.0.1"
    port = prefect_setting("PREFECT_SERVER_API_PORT") or "4200"
    hosts = {"127.0.0.1", "localhost"} | ({host} - {"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
    origins = {f"http://{f'[{name}]' if ':' in name else name}:{port}" for name in hosts}
    shown = urlsplit(prefect_setting("PREFECT_SERVER_UI_API_URL", "PREFECT_UI_API_URL"))
    origins |= {f"{shown.scheme}://{shown.netloc}"} if shown.netloc else set()
    return ",".join(sorted(origins))


def _stored(path: Path) -> str:
    """Return the password in a file, or nothing without one. Raises: SettingsError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unusable(path, error.strerror or "it cannot be opened") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, "it is no regular file")
        if found.st_uid != os.geteuid():
            raise _unusable(path, f"it belongs to user {user_name(found.st_uid)}")
        if found.st_mode & _OTHERS:
            raise _unusable(path, f"other users can read it (mode {stat.S_IMODE(found.st_mode):o})")
        password = file.read(_MOST_BYTES).decode("ascii", "replace").strip()
    if not (password.isascii() and password.isprintable() and password):
        raise _unusable(path, "it holds no password")
    return password


def _unusable(path: Path, why: str) -> SettingsError:
    return SettingsError(
        f"The password of the Prefect server in {path} cannot be used: {why}.",
        remedy=f"Remove the file and start the server and the workers again, which makes a new "
        f"one, or set {SERVER_AUTH} and {CLIENT_AUTH}.",
    )


def _made(path: Path) -> str:
    """Make a password and its file, or return the one that another process made meanwhile.

    The file appears whole: it is written under another name, and linked to its own only if
    there is none. Raises: SettingsError.
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
        return _stored(path)
    except OSError as error:
        raise SettingsError(
            f"The password of the Prefect server cannot be kept in {path}: {error.strerror}.",
            remedy=f"Set PREFECT_HOME to a folder of this user's own, or set {SERVER_AUTH}.",
        ) from None
    return password


def _active_profile() -> dict[str, Any]:
    """Return the settings of Prefect's profile in force, if it can be read."""
    path = os.environ.get("PREFECT_PROFILES_PATH") or prefect_home() / "profiles.toml"
    with suppress(OSError, ValueError):
        read = tomllib.loads(Path(path).read_text("utf-8"))
        profiles = read.get("profiles", {})
        found = profiles.get(os.environ.get("PREFECT_PROFILE") or read.get("active"))
        return found if isinstance(found, dict) else {}
    return {}
