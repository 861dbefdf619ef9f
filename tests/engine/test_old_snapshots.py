"""Older snapshots answer as they did, also after maintenance with a retention rule."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

import fleetlake
from fleetlake.care.maintenance import maintain
from fleetlake.cli.shell import attach_lines
from fleetlake.exporters.changes import Source, changes_since, mark_of
from fleetlake.lake import open_lake
from fleetlake.lake.attach import attach_statements
from fleetlake.lake.guard import close_off
from fleetlake.lake.retention_rules import prepare_retention
from fleetlake.settings import ClockTrust

RUNNING, ENDED = 5, 7
DAYS = {"failovers": 30}
SOURCE = Source(schema="raw", table="failovers", key=("uuid",))

QUESTION = (
    "select count(*) filter (ended_at is null), count(ended_at), min(data_usage), "
    "(select count(*) from {0} where ended_at is null) from {0}"
)
ANSWER = (RUNNING, ENDED, 1.0, RUNNING)
"""The answer before the failovers ended; afterwards none is running, and some are deleted."""

Then = tuple[Path, int]


@pytest.fixture(scope="module")
def maintained(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Then:
    """Return a lake after maintenance with a rule, and its snapshot before the failovers ended."""
    path = tmp_path_factory.mktemp("maintained") / "lake"
    shutil.copytree(empty_lake, path)
    with open_lake(path) as lake:
        lake.execute("set ducklake_default_data_inlining_row_limit = 0")
        lake.execute(
            "insert into raw.failovers by name select 'default' as account_profile, "
            f"i::varchar as uuid, (i + 1)::double as data_usage, now() - interval 1 day "
            f"as started_at, case when i >= {RUNNING} then now() end as ended_at "
            f"from range({RUNNING + ENDED}) as t(i)"
        )
        [(then,)] = lake.rows("select max(snapshot_id) from lake.snapshots()")
        lake.execute("update raw.failovers set ended_at = now() where ended_at is null")
        lake.execute("update raw.failovers set started_at = '2020-01-01' where data_usage < 3")
        prepare_retention(lake, DAYS, trust=ClockTrust.CHECKED)

        done = maintain(lake, keep=timedelta(days=7), days=DAYS)

        assert done.rows_deleted == {"failovers": 2}
        assert done.snapshots_expired == 0
    return path, then


def by_time(lake: Path, then: int) -> object:
    with fleetlake.open(lake) as reader:
        at = reader.sql("select snapshot_time from lake.snapshots() where snapshot_id = ?", [then])
        [[moment]] = at.arrow().to_pydict().values()
        return reader.as_of(moment).sql(QUESTION.format("raw.failovers")).arrow().to_pylist()


def by_sql_in_python(lake: Path, then: int) -> object:
    with fleetlake.open(lake) as reader:
        return (
            reader.sql(QUESTION.format(f"raw.failovers at (version => {then})")).arrow().to_pylist()
        )


def by_command(lake: Path, then: int) -> object:
    """Ask as `query` and `shell` do."""
    with open_lake(lake, read_only=True) as opened:
        close_off(opened)
        sql = QUESTION.format(f"raw.failovers at (version => {then})")
        return next(result.fetchall() for result in opened.run_user_sql(sql))


def by_printed_lines(lake: Path, then: int) -> object:
    with duckdb.connect() as connection:
        connection.execute(attach_lines(lake))
        sql = QUESTION.format(f"lake.raw.failovers at (version => {then})")
        return connection.execute(sql).fetchall()


def by_build(lake: Path, then: int) -> object:
    """Ask as a build does, which maintenance has overtaken."""
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as connection:
        connection.execute(attach_statements(lake, version=then))
        return connection.execute(QUESTION.format("lake.raw.failovers")).fetchall()


@pytest.mark.parametrize("ask", [by_time, by_sql_in_python, by_command, by_printed_lines, by_build])
def test_an_older_snapshot_answers_as_before_maintenance_with_a_retention_rule(
    maintained: Then, ask: Callable[[Path, int], list[object]]
) -> None:
    [found] = ask(*maintained)

    assert (tuple(found.values()) if isinstance(found, dict) else found) == ANSWER


def test_the_change_feed_has_the_failovers_that_ran_before_maintenance(maintained: Then) -> None:
    path, then = maintained
    with open_lake(path) as lake:
        now = mark_of(lake, SOURCE)
        old = replace(now, snapshot_id=then)

        changes = changes_since(lake, SOURCE, old, now)

        departed = lake.rows("select count(*), count(*) filter (ended_at is null) from departed")
        assert departed == [(RUNNING, RUNNING)]
        assert changes.deleted.num_rows == 2


def test_a_failover_deleted_before_maintenance_is_deleted_at_the_target(lake_path: Path) -> None:
    """DuckLake dates some deletes that the catalog held wrongly, once it writes them to files."""
    with open_lake(lake_path) as lake:
        lake.execute(
            "insert into raw.failovers by name select i::varchar as uuid, 'default' as "
            "account_profile, 0 as data_usage, now() as started_at from range(9) as t(i)"
        )
        lake.execute("update raw.failovers set data_usage = 1 where uuid = '2'")
        old = mark_of(lake, SOURCE)
        for change in (
            "update raw.failovers set data_usage = 1 where uuid = '1'",
            "update raw.failovers set data_usage = 2 where uuid = '1'",
            "delete from raw.failovers where uuid = '1'",
        ):
            lake.execute(change)
        maintain(lake)

        changes = changes_since(lake, SOURCE, old, mark_of(lake, SOURCE))

        sent = changes.rows.read_all()["uuid"].to_pylist()
        assert changes.deleted["uuid"].to_pylist() == ["1"]
        assert "1" not in sent
        assert len(sent) == len(set(sent)) == changes.count


def test_the_steps_of_maintenance_run_in_the_order_that_keeps_older_snapshots(
    lake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    with open_lake(lake_path) as lake:
        prepare_retention(lake, DAYS, trust=ClockTrust.CHECKED)
        own = lake.execute

        def look(sql: str, parameters: object = None) -> duckdb.DuckDBPyConnection:
            if sql.startswith("call ducklake_"):
                name = sql.removeprefix("call ducklake_").partition("(")[0]
                steps.append(f"{name} at 0" if "delete_threshold => 0" in sql else name)
            return own(sql, parameters)

        monkeypatch.setattr(lake, "execute", look)
        maintain(lake, days=DAYS)

    assert steps == [
        "flush_inlined_data",
        "merge_adjacent_files",
        "rewrite_data_files",
        "rewrite_data_files at 0",
        "expire_snapshots",
        "cleanup_old_files",
        "delete_orphaned_files",
    ]
