"""A list that the lake holds as it was read is not compared again; any change is noticed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetlake.endpoints.relations import Thing
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.tombstones import add_tombstones
from tests.support.sim import Sim, loaded_sim
from tests.test_shrunken_lists import Records, current, first, ids, load


@pytest.fixture(scope="module")
def loaded(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service with ten routers, loaded into a lake to copy."""
    folder = tmp_path_factory.mktemp("fleet")
    return loaded_sim(folder, empty_lake, "routers", routers=10, days=1)


@pytest.fixture
def fleet(loaded: Sim, tmp_path: Path) -> Sim:
    """Return a service with ten routers, loaded into this test's own lake."""
    shutil.copytree(loaded.folder / "lake", tmp_path / "lake")
    return Sim(loaded.app, tmp_path)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how many statements have read or written the routers since it was last asked."""
    statements: list[str] = []
    execute = Lake.execute

    def noted(lake: Lake, sql: str, parameters: object = None) -> object:
        statements.append(sql.replace('"', ""))
        return execute(lake, sql, parameters)

    def count() -> int:
        found = [sql for sql in statements if "raw.routers" in sql]
        statements.clear()
        return len(found)

    monkeypatch.setattr(Lake, "execute", noted)
    return count


def in_lake(fleet: Sim, *statements: str) -> None:
    """Change the lake as another process does."""
    with open_lake(fleet.settings().lake) as lake, lake.transaction():
        for sql in statements:
            lake.execute(sql)


def renamed(records: Records) -> Records:
    return [{**records[0], "name": "moved"}, *records[1:]]


def reversed_order(records: Records) -> Records:
    return records[::-1]


def test_a_list_that_reads_as_before_is_not_compared_and_still_counts_as_loaded(fleet, compared):
    with open_lake(fleet.settings().lake, read_only=True) as lake:
        [(before,)] = lake.rows(LOADED_AT)
    compared()

    [outcome] = fleet.ingest("routers")

    assert (outcome.error, outcome.added, outcome.changed) == (None, 0, 0)
    assert compared() == 0
    with open_lake(fleet.settings().lake, read_only=True) as lake:
        [(after,)] = lake.rows(LOADED_AT)
    assert after > before


LOADED_AT = "select updated_at from meta.watermarks where endpoint = 'routers'"


def test_a_list_in_another_order_is_compared_and_changes_nothing(fleet, compared):
    compared()

    [outcome] = load(fleet, "routers", routers=reversed_order)

    assert (outcome.error, outcome.added, outcome.changed) == (None, 0, 0)
    assert compared() > 0


def test_a_change_and_its_reversal_are_versions_of_their_own(fleet, compared):
    load(fleet, "routers", routers=renamed)
    [back] = fleet.ingest("routers")
    compared()
    [again] = fleet.ingest("routers")

    assert (back.added, back.changed) == (1, 1)
    assert (again.added, compared()) == (0, 0)


@pytest.mark.parametrize(
    "change",
    [
        "delete from raw.routers where id = (select min(id) from raw.routers)",
        "update raw.routers set name = 'other' where id = (select min(id) from raw.routers)",
        "delete from meta.watermarks where endpoint = 'routers'",
    ],
)
def test_a_list_that_something_else_changed_is_compared(fleet, compared, change):
    in_lake(fleet, change)
    compared()

    fleet.ingest("routers")

    assert compared() > 0
    assert current(fleet) == ids(fleet)
    with open_lake(fleet.settings().lake, read_only=True) as lake:
        assert (
            lake.rows("select 1 from raw.routers where name = 'other' and valid_to is null") == []
        )


def test_a_list_is_compared_once_something_was_erased_or_its_snapshots_have_expired(
    fleet, compared
):
    with open_lake(fleet.settings().lake) as lake, lake.transaction():
        add_tombstones(lake, [(Thing.ROUTER, min(ids(fleet)))], [])
    compared()
    fleet.ingest("routers")
    assert compared() > 0, "what was erased may still be stored"

    fleet.ingest("routers")
    assert compared() == 0
    in_lake(fleet, "update meta.watermarks set load_id = load_id")
    in_lake(fleet, "update meta.watermarks set load_id = load_id")
    with open_lake(fleet.settings().lake) as lake:
        [(newest,)] = lake.rows("select id from lake.current_snapshot()")
        lake.execute(f"call ducklake_expire_snapshots('lake', versions => [{newest - 1}])")
    fleet.ingest("routers")
    assert compared() > 0, "nothing says what the expired snapshot changed"


def test_a_shrunken_list_is_reported_at_each_load(fleet):
    errors = [load(fleet, "routers", routers=first(1))[0].error for _ in range(3)]

    assert all(errors)
    assert current(fleet) == ids(fleet)


def test_a_list_that_another_account_reads_too_is_compared_each_time(fleet, compared):
    fleet.ingest("routers")
    others = "select 'west' as account_profile, 'routers' as endpoint, now() as updated_at"
    in_lake(fleet, f"insert into meta.watermarks by name {others}")
    compared()

    fleet.ingest("routers")
    fleet.ingest("routers")

    assert compared() > 0


def test_a_list_with_a_record_that_was_rejected_is_compared_each_time(fleet):
    def unreadable(records: Records) -> Records:
        return [{**records[0], "id": None}, *records[1:]]

    load(fleet, "routers", routers=unreadable)
    load(fleet, "routers", routers=unreadable)
    with open_lake(fleet.settings().lake, read_only=True) as lake:
        assert lake.rows("select times_seen from meta.quarantine") == [(2,)]
