"""Files of an installation that other users of the machine can use, for `fleetlake doctor`.

This module only reports them, because the access may be intended. It judges each folder by its own
mode and ignores that of its parents.
"""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleetlake.lake.attach import CATALOG, FILES
from fleetlake.lake_address import SharedLake
from fleetlake.machine.ownership import (
    chmod_words,
    excess_rights,
    foreign_owner,
    rights_in_words,
    user_name,
)
from fleetlake.machine.prefect_auth import auth_file, prefect_home
from fleetlake.machine.project import in_project
from fleetlake.machine.setting_files import (
    env_file,
    read_env_file,
    read_settings_file,
    settings_file,
)
from fleetlake.machine.umask import read_umask
from fleetlake.settings import PREFIX, SECRET_SETTINGS, Settings

_WITH_SECRETS = {*SECRET_SETTINGS, "profiles", "exports", "lake"}
_SECRET_VARIABLES = {f"{PREFIX}{name.upper()}" for name in _WITH_SECRETS}

_OTHERS = 0o077


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """A file or folder that other users can use: how, and the command that prevents it."""

    name: str
    path: Path
    how: str
    command: str


def exposed_paths(settings: Settings, *, published: Path) -> Iterator[Exposed]:
    """Yield what other users can read or write although FLEETLAKE_UMASK forbids it.

    The secrets of push destinations are for their owner only, whatever FLEETLAKE_UMASK says.
    """
    umask = read_umask(settings.umask)
    for name, path, inner in _inspected(settings, published):
        yield from _exposed(name, path, inner, umask)
    yield from _exposed("push secrets", settings.push_secrets_file.absolute(), (), _OTHERS)


def _exposed(name: str, path: Path, inner: tuple[str, ...], umask: int) -> Iterator[Exposed]:
    """Yield a path if it belongs to another user, or if others have rights that a umask forbids."""
    if (owner := foreign_owner(path)) is not None:
        yield Exposed(
            name=name,
            path=path,
            how=f"belongs to user {user_name(owner)}",
            command=f"chown -R $(id -u) {shlex.quote(str(path))}",
        )
        return
    rights = excess_rights(path, umask)
    if _can_be_entered(path):
        rights |= _any_rights((path / part for part in inner), umask)
    if rights:
        yield Exposed(
            name=name,
            path=path,
            how=f"can be {rights_in_words(rights)} by other users",
            command=f"chmod -R {chmod_words(umask)} {shlex.quote(str(path))}",
        )


def _any_rights(paths: Iterator[Path], umask: int) -> int:
    rights = 0
    for path in paths:
        rights |= excess_rights(path, umask)
    return rights


def _can_be_entered(folder: Path) -> bool:
    """Return whether other users can reach the contents of a folder."""
    return bool(excess_rights(folder, 0o011))


def _inspected(settings: Settings, published: Path) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """Yield what to inspect: its name, its path, and those of its parts with their own modes."""
    lake = settings.lake
    if isinstance(lake, SharedLake):
        if "://" not in lake.files:
            yield "files of the lake", Path(lake.files), ()
        yield "build folder", lake / "dbt", ()
    else:
        yield "lake", lake.resolve(), (CATALOG, FILES, "locks", "dbt")
    published = published.absolute()
    yield "published snapshots", published.parent / f".{published.name}", ()
    for target, address in sorted(settings.exports.items()):
        folder = address.get_secret_value()
        if "://" not in folder and Path(folder).is_dir():
            yield f"export {target}", Path(folder).absolute(), ()
    yield "exports", in_project(Path("data/exports")).absolute(), ()
    yield "reports", settings.reports.absolute(), ()
    yield "state", settings.state.absolute(), ()
    yield "journal of pushes", settings.push_journal.absolute(), ()
    if auth_file().exists():  # otherwise Prefect's folder is not fleetlake's
        yield "password of Prefect's server", auth_file(), ()
        yield "Prefect's database", prefect_home() / "prefect.db", ()
    yield from (("settings", file, ()) for file in _files_with_secrets())


def _files_with_secrets() -> Iterator[Path]:
    """Yield the settings files that hold keys, or addresses with passwords."""
    with suppress(OSError, ValueError):
        if (file := settings_file()) and _WITH_SECRETS & read_settings_file().keys():
            yield file
    with suppress(OSError, ValueError):
        names = {name.upper().partition("__")[0] for name in read_env_file()}
        if (file := env_file()) and names & _SECRET_VARIABLES:
            yield file
