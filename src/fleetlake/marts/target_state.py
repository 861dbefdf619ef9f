"""What builds on a target have made: a file beside its tables, from which any machine goes on.

`<storage>/tables/state.json`
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fleetlake.errors import BuildFailed
from fleetlake.machine.atomic_files import write_atomically

STATE = "state.json"
VERSION = re.compile(r"\d{8}T\d{12}")
"""The name of a folder that a build has written."""

Key = tuple[str, str]

_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class TargetTable:
    """A table that a target has made: the snapshot that its model read, when, and its folders.

    Of several folders, `versions`, each has days of the table, and the last that has a day counts.
    """

    schema: str
    name: str
    snapshot: int
    built_at: str
    versions: tuple[str, ...]


@dataclass(frozen=True)
class TargetState:
    """What a target has made of the lake with an id.

    `views` have schema, name and query, in the order in which they were made. `shown` is the
    version of the mirror that the target's catalog has. It is 0 if the last build did not end or a
    model failed: tables may then be in other folders. `latest` is the time of the last build, even
    if it did not end.
    """

    lake: str = ""
    tables: Mapping[Key, TargetTable] = field(default_factory=dict)
    views: tuple[tuple[str, str, str], ...] = ()
    shown: int = 0
    latest: datetime | None = None


def version_of(build: datetime) -> str:
    """Return the name of the folders that a build at a time writes.

    >>> version_of(datetime(2026, 11, 2, 3, 4, 5, 6))
    '20261102T030405000006'
    """
    return f"{build:%Y%m%dT%H%M%S%f}"


def read_state(storage: Path) -> TargetState | None:
    """Return what a target has made in a storage; None if that is not noted there.

    Raises: BuildFailed if the note cannot be read.
    """
    file = storage / "tables" / STATE
    try:
        content = json.loads(file.read_text("utf-8"))
        tables = [_table(**table) for table in content["tables"]]
        views = tuple((_name(s), _name(name), str(query)) for s, name, query in content["views"])
        return TargetState(
            str(content["lake"]),
            {(table.schema, table.name): table for table in tables},
            views,
            int(content["shown"]),
            datetime.fromisoformat(content["latest"]).astimezone(UTC),
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BuildFailed(
            f"{file} cannot be read: {error}",
            remedy="Mount the storage. Users who build in turn need FLEETLAKE_UMASK=007.",
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # others can write there
        raise BuildFailed(
            f"{file} is damaged: {error}", remedy="Delete it, then run `fleetlake build --full`."
        ) from None


def write_state(storage: Path, state: TargetState) -> None:
    """Note what a target has made in a storage. Raises: BuildFailed if it cannot be written."""
    file = storage / "tables" / STATE
    tables = [asdict(table) for table in state.tables.values()]
    content = {**vars(state), "tables": tables, "latest": f"{state.latest}"}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(content))
    except OSError as error:
        raise BuildFailed(
            f"{file} could not be written: {error}",
            remedy="Check the folder in FLEETLAKE_BUILD_STORAGE, then build again.",
        ) from error


def _table(**members: Any) -> TargetTable:
    """Return a table of the note. Raises: ValueError, LookupError, TypeError."""
    table = TargetTable(**{**members, "versions": (*members["versions"],)})
    _name(table.schema)
    _name(table.name)
    if not table.versions or not all(map(VERSION.fullmatch, table.versions)):
        raise ValueError(f"{table.versions} are no folders of builds")
    return replace(
        table,
        snapshot=int(table.snapshot),
        built_at=f"{datetime.fromisoformat(table.built_at)}",
    )


def _name(text: str) -> str:
    """Return a name that a query can hold as it is. Raises: ValueError."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name of a model")
    return text
