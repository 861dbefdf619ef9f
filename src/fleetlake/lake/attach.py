"""How DuckDB opens a lake: its extensions, and the statements that attach the lake.

A catalog of another DuckLake format is refused, never migrated: a migration cannot be undone, and
would shut out every machine with an older release.

An extension loads only into the DuckDB that it was built for, so each place is searched for the
version that runs. Wheels up to 1.5.5 are `duckdb-extension-<name>`, later ones are DuckDB's own
`duckdb-core-ext-<name>`. Only if no wheel has it is it downloaded; DuckDB checks its signature.

DuckDB shows the address of each attached database to everyone who may query
(duckdb_databases), and repeats it in errors. So the password goes into a DuckDB secret, which
shows only stars.
"""

import os
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import duckdb

from fleetlake.errors import LakeError
from fleetlake.lake.ducklake import RAW_ROWS
from fleetlake.lake_address import LakeAddress, SharedLake
from fleetlake.text.quoting import literal
from fleetlake.text.wording import install_command

_MEMBER = re.compile(r"(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)")
_URL = re.compile(r"postgres(?:ql)?://")


def split_password(address: str) -> tuple[str, str | None]:
    """Return a libpq address without its password, and the password, or None if it has none.

    An address without a password is returned unchanged, so libpq reads it as before.

    >>> split_password("host=db user=fleet password='s3 cret'")
    ("host='db' user='fleet'", 's3 cret')
    >>> split_password("postgresql://fleet:s3%20cret@db:5433/lake?sslmode=require")
    ("sslmode='require' host='db' port='5433' user='fleet' dbname='lake'", 's3 cret')
    >>> split_password("host=db user=fleet")
    ('host=db user=fleet', None)
    """
    members = address_members(address)
    password = members.pop("password", None)
    if not password:
        return address, None
    return " ".join(f"{name}={_as_value(value)}" for name, value in members.items()), password


def address_members(address: str) -> dict[str, str]:
    """Return the members of a libpq address, such as host, port and dbname."""
    return _url_members(address) if _URL.match(address) else _text_members(address)


def _text_members(address: str) -> dict[str, str]:
    found = {}
    for name, value in _MEMBER.findall(address):
        bare = value[1:-1] if value.startswith("'") else value
        found[name] = re.sub(r"\\(.)", r"\1", bare)
    return found


def _url_members(address: str) -> dict[str, str]:
    """Return the members of a URL, which may name several hosts, as libpq reads it."""
    parts = urlsplit(address)
    login, _, servers = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    hosts, ports = zip(*(_server(server) for server in servers.split(",")), strict=True)
    found = dict(parse_qsl(parts.query.replace("+", "%2B"), keep_blank_values=True))
    given = {
        "host": ",".join(hosts),
        "port": ",".join(ports),
        "user": unquote(user),
        "password": unquote(password),
        "dbname": unquote(parts.path.removeprefix("/")),
    }
    return found | {name: value for name, value in given.items() if value.strip(",")}


def _server(server: str) -> tuple[str, str]:
    """Return host and port of a server; an IPv6 address is in brackets."""
    found = re.fullmatch(r"(?:\[([^\]]*)\]|([^:]*))(?::(\d*))?", server)
    if found is None:
        return unquote(server), ""
    return unquote(found[1] or found[2] or ""), found[3] or ""


