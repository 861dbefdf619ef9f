"""Checks of an installation; a failed check says how to fix it.

Files that other users of the machine can use are only reported, because the access may be intended.
Each folder is judged by its own mode, and not by that of its parents.
"""

import asyncio
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from errno import EACCES, ENOTDIR
from functools import partial, reduce
from importlib.metadata import version
from operator import or_
from pathlib import Path

import duckdb

from fleetlake.account import stream_name
from fleetlake.alerting.chosen_types import chosen_types
from fleetlake.care.integrity.check import check_lake, damage_error, note_damage
from fleetlake.decoding.arrow import read_page
from fleetlake.endpoints import V3_PROBE
from fleetlake.endpoints.relations import freshness_of
from fleetlake.errors import FleetlakeError, LakeError, PushTestFailed, SettingsError
from fleetlake.exporters.export import target_named
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG, EXTENSIONS, FILES, extension_path, unfinished_lake
from fleetlake.lake.catalog import has_lake, open_as_is, require_writable
from fleetlake.lake.evolution.format import has_tables
from fleetlake.lake.evolution.upgrade import is_upgradable
from fleetlake.lake.retention_rules import require_rules
from fleetlake.lake_address import SharedLake, refuse_unusable
from fleetlake.loading.ingest import refuse_demo_lake
from fleetlake.loading.run import service_now
from fleetlake.machine.io_faults import not_writable
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
from fleetlake.monitoring.push_status import (
    push_faults,
    push_notes,
    push_statuses,
    require_whole_journal,
)
from fleetlake.monitoring.streams import lake_now
from fleetlake.publishing.snapshot_folders import published_folder
from fleetlake.receiving.push_secrets import misnamed_signature
from fleetlake.service.client import Client
from fleetlake.service.clock import REPORTED_SKEW, skew_in_words
from fleetlake.settings import PREFIX, SECRET_SETTINGS, ClockTrust, Settings, unknown_variables
from fleetlake.text.wording import counted, size_in_words

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
    can_be_entered = excess_rights(path, 0o011)  # otherwise others cannot reach its parts
    reached = [path, *(path / part for part in inner)] if can_be_entered else [path]
    if rights := reduce(or_, (excess_rights(one, umask) for one in reached)):
        yield Exposed(
            name=name,
            path=path,
            how=f"can be {rights_in_words(rights)} by other users",
            command=f"chmod -R {chmod_words(umask)} {shlex.quote(str(path))}",
        )


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


LOW_DISK_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Check:
    """One check: what it found and, if it failed, the error that says how to fix it."""

    name: str
    found: str
    error: FleetlakeError | None = None


def run_checks(settings: Settings) -> Iterator[Check]:
    """Yield each check when it ends, cheap checks first."""
    for name, check in {
        "packages": _packages,
        "settings": _variables,
        "extensions": _extensions,
        "lake": _lake,
        "integrity": _integrity,
        "pushes": _pushes,
        "journal": _journal,
        "disk": _disk,
        "permissions": _permissions,
        "vendor words": _vendor_words,
    }.items():
        yield _checked(name, check, settings)
    for account in settings.accounts():
        for name, check in {"keys": _keys, "service": _service, "v3": _v3}.items():
            yield _checked(stream_name(name, account.profile), check, account)


def _checked(name: str, check: Callable[[Settings], str], settings: Settings) -> Check:
    try:
        return Check(name, check(settings))
    except FleetlakeError as error:
        return Check(name, error.what, error)


def _packages(_: Settings) -> str:
    names = ("fleetlake", "duckdb", "pyarrow", "httpx", "dbt-core", "dbt-duckdb")
    return ", ".join(f"{name} {version(name)}" for name in names)


def _variables(settings: Settings) -> str:
    """Look for misspelt alert types, endpoints and targets, and variables that have no effect."""
    chosen_types(settings.alert_events)
    freshness_of(settings.freshness)
    require_rules(settings.retention)
    for name in settings.exports:
        target_named(name)
    if unknown := dict(unknown_variables(os.environ)):
        return f"valid; ignored, not a setting: {', '.join(unknown)}"
    return "valid"


def _vendor_words(settings: Settings) -> str:
    words = {name: word for name, word in settings.words.words.items() if name != word}
    if not words:
        return "the service's words are those of its contract"
    return "; ".join(f"{name} is {word}" for name, word in words.items())


def _extensions(_: Settings) -> str:
    paths = [extension_path(name) for name in EXTENSIONS]
    try:
        with duckdb.connect() as connection:
            for path in paths:
                connection.load_extension(str(path))
    except duckdb.Error as error:
        raise LakeError(
            f"DuckDB cannot load one of its installed extensions: {error}.",
            remedy="Reinstall the packages: a file was changed or belongs to another version.",
        ) from None
    return f"{', '.join(EXTENSIONS)} for DuckDB v{duckdb.__version__}, signed"


