"""Where the project is: the files that come with the package, and the folder a user works in.

`sql/`, `flows/` and `prefect.yaml` are data of the package. A wheel carries them in
`fleetlake/_project`; a clone has them at its root.

A user's project is a folder with a `fleetlake.toml`. Commands find it from any folder below it, as
git does, and read relative folders of the settings from there. A clone is a project too.
"""

from pathlib import Path

from fleetlake.errors import SettingsError
from fleetlake.machine.ownership import foreign_owner, user_name

SETTINGS_NAME = "fleetlake.toml"
ENV_NAME = ".env"
DEPLOYMENTS_NAME = "prefect.yaml"

_PACKAGE = Path(__file__).resolve().parent.parent


def package_files() -> Path:
    """Return the folder with `sql/`, `flows/` and `prefect.yaml` of this release.

    Raises: SettingsError if the installation lacks them.
    """
    for folder in (_PACKAGE / "_project", _PACKAGE.parent.parent):
        if (folder / "sql" / "dbt_project.yml").is_file():
            return folder
    raise SettingsError(
        "The SQL project is missing from this installation.", remedy="Install fleetlake again."
    )


def deployments_file(project: Path) -> Path:
    """Return the `prefect.yaml` of a project, or else the package's. Raises: SettingsError."""
    own = project / DEPLOYMENTS_NAME
    return own if own.is_file() else package_files() / DEPLOYMENTS_NAME


def is_clone() -> bool:
    """Return whether this release runs from a clone of its repository."""
    return package_files() != _PACKAGE / "_project"


def found_project() -> Path | None:
    """Return the nearest project at or above the current folder, None if there is none.

    Raises: SettingsError if its settings file belongs to another user, who could name a service
    of their own there. In the current folder itself, such a file is taken.
    """
    current, clone = Path.cwd(), package_files() if is_clone() else None
    for folder in (current, *current.parents):
        settings = folder / SETTINGS_NAME
        if settings.is_file():
            if folder != current and (owner := foreign_owner(settings)) is not None:
                raise SettingsError(
                    f"{settings} belongs to user {user_name(owner)}, so it is not used from here.",
                    remedy=f"Run the command in {folder} itself, or create a project of your own "
                    "with `fleetlake init`.",
                )
            return folder
        if folder == clone:
            return folder
    return None


def project_folder() -> Path:
    """Return the project's folder; without a project, the current folder. Raises: SettingsError."""
    return found_project() or Path.cwd()


def in_project(path: Path) -> Path:
    """Return a path of the settings; a relative one starts at the project's folder.

    In the project's own folder it stays relative, which reads better in messages.
    """
    project = project_folder()
    return path if project == Path.cwd() else project / path
