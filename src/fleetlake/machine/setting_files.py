"""The project's two settings files: `fleetlake.toml` for git, and `.env` for keys.

They are read here without validation, because some settings are needed before the others: the
umask, and the variables of the marts.
"""

import logging
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from fleetlake.machine.project import ENV_NAME, SETTINGS_NAME, found_project

VARS = "vars"
"""Table of `fleetlake.toml` that overrides variables of the SQL project; it is not a setting."""

MAX_BYTES = 2**20
_DEEPEST = 20

_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@|\bpassword\s*=", re.IGNORECASE)


def settings_file() -> Path | None:
    """Return the project's `fleetlake.toml`, None if there is none. Raises: ValueError."""
    return _existing(SETTINGS_NAME)


def env_file() -> Path | None:
    """Return the project's `.env`, None if there is none. Raises: ValueError."""
    return _existing(ENV_NAME)


def _existing(name: str) -> Path | None:
    project = found_project()
    file = project / name if project else None
    if not file or not file.is_file():
        return None
    if file.stat().st_size > MAX_BYTES:
        raise _too_large(file)
    return file


def _too_large(file: Path) -> ValueError:
    return ValueError(f"{file} is larger than {MAX_BYTES // 2**20} MB")


def read_toml(file: Path) -> dict[str, Any]:
    """Return the content of a TOML file that others may have written.

    Raises: OSError, ValueError if it cannot be read, is large or deep.
    """
    with file.open("rb") as opened:
        text = opened.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise _too_large(file)
    with suppress(RecursionError):
        found = tomllib.loads(text.decode())
        if not _is_deeper(found, _DEEPEST):
            return found
    raise ValueError(f"{file} has more than {_DEEPEST} levels of nested tables or lists")


def _is_deeper(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_is_deeper(one, levels - 1) for one in inner)


def read_settings_file() -> dict[str, Any]:
    """Return the content of `fleetlake.toml`. Raises: OSError, ValueError if it cannot be read."""
    file = settings_file()
    try:
        return read_toml(file) if file else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: {error}") from None


def read_env_file() -> dict[str, str]:
    """Return the variables of `.env`. Raises: OSError, ValueError if it cannot be read."""
    file = env_file()
    found = dotenv_values(file, encoding="utf-8") if file else {}
    return {name: value for name, value in found.items() if value is not None}


def warn_of_secrets(settings: Mapping[str, Any], keys: Collection[str]) -> None:
    """Log a warning if `fleetlake.toml`, which belongs to a project's git, holds secrets."""
    if found := [*_secrets_among(settings, keys)]:
        variables = (f"FLEETLAKE_{name.replace('.', '__').upper()}" for name in found)
        logging.getLogger(__name__).warning(
            "fleetlake.toml holds secrets, which git would keep. Move them to .env, as %s.",
            ", ".join(variables),
        )


def _secrets_among(settings: Mapping[str, Any], keys: Collection[str]) -> Iterator[str]:
    """Yield the names of settings that hold a secret: one of `keys`, or a text with a password.

    >>> found = {"mgr_api_key": "k", "lake": "postgres:host=db password=p", "concurrency": 3}
    >>> found["profiles"] = {"north": {"mgr_api_id": "i"}}
    >>> [*_secrets_among(found, {"mgr_api_key", "mgr_api_id"})]
    ['mgr_api_key', 'lake', 'profiles.north.mgr_api_id']
    """
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in _secrets_among(value, keys))
        elif name in keys or (isinstance(value, str) and _PASSWORD.search(value)):
            yield name
