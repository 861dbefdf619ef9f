"""Where the secrets of push destinations are kept: in the file, or in a Prefect Secret block."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleetlake.alerting.kept_secrets import SecretStore
    from fleetlake.settings import Settings

KEPT_SECRETS = 3
"""Secrets of one URL that a block keeps. The one before the newest counts until the service has the
newest, and while it repeats messages; another change may have failed in between."""


def secret_store(settings: "Settings", block: str | None = None) -> "SecretStore":
    """Return the block that is named here or in the settings, else the file.

    Raises: UsageError for a name that Prefect does not accept, SettingsError without Prefect.
    """
    import re

    from fleetlake.alerting.kept_secrets import KeptSecrets
    from fleetlake.cli.prefect.setup import require_prefect
    from fleetlake.errors import UsageError

    if name := block or settings.push_secrets_block:
        if not re.fullmatch(r"[a-z0-9-]+", name):
            raise UsageError(
                f"A Secret block cannot be called {name!r}.",
                remedy="Use lower-case letters, digits and dashes, e.g. push-secrets.",
            )
        require_prefect()
        return BlockSecrets(name)
    return KeptSecrets(settings.push_secrets_file)


class BlockSecrets:
    """The secrets in a Prefect Secret block: for each URL, those that were made for it.

    Two setups at the same time would overwrite each other's secret, and one of them would fail at
    its test message.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.place = f"the Secret block {name}"

    def find(self, url: str) -> str | None:
        """Return the newest secret that was made for a URL."""
        return next(reversed(self._by_url().get(url, [])), None)

    def keep_new(self, url: str) -> str:
        """Make a secret for a URL, and return it once it is stored with those before it."""
        from fleetlake.alerting.kept_secrets import new_secret
        from fleetlake.cli.prefect.setup import put_secret

        secret, kept = new_secret(), self._by_url()
        put_secret(self._name, {**kept, url: [*kept.get(url, []), secret][-KEPT_SECRETS:]})
        return secret

    def _by_url(self) -> dict[str, list[str]]:
        """Return the secrets by URL; those of a block that another program wrote under no URL."""
        from fleetlake.machine.secret_block import read_block, secrets_in

        value = read_block(self._name)
        if isinstance(value, dict):
            return {str(url): [*secrets_in(found)] for url, found in value.items()}
        return {"": found} if (found := [*secrets_in(value)]) else {}
