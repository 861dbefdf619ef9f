"""`fleetlake alerts setup`: have alerts pushed to a receiver, with one command."""

from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.alerts.connecting import DryRunOption, ProfileOption, chosen_account, on_account
from fleetlake.cli.alerts.rules import AccountsOption, GroupsOption, TypesOption
from fleetlake.cli.screen import console

if TYPE_CHECKING:
    from fleetlake.alerting.account_settings import AccountSettings
    from fleetlake.alerting.push_setup import SetupStep


def set_up_pushes(
    url: Annotated[
        str,
        typer.Option(help="Address of the receiver as the service reaches it, ending in /push."),
    ],
    name: Annotated[str, typer.Option(help="Name of the destination.")] = "fleetlake",
    types: TypesOption = None,
    account: AccountsOption = None,
    group: GroupsOption = None,
    *,
    test: Annotated[
        bool, typer.Option("--test/--no-test", help="Let the service send a test message first.")
    ] = True,
    new_secret: Annotated[
        bool, typer.Option("--new-secret", help="Give the destination a new secret in any case.")
    ] = False,
    profile: ProfileOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Have the service push alerts to a receiver: destination, test message, rule.

    Start `fleetlake receive` first, so that it takes the test message. The destination gets a
    fresh secret, which is written to FLEETLAKE_PUSH_SECRETS_FILE before it is sent and is printed
    nowhere; the receiver reads it there. The rule covers the types that the marts use (failover,
    wan, battery, availability, location), or those that --type names, in the account of the keys,
    or in those that --account and --group name.

    You can stop it at any moment and run it again: it continues where it stopped. A second run
    changes nothing, except that it adds types that the rule lacks, and enables or resumes the
    destination.
    """
    from fleetlake.alerting.chosen_types import DEFAULT_GROUPS, chosen_types
    from fleetlake.alerting.kept_secrets import KeptSecrets
    from fleetlake.alerting.push_setup import PushSetup, Wanted

    store = KeptSecrets(chosen_account(profile).push_secrets_file)
    wanted = Wanted(
        url=url,
        name=name,
        types=chosen_types(types or DEFAULT_GROUPS),
        accounts=account or (),
        groups=group or (),
        has_test=test,
        has_new_secret=new_secret,
    )
    screen = console()

    def on_step(step: "SetupStep") -> None:
        mark = "would " if dry_run and step.is_change else ""
        screen.print(f"- {mark}{step.what}")

    async def act(account: "AccountSettings") -> list["SetupStep"]:
        return await PushSetup(account, store, wanted, dry_run, on_step).run()

    steps = on_account(profile, act)
    if not any(step.is_change for step in steps):
        screen.print("Everything is set up; nothing was changed.")
    elif not dry_run:
        screen.print("Done. `fleetlake alerts watch` shows alerts as they arrive.")
