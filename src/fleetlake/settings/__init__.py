"""Settings, read once from the environment, `.env` and `fleetlake.toml`, then frozen.

Each overrides those after it. The files are the project's, and relative folders start there.
"""

from fleetlake.startup import without_plugins

with without_plugins():
    from fleetlake.settings.loaded import load_settings, unknown_variables
    from fleetlake.settings.schema import (
        BUILD_MEMORY,
        DAY_ROWS,
        KEY_SETTINGS,
        PREFIX,
        SECRET_SETTINGS,
        WRONG_KEYS,
        ClockTrust,
        ExportMode,
        Settings,
    )
    from fleetlake.settings.vendor_words import VendorWords

__all__ = [
    "BUILD_MEMORY",
    "DAY_ROWS",
    "KEY_SETTINGS",
    "PREFIX",
    "SECRET_SETTINGS",
    "WRONG_KEYS",
    "ClockTrust",
    "ExportMode",
    "Settings",
    "VendorWords",
    "load_settings",
    "unknown_variables",
]
