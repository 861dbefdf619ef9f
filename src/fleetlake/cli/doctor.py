"""`fleetlake doctor`: is this installation fit to load?"""


def doctor() -> None:
    """Check packages, settings, lake, disk, keys and service; say what to mend.

    Ends with the exit code of the first check that failed. Of each account one call is made to
    the service, and one to its v3.
    """
    from rich.text import Text

    from fleetlake.cli.screen import console
    from fleetlake.monitoring.doctor import run_checks
    from fleetlake.settings import load_settings
    from fleetlake.text.plain import plain, plain_lines

    screen = console()
    failed = []
    for check in run_checks(load_settings()):
        mark = ("✗", "red") if check.error else ("✓", "green")
        name = (plain(check.name), "bold")
        screen.print(Text.assemble(mark, " ", name, ": ", plain_lines(check.found)))
        if check.error:
            failed.append(check.error)
            screen.print(f"    What to do: {check.error.remedy}")
    if failed:
        raise SystemExit(failed[0].exit_code)
