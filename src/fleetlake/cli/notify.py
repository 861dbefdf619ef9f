"""`fleetlake notify`: people are told about new findings."""

from typing import Annotated

import typer

from fleetlake.cli.screen import console
from fleetlake.errors import UsageError
from fleetlake.text.wording import counted


def notify(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")
    ] = False,
    test: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Send a test message to one place.")
    ] = None,
) -> None:
    """Tell people about new findings, by mail or chat, each once.

    The places are settings: FLEETLAKE_NOTIFY__<NAME>__URL and others (docs/how-to/notify.md). Each
    run sends at most one message to each place, and first snoozes the findings within a maintenance
    window. The deployments do it after each build.
    """
    from fleetlake.notifying.notify import line_of, send_test, title_of
    from fleetlake.notifying.notify import notify as tell
    from fleetlake.settings import load_settings

    settings, screen = load_settings(), console()
    is_unset = not (settings.notify or settings.maintenance)
    if is_unset or (test and test not in settings.notify):
        known = f"Places are: {', '.join(settings.notify)}. " if settings.notify else ""
        raise UsageError(
            f"There is no place {test!r}." if test else "No address for messages is set.",
            remedy=f"{known}Set FLEETLAKE_NOTIFY__<NAME>__URL; docs/how-to/notify.md has examples.",
        )
    if test:
        send_test(test, settings.notify[test])
        screen.print(f"{test} took a test message.")
        return
    for one in tell(settings, is_dry=dry_run):
        what = f"{counted(len(one.findings), 'finding')}"
        if not one.findings:
            screen.print(f"{one.place}: nothing to send.")
        elif one.is_sent:
            screen.print(f"{one.place}: {what} sent.")
        else:
            screen.print(f"{one.place}: {what} would be sent ({title_of(one.findings)}).")
            for finding in one.findings:
                screen.print(f"  {line_of(finding)}")