def _lake(settings: Settings) -> str:
    """Look at the lake without opening it for writing, which would upgrade an older one."""
    address = settings.lake.resolve()
    if not has_lake(address):
        if isinstance(address, Path):
            _require_creatable(address)
        return f"none yet in {address}; `fleetlake ingest` creates it"
    require_writable(address)
    if settings.base_url:
        refuse_demo_lake(settings)
    with open_as_is(address) as lake:
        if not has_tables(lake):
            raise unfinished_lake(address)
        [(commits,)] = lake.rows("select count(*) from meta.loads")
        upgrade = "; the next command that writes upgrades it" if is_upgradable(lake) else ""
    return f"{address} is writable; {counted(commits, 'commit')} so far{upgrade}"


def _integrity(settings: Settings) -> str:
    """Check the lake quickly, as `fleetlake check` does."""
    if not has_lake(settings.lake):
        return "no lake to check yet"
    report = check_lake(settings.lake)
    note_damage(settings.lake, report)
    if report.damages:
        raise damage_error(settings.lake, report)
    return f"{counted(report.files, 'file')} ({size_in_words(report.size)}) as the catalog says"


def _pushes(settings: Settings) -> str:
    """Look for refused pushes, and destinations that get none by the last load of them."""
    if refused := misnamed_signature(settings):
        raise PushTestFailed(refused.what, remedy=refused.remedy)
    if not has_lake(settings.lake):
        return "no push destination known yet"
    with open_lake(settings.lake, read_only=True) as lake:
        found = push_statuses(lake, now=lake_now(lake, settings.clock))
    if faults := [*push_faults(found)]:
        raise PushTestFailed(
            " ".join(faults), remedy="Run the commands above; `fleetlake alerts setup` also tests."
        )
    return " ".join([counted(len(found), "push destination") + ".", *push_notes(found)])


def _journal(settings: Settings) -> str:
    """Read the journal of pushed messages as a whole."""
    try:
        waiting = require_whole_journal(settings)
    except OSError as error:
        raise LakeError(
            f"The journal in {settings.push_journal} cannot be read: {error.strerror or error}.",
            remedy="Make it readable for this user, or set FLEETLAKE_PUSH_JOURNAL.",
        ) from None
    if waiting.journal_id is None:
        return "none yet"
    return f"whole; {counted(waiting.messages, 'pushed message')} not in the lake yet"


def _require_creatable(lake: Path) -> None:
    """Raise LakeError if the lake's folder cannot be created or written."""
    refuse_unusable("lake", lake, setting="FLEETLAKE_LAKE")
    parent = _nearest(lake)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        code = EACCES if parent.is_dir() else ENOTDIR
        error = OSError(code, os.strerror(code))
        raise not_writable("lake", lake, error, setting="FLEETLAKE_LAKE")


def _nearest(folder: Path) -> Path:
    """Return the folder or its nearest existing parent."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _disk(settings: Settings) -> str:
    folder = _nearest((settings.lake.resolve() / "dbt").parent)
    free = shutil.disk_usage(folder).free
    if free < LOW_DISK_BYTES:
        raise FleetlakeError(
            f"Only {free / 1024**3:.1f} GiB are free at {folder}.",
            remedy="Free some space: a load stops when the disk is full.",
        )
    return f"{free / 1024**3:.0f} GiB free at {folder}"


def _permissions(settings: Settings) -> str:
    """Report what other users can read or write; change nothing."""
    exposed = list(exposed_paths(settings, published=published_folder(settings)))
    if exposed:
        raise LakeError(
            f"{'; '.join(f'{e.name} {e.path} {e.how}' for e in exposed)}.",
            remedy=f"Run: {' && '.join(e.command for e in exposed)}. To share "
            "published files with your group, set FLEETLAKE_UMASK=027.",
        )
    return f"other users have no rights beyond FLEETLAKE_UMASK={settings.umask}"


def _keys(settings: Settings) -> str:
    return f"all four are set; sent as {', '.join(settings.keys())}"


def _v3(settings: Settings) -> str:
    async def ask() -> None:
        async with Client(settings) as client:
            await client.get(V3_PROBE.path, {}, partial(read_page, V3_PROBE), api=V3_PROBE.api)

    if not settings.v3_token.get_secret_value():
        return "not read: FLEETLAKE_V3_TOKEN is not set"
    root = settings.v3_root()
    if root is None:
        raise SettingsError(
            "FLEETLAKE_V3_TOKEN is set but FLEETLAKE_V3_BASE_URL is not, so v3 is not read.",
            remedy="Export both, or neither.",
        )
    asyncio.run(ask())
    return f"{root} answers and accepts the token"


def _service(settings: Settings) -> str:
    async def ask() -> timedelta:
        async with Client(settings) as client:
            await service_now(client)
            return client.clock.skew

    skew = asyncio.run(ask())
    clock = "its clock agrees with this machine's"
    if abs(skew) > REPORTED_SKEW:
        clock_used = "the service's" if settings.clock is ClockTrust.SERVICE else "the earlier one"
        clock = f"{skew_in_words(skew)}; loads go by {clock_used}"
    return f"{settings.service_root()} answers and accepts the keys; {clock}"
