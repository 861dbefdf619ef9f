"""What a lake recalls is what it would read, whoever wrote in between."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fleetlake.lake.catalog import open_lake
from fleetlake.lake.connection import Lake
from fleetlake.lake.recalled import tables_in

RULES = "select endpoint, days from meta.retention order by all"
DIGESTS = "select kind, digest from meta.tombstones order by all"
BOTH = (
    "select endpoint from meta.retention union all select digest from meta.tombstones order by all"
)
QUERIES = (RULES, DIGESTS, BOTH)
WRITES = (
    "insert into meta.retention values ('alerts', {n}, now())",
    "insert into meta.tombstones by name select 'router' as kind, '{n}' as digest",
    "delete from meta.retention where days < {n}",
    "delete from meta.tombstones where false",
)


class Undo(Exception):
    """Ends a transaction without its changes."""


@contextmanager
def two_processes(folder: Path) -> Iterator[tuple[Lake, Lake]]:
    with open_lake(folder / "lake") as first, open_lake(folder / "lake") as second:
        yield first, second


def write_something(lake: Lake, dice: random.Random) -> None:
    lake.execute(dice.choice(WRITES).format(n=dice.randrange(100)))


def write_and_read_in_a_transaction(lake: Lake, dice: random.Random) -> None:
    with lake.transaction():
        if dice.random() < 0.5:
            compare(lake)
        write_something(lake, dice)
        compare(lake)


def write_and_undo(lake: Lake, dice: random.Random) -> None:
    with suppress(Undo), lake.transaction():
        write_something(lake, dice)
        compare(lake)
        raise Undo


def roll_back_within_a_transaction(lake: Lake, dice: random.Random) -> None:
    with lake.transaction():
        write_something(lake, dice)
        lake.roll_back()
        compare(lake)


STEPS: tuple[Callable[[Lake, random.Random], None], ...] = (
    write_something,
    write_and_read_in_a_transaction,
    write_and_undo,
    roll_back_within_a_transaction,
)


def compare(lake: Lake) -> None:
    assert [lake.recall(sql) for sql in QUERIES] == [lake.rows(sql) for sql in QUERIES]


@pytest.mark.parametrize("seed", range(2))
def test_what_is_recalled_is_what_the_tables_hold(tmp_path, seed):
    dice = random.Random(seed)
    with two_processes(tmp_path) as lakes:
        for _ in range(25):
            dice.choice(STEPS)(dice.choice(lakes), dice)
            if dice.random() < 0.7:
                compare(dice.choice(lakes))
        for lake in lakes:
            compare(lake)


def test_a_commit_of_ones_own_keeps_what_it_did_not_write(tmp_path, monkeypatch):
    with two_processes(tmp_path) as (lake, other):
        lake.execute("insert into meta.tombstones by name select 'router' as kind, '1' as digest")
        lake.recall(RULES)
        lake.recall(DIGESTS)
        with lake.transaction():
            lake.execute("insert into meta.retention values ('alerts', 1, now())")
        asked = statements_of(lake, monkeypatch)

        lake.recall(DIGESTS)
        assert not any(DIGESTS in sql for sql in asked)

        other.execute("insert into meta.retention values ('alerts', 2, now())")
        lake.recall(DIGESTS)
        assert sum(DIGESTS in sql for sql in asked) == 1


def test_a_table_that_never_had_a_row_is_not_queried(tmp_path, monkeypatch):
    with two_processes(tmp_path) as (lake, other):
        asked = statements_of(lake, monkeypatch)

        assert [lake.recall(sql) for sql in QUERIES] == [[], [], []]
        assert not any(sql in asked for sql in QUERIES)

        other.execute("insert into meta.tombstones by name select 'router' as kind, '1' as digest")
        assert [lake.recall(sql) for sql in QUERIES] == [[], [("router", "1")], [("1",)]]
        assert [sql for sql in asked if sql in QUERIES] == [DIGESTS, BOTH]


def test_a_query_that_names_no_table_is_run(tmp_path):
    with two_processes(tmp_path) as (lake, _):
        assert lake.recall("select 1") == [(1,)]


def test_each_query_that_a_load_omits_would_have_no_rows(sim, monkeypatch):
    judge, omitted, found = Lake._are_unused, [], []  # noqa: SLF001 - what it decides is the promise

    def checked(lake: Lake, sql: str) -> bool:
        if judge(lake, sql):
            omitted.append(sql)
            found.extend(lake.rows(sql, [None] * sql.count("?") or None))
            found.extend(lake.rows(f"from {', '.join(tables_in(sql))}"))
        return False

    monkeypatch.setattr(Lake, "_are_unused", checked)

    outcomes = sim.ingest()

    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    assert (len({*omitted}) > 5, found) == (True, [])


def statements_of(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each statement of the lake."""
    asked: list[str] = []
    execute = Lake.execute

    def noted(self: Lake, sql: str, parameters: object = None) -> object:
        if self is lake:
            asked.append(sql)
        return execute(self, sql, parameters)

    monkeypatch.setattr(Lake, "execute", noted)
    return asked
