"""Readings to commits: large enough, soon enough, and each proven range with its rows."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fleetlake.decoding.arrow import read_page
from fleetlake.decoding.records import RejectedRecord
from fleetlake.decoding.timeuuid import smallest_at
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import LakeError
from fleetlake.lake import loads
from fleetlake.lake.loads import Batch, Committed, Proof, Whole
from fleetlake.lake.watermarks import LastRead
from fleetlake.loading import writer as writers
from fleetlake.loading.load_plan import LoadPlan
from fleetlake.loading.stream_loads import first_expired
from fleetlake.loading.writer import ListPages, Writer, write_list
from fleetlake.planning.intervals import Interval
from fleetlake.reading.walks import Reading

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
ALERTS, GROUPS = ENDPOINTS["alerts"], ENDPOINTS["groups"]
SAMPLES = ENDPOINTS["net_device_usage_samples"]
NONE = Interval(NOON, NOON)
PLAN = {"wanted": (), "expired": {}, "unconfirmed": frozenset(), "skipped": 0, "has_shown": True}


class Lake:
    """Accepts batches and what they prove, or fails."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.proofs: list[Proof] = []
        self.wholes: list[Whole | None] = []
        self.error: Exception | None = None

    async def commit(self, batch: Batch, proof: Proof, whole: Whole | None = None) -> Committed:
        if self.error:
            raise self.error
        self.batches.append(batch)
        self.proofs.append(proof)
        self.wholes.append(whole)
        return Committed(batch.rows.num_rows, 1, len(batch.rejects))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def lake() -> Lake:
    return Lake()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(lake: Lake) -> Any:
    return SimpleNamespace(lake=lake, profile="default")


@pytest.fixture
def writer_of(run: Any, clock: Clock) -> Callable[..., Writer]:
    def make(endpoint: Endpoint, *, unsettled: Interval = NONE, **changes: Any) -> Writer:
        plan = LoadPlan(**{**PLAN, **changes})
        return Writer(run, endpoint, plan, now=NOON, unsettled=unsettled, clock=clock)

    return make


def reading(
    endpoint: Endpoint,
    *minutes: int,
    proven: Interval | None = None,
    partitions: tuple[int, ...] = (),
) -> Reading:
    moments = [NOON + timedelta(minutes=minute) for minute in minutes]
    records = [
        {"created_at": m.isoformat(), "created_at_timeuuid": smallest_at(m), "net_device": "1"}
        if not endpoint.is_snapshot
        else {"id": "1"}
        for m in moments
    ]
    if endpoint is ALERTS:
        for record in records:
            del record["net_device"]
    answer = {"data": records, "meta": {"limit": 500, "next": None}}
    return Reading(read_page(endpoint, json.dumps(answer).encode()), partitions, proven)


def write(writer: Writer, *readings: Reading) -> None:
    async def go() -> None:
        for one in readings:
            await writer.write(one)

    asyncio.run(go())


def flush(writer: Writer) -> None:
    asyncio.run(writer.flush())


PAGES = [reading(ALERTS, 1, 2), reading(ALERTS, 3, 4), reading(ALERTS, 5, 6)]
SIZE = sum(one.page.rows.get_total_buffer_size() for one in PAGES)


@pytest.mark.parametrize(("limit", "most"), [("BYTES_PER_COMMIT", SIZE), ("ROWS_PER_COMMIT", 5)])
def test_pages_are_buffered_until_they_are_enough(writer_of, lake, monkeypatch, limit, most):
    monkeypatch.setattr(writers, limit, most)
    writer = writer_of(ALERTS)

    write(writer, *PAGES[:2])
    assert lake.batches == []
    write(writer, *PAGES[2:], *PAGES[:1])
    flush(writer)

    assert [batch.rows.num_rows for batch in lake.batches] == [6, 2]


