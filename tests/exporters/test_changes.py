"""What changed since a mark, without rows that were only rewritten."""

import shutil
from pathlib import Path

import pytest

from fleetlake.care.maintenance import maintain
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import SettingsError, UsageError
from fleetlake.exporters import TARGETS
from fleetlake.exporters.changes import Source, changes_since, mark_of
from fleetlake.exporters.contract import ExportMark
from fleetlake.exporters.export import address_of, tables_named, target_named
from fleetlake.lake import open_lake
from fleetlake.marts.catalogue import mart_keys, marts

TRIPS = Source(schema="marts", table="trips", key=("trip_id",))


@pytest.fixture(scope="module")
def opened(empty_lake, tmp_path_factory):
    """Open one lake for all tests; each test recreates its table."""
    copy = shutil.copytree(empty_lake, tmp_path_factory.mktemp("changes") / "lake")
    with open_lake(Path(copy)) as lake:
        yield lake


@pytest.fixture
def lake(opened):
    opened.execute("create or replace table marts.trips (trip_id bigint, note varchar)")
    for part in range(3):
        rows = f"select i, 'a' from range({part}0, {part}9) r(i)"
        opened.execute(f"insert into marts.trips {rows}")
    return opened


def net(lake, then: ExportMark) -> tuple[set[tuple[object, ...]], set[int], set[int]]:
    """Return the new rows, the keys that became stale, and the deleted keys."""
    found = changes_since(lake, TRIPS, then, mark_of(lake, TRIPS))
    rows = {tuple(row.values())[:-1] for row in found.rows.read_all().to_pylist()}
    return rows, *(set(keys["trip_id"].to_pylist()) for keys in (found.stale, found.deleted))


def test_a_row_changed_twice_counts_once_and_a_reverted_row_not_at_all(lake):
    then = mark_of(lake, TRIPS)
    lake.execute("update marts.trips set note = 'b' where trip_id in (1, 2)")
    lake.execute("update marts.trips set note = 'c' where trip_id = 1")
    lake.execute("update marts.trips set note = 'a' where trip_id = 2")
    lake.execute("delete from marts.trips where trip_id = 3")

    assert net(lake, then) == ({(1, "c")}, {1, 3}, {3})


@pytest.mark.proof
def test_maintenance_between_two_exports_neither_adds_nor_hides_changes(lake):
    then = mark_of(lake, TRIPS)
    lake.execute("update marts.trips set note = 'b' where trip_id = 1")
    lake.execute("delete from marts.trips where trip_id in (10, 20)")
    lake.execute("insert into marts.trips values (99, 'new')")
    before = net(lake, then)
    for _ in range(2):
        maintain(lake)

        assert net(lake, then) == before == ({(1, "b"), (99, "new")}, {1, 10, 20}, {10, 20})


def test_a_mark_written_by_another_version_is_ignored(lake):
    mark = mark_of(lake, TRIPS)

    assert ExportMark.from_text(mark.as_text()) == mark
    for text in ("", "{}", "[]", '{"key": []}', "null"):
        assert ExportMark.from_text(text) is None


def test_every_mart_and_every_endpoint_has_a_key(lake):
    assert set(mart_keys()) == {mart["name"] for mart in marts()}
    raw = {source.table: source for source in tables_named(lake, ["raw"])}
    assert set(raw) == set(ENDPOINTS)
    assert all(source.key for source in raw.values())


def test_tables_are_named_as_in_sql_and_a_schema_name_selects_all_its_tables(lake):
    assert [s.name for s in tables_named(lake, ["trips", "raw.alerts"])] == ["trips", "raw_alerts"]
    assert len(tables_named(lake, ["meta"])) == len(tables_named(lake, ["meta", "meta.gaps"]))
    with pytest.raises(UsageError, match="nothing"):
        tables_named(lake, ["trips", "nothing"])
    with pytest.raises(UsageError, match=r"Did you mean raw\.alerts\? Did you mean trips\? Run"):
        tables_named(lake, ["raw.alertz", "tripps"])


def test_a_missing_target_or_address_is_an_error_that_says_what_to_do():
    with pytest.raises(UsageError, match="postgres"):
        target_named("oracle")
    with pytest.raises(SettingsError, match="FLEETLAKE_EXPORTS__POSTGRES"):
        address_of(TARGETS["postgres"], {})
