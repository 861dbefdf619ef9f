"""The project's two settings files: `fleetlake.toml` for git, and `.env` for keys.

They are read here without validation, because some settings are needed before the others: the
umask, and the variables of the marts.
"""

import logging
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from fleetlake.machine.project import ENV_NAME, SETTINGS_NAME, found_project

VARS = "vars"
"""Table of `fleetlake.toml` that overrides variables of the SQL project; it is not a setting."""

_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@|\bpassword\s*=", re.IGNORECASE)


def settings_file() -> Path | None:
    """Return the project's `fleetlake.toml`, None if there is none."""
    return _existing(SETTINGS_NAME)


def env_file() -> Path | None:
    """Return the project's `.env`, None if there is none."""
    return _existing(ENV_NAME)


def _existing(name: str) -> Path | None:
    project = found_project()
    file = project / name if project else None
    return file if file and file.is_file() else None


def read_settings_file() -> dict[str, Any]:
    """Return the content of `fleetlake.toml`. Raises: OSError, ValueError if it cannot be read."""
    file = settings_file()
    return tomllib.loads(file.read_text("utf-8")) if file else {}


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