def test_large_records_that_are_rejected_make_a_commit_due_too(writer_of, lake, monkeypatch):
    monkeypatch.setattr(writers, "BYTES_PER_COMMIT", 1_000_000)
    large = reading(ALERTS)
    rejects = (RejectedRecord("no time", "x" * 600_000),)
    large = replace(large, page=replace(large.page, rejects=rejects))
    writer = writer_of(ALERTS)

    write(writer, large)
    assert lake.batches == []
    write(writer, large)

    assert [len(batch.rejects) for batch in lake.batches] == [2]


def test_pages_wait_no_longer_than_the_limit(writer_of, lake, clock):
    writer = writer_of(ALERTS)
    write(writer, reading(ALERTS, 1))

    clock.now = writers.SECONDS_PER_COMMIT
    write(writer, reading(ALERTS, 2))

    assert [batch.rows.num_rows for batch in lake.batches] == [2]


def test_a_proven_range_is_committed_with_its_rows(writer_of, lake, monkeypatch):
    monkeypatch.setattr(writers, "BYTES_PER_COMMIT", 1)
    first, second = Interval(NOON - 2 * HOUR, NOON - HOUR), Interval(NOON - HOUR, NOON)
    writer = writer_of(ALERTS)

    write(writer, reading(ALERTS, -70, proven=first), reading(ALERTS, -30, proven=second))

    assert [dict(proof.proven) for proof in lake.proofs] == [{"": [first]}, {"": [second]}]
    assert [batch.newest.hour for batch in lake.batches] == [10, 11]


def test_a_range_proven_without_rows_is_committed_too(writer_of, lake):
    writer = writer_of(ALERTS)

    write(writer, reading(ALERTS, proven=Interval(NOON - HOUR, NOON)))
    flush(writer)

    assert [batch.records for batch in lake.batches] == [0]
    assert [bool(proof.proven) for proof in lake.proofs] == [True]


def test_a_proven_range_counts_for_each_id_of_the_call(writer_of, lake):
    hour = Interval(NOON - HOUR, NOON)
    writer = writer_of(SAMPLES)

    write(writer, reading(SAMPLES, -5, proven=hour, partitions=(7, 9)))
    flush(writer)

    assert dict(lake.proofs[0].proven) == {"7": [hour], "9": [hour]}


def test_nothing_is_proven_beyond_what_is_final(writer_of, lake):
    final = NOON - timedelta(minutes=11)
    writer = writer_of(ALERTS, unsettled=Interval(final, NOON))

    write(
        writer,
        reading(ALERTS, -5, proven=Interval(NOON - timedelta(minutes=5), NOON)),
        reading(ALERTS, -30, proven=Interval(NOON - HOUR, NOON - timedelta(minutes=5))),
    )
    flush(writer)

    assert dict(lake.proofs[0].proven) == {"": [Interval(NOON - HOUR, final)]}
    assert lake.batches[0].rows.num_rows == 2


def commit_list(run: Any, endpoint: Endpoint, *readings: Reading) -> None:
    pages = ListPages(endpoint)
    for one in readings:
        pages.add(one.page)
    asyncio.run(write_list(run, endpoint, pages, Whole(), seen_at=NOON))


def test_a_history_list_is_only_committed_whole(run, lake, monkeypatch):
    monkeypatch.setattr(loads, "ROWS_PER_PACK", 1)
    monkeypatch.setattr(loads, "ROWS_PER_PART", 1)

    commit_list(run, GROUPS, reading(GROUPS, 1), reading(GROUPS, 2))

    [batch] = lake.batches
    assert lake.wholes == [Whole()]
    assert [part.num_rows for part in batch.rows.parts()] == [1, 1]


def test_another_list_is_committed_part_by_part(run, lake, monkeypatch):
    monkeypatch.setattr(loads, "ROWS_PER_PACK", 1)
    monkeypatch.setattr(loads, "ROWS_PER_PART", 2)
    locations = ENDPOINTS["locations"]

    commit_list(run, locations, *(reading(locations, n) for n in range(3)))

    assert [batch.rows.num_rows for batch in lake.batches] == [2, 1]


