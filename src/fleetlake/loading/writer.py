"""Collect readings into batches and commit them.

A commit takes about 0.1 s whatever its size, so a batch is committed when it has `ROWS_PER_COMMIT`
rows, takes `BYTES_PER_COMMIT` of memory, or its oldest page is `SECONDS_PER_COMMIT` old. A page's
rows and what the page proves are in one commit, so after a kill only uncommitted pages are read
again.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

import pyarrow as pa

from fleetlake.decoding.arrow import Page, newest_service_time, schema_of
from fleetlake.decoding.records import RejectedRecord
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.lake.loads import ROWS_PER_PART, Batch, Proof, RowParts, Whole
from fleetlake.lake.watermarks import WHOLE_STREAM, LastRead
from fleetlake.loading.load_plan import LoadPlan
from fleetlake.loading.run import Run
from fleetlake.planning.coverage import before
from fleetlake.planning.intervals import Interval, subtract
from fleetlake.reading.walks import Reading


class ListPages:
    """The pages of one list, added as they arrive.

    `is_paged` is true if a walk had more than one page. `service_time` is the newest time that the
    service put on a record.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        fan_outs = [other.fan_out for other in ENDPOINTS.values() if other.fan_out]
        moved = [f.moved for f in fan_outs if f.moved and f.moved.endpoint == endpoint.name]
        self._endpoint, self._id = endpoint, moved[0].id if moved else None
        self.rows = RowParts(schema_of(endpoint))
        self._digests: list[bytes] = []
        self.rejects: list[RejectedRecord] = []
        self.is_paged = False
        self.service_time: datetime | None = None

    def add(self, page: Page) -> None:
        """Add a page."""
        self.rows.add(page.rows)
        self._digests.append(sha256(page.rows.serialize()).digest())
        self.rejects += page.rejects
        self.is_paged = self.is_paged or not page.is_last
        self.service_time = _later(self.service_time, newest_service_time(self._endpoint, page))

    @property
    def digest(self) -> str | None:
        """A digest of the columns and all pages, in any order; None if a record was rejected."""
        if self.rejects:
            return None
        columns = self.rows.schema.serialize().to_pybytes()
        return sha256(b"".join([columns, *sorted(self._digests)])).hexdigest()

    @property
    def listed(self) -> pa.ChunkedArray | None:
        """The ids of a bulk list, which says which ids of a fan-out changed; otherwise None."""
        return None if self._id is None else self.rows.columns([self._id]).column(0)


ROWS_PER_COMMIT = 300_000
"""A commit needs memory for each row, however short: its key is compared with those of others."""

BYTES_PER_COMMIT = 72_000_000
"""Memory of a batch's rows and rejected records: about 280,000 alerts or 250,000 activity logs."""

SECONDS_PER_COMMIT = 10.0


@dataclass
class _Buffer:
    pages: list[Page] = field(default_factory=list)
    proven: dict[str, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    rows: int = 0
    size: int = 0  # bytes
    since: float = 0.0
    service_time: datetime | None = None


class Writer:
    """Commits the readings of one stream in order of arrival.

    Nothing is proven for `unsettled` and expired ranges or for unconfirmed ids. If the stream has
    never returned a record, nothing is proven until one arrives.
    """

    def __init__(
        self,
        run: Run,
        endpoint: Endpoint,
        plan: LoadPlan,
        *,
        now: datetime,
        unsettled: Interval,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._endpoint, self._plan = run, endpoint, plan
        self._now, self._unsettled, self._clock = now, unsettled, clock
        self._has_shown = plan.has_shown
        self._buffer = _Buffer(since=clock())

    async def write(self, reading: Reading) -> None:
        """Add a reading to the batch; commit the batch if it is due. Raises: LakeError."""
        buffer = self._buffer
        buffer.pages.append(reading.page)
        self._has_shown = self._has_shown or bool(reading.page.count)
        buffer.rows += reading.page.rows.num_rows
        buffer.size += _size_of(reading.page)
        newest = newest_service_time(self._endpoint, reading.page)
        buffer.service_time = _later(buffer.service_time, newest)
        for proven in before(self._unsettled.start, [reading.proven] if reading.proven else []):
            for partition in map(str, reading.partitions or (WHOLE_STREAM,)):
                if partition in self._plan.unconfirmed:
                    continue
                # An expired range is proven later, together with the recording of its gap.
                provable = subtract(proven, self._plan.expired.get(partition, ()))
                buffer.proven[partition].extend(provable)
        if self._is_due(buffer):
            await self.flush()

    def _is_due(self, buffer: _Buffer) -> bool:
        is_large = buffer.rows >= ROWS_PER_COMMIT or buffer.size >= BYTES_PER_COMMIT
        return is_large or self._clock() - buffer.since >= SECONDS_PER_COMMIT

    async def flush(self, *, ends: LastRead | None = None) -> None:
        """Commit the current batch.

        `ends` is passed once the load is complete: it is what the next load needs to know.
        """
        buffer, self._buffer = self._buffer, _Buffer(since=self._clock())
        if not buffer.pages and ends is None:
            return  # the end of a read counts even if its last page was due for a commit itself
        pages, schema = [page.rows for page in buffer.pages], schema_of(self._endpoint)
        batch = Batch(
            endpoint=self._endpoint,
            profile=self._run.profile,
            rows=RowParts.of(pa.Table.from_batches(pages, schema=schema)),
            seen_at=self._now,
            rejects=[reject for page in buffer.pages for reject in page.rejects],
        )
        proof = Proof(
            proven=buffer.proven if self._has_shown else {},
            overlap=self._plan.overlap,
            ends=ends,
            newest=batch.newest,
            service_time=buffer.service_time,
        )
        await self._run.lake.commit(batch, proof)


async def write_list(
    run: Run, endpoint: Endpoint, pages: ListPages, whole: Whole, *, seen_at: datetime
) -> bool:
    """Commit a complete list: at once if it is kept as history, otherwise part by part.

    Returns False, and nothing was committed, if it must be read a second time. Raises: LakeError.
    """
    # Only the whole list shows which records are gone.
    is_history = endpoint.mode is Mode.HISTORY
    rejects: Sequence[RejectedRecord] = pages.rejects
    if not is_history and pages.rows.num_rows > ROWS_PER_PART:
        whole = replace(whole, digest=None)  # another process may write between two parts
    for rows in [pages.rows] if is_history else map(RowParts.of, pages.rows.parts()):
        batch = Batch(
            endpoint=endpoint, profile=run.profile, rows=rows, seen_at=seen_at, rejects=rejects
        )
        proof = Proof(newest=batch.newest, service_time=pages.service_time)
        done = await run.lake.commit(batch, proof, whole)
        if done.asks_again:
            return False
        rejects = ()
    return True


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(filter(None, (one, other)), default=None)


def _size_of(page: Page) -> int:
    """Return the bytes that a page's rows and rejected records take in memory, roughly."""
    rows: int = page.rows.get_total_buffer_size()
    return rows + sum(len(reject.raw) for reject in page.rejects)
