"""The umask of this process: who may read the files that fleetlake makes.

A lake holds where people drive and who did what, and its catalog can be changed by whoever can
write it. So new folders have mode 0700 and new files 0600, unless FLEETLAKE_UMASK says otherwise.

It is read here, before any other setting, because folders and logs are made before settings are
needed. A value that cannot be used counts as the default until the settings are read, which
refuse it.
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
    """Return an octal umask.

    Raises: ValueError for what is no umask, and for one that would shut out the owner.

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


def wanted_umask() -> int:
    """Return the umask of the environment, `.env` or fleetlake.toml, or else the default."""
    text = os.environ.get(VARIABLE) or _from_files() or DEFAULT_UMASK
    try:
        return read_umask(text)
    except ValueError:
        return read_umask(DEFAULT_UMASK)


def apply_umask(*, again: bool = False) -> None:
    """Give this process, and those that it starts, the umask: once, or `again`.

    A umask belongs to the whole process, whose threads write files at any time. So it is set
    and stays, rather than being set for each file.
    """
    global _is_applied  # noqa: PLW0603 - a process has one umask
    if again or not _is_applied:
        os.umask(wanted_umask())
        _is_applied = True


def _from_files() -> str | None:
    """Return what the project's files say, if they can be read."""
    with suppress(OSError, ValueError, SettingsError):
        value = read_env_file().get(VARIABLE) or read_settings_file().get("umask")
        return value if isinstance(value, str) else None
    return None
