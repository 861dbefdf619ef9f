"""The settings of this process, and what is wrong with them in words."""

import logging
import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, get_origin

from pydantic import ValidationError

from fleetlake.errors import SettingsError
from fleetlake.machine.project import ENV_NAME, SETTINGS_NAME
from fleetlake.machine.setting_files import read_settings_file, warn_of_secrets
from fleetlake.settings.schema import PREFIX, SECRET_SETTINGS, Settings

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

NO_SETTINGS = frozenset(
    {"BROWSER_ENV", "BUILD_FILE", "BUILD_SNAPSHOT", "SPARK_PYTHON", "TEST_POSTGRES"}
)
"""Variables with this prefix that are not settings: a build or a test sets them."""

ALIKE, SAME = 0.6, 0.85
"""Similarity of names (`difflib`) for a hint, and for a misspelt setting."""

_LOG = logging.getLogger(__name__)


@cache
def load_settings() -> Settings:
    """Return the settings of this process, read on the first call only.

    A variable of almost the same name as a setting is a misspelt setting, and an error as in the
    files: a limit that does not apply would be noticed too late. One that resembles no setting may
    belong to another release or to a script, so it is only warned of.

    Raises: SettingsError naming each invalid setting.
    """
    require_known(os.environ)
    try:
        settings = Settings()
        warn_of_secrets(read_settings_file(), SECRET_SETTINGS)
        if settings.header_names:
            logging.getLogger(__name__).warning(
                "FLEETLAKE_HEADER_NAMES is deprecated and a later release removes it. Move the "
                "names to [vendor_words] in fleetlake.toml (docs/how-to/connect.md)."
            )
    except ValidationError as error:
        faults = "; ".join(
            _fault_in_words(fault) for fault in error.errors(include_input=False, include_url=False)
        )
        raise SettingsError(
            f"Invalid settings: {faults}.",
            remedy="Fix them in the environment, in .env or in fleetlake.toml.",
        ) from None
    except ValueError as error:
        raise SettingsError(
            f"fleetlake.toml or .env cannot be read: {error}.", remedy="Fix the file or remove it."
        ) from None
    return settings


def require_known(names: Iterable[str]) -> None:
    """Warn of variables that are not settings. Raises: SettingsError for misspelt settings."""
    unknown = dict(unknown_variables(names))
    misspelt = [f"{n} ({meant}?)" for n, meant in unknown_variables(unknown, alike=SAME) if meant]
    if misspelt:
        raise SettingsError(
            f"There is no setting {', '.join(misspelt)}.", remedy="Rename it, or unset it."
        )
    for name, meant in unknown.items():
        suggestion = f" ({meant}?)" if meant else ""
        _LOG.warning("There is no setting %s%s, so it has no effect.", name, suggestion)


def unknown_variables(
    names: Iterable[str], *, alike: float = ALIKE
) -> Iterator[tuple[str, str | None]]:
    """Yield variables that look like settings but are not, each with the nearest setting, if any.

    >>> list(unknown_variables(["HOME", "FLEETLAKE_LAKE", "FLEETLAKE_BASE_ULR"]))
    [('FLEETLAKE_BASE_ULR', 'FLEETLAKE_BASE_URL')]
    """
    fields = Settings.model_fields
    nested = {n.upper() for n, field in fields.items() if get_origin(field.annotation) is dict}
    plain = {name.upper() for name in fields} | NO_SETTINGS
    for name in sorted(names):
        if not name.upper().startswith(PREFIX):
            continue
        head, delimiter, member = name.upper().removeprefix(PREFIX).partition("__")
        known = nested if delimiter else plain
        if head not in known:
            nearest = get_close_matches(head, sorted(known), n=1, cutoff=alike)
            yield name, f"{PREFIX}{nearest[0]}{delimiter}{member}" if nearest else None


def _fault_in_words(fault: "ErrorDetails") -> str:
    """Return which setting is wrong and why, without pydantic's prefix."""
    name = "__".join(part for part in fault["loc"] if isinstance(part, str))
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        nearest = get_close_matches(name, Settings.model_fields, n=1)
        suggestion = f" ({nearest[0]}?)" if nearest else ""
        # Variables are requested by name, so an unknown one is in a file.
        file = SETTINGS_NAME if name in read_settings_file() else ENV_NAME
        return f"{file}: there is no setting {name}{suggestion}"
    reason = fault["msg"].removeprefix("Value error, ")
    return f"FLEETLAKE_{name.upper()}: {reason}" if name else reason
