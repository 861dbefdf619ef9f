"""`fleetlake doctor`: is this installation ready to load?"""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from fleetlake.cli.formats import FormatOption, OutputFormat, print_records
from fleetlake.cli.screen import console
from fleetlake.errors import FleetlakeError
from fleetlake.text.plain import plain, plain_lines

if TYPE_CHECKING:
    from fleetlake.monitoring.doctor import Check
    from fleetlake.settings import Settings

FIELDS = ("check", "is_ok", "found", "remedy")
"""Keys of the JSON output and columns of the CSV output."""


def doctor(output: FormatOption = OutputFormat.TABLE) -> None:
    """Check packages, settings, lake, disk, keys and service, and say what to fix.

    Ends with the exit code of the first failed check. Makes one call to the service, and one to
    its v3, for each account.
    """
    from fleetlake.monitoring.doctor import run_checks
    from fleetlake.settings import load_settings

    settings = load_settings()
    checks = []
    for check in chain(run_checks(settings), _of_project(settings)):
        checks.append(check)
        if output is OutputFormat.TABLE:
            _print_check(check)
    if output is not OutputFormat.TABLE:
        rows = [
            (check.name, check.error is None, check.found, check.error and check.error.remedy)
            for check in checks
        ]
        print_records(output, FIELDS, rows)
    if failed := [check.error for check in checks if check.error]:
        raise SystemExit(failed[0].exit_code)


def _of_project(settings: "Settings") -> Iterator["Check"]:
    """Yield the checks of the project's own pages and of the places to tell, if it has any."""
    from fleetlake.dashboard.page_checks import check_own_pages
    from fleetlake.monitoring.doctor import Check
    from fleetlake.notifying.notify import check_addresses

    for name, check in (("dashboard pages", check_own_pages), ("messages", check_addresses)):
        try:
            if found := check(settings):
                yield Check(name, found)
        except FleetlakeError as error:
            yield Check(name, error.what, error)


def _print_check(check: "Check") -> None:
    from rich.text import Text

    mark = ("✗", "red") if check.error else ("✓", "green")
    name = (plain(check.name), "bold")
    console().print(Text.assemble(mark, " ", name, ": ", plain_lines(check.found)))
    if check.error:
        console().print(f"    What to do: {check.error.remedy}")
