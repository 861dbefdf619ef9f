"""What a lost or damaged file held, as far as the catalog's statistics and the file itself show."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fleetlake.account import DEFAULT_PROFILE
from fleetlake.care.integrity.listing import FileStore, ListedFile, listed_files
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.connection import Lake
from fleetlake.lake.ducklake import file_statistics
from fleetlake.machine.io_faults import refuse_io_fault
from fleetlake.planning.intervals import Interval

MARGIN = timedelta(seconds=1)
"""How far beyond a file's times it is read again: some responses have times in whole seconds."""

_DEVICES = ("router_id", "net_device_id")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What the rows of a damaged data file were.

    `files` are the data file and its delete file, if any. `rows` were not deleted. `held` is the
    range of the rows' event times, or of the times at which a list's versions began; None if the
    table has no such times. `devices` says whose rows they were, for people; `profile` is the
    account that read them, the first one if there are several.
    """

    file: ListedFile
    files: tuple[ListedFile, ...]
    rows: int
    held: Interval | None
    devices: str
    profile: str

    @property
    def endpoint(self) -> Endpoint | None:
        """The endpoint whose raw table lost rows; None for other tables."""
        return ENDPOINTS.get(self.file.table) if self.file.schema == "raw" else None

    @property
    def is_of_mart(self) -> bool:
        """True if the file was a mart's."""
        return self.file.schema == "marts"

    @property
    def prospect(self) -> str:
        """Whether the rows come back, for people."""
        endpoint = self.endpoint
        if self.is_of_mart:
            return "the next build computes the mart"
        if endpoint is None:
            return "cannot be read again" if self.file.schema != "meta" else _of_meta(self.file)
        return _of_raw(endpoint)


def _of_raw(endpoint: Endpoint) -> str:
    if not endpoint.is_requested:
        return f"raw.{endpoint.confirmed_by} holds what polls have read; they read the rest"
    if endpoint.mode is Mode.HISTORY:
        return "current versions are read again; earlier versions are lost"
    if endpoint.is_snapshot:
        return "read again, except records that the service no longer lists"
    if endpoint.retention:
        return f"read again, as far as the service keeps it ({endpoint.retention.days} days)"
    return "read again"


def _of_meta(file: ListedFile) -> str:
    if file.table in REPROVED:
        return "everything that the service holds is read again"
    if file.table in RESTORED:
        return "written again"
    return "cannot be read again"


REPROVED = frozenset({"intervals", "watermarks", "reads", "quarantine"})
"""Tables of meta without which nothing counts as proven."""

RESTORED = frozenset(
    {
        *("files", "columns", "lake", "loads", "lateness", "absent", "capabilities"),
        *("confirmations", "journal_positions", "announced"),
    }
)
"""Tables of meta that a repair or the next loads write again."""


def describe_losses(lake: Lake, damaged: Sequence[ListedFile]) -> list[Loss]:
    """Return what the current data files among the damaged ones held, by table.

    A data file whose delete file is damaged counts as lost: its deleted rows cannot be told from
    the others.
    """
    current = [file for file in damaged if file.ended is None]
    ids = {file.data_file_id for file in current}
    files: dict[int, list[ListedFile]] = {}
    for file in listed_files(lake):
        if file.ended is None and file.data_file_id in ids:
            files.setdefault(file.data_file_id, []).append(file)
    return [_loss(lake, of_one) for of_one in files.values()]


def _loss(lake: Lake, files: list[ListedFile]) -> Loss:
    [file] = [one for one in files if not one.is_delete]
    deleted = sum(one.rows for one in files if one.is_delete)
    statistics = file_statistics(lake, file.data_file_id)
    endpoint = ENDPOINTS.get(file.table) if file.schema == "raw" else None
    return Loss(
        file=file,
        files=tuple(files),
        rows=max(0, file.rows - deleted),
        held=_held(statistics, endpoint),
        devices=_devices(lake, file, statistics, endpoint),
        profile=statistics.get("account_profile", (None,))[0] or DEFAULT_PROFILE,
    )


_Statistics = dict[str, tuple[str | None, str | None]]
"""The least and the greatest value of each column of a file."""


def _held(statistics: _Statistics, endpoint: Endpoint | None) -> Interval | None:
    if endpoint is None:
        return None
    column = endpoint.event_time or (
        "valid_from" if endpoint.mode is Mode.HISTORY else "_loaded_at"
    )
    low, high = statistics.get(column, (None, None))
    if not (low and high):
        return None
    return Interval(datetime.fromisoformat(low) - MARGIN, datetime.fromisoformat(high) + MARGIN)


def _devices(
    lake: Lake, file: ListedFile, statistics: _Statistics, endpoint: Endpoint | None
) -> str:
    """Return the ids of a file's devices: a few of them, or the first and the last."""
    if endpoint is None:
        return ""
    held = [name for name in _device_columns(endpoint) if statistics.get(name, (None,))[0]]
    if not held:
        return ""
    name = held[0]
    ids = _read_ids(FileStore(lake.path), file, name)
    if ids:
        more = ", …" if len(ids) > _SHOWN_IDS else ""
        shown = ", ".join(map(str, ids[:_SHOWN_IDS]))
        return f"{name} {shown}{more} ({len(ids):,})"
    low, high = statistics[name]
    return f"{name} {low}" if low == high else f"{name} {low} to {high}"


_SHOWN_IDS = 5


def _device_columns(endpoint: Endpoint) -> Iterable[str]:
    if endpoint.fan_out:
        yield endpoint.fan_out.partition
    names = {column.name for column in endpoint.columns}
    yield from (name for name in _DEVICES if name in names)
    if {other.fan_out.source for other in ENDPOINTS.values() if other.fan_out} & {endpoint.name}:
        yield endpoint.key[0]


def _read_ids(store: FileStore, file: ListedFile, column: str) -> list[Any]:
    """Return the distinct values of a column, or none if the file cannot be read."""
    try:
        table = pq.read_table(store.path(file.name), columns=[column], filesystem=store.system)
        return sorted(pc.unique(table[column].drop_null()).to_pylist())
    except (OSError, pa.ArrowException, TypeError, LookupError) as error:
        refuse_io_fault(error)
        return []
