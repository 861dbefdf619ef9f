"""What the commands of `fleetlake alerts` share: account, items by id, confirmations, secrets.

The secrets of push destinations are kept in the file, or in a Prefect Secret block.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from fleetlake.alerting.account_settings import AccountSettings
    from fleetlake.alerting.kept_secrets import SecretStore
    from fleetlake.alerting.push_destinations import PushDestination
    from fleetlake.settings import Settings


SHORTEST_PREFIX = 4
"""Minimum length of the beginning of an id that stands for the id."""

Result = TypeVar("Result")
Item = TypeVar("Item")

ProfileOption = Annotated[str | None, typer.Option(help="The account; the main one if omitted.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def chosen_account(profile: str | None) -> "Settings":
    """Return the settings of a profile, or of the main account."""
    from fleetlake.settings import load_settings

    settings = load_settings()
    return settings.account(profile) if profile else settings


def on_account(
    profile: str | None, act: Callable[["AccountSettings"], Awaitable[Result]]
) -> Result:
    """Return the result of `act` with the alert settings of an account."""
    import asyncio

    from fleetlake.alerting.account_settings import account_settings

    async def run() -> Result:
        async with account_settings(chosen_account(profile)) as settings:
            return await act(settings)

    return asyncio.run(run())


def picked(
    items: Sequence[Item], word: str, names: Callable[[Item], Sequence[str]], *, what: str
) -> Item:
    """Return the item that a word names: by one of its names, or by the beginning of its first.

    Raises: UsageError with the nearest name if there is none, or if there are several.
    """
    from difflib import get_close_matches

    from fleetlake.errors import UsageError

    found = [item for item in items if word in names(item)]
    if not found and len(word) >= SHORTEST_PREFIX:
        found = [item for item in items if names(item)[0].startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(names(item)[0] for item in found)
        raise UsageError(f"{word!r} stands for several {what}s: {ids}.", remedy="Name one by id.")
    known = [name for item in items for name in names(item) if name]
    nearest = get_close_matches(word, known, n=1)
    suggestion = f"Did you mean {nearest[0]}? " if nearest else ""
    raise UsageError(
        f"There is no {what} {word!r}.",
        remedy=f"{suggestion}`fleetlake alerts {what}s list` lists them all.",
    )


def picked_destination(found: Sequence["PushDestination"], word: str) -> "PushDestination":
    """Return the destination that an id, the beginning of one, a name or a URL names.

    Raises: as `picked`.
    """
    return picked(found, word, lambda d: (d.destination_id, d.name, d.url), what="destination")


def is_agreed(question: str, *, yes: bool) -> bool:
    """Return whether the user agrees. Raises: UsageError if there is no terminal to ask on."""
    from fleetlake.errors import UsageError
    from fleetlake.text.plain import plain

    if yes:
        return True
    try:
        return typer.confirm(plain(question))  # the service gave the names in it
    except typer.Abort:
        raise UsageError("Nothing was changed.", remedy="Add --yes to skip the question.") from None


def changes_of(**given: Any) -> dict[str, Any]:
    """Return the fields that were given. Raises: UsageError if there is none."""
    from fleetlake.errors import UsageError

    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        raise UsageError("Nothing to change.", remedy="Name what to change; see --help.")
    return fields


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
