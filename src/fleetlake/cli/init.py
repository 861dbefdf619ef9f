"""`fleetlake init`: a project folder of one's own."""

from pathlib import Path
from typing import Annotated

import typer


def init(
    folder: Annotated[Path, typer.Argument(help="The folder; it is created if necessary.")],
) -> None:
    """Create a project: settings, schedules, and a folder for marts of your own.

    Existing files are never changed. Commands find the project from any folder below it.
    """
    from fleetlake.cli.screen import console
    from fleetlake.machine.new_project import write_project

    screen = console()
    for file in write_project(folder):
        note = "wrote" if file.is_new else "exists, left unchanged:"
        screen.print(f"  {note} {file.path}", soft_wrap=True)
    screen.print(f"Next: read {folder / 'README.md'}.", soft_wrap=True)
