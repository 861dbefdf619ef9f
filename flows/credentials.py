"""The service's keys, from the environment or from Prefect Secret blocks.

The environment takes precedence, so a worker can use keys that the server never sees. Keys stay
`SecretStr` and never appear in parameters, results or log lines.
"""

from typing import Any

from prefect.blocks.system import Secret
from pydantic import SecretStr

from fleetlake.account import Account
from fleetlake.settings import KEY_SETTINGS, Settings, load_settings

SECRETS = (*KEY_SETTINGS, "v3_token")
"""Settings that can come from a Secret block."""


def block_name(setting: str) -> str:
    """Return the name of a setting's Secret block.

    >>> block_name("portal_api_id")
    'fleetlake-portal-api-id'
    """
    return f"fleetlake-{setting.replace('_', '-')}"


def settings_of_run() -> Settings:
    """Return this process's settings; missing keys and profiles come from Secret blocks."""
    settings = load_settings()
    found = {
        name: SecretStr(str(value))
        for name in SECRETS
        if not getattr(settings, name).get_secret_value() and (value := _read_block(name))
    }
    stored = _read_block("profiles") or {}
    profiles = {name: Account.model_validate(account) for name, account in stored.items()}
    return settings.model_copy(update={**found, "profiles": profiles | settings.profiles})


def _read_block(setting: str) -> Any:
    try:
        block = Secret.load(block_name(setting))
    except ValueError:  # no such block; a missing key is reported when it is needed
        return None
    return block.get() if isinstance(block, Secret) else None
