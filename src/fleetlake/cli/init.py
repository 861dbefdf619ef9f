"""`fleetlake init`: a project folder of one's own."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fleetlake.cli.screen import console
from fleetlake.errors import UsageError
from fleetlake.machine.atomic_files import write_atomically
from fleetlake.machine.ownership import require_own
from fleetlake.machine.project import ENV_NAME, SETTINGS_NAME, is_clone, package_files

_TEMPLATE = Path(__file__).resolve().parent.parent / "project_template"

_NAMES = {
    "settings.toml": SETTINGS_NAME,
    "env.example": f"{ENV_NAME}.example",
    "gitignore": ".gitignore",
}
"""Names that tools would act on in the package itself, and what they are in a project."""


@dataclass(frozen=True)
class ProjectFile:
    """A file of a project; `is_new` is false if it was there before and was left alone."""

    path: Path
    is_new: bool


def write_project(folder: Path) -> Iterator[ProjectFile]:
    """Write a project's files into a folder, created if necessary; existing files stay unchanged.

    Raises: UsageError for a clone, which is a project already; LakeError for a folder of another
    user; OSError.
    """
    if is_clone() and folder.resolve() == package_files():
        raise UsageError(
            f"{folder} is a clone of fleetlake, which is a project already.",
            remedy="Name another folder.",
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file.", remedy="Name a folder.")
    require_own(folder, "project", otherwise="name another folder")
    for source, name in _files():
        path = folder / name
        is_new = not (path.exists() or path.is_symlink())
        if is_new:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, source.read_text("utf-8"))
        yield ProjectFile(path, is_new)


def _files() -> Iterator[tuple[Path, Path]]:
    """Yield each file of the template, and its path in a project."""
    for source in sorted(path for path in _TEMPLATE.rglob("*") if path.is_file()):
        inner = source.relative_to(_TEMPLATE)
        yield source, inner.with_name(_NAMES.get(inner.name, inner.name))
    yield package_files() / "prefect.yaml", Path("prefect.yaml")


def init(
    folder: Annotated[Path, typer.Argument(help="The folder; it is created if necessary.")],
) -> None:
    """Create a project: settings, schedules, and a folder for marts of your own.

    Existing files are never changed. Commands find the project from any folder below it.
    """
    from fleetlake.cli.init import write_project

    screen = console()
    for file in write_project(folder):
        note = "wrote" if file.is_new else "exists, left unchanged:"
        screen.print(f"  {note} {file.path}", soft_wrap=True)
    screen.print(f"Next: read {folder / 'README.md'}.", soft_wrap=True)
