"""The umask of this process: who may read the files that fleetlake creates.

A lake records where people drive and what they do. So new folders have mode 0700 and new files
0600, unless FLEETLAKE_UMASK says otherwise.

The umask is read here, before the other settings, because folders and logs are created before
those are loaded. An invalid value counts as the default until the settings are loaded and reject
it.
"""

import os
from contextlib import suppress

from fleetlake.errors import SettingsError
from fleetlake.machine.setting_files import read_env_file, read_settings_file

DEFAULT_UMASK = "077"
VARIABLE = "FLEETLAKE_UMASK"

_OWNER = 0o700
_is_applied = False


def read_umask(text: str) -> int:
    """Return the umask that an octal text denotes.

    Raises: ValueError for any other text, and for a umask that restricts the owner.

    >>> oct(read_umask("027"))
    '0o27'
    """
    digits = text.strip().removeprefix("0o")
    if not 1 <= len(digits) <= 4 or set(digits) - set("01234567"):  # noqa: PLR2004 - as chmod has it
        raise ValueError("must be an octal umask, such as 077 or 027")
    value = int(digits, 8)
    if value > 0o777 or value & _OWNER:  # noqa: PLR2004 - likewise
        raise ValueError("must leave the owner all rights, as 077 and 027 do")
    return value


def umask_text(text: str) -> str:
    """Return a valid setting of the umask without spaces. Raises: ValueError for any other."""
    read_umask(text)
    return text.strip()


def configured_umask() -> int:
    """Return the umask set by the environment, `.env` or fleetlake.toml, or the default."""
    text = os.environ.get(VARIABLE) or _from_files() or DEFAULT_UMASK
    try:
        return read_umask(text)
    except ValueError:
        return read_umask(DEFAULT_UMASK)


def apply_umask(*, again: bool = False) -> None:
    """Set the umask of this process and its children: once, or again if `again` is true.

    A umask applies to the whole process, whose threads may write files at any time. So it is set
    once and not around each file.
    """
    global _is_applied  # noqa: PLW0603 - a process has one umask
    if again or not _is_applied:
        os.umask(configured_umask())
        _is_applied = True


def _from_files() -> str | None:
    """Return the umask in the project's files, if they can be read and set one."""
    with suppress(OSError, ValueError, SettingsError):
        value = read_env_file().get(VARIABLE) or read_settings_file().get("umask")
        return value if isinstance(value, str) else None
    return None