def _as_value(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


EXTRAS = {"postgres_scanner": "postgres", "httpfs": "s3"}
"""The extra of the package that brings an extension; the others always come with it."""


def extension_path(name: str) -> Path:
    """Return the file of an extension for this DuckDB. Raises: LakeError if there is none."""
    found = next(_installed(name), None)
    return found or _downloaded(name)


def _installed(name: str) -> Iterator[Path]:
    version, file = f"v{duckdb.__version__}", f"{name}.duckdb_extension"
    spec = find_spec(f"duckdb_extension_{name}")
    for folder in spec.submodule_search_locations or () if spec else ():
        yield from Path(folder, "extensions", version).rglob(file)
    for folder in sys.path:
        yield from Path(folder, ".duckdb_extensions", version).glob(f"*/{file}")
    yield from Path("~/.duckdb/extensions").expanduser().glob(f"{version}/*/{file}")


def _downloaded(name: str) -> Path:
    try:
        with duckdb.connect() as connection:
            connection.install_extension(name)
            [(path,)] = connection.execute(
                "select install_path from duckdb_extensions() where extension_name = ?", [name]
            ).fetchall()
    except (duckdb.Error, OSError) as error:
        raise LakeError(
            f"DuckDB's {name} extension for {duckdb.__version__} is not installed, and its "
            f"download failed: {' '.join(str(error).split())[:200]}",
            remedy=install_command(EXTRAS[name]) if name in EXTRAS else "Install fleetlake again.",
        ) from None
    return Path(path)


CATALOG = "catalog.sqlite"
CATALOG_LOG = f"{CATALOG}-wal"
FILES = "files"

EXTENSIONS: tuple[str, ...] = ("ducklake", "sqlite_scanner")
SHARED_EXTENSIONS: tuple[str, ...] = ("ducklake", "postgres_scanner")

UNCHECKED: dict[str, str | bool | int | float | list[str]] = {"allow_unsigned_extensions": True}
"""Checking the extensions' signatures takes 0.2 s of CPU at each start, so `doctor` does it.

Their wheels' hashes were checked on installation.
"""

HISTORY_SETTING = "disabled_optimizers"
READ_HISTORY = f"SET {HISTORY_SETTING} = 'statistics_propagation';"
"""Runs on a connection before it reads an older snapshot of the lake, or what changed since one.

It may be the newest one when a transaction begins: maintenance may overtake it.

DuckLake keeps one set of statistics per column, those of the newest snapshot, and DuckDB applies
them to every snapshot (ducklake#1377, observed 2026-11-25 with 1.5.5). Where the last null is gone,
`is null` then finds no row of an older snapshot, and `count(column)` counts all of them.
Other connections keep this optimizer: without it, joins take twice the CPU time, sorts 1.5 times,
`min` and `max` 14 times (5 million rows). A build of all marts takes the same.
"""

_OF_HISTORY = re.compile(
    r"\b(?:at|begin|start)\b|table_(?:changes|insertions|deletions)\b", re.IGNORECASE
)

LOGIN = "catalog_login"
"""Name of the DuckDB secret that holds the password of a shared catalog."""

BUSY_MILLISECONDS = 30_000

_OTHER_FORMAT = re.compile(r"catalog version is (\S+?), but the extension requires version (\S+)\.")
_NO_LAKE = re.compile(r"Existing DuckLake at .* does not exist", re.DOTALL)
_NO_ANSWER = re.compile(r'Unable to connect to Postgres at ".*?": (.*)', re.DOTALL)


def attach_statements(path: LakeAddress, *, read_only: bool = False, version: int = 0) -> str:
    """Return the statements that attach a lake as `lake`, for any DuckDB of this version.

    `version` attaches one snapshot, read-only, also while later ones replace it. The data path is
    passed each time, so a lake can be moved.
    """
    read_only = read_only or bool(version)
    if isinstance(path, SharedLake):
        address, password = split_password(path.catalog.get_secret_value())
        extensions, catalog = SHARED_EXTENSIONS, f"postgres:{address}"
        files, own, login = path.files, [], password and _login_secret(password)
        own += [f"META_SECRET '{LOGIN}'"] if login else []
    else:
        extensions, catalog = EXTENSIONS, f"sqlite:{path / CATALOG}"
        files, own = str(path / FILES), [f"META_BUSY_TIMEOUT {BUSY_MILLISECONDS}"]
        login = None
        # A catalog restored from a dump enters this mode when it is next opened for writing.
        is_logged = not read_only or (path / CATALOG_LOG).exists()
        own += ["META_JOURNAL_MODE 'WAL'"] if is_logged else []
    in_store = [*_store_secret(files)] if "://" in files else []
    secrets = [login, *in_store] if login else in_store
    extensions += ("httpfs",) if in_store else ()
    options = [f"DATA_PATH {literal(f'{files}/')}", "OVERRIDE_DATA_PATH true", *own]
    options += ["AUTOMATIC_MIGRATION false"]
    options += ["READ_ONLY"] if read_only else []
    options += [f"SNAPSHOT_VERSION {version}"] if version else []
    loads = [f"LOAD {literal(extension_path(name))};" for name in extensions]
    attach = f"ATTACH {literal(f'ducklake:{catalog}')} AS lake ({', '.join(options)});"
    settings = ["SET TimeZone = 'UTC';", *([READ_HISTORY] if version else [])]
    return "\n".join([*loads, *secrets, *settings, attach])


def may_read_history(sql: str) -> bool:
    """Return whether SQL may read an older snapshot; some that only names a time zone does too.

    >>> may_read_history("FROM raw.alerts AT (VERSION => 7)"), may_read_history("FROM raw.alerts")
    (True, False)
    """
    return bool(_OF_HISTORY.search(sql))


def explained(message: str, path: LakeAddress) -> LakeError | None:
    """Return the error for a lake that cannot be attached, if DuckDB's message is about that.

    >>> said = "catalog version is 1.1, but the extension requires version 1.0. To migrate, ..."
    >>> explained(said, Path("lake")).what
    'The catalog of the lake in lake has DuckLake format 1.1, but this release needs format 1.0.'
    """
    if _NO_LAKE.search(message):  # a folder without a catalog was refused before
        return no_lake(path) if isinstance(path, SharedLake) else unfinished_lake(path)
    if isinstance(path, SharedLake) and (found := _NO_ANSWER.search(message)):
        return path.no_answer(found[1])
    return _other_format(message, path)


def no_lake(path: LakeAddress) -> LakeError:
    """Return the error for a folder or a shared catalog that holds no lake."""
    return LakeError(
        f"There is no lake in {path.resolve()}.",
        remedy="Run `fleetlake ingest` or `fleetlake demo` first, or set FLEETLAKE_LAKE.",
    )


def unfinished_lake(path: LakeAddress) -> LakeError:
    """Return the error for a lake that has no tables: it is being created, or that was stopped."""
    return LakeError(
        f"The lake in {path.resolve()} has no tables yet.",
        remedy="If a command is creating it, run again in a moment. Otherwise run "
        "`fleetlake ingest`, which creates them.",
    )


def _other_format(message: str, path: LakeAddress) -> LakeError | None:
    found = _OTHER_FORMAT.search(message)
    if found is None:
        return None
    its, ours = found.groups()
    remedy = "Install the release of fleetlake that wrote the lake, or a later one."
    if _numbers(its) < _numbers(ours):
        remedy = (
            "Make a copy with `fleetlake backup`, then attach the lake once in DuckDB with the "
            "option AUTOMATIC_MIGRATION true. It cannot be undone."
        )
    return LakeError(
        f"The catalog of the lake in {path} has DuckLake format {its}, but this release needs "
        f"format {ours}.",
        remedy=f"{remedy} Nothing was changed.",
    )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _login_secret(password: str) -> str:
    """Return the statement that gives DuckDB the catalog's password, hidden from queries."""
    return f"CREATE OR REPLACE SECRET {LOGIN} (TYPE postgres, PASSWORD {literal(password)});"


def _store_secret(files: str) -> Iterator[str]:
    """Yield the statement that gives DuckDB the keys of an S3 store, read from the environment."""
    known = {
        "KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID"),
        "SECRET": os.environ.get("AWS_SECRET_ACCESS_KEY"),
        "SESSION_TOKEN": os.environ.get("AWS_SESSION_TOKEN"),
        "REGION": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
    }
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        scheme, _, host = endpoint.rpartition("://")
        known |= {"ENDPOINT": host.rstrip("/"), "URL_STYLE": "path"}
        known |= {"USE_SSL": "false"} if scheme == "http" else {}
    given = "".join(f", {name} {literal(value)}" for name, value in known.items() if value)
    yield f"CREATE OR REPLACE SECRET store (TYPE s3, SCOPE {literal(files)}{given});"


def store_keys() -> list[str]:
    """Return the store keys in the environment, which DuckDB's messages may contain."""
    names = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    return [os.environ[name] for name in names if os.environ.get(name)]


ONE_THREAD: dict[str, str | bool | int | float | list[str]] = {"threads": 1}
"""Lets a new DuckDB open a lake at half of the CPU time, until `set_threads` knows its rows."""

_ROWS_OF_A_THREAD = 4_000_000


def set_threads(connection: duckdb.DuckDBPyConnection) -> None:
    """Give DuckDB a thread for every so many rows that the attached lake has, at most one per core.

    While one thread opens a file or the catalog, the others wait busily. So a scan of a small table
    takes three times the CPU and the time with two threads (measured with 1.5.5).
    """
    connection.execute("set threads = 1")
    [(rows,)] = connection.execute(RAW_ROWS).fetchall()
    if rows >= 2 * _ROWS_OF_A_THREAD:
        connection.execute("reset threads")
        [(cores,)] = connection.execute("select current_setting('threads')").fetchall()
        connection.execute(f"set threads = {min(cores, rows // _ROWS_OF_A_THREAD)}")
