"""What the commands of `fleetlake alerts` share: account, and items by id."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fleetlake.errors import UsageError
from fleetlake.text.wording import did_you_mean

if TYPE_CHECKING:
    from fleetlake.alerting.account_settings import AccountSettings
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
    found = [item for item in items if word in names(item)]
    if not found and len(word) >= SHORTEST_PREFIX:
        found = [item for item in items if names(item)[0].startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(names(item)[0] for item in found)
        raise UsageError(f"{word!r} stands for several {what}s: {ids}.", remedy="Name one by id.")
    known = [name for item in items for name in names(item) if name]
    raise UsageError(
        f"There is no {what} {word!r}.",
        remedy=f"{did_you_mean(word, known)}`fleetlake alerts {what}s list` lists them all.",
    )


def picked_destination(found: Sequence["PushDestination"], word: str) -> "PushDestination":
    """Return the destination that an id, the beginning of one, a name or a URL names.

    Raises: as `picked`.
    """
    return picked(found, word, lambda d: (d.destination_id, d.name, d.url), what="destination")


def changes_of(**given: Any) -> dict[str, Any]:
    """Return the fields that were given. Raises: UsageError if there is none."""
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        raise UsageError("Nothing to change.", remedy="Name what to change; see --help.")
    return fields
