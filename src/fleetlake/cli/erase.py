"""`fleetlake erase`: remove a device, a person or an account everywhere."""

from typing import TYPE_CHECKING, Annotated

import typer

from fleetlake.cli.formats import YesOption, is_agreed
from fleetlake.cli.screen import console, print_copies, table_or_none
from fleetlake.errors import UsageError
from fleetlake.text.wording import counted

if TYPE_CHECKING:
    from fleetlake.cli.screen import Screen
    from fleetlake.privacy.receipt import Receipt


def erase(
    routers: Annotated[
        list[int] | None,
        typer.Option(
            "--router", metavar="ID", help="A router or access point, with its interfaces."
        ),
    ] = None,
    users: Annotated[
        list[int] | None, typer.Option("--user", metavar="ID", help="A person.")
    ] = None,
    accounts: Annotated[
        list[int] | None,
        typer.Option(
            "--account",
            metavar="ID",
            help="An account, with its sub-accounts, users and routers. All three are repeatable.",
        ),
    ] = None,
    backups: Annotated[
        list[str] | None,
        typer.Option(
            "--backup", metavar="TARGET", help="List the backups there that still hold it."
        ),
    ] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the rows, and change nothing.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Remove a device, a person or an account from the lake, its marts and its known copies.

    Its rows are deleted; its name, serial number and other identifiers are replaced in the texts of
    other rows. All marts are rebuilt, files and catalog are rewritten without the deleted values,
    and published snapshots and exports are brought up to date. No later load brings it back.

    It cannot be undone. It also ends time travel: only the newest snapshot of the lake stays. If
    it is stopped, run it again. No load may run meanwhile.
    """
    from fleetlake.endpoints.relations import Thing
    from fleetlake.privacy.erase import erase as erase_things
    from fleetlake.privacy.receipt import raise_unfinished
    from fleetlake.settings import load_settings

    named = {Thing.ROUTER: routers, Thing.USER: users, Thing.ACCOUNT: accounts}
    wanted = [(thing, id_) for thing, ids in named.items() for id_ in ids or ()]
    if not wanted:
        raise UsageError("Nothing to erase.", remedy="Name --router, --user or --account.")
    settings, screen = load_settings(), console()
    if dry_run or not yes:
        _print(screen, erase_things(settings, wanted, backups=backups or (), is_dry_run=True))
    if dry_run:
        return
    question = "Erase this? It cannot be undone."
    if not is_agreed(question, yes=yes, otherwise="Nothing was erased."):
        screen.print("Nothing was erased.")
        return
    progress = console(stderr=True)
    receipt = erase_things(
        settings,
        wanted,
        backups=backups or (),
        on_step=lambda step: progress.print(f"{step.capitalize()} …"),
    )
    _print(screen, receipt)
    raise_unfinished(receipt.outlets)


def _print(screen: "Screen", receipt: "Receipt") -> None:
    things = [counted(n, thing.replace("_", " ")) for thing, n in receipt.things.items()]
    rows = [(t.table, t.deleted, t.redacted, t.files_rewritten) for t in receipt.tables]
    columns = ("table", "rows deleted", "rows redacted", "files rewritten")
    screen.print(table_or_none("matching rows", columns, rows))
    print_copies(screen, receipt.outlets)
    said = "Would be erased" if receipt.is_dry_run else "Erased"
    at = f"{receipt.erased_at:%Y-%m-%d %H:%M} UTC"
    screen.print(f"{said}: {', '.join(things)} ({at}, {receipt.seconds:.1f} s).")
