"""A large list is kept compressed and compared in parts, with the same result as at once."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fleetlake.decoding import records
from fleetlake.decoding.records import PageReader
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.endpoints.relations import Thing
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, loads, open_lake
from fleetlake.lake.current import lacks_current
from fleetlake.lake.loads import RowParts, Whole
from fleetlake.lake.tombstones import add_tombstones
from tests.support.loads import Load, commit, load_of_rows
from tests.support.waiting import wait_for
from tests.test_lake import rows_of, versions

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
GROUPS, NET_DEVICES = ENDPOINTS["groups"], ENDPOINTS["net_devices"]


@pytest.fixture
def lake(lake_path: Path) -> Iterator[Lake]:
    with open_lake(lake_path) as opened:
        yield opened


def packed(table: pa.Table, most: int | None = None) -> RowParts:
    """Return rows added batch by batch, with at most so many rows each."""
    rows = RowParts(table.schema)
    for batch in table.to_batches(most):
        rows.add(batch)
    return rows


@pytest.fixture(params=[2, 100], ids=["in parts", "at once"])
def whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(loads, "ROWS_PER_PACK", request.param)
    monkeypatch.setattr(loads, "ROWS_PER_PART", request.param)

    def make(*records: dict[str, Any], endpoint: Endpoint = GROUPS, **changes: Any) -> Load:
        return load_of_rows(
            endpoint, packed(rows_of(endpoint, [*records])), whole=Whole(), **changes
        )

    return make


def group(number: int, name: str = "", **members: Any) -> dict[str, Any]:
    return {"id": str(number), "name": name or f"group {number}", **members}


def net_device(number: int, *, router: int, **members: Any) -> dict[str, Any]:
    return {"id": str(number), "router": f"/api/v2/routers/{router}/", **members}


def test_a_list_in_parts_opens_and_closes_the_same_versions_as_at_once(lake, whole):
    commit(lake, whole(*(group(n) for n in range(1, 8))))
    second = [group(1), group(2, "new name"), group(3), group(4, "old"), group(5), group(8)]
    again = [group(4, "newest"), group(7)]  # read again, as pages of a list may overlap

    done = commit(lake, whole(*second, *again, seen_at=LATER))

    assert versions(lake, GROUPS, "id", "name") == [
        (1, "group 1", NOON, None),
        (2, "group 2", NOON, LATER),
        (2, "new name", LATER, None),
        (3, "group 3", NOON, None),
        (4, "group 4", NOON, LATER),
        (4, "newest", LATER, None),
        (5, "group 5", NOON, None),
        (6, "group 6", NOON, LATER),
        (7, "group 7", NOON, None),
        (8, "group 8", LATER, None),
    ]
    assert (done.added, done.changed) == (3, 3)


def test_json_that_only_changed_its_order_in_any_part_is_no_change(lake, whole):
    first = [group(n, configuration={"a": 1, "b": n}) for n in range(1, 6)]
    commit(lake, whole(*first))
    respelled = [group(n, configuration={"b": n, "a": 1}) for n in range(1, 6)]

    done = commit(lake, whole(*respelled, seen_at=LATER), only_changes=True)

    assert done.is_nothing


def test_new_members_in_any_part_are_noted(lake, whole):
    commit(lake, whole(group(1), group(2), group(3), group(4, mood="calm")))

    assert lake.rows("select member, example from meta.schema_drift") == [("mood", '"calm"')]


def test_what_was_erased_stays_out_of_every_part_of_a_list(lake, whole):
    with lake.transaction():
        add_tombstones(lake, [(Thing.ROUTER, 2), (Thing.NET_DEVICE, 70)], ["bus 12"])
    listed = [
        net_device(10, router=1, alias="bus 12"),
        net_device(20, router=2),  # unknown so far: gets a tombstone of its own
        net_device(30, router=1, alias="bus 13"),
        net_device(40, router=3),
        net_device(50, router=2),
        net_device(60, router=3, alias="depot, bus 12"),
        net_device(70, router=4),
    ]

    done = commit(lake, whole(*listed, endpoint=NET_DEVICES))
    found = lake.rows("select id, router_id, _extra from raw.net_devices order by id")
    again = [net_device(number, router=3) for number in (20, 40, 50)]
    commit(lake, whole(*again, endpoint=NET_DEVICES, seen_at=LATER))

    assert [(id_, router) for id_, router, _ in found] == [(10, 1), (30, 1), (40, 3), (60, 3)]
    assert "bus 13" in found[1][2]
    assert not any("bus 12" in (extra or "") for *_, extra in found)
    assert done.added == 4
    listed_later = "select id from raw.net_devices where valid_to is null"
    assert lake.rows(listed_later) == [(40,)]


def test_a_list_lacks_a_current_record_only_if_its_own_account_has_one_that_is_not_listed(
    lake, whole
):
    commit(lake, whole(*(group(n) for n in range(1, 4))))
    commit(lake, whole(group(9), profile="other"))

    def lacks(*numbers: int) -> bool:
        keys = rows_of(GROUPS, [group(n) for n in numbers]).select(GROUPS.key)
        return lacks_current(lake, GROUPS, keys, profile="default")

    assert lacks(1, 3)
    assert not lacks(3, 2, 1, 1, 7)
    assert lacks()
    commit(lake, whole(group(1), group(3), seen_at=LATER))
    assert not lacks(1, 3)


def test_readers_remember_some_relations_only_and_read_all_of_them(monkeypatch):
    records._IDS.clear()  # noqa: SLF001 - other tests' relations
    monkeypatch.setattr(records, "MOST_IDS", 4)
    numbers = [7, None, *range(20, 40), None, 7]
    listed = [{"id": "1", "router": n and f"/api/v2/routers/{n}/"} for n in numbers]
    reader = PageReader(ENDPOINTS["router_lans"])

    body = json.dumps({"data": listed, "meta": {"limit": 500, "next": None}})
    decoded = reader.fast(body.encode())

    assert decoded.values["router_id"] == numbers
    assert len(records._IDS) <= 4  # noqa: SLF001 - nothing else shows it


@pytest.mark.parametrize("readable", [Lake.view, Lake.stream], ids=["view", "stream"])
def test_no_rows_are_held_after_their_block_though_the_transaction_goes_on(lake, readable):
    def freed_bytes() -> int:
        return while_read - pa.total_allocated_bytes()

    with lake.transaction():
        before = pa.total_allocated_bytes()
        with readable(lake, "batch", pa.table({"id": pa.array(range(50_000))})):
            while_read = pa.total_allocated_bytes()
            assert lake.rows("select max(id) from batch") == [(49_999,)]
        lake.rows("select 1")  # a connection holds what its last result needs
        # A thread of Arrow's may let go of the rows a moment later.
        wait_for(lambda: freed_bytes() > 360_000, between=0.01)

    assert while_read - before >= 400_000


def test_a_stream_that_is_read_a_second_time_is_an_error_and_not_empty(lake):
    with lake.stream("batch", pa.table({"id": [1, 2]})):
        assert lake.rows("select count(*) from batch") == [(2,)]
        with pytest.raises(LakeError, match="already been consumed"):
            lake.rows("select count(*) from batch")


def test_rows_come_back_in_their_order_from_packs_and_parts(monkeypatch):
    monkeypatch.setattr(loads, "ROWS_PER_PACK", 3)
    monkeypatch.setattr(loads, "ROWS_PER_PART", 4)
    rows = rows_of(GROUPS, [group(n) for n in range(10)])

    parts = list(packed(rows).parts())

    assert [part.num_rows for part in parts] == [6, 4]
    assert [id_ for part in parts for id_ in part["id"].to_pylist()] == list(range(10))
    assert all(part.schema == rows.schema for part in parts)


def test_freed_memory_is_returned_before_each_part_of_a_large_list_only(monkeypatch):
    monkeypatch.setattr(loads, "ROWS_PER_PACK", 3)
    monkeypatch.setattr(loads, "ROWS_PER_PART", 4)
    returns: list[None] = []
    monkeypatch.setattr(loads, "_return_memory", lambda: returns.append(None))

    def returns_before_each_part(rows: int) -> list[int]:
        listed = packed(rows_of(GROUPS, [group(n) for n in range(rows)]), 1)
        return [len(returns) for _ in listed.parts()]

    assert returns_before_each_part(2) == [0]
    assert returns_before_each_part(13) == [1, 2, 2]


def test_a_list_that_lost_most_of_its_records_changes_nothing_until_it_was_read_again(lake, whole):
    commit(lake, whole(*(group(n) for n in range(1, 9))))
    first = replace(whole(group(1), group(9), seen_at=LATER), whole=Whole(may_ask_again=True))
    before = [versions(lake, GROUPS, "id"), lake.rows("select * from meta.loads")]

    done = commit(lake, first)

    assert (done.asks_again, done.is_nothing) == (True, True)
    assert [versions(lake, GROUPS, "id"), lake.rows("select * from meta.loads")] == before
    assert commit(lake, replace(first, whole=Whole())).unconfirmed == 7
