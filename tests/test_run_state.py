"""What a run knows of a lake is what its tables hold, whoever wrote in between."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.relations import Thing
from fleetlake.lake.catalog import open_lake
from fleetlake.lake.connection import Lake
from fleetlake.lake.loads import Whole
from fleetlake.lake.locks import commit_lock
from fleetlake.lake.retention_rules import set_rules
from fleetlake.lake.run_state import RunState
from fleetlake.lake.tombstones import add_tombstones
from fleetlake.planning.intervals import Interval
from tests.support.loads import NOON, commit
from tests.test_lake import alert, load_of

ALERTS, GROUPS, NET_DEVICES = (ENDPOINTS[name] for name in ("alerts", "groups", "net_devices"))
PARTS: dict[str, Callable[[RunState], object]] = {
    "watermarks": lambda state: state.marks,
    "intervals": lambda state: [state.proven(endpoint) for endpoint in (ALERTS, NET_DEVICES)],
    "retention": lambda state: state.kept_from,
    "tombstones": lambda state: state.tombstones,
    "schema_drift": lambda state: state.drifted(ALERTS),
    "promoted": lambda state: state.promotions,
    "capabilities": lambda state: state.capabilities,
    "columns": lambda state: state.widened(ALERTS),
    "absent": lambda state: state.unconfirmed,
}


class Undo(Exception):
    """Ends a transaction without its changes."""


@pytest.fixture
def two(tmp_path) -> Iterator[tuple[RunState, RunState]]:
    """Return what runs of two processes know of one lake."""
    with open_lake(tmp_path / "lake") as first, open_lake(tmp_path / "lake") as second:
        yield RunState(first), RunState(second)


def load_alerts(state: RunState, dice: random.Random) -> None:
    member = {f"new_{dice.randrange(5)}": 1} if dice.random() < 0.5 else {}
    proven = {"": [Interval(NOON, NOON + timedelta(minutes=dice.randrange(1, 999)))]}
    load = load_of(ALERTS, alert(dice.randrange(99), **member), proven=proven)
    commit(state.lake, load, state=state)


def fail_to_load(state: RunState, _: random.Random) -> None:
    def fail(_: Lake) -> None:
        raise Undo

    proven = {"": [Interval(NOON - timedelta(days=9), NOON)]}
    with suppress(Undo):
        load = load_of(ALERTS, alert(1, lost=1), proven=proven)
        commit(state.lake, load, state=state, also=fail)


def change_a_rule(state: RunState, dice: random.Random) -> None:
    set_rules(state.lake, {"alerts": dice.randrange(900, 999)}, now=NOON)


def erase_a_router(state: RunState, dice: random.Random) -> None:
    with state.lake.transaction():
        add_tombstones(state.lake, [(Thing.ROUTER, dice.randrange(9))], [])


def load_a_device_of_an_erased_router(state: RunState, dice: random.Random) -> None:
    number = dice.randrange(999)
    device = {"id": str(number), "router": f"/api/v2/routers/{dice.randrange(9)}/"}
    at = NOON + timedelta(days=number)
    commit(state.lake, load_of(NET_DEVICES, device, seen_at=at), state=state)


STEPS = (
    load_alerts,
    fail_to_load,
    change_a_rule,
    erase_a_router,
    load_a_device_of_an_erased_router,
)


def compare(state: RunState) -> None:
    fresh = RunState(state.lake)
    with state.single_snapshot():
        known = {name: part(state) for name, part in PARTS.items()}
    with fresh.single_snapshot():
        assert known == {name: part(fresh) for name, part in PARTS.items()}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.proof)])
def test_a_run_knows_what_the_tables_hold(two, seed):
    dice = random.Random(seed)
    for _ in range(20):
        dice.choice(STEPS)(dice.choice(two), dice)
        if dice.random() < 0.7:
            compare(dice.choice(two))
    for state in two:
        compare(state)


def test_a_run_knows_which_records_its_own_load_found_missing(two):
    state, _ = two
    for count in (12, 1, 12):
        groups = [{"id": str(number)} for number in range(count)]
        commit(state.lake, load_of(GROUPS, *groups, whole=Whole()), state=state)

        compare(state)
        assert len(state.unconfirmed.get("groups", ())) == 12 - count


def read_by(state: RunState, statements: list[str]) -> set[str]:
    """Return the tables of the parts that a run reads again."""
    statements.clear()
    with state.single_snapshot():
        for part in PARTS.values():
            part(state)
    return {name for name in PARTS if any(f"meta.{name}" in sql for sql in statements)}


def test_a_table_is_read_again_only_if_it_may_have_changed(two, statements):
    state, other = two
    load_alerts(state, random.Random(2))
    change_a_rule(other, random.Random(0))
    first = read_by(state, statements)
    again = read_by(state, statements)
    commit(state.lake, load_of(ALERTS, alert(100)), state=state)
    after_own_load = read_by(state, statements)
    change_a_rule(other, random.Random(1))

    assert {"watermarks", "retention"} <= first
    assert "promoted" not in first  # it never had a row
    assert again == set()
    assert after_own_load == {"watermarks"}
    assert read_by(state, statements) == first


def test_a_run_knows_what_its_own_loads_have_proven(two):
    state, _ = two
    for hours in (1, 2, 3):
        proven = {"": [Interval(NOON, NOON + timedelta(hours=hours))]}
        commit(state.lake, load_of(ALERTS, alert(hours), proven=proven), state=state)

        with state.single_snapshot():
            assert state.proven(ALERTS) == proven


def write_long_ago(lake: Lake) -> None:
    for file in lake.path.glob("catalog.sqlite*"):
        os.utime(file, (0, 0))


def test_nothing_is_asked_of_the_lake_until_another_commit(two, statements):
    state, other = two
    commit(state.lake, load_of(ALERTS, alert(1)), state=state)
    write_long_ago(state.lake)
    assert state.newest_watermark(GROUPS) is None
    write_long_ago(state.lake)  # readers may have written to the log's index

    statements.clear()
    state.newest_watermark(ALERTS)
    assert statements == []
    commit(other.lake, load_of(ALERTS, alert(3)), state=other)
    assert state.newest_watermark(ALERTS) == NOON + timedelta(minutes=3)


def test_what_an_outer_block_read_is_not_taken_for_the_newest(two):
    state, other = two
    commit(state.lake, load_of(ALERTS, alert(1)), state=state)
    with state.single_snapshot():
        commit(other.lake, load_of(ALERTS, alert(3)), state=other)
        write_long_ago(state.lake)
        with state.single_snapshot():
            assert state.watermark(ALERTS) == NOON + timedelta(minutes=1)

    assert state.newest_watermark(ALERTS) == NOON + timedelta(minutes=3)


def test_nothing_is_taken_for_unchanged_that_was_asked_during_a_commit(two, statements):
    """As on a slow disk, where a commit is seen long after it has written its files."""
    state, other = two
    write_long_ago(state.lake)
    with commit_lock(other.lake.path):
        state.newest_watermark(ALERTS)

    statements.clear()
    state.newest_watermark(ALERTS)
    assert statements


def test_a_commit_of_another_process_is_known_at_once(two):
    state, other = two
    for minute in range(-30, 0):
        commit(other.lake, load_of(ALERTS, alert(minute)), state=other)
        assert state.newest_watermark(ALERTS) == NOON + timedelta(minutes=minute)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each statement on a lake."""
    run: list[str] = []
    execute = Lake.execute

    def noted(lake: Lake, sql: str, parameters: object = None) -> object:
        run.append(sql)
        return execute(lake, sql, parameters)

    monkeypatch.setattr(Lake, "execute", noted)
    return run
