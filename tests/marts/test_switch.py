"""The switch writes of a mart what differs, so that the lake grows with what happens."""

from dataclasses import replace
from datetime import UTC, datetime

import duckdb
import pytest

from fleetlake.lake import open_lake
from fleetlake.lake.ducklake import FILES_ONLY
from fleetlake.marts import switch
from fleetlake.marts.dbt import NodeResult
from fleetlake.marts.switch import Switcher
from fleetlake.text.quoting import literal

pytestmark = pytest.mark.proof

VOLUME = NodeResult(
    name="alert_volume",
    schema="marts",
    kind="table",
    status="success",
    seconds=0,
    message="",
    sql="",
)
NOW = datetime.now(UTC)
ROWS = "select i as router_id, if(i % 7 = 0, null, i) as alerts from range({}) as r (i)"


@pytest.fixture
def update(lake_path, tmp_path, monkeypatch):
    """Return a function that switches a query's rows into the lake.

    It returns whether anything was written, the rows of the mart that were written, and its files.
    """
    monkeypatch.setattr(switch, "FEW_ROWS", 50)
    monkeypatch.setattr(switch, "MOST_FILES", 4)
    file = tmp_path / "build.duckdb"

    def update(query, node=VOLUME, built_at=NOW):
        with duckdb.connect(file) as scratch:
            scratch.execute("create schema if not exists marts")
            scratch.execute(f"create or replace table marts.alert_volume as {query}")
            expected = scratch.execute("from marts.alert_volume order by all").fetchall()
        with open_lake(lake_path) as lake:
            lake.execute(f"attach {literal(file)} as build (read_only)")
            lake.execute(FILES_ONLY)
            with lake.transaction():
                written = Switcher(lake.connection, built_at).update_table(node)
            assert lake.rows("from marts.alert_volume order by all") == expected
            [(newest,)] = lake.rows("select max(snapshot_id) from lake.snapshots()")
            changes = f"ducklake_table_changes('lake', 'marts', 'alert_volume', {newest}, {newest})"
            [(inserted,)] = lake.rows(
                f"select count(*) from {changes} where change_type = 'insert'"
            )
            files = lake.rows(
                "select 1 from ducklake_list_files('lake', 'alert_volume', schema => 'marts')"
            )
        return written, inserted, len(files)

    return update


def test_of_a_large_mart_only_rows_that_differ_are_written_until_it_is_many_files(update):
    rows = ROWS.format(100)
    update(rows)

    assert update(rows)[0] is False
    grown = [update(ROWS.format(number)) for number in (101, 102, 103)]
    assert grown == [(True, 1, files) for files in (2, 3, 4)]
    assert update(ROWS.format(104)) == (True, 104, 1)
    assert update(ROWS.format(103)) == (True, 0, 1)


def test_a_small_mart_and_one_that_differs_in_most_rows_are_rewritten(update):
    update(ROWS.format(100))

    assert update(f"select router_id, alerts + 1 from ({ROWS.format(100)})") == (True, 100, 1)
    assert update(ROWS.format(10)) == (True, 10, 1)
    assert update(ROWS.format(11)) == (True, 11, 1)


def test_a_row_that_is_there_twice_is_written_twice(update):
    rows = ROWS.format(100)
    update(rows)

    assert update(f"{rows} union all {ROWS.format(2)}") == (True, 102, 1)
    assert update(rows) == (True, 100, 1)


def test_as_many_rows_of_which_others_are_there_twice_are_written(update):
    rows = ROWS.format(100)
    update(f"{rows} union all {ROWS.format(1)}")

    assert update(f"{rows} union all select 1, 1") == (True, 101, 1)
    assert update(f"{ROWS.format(101)} union all select 2, 2") == (True, 102, 1)


UNITS = replace(VOLUME, kind="incremental", unit=("router_id", "day"))
DAYS = """
    select i // 5 as day, nullif(i % 5, 0) as router_id,
           if(i // 10 < {0}, i // 10 + 1, 0) as alerts, to_timestamp(alerts) as built_at
    from range(100) as r (i)
"""


def test_of_an_incremental_mart_only_new_units_are_written_also_those_with_a_null(
    update, monkeypatch
):
    update(DAYS.format(0), UNITS)

    assert update(DAYS.format(0), UNITS)[0] is False
    grown = [update(DAYS.format(number), UNITS) for number in range(1, 6)]
    assert grown == [(True, 10, files) for files in range(2, 7)]
    with monkeypatch.context() as fewer:  # as if an earlier release had left too many files
        fewer.setattr(switch, "MOST_FILES", 1)
        assert update(DAYS.format(5), UNITS) == (False, 10, 6)
    assert update(DAYS.format(6), UNITS) == (True, 100, 1)


@pytest.mark.parametrize(("seconds", "inserted"), [(2, 100), (3, 100), (4, 10)])
def test_a_build_that_is_not_later_than_the_lakes_units_writes_all_rows(update, seconds, inserted):
    update(DAYS.format(3), UNITS)  # whose newest units are of second 3

    at = datetime.fromtimestamp(seconds, UTC)
    assert update(DAYS.format(4), UNITS, at)[:2] == (True, inserted)


def test_a_unit_without_rows_leaves_the_lake(update):
    update(DAYS.format(0), UNITS)

    written, *_ = update(f"{DAYS.format(0)} where i <> 5", UNITS)

    assert written