@pytest.mark.parametrize("endpoint", [GROUPS, ENDPOINTS["locations"]], ids=["history", "latest"])
def test_an_empty_whole_list_is_committed(run, lake, endpoint):
    commit_list(run, endpoint)

    assert [
        (batch.records, whole) for batch, whole in zip(lake.batches, lake.wholes, strict=True)
    ] == [(0, Whole())]


def test_an_empty_buffer_makes_no_commit(writer_of, lake):
    asyncio.run(writer_of(ALERTS).flush())

    assert lake.batches == []


def test_the_end_of_a_read_counts_if_its_last_page_made_a_commit_due(writer_of, lake, monkeypatch):
    monkeypatch.setattr("fleetlake.loading.writer.BYTES_PER_COMMIT", 1)
    ends = LastRead(shard="1/1", unsettled=Interval(NOON, NOON), swept_at=NOON, wanted_from=None)
    writer = writer_of(ALERTS)

    write(writer, reading(ALERTS, 1))
    asyncio.run(writer.flush(ends=ends))

    assert [batch.records for batch in lake.batches] == [1, 0]
    assert [proof.ends for proof in lake.proofs] == [None, ends]


def test_a_batch_is_a_part_of_a_list_unless_it_is_said_to_be_whole(writer_of, lake):
    writer = writer_of(ALERTS)

    write(writer, reading(ALERTS, 1))
    asyncio.run(writer.flush())

    assert lake.wholes == [None]
    assert lake.proofs[0].ends is None
    assert dict(lake.proofs[0].proven) == {}


def test_misfits_are_committed_with_their_page(run, lake):
    page = read_page(GROUPS, b'{"data":[{"id":"x"},{"id":"1"}],"meta":{"limit":2,"next":null}}')

    commit_list(run, GROUPS, Reading(page, (), None))

    [batch] = lake.batches
    assert [reject.raw for reject in batch.rejects] == ['{"id":"x"}']
    assert batch.rows.num_rows == 1


@pytest.mark.parametrize(("endpoint", "partition"), [(ALERTS, ""), (SAMPLES, "1")])
def test_the_first_record_that_still_came_from_an_expired_range_is_noted(endpoint, partition):
    expired = {partition: [Interval(NOON - 3 * HOUR, NOON - HOUR)], "2": [NONE]}
    pages = [(-200, -60), (-70, -90), (-80, 5)]

    found = [first_expired(endpoint, expired, reading(endpoint, *one).page) for one in pages]

    assert found == [{}, {partition: NOON - 90 * MINUTE}, {partition: NOON - 80 * MINUTE}]


def test_a_failed_commit_is_reported_and_counts_nothing(writer_of, lake):
    writer = writer_of(ALERTS)
    write(writer, reading(ALERTS, 1, proven=Interval(NOON - HOUR, NOON)))
    lake.error = LakeError("the disk is full")

    with pytest.raises(LakeError, match="disk is full"):
        flush(writer)

    assert lake.batches == []


def test_no_commit_after_a_failed_one_proves_ranges_that_were_not_stored(writer_of, lake):
    lost, kept = Interval(NOON - 2 * HOUR, NOON - HOUR), Interval(NOON - HOUR, NOON)
    writer = writer_of(ALERTS)
    write(writer, reading(ALERTS, -70, proven=lost))
    lake.error = LakeError("the disk is full")
    with pytest.raises(LakeError):
        flush(writer)

    lake.error = None
    write(writer, reading(ALERTS, -30, proven=kept))
    flush(writer)

    proven = [interval for proof in lake.proofs for interval in proof.proven.get("", [])]
    rows = sum(batch.rows.num_rows for batch in lake.batches)
    assert (proven == [kept] and rows == 1) or (lost in proven and rows == 2)
