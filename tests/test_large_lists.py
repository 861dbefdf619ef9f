"""A large list is kept compressed and compared in parts, with the same result as at once."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.decoding.timeuuid import smallest_at
from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import Lake, open_lake, packed_rows
from fleetlake.lake.commit import commit_load
from fleetlake.lake.loads import Load
from fleetlake.lake.packed_rows import PackedRows
from tests.test_lake import load_of, versions

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
GROUPS = ENDPOINTS["groups"]


@pytest.fixture
def lake(lake_path: Path) -> Iterator[Lake]:
    with open_lake(lake_path) as opened:
        yield opened


@pytest.fixture(params=[2, 100], ids=["in parts", "at once"])
def whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(packed_rows, "ROWS_PER_PACK", request.param)
    monkeypatch.setattr(packed_rows, "ROWS_PER_PART", request.param)

    def make(*records: dict[str, Any], **changes: Any) -> Load:
        load = load_of(GROUPS, *records, is_whole=True, **changes)
        packed = PackedRows(load.rows.schema)
        for batch in load.rows.to_batches():
            packed.add(batch)
        return replace(load, rows=load.rows.schema.empty_table(), packed=packed)

    return make


def group(number: int, name: str = "", **members: Any) -> dict[str, Any]:
    return {"id": str(number), "name": name or f"group {number}", **members}


def test_a_list_in_parts_opens_and_closes_the_same_versions_as_at_once(lake, whole):
    commit_load(lake, whole(*(group(n) for n in range(1, 8))))
    second = [group(1), group(2, "new name"), group(3), group(4, "old"), group(5), group(8)]
    again = [group(4, "newest"), group(7)]  # read again, as pages of a list may overlap

    done = commit_load(lake, whole(*second, *again, seen_at=LATER))

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
    commit_load(lake, whole(*first))
    respelled = [group(n, configuration={"b": n, "a": 1}) for n in range(1, 6)]

    done = commit_load(lake, whole(*respelled, seen_at=LATER), only_changes=True)

    assert done.is_nothing


def test_new_members_in_any_part_are_noted(lake, whole):
    commit_load(lake, whole(group(1), group(2), group(3), group(4, mood="calm")))

    assert lake.rows("select member, example from meta.schema_drift") == [("mood", '"calm"')]


def test_rows_come_back_in_their_order_from_packs_and_parts(monkeypatch):
    monkeypatch.setattr(packed_rows, "ROWS_PER_PACK", 3)
    monkeypatch.setattr(packed_rows, "ROWS_PER_PART", 4)
    rows = load_of(GROUPS, *(group(n) for n in range(10))).rows
    packed = PackedRows(rows.schema)
    for batch in rows.to_batches():
        packed.add(batch)

    parts = list(packed.parts())

    assert [part.num_rows for part in parts] == [6, 4]
    assert [id_ for part in parts for id_ in part["id"].to_pylist()] == list(range(10))
    assert all(part.schema == rows.schema for part in parts)


def test_a_load_that_waits_keeps_its_newest_time_and_no_rows():
    alerts = ENDPOINTS["alerts"]
    load = load_of(
        alerts, {"created_at": NOON.isoformat(), "created_at_timeuuid": smallest_at(NOON)}
    )

    waiting = load.waiting()

    assert waiting.rows.num_rows == 0
    assert waiting.newest == NOON
