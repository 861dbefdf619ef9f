"""`fleetlake alerts destinations`: where the service pushes alerts to."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetlake.cli.alerts.connecting import (
    DryRunOption,
    ProfileOption,
    changes_of,
    chosen_account,
    on_account,
    picked_destination,
)
from fleetlake.cli.command_group import ListGroup, destination_ids
from fleetlake.cli.formats import FormatOption, OutputFormat, YesOption, is_agreed, print_records
from fleetlake.cli.screen import console, print_rows, table_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from fleetlake.alerting.account_settings import AccountSettings, PushTest
    from fleetlake.alerting.push_destinations import PushDestination

FIELDS = (
    *("destination_id", "account_id", "name", "url", "state"),
    *("last_error_at", "last_error_text", "updated_at"),
)
"""Keys of the JSON output and columns of the CSV output."""

DestinationArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Its id, the beginning of it, its name or its URL.",
        autocompletion=destination_ids,
    ),
]

destinations = typer.Typer(
    cls=ListGroup,
    name="destinations",
    help="List, create, change, test and resume push destinations at the service. Without a "
    "sub-command, list them.",
)


@destinations.command("list")
def list_destinations(
    output: FormatOption = OutputFormat.TABLE, *, profile: ProfileOption = None
) -> None:
    """List the push destinations of the account, with their delivery states.

    active: pushes succeed. unreachable: a push failed within the last day, and the service
    repeats it. suspended: the service has given up; `resume` ends that. disabled: a user has
    switched it off.
    """
    found, now = on_account(profile, _read)
    if output is not OutputFormat.TABLE:
        _print(found, now, output)
        return
    heads = ("id", "name", "url", "state", "last error")
    rows = [(d.destination_id, d.name, d.url, d.state(now), _last_error(d)) for d in found]
    console().print(table_or_none("push destinations", heads, rows))


@destinations.command("show")
def show_destination(
    destination: DestinationArgument,
    output: FormatOption = OutputFormat.TABLE,
    *,
    profile: ProfileOption = None,
) -> None:
    """Show one push destination and its delivery state. The service never shows its secret."""
    found, now = on_account(profile, _read)
    _print([picked_destination(found, destination)], now, output)


@destinations.command("add")
def add_destination(
    url: Annotated[str, typer.Option(help="Address of the receiver, ending in /push.")],
    name: Annotated[str, typer.Option(help="Name of the destination.")] = "fleetlake",
    *,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Create it without pushing anything to it.")
    ] = False,
    profile: ProfileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Create a push destination with a new secret.

    The secret is stored in FLEETLAKE_PUSH_SECRETS_FILE before it is sent, and never printed. To
    have alerts pushed, a rule must name the destination: `fleetlake alerts setup` does both.
    """
    from fleetlake.alerting.kept_secrets import KeptSecrets

    store = KeptSecrets(chosen_account(profile).push_secrets_file)
    if dry_run:
        console().print(f"Would create the destination {url}, its secret in {store.place}.")
        return

    async def act(settings: "AccountSettings") -> "PushDestination":
        await settings.refuse_shared_url(url)
        secret = store.find(url) or store.keep_new(url)
        return await settings.add_destination(
            name=name, url=url, secret=secret, is_enabled=not disabled
        )

    made = on_account(profile, act)
    console().print(f"Destination {made.destination_id} created. Its secret is in {store.place}.")


@destinations.command("change")
def change_destination(
    destination: DestinationArgument,
    url: Annotated[str | None, typer.Option(help="New address of the receiver.")] = None,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    *,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Push alerts to it, or stop pushing.")
    ] = None,
    new_secret: Annotated[
        bool,
        typer.Option(
            "--new-secret",
            help="Give it a new secret. The receiver accepts both until you remove the old one "
            "from the file.",
        ),
    ] = False,
    profile: ProfileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Change the address, the name or the secret of a push destination, or switch it on or off.

    To stop pushes for a while, disable it: only the service itself can suspend a destination.
    """
    from fleetlake.alerting.kept_secrets import KeptSecrets

    store = KeptSecrets(chosen_account(profile).push_secrets_file)
    fields = changes_of(
        endpoint={"url": url} if url else None,
        name=name,
        enabled=enable,
        authentication={} if new_secret else None,
    )

    def fields_of(found: "PushDestination") -> dict[str, Any]:
        if new_secret and not dry_run:
            fields["authentication"] = {"secret": store.keep_new(url or found.url)}
        return fields

    _change(destination, fields_of, profile, dry_run=dry_run)


@destinations.command("resume")
def resume_destination(
    destination: DestinationArgument,
    *,
    profile: ProfileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Let the service push to a suspended or unreachable destination again.

    It tries at once. What it gave up while the destination was suspended is not pushed again: the
    next load of alerts reads it.
    """
    _change(destination, lambda _: {"suspended": False}, profile, dry_run=dry_run)


@destinations.command("test")
def send_test(destination: DestinationArgument, *, profile: ProfileOption = None) -> None:
    """Let the service send a test message, and say whether it was delivered.

    Ends with exit code 5 if it was not.
    """

    async def act(settings: "AccountSettings") -> tuple["PushDestination", "PushTest"]:
        found = picked_destination(await settings.destinations(), destination)
        return found, await settings.test_destination(found.destination_id)

    found, result = on_account(profile, act)
    if not result.is_delivered:
        raise result.failure(
            found.url,
            remedy="Check that `fleetlake receive` runs behind that address, and that it knows "
            "the destination's secret.",
        )
    console().print(f"Delivered to {found.url}{result.details and f': {result.details}'}.")


@destinations.command("remove")
def remove_destination(
    destination: DestinationArgument,
    *,
    yes: YesOption = False,
    profile: ProfileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Delete a push destination. Its secret stays in the file until you remove it there."""
    found = picked_destination(on_account(profile, _read)[0], destination)
    if dry_run:
        console().print(f"Would delete destination {found.destination_id} ({found.url}).")
    elif is_agreed(f"Delete destination {found.name} ({found.url})?", yes=yes):
        on_account(profile, lambda settings: settings.remove_destination(found.destination_id))
        console().print(f"Destination {found.destination_id} deleted.")


async def _read(settings: "AccountSettings") -> tuple[list["PushDestination"], "datetime"]:
    return await settings.destinations(), settings.now()


def _print(found: "Iterable[PushDestination]", now: "datetime", output: OutputFormat) -> None:
    """Print all fields: as records for people, or as rows for programs."""
    rows = [
        [d.state(now) if name == "state" else getattr(d, name) for name in FIELDS] for d in found
    ]
    if output is OutputFormat.TABLE:
        print_rows(console(), FIELDS, rows)
    else:
        print_records(output, FIELDS, rows)


def _last_error(destination: "PushDestination") -> str:
    if destination.last_error_at is None:
        return ""
    return f"{destination.last_error_at:%Y-%m-%d %H:%M} {destination.last_error_text or ''}".strip()


def _change(
    word: str,
    fields_of: "Callable[[PushDestination], dict[str, Any]]",
    profile: str | None,
    *,
    dry_run: bool,
) -> None:
    """Change the fields of a destination, in the service's names, and print which ones."""

    async def act(settings: "AccountSettings") -> str:
        found = picked_destination(await settings.destinations(), word)
        fields = fields_of(found)
        names = ", ".join(sorted(fields))
        if dry_run:
            return f"Would change {names} of destination {found.destination_id}."
        await settings.change_destination(found.destination_id, fields)
        return f"Destination {found.destination_id}: {names} changed."

    console().print(on_account(profile, act))
