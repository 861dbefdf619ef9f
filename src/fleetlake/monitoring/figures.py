"""Figures about a lake beyond its streams' status: calls, the last build, files and disk space.

The project's own file counts, else the package's. For another scheduler, write its intervals there,
so that alert rules know when a stream is late. A list that is read device by device is late only
after its freshness; if it is read only from devices that moved, a sweep proves it complete for the
others, so it is late only after that.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Group
from fleetlake.endpoints.relations import endpoints_of, freshness_of
from fleetlake.errors import SettingsError
from fleetlake.lake import Lake
from fleetlake.lake.attach import CATALOG, FILES
from fleetlake.lake.ducklake import storage
from fleetlake.lake_address import LakeAddress
from fleetlake.machine.project import deployments_file, project_folder
from fleetlake.monitoring.status import LakeStatus, lake_status
from fleetlake.monitoring.streams import lake_now
from fleetlake.planning.coverage import SWEEP
from fleetlake.publishing.snapshot_folders import description_of, published_folder
from fleetlake.settings import Settings


def load_intervals(freshness: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the seconds in which scheduled loads read all of an endpoint, by endpoint.

    `freshness` are the hours of the settings. An endpoint is left out if no schedule loads it, or
    none that is an interval. Raises: SettingsError if the file is not YAML.
    """
    file = deployments_file(project_folder())
    try:
        read = yaml.safe_load(file.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeError) as error:
        raise SettingsError(f"{file} is not a YAML file: {error}", remedy="Fix it.") from None
    deployments = read.get("deployments") if isinstance(read, dict) else None
    found: dict[str, float] = {}
    for group, seconds in _scheduled(deployments if isinstance(deployments, list) else []):
        for name in endpoints_of(group):
            found[name] = min(seconds, found.get(name, seconds))
    swept = [e.name for e in ENDPOINTS.values() if e.fan_out and e.fan_out.moved]
    asked = freshness_of(freshness or {}) | dict.fromkeys(swept, SWEEP)
    return {
        name: max(seconds, asked.get(name, timedelta(0)).total_seconds())
        for name, seconds in found.items()
    }


def _scheduled(deployments: list[Any]) -> Iterator[tuple[Group, float]]:
    """Yield the group and the interval of each schedule that loads."""
    groups = {str(group): group for group in Group}
    for one in filter(_is_mapping, deployments):
        parameters = one.get("parameters")
        group = groups.get(str(parameters.get("group"))) if _is_mapping(parameters) else None
        if group is None or one.get("paused"):
            continue
        for schedule in filter(_is_mapping, one.get("schedules") or []):
            seconds = schedule.get("interval")
            if isinstance(seconds, int | float) and seconds > 0:
                yield group, float(seconds)


def _is_mapping(value: object) -> bool:
    return isinstance(value, dict)


@dataclass(frozen=True, kw_only=True)
class CallCounts:
    """Requests made for one stream since the lake exists.

    `calls` includes retries. `refusals` counts responses that the call limit was exceeded, and
    `retries` the requests sent again after an error. `spared` requests were not made, because
    pushes bring the records. Runs that were killed are not counted.
    """

    account_profile: str
    endpoint: str
    calls: int
    refusals: int
    retries: int
    spared: int


@dataclass(frozen=True, kw_only=True)
class LastBuild:
    """The last build that computed something: when it ended (UTC), and how.

    `failed_tests` counts data tests that failed or could not run, `warned_tests` those that found
    bad rows in the service's data.
    """

    built_at: datetime
    seconds: float
    is_good: bool
    failed_tests: int
    warned_tests: int


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Data files of the lake's tables and their size, as of the newest snapshot.

    Delete files say which rows of a data file no longer count. `catalog_bytes` and
    `disk_free_bytes` are None if the lake is not in a folder of this machine.
    """

    data_files: int
    data_bytes: int
    delete_files: int
    delete_bytes: int
    catalog_bytes: int | None
    disk_free_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures about a lake at `measured_at`, UTC; `build` is None before the first build.

    `events` counts the audit trail's entries by kind.
    """

    measured_at: datetime
    calls: list[CallCounts]
    build: LastBuild | None
    storage: Storage
    events: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The status of a lake and its figures, from one snapshot.

    `load_intervals` are the seconds between two scheduled loads, by endpoint. `changed_at` is when
    a load last changed rows, `published_at` when marts were last published; None if never. UTC.
    """

    status: LakeStatus
    figures: Figures
    load_intervals: Mapping[str, float] = field(default_factory=dict)
    changed_at: datetime | None = None
    published_at: datetime | None = None


def measure(lake: Lake, settings: Settings) -> Measured:
    """Return the status and the figures of an open lake."""
    now = lake_now(lake, settings.clock)
    status = lake_status(
        lake, now=now, calls_per_minute=settings.calls_per_minute, journal=settings.push_journal
    )
    return Measured(
        status=status,
        figures=_figures(lake, now),
        load_intervals=load_intervals(settings.freshness),
        changed_at=_changed_at(lake),
        published_at=_published_at(settings),
    )


def _changed_at(lake: Lake) -> datetime | None:
    return lake.instant(
        "select max(committed_at) from meta.loads where rows_added > 0 or rows_changed > 0"
    )


def _published_at(settings: Settings) -> datetime | None:
    """Return when the newest snapshot was published; None if there is none, or if it is damaged."""
    try:
        return datetime.fromisoformat(description_of(published_folder(settings))["published_at"])
    except (LookupError, TypeError, ValueError):
        return None


def _figures(lake: Lake, now: datetime) -> Figures:
    with lake.single_snapshot():
        return Figures(
            measured_at=now,
            calls=_calls(lake),
            build=_last_build(lake),
            storage=_storage(lake),
            events=_events(lake),
        )


def _calls(lake: Lake) -> list[CallCounts]:
    counts = ("calls", "refusals", "retries", "spared")
    sums = [f"coalesce(sum({name}), 0)::bigint as {name}" for name in counts]
    found = lake.named_rows(
        f"select account_profile, endpoint, {', '.join(sums)} from meta.calls "
        "group by account_profile, endpoint order by all"
    )
    return [CallCounts(**row) for row in found]


def _last_build(lake: Lake) -> LastBuild | None:
    names = LastBuild.__dataclass_fields__
    found = lake.named_rows(
        f"select {', '.join(names)} from meta.builds order by built_at desc, rowid desc limit 1"
    )
    return LastBuild(**found[0]) if found else None


def _events(lake: Lake) -> dict[str, int]:
    return dict(lake.rows("select kind, count(*) from meta.events group by kind order by kind"))


def _storage(lake: Lake) -> Storage:
    files, size, deletes, delete_size = storage(lake)
    return Storage(
        data_files=files,
        data_bytes=size,
        delete_files=deletes,
        delete_bytes=delete_size,
        catalog_bytes=_catalog_bytes(lake.path),
        disk_free_bytes=_disk_free_bytes(lake.path),
    )


def _catalog_bytes(address: LakeAddress) -> int | None:
    """Return the size of the catalog's file and its write-ahead log."""
    if not isinstance(address, Path):
        return None
    files = (address / CATALOG, address / f"{CATALOG}-wal")
    return sum(file.stat().st_size for file in files if file.exists())


def _disk_free_bytes(address: LakeAddress) -> int | None:
    folder = address / FILES if isinstance(address, Path) else Path(address.files)
    return shutil.disk_usage(folder).free if folder.is_dir() else None
