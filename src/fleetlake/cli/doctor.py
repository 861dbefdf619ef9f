"""`fleetlake doctor`: is this installation fit to load?"""


def doctor() -> None:
    """Check packages, settings, lake, disk, keys and service; say what to mend.

    Ends with the exit code of the first check that failed. Of each account one call is made to
    the service, and one to its v3.
    """
    from fleetlake.cli.screen import console
    from fleetlake.doctor import run_checks
    from fleetlake.settings import load_settings

    screen = console()
    failed = []
    for check in run_checks(load_settings()):
        mark = "[red]✗[/red]" if check.error else "[green]✓[/green]"
        screen.print(f"{mark} [bold]{check.name}[/bold]: ", end="")
        screen.print(check.found, markup=False)
        if check.error:
            failed.append(check.error)
            screen.print(f"    What to do: {check.error.remedy}", markup=False)
    if failed:
        raise SystemExit(failed[0].exit_code)
