"""Releases with different columns load one lake, in sequence or alternating."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from fleetlake.care.integrity.check import note_damage
from fleetlake.care.integrity.damage import CheckReport, Damage, DamageKind
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.evolution.format import newest_format, this_release
from fleetlake.lake.evolution.promote import promote
from fleetlake.lake.loads import Whole
from fleetlake.lake.tables import META
from fleetlake.monitoring.doctor import run_checks
from fleetlake.settings import Settings
from tests.support.cases import use_rows
from tests.support.loads import commit
from tests.support.sim import Sim, copied, new_sim
from tests.test_lake import GROUPS, load_of

COLUMNS = {"groups": "name", "alerts": "type", "locations": "method", "routers": "account_id"}
SMALL: dict[str, Any] = {"routers": 4, "days": 1}


def without(endpoint: Endpoint, column: str) -> Endpoint:
    """Return the endpoint as defined in a release without the column."""
    return replace(endpoint, columns=tuple(c for c in endpoint.columns if c.name != column))


@contextmanager
def older(columns: Mapping[str, str] = MappingProxyType(COLUMNS)) -> Iterator[None]:
    """Run a release without some columns, until the end of the block."""
    rows = {name: without(ENDPOINTS[name], column) for name, column in columns.items()}
    with pytest.MonkeyPatch.context() as patch:
        use_rows(patch, *rows.values())
        yield


@pytest.fixture(scope="module")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a service, loaded into a lake that the older release created, to be copied."""
    sim = new_sim(tmp_path_factory.mktemp("old"), **SMALL)
    with older():
        sim.ingest(*COLUMNS)
    return sim


@pytest.fixture
def old_sim(made_before: Sim, tmp_path: Path) -> Sim:
    """Return a service, loaded into a lake that the older release created."""
    return copied(made_before, tmp_path, **SMALL)


def held(sim: Sim, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def served(sim: Sim, name: str) -> list[Any]:
    """Return what the service served for the column, sorted."""
    if name == "routers":
        accounts = [record["account"] for record in sim.truth(name)]
        return sorted(int(account.strip("/").split("/")[-1]) for account in accounts)
    return sorted(record[COLUMNS[name]] for record in sim.truth(name))


def assert_as_served(sim: Sim) -> None:
    """Assert that each record is one row, with the value that the service served."""
    for name, column in COLUMNS.items():
        rows = [row for (row,) in held(sim, f"select {column} from raw.{name} order by 1")]
        assert rows == served(sim, name), name
        extra = held(sim, f"select count(*) from raw.{name} where _extra is not null")
        assert extra == [(0,)], name


@pytest.mark.proof
def test_a_column_added_by_a_release_is_filled_without_a_new_version(old_sim: Sim) -> None:
    with open_lake(old_sim.settings().lake):
        pass
    assert_as_served(old_sim)

    again = old_sim.ingest(*COLUMNS)

    assert [(o.error, o.added, o.changed) for o in again] == [(None, 0, 0)] * 4
    assert_as_served(old_sim)
    assert held(old_sim, "select * from meta.schema_drift") == []


@pytest.mark.release
def test_two_alternating_releases_write_no_new_version_and_lose_no_value(old_sim: Sim) -> None:
    outcomes = old_sim.ingest(*COLUMNS)
    for _ in range(2):
        with older():
            outcomes += old_sim.ingest(*COLUMNS)
        outcomes += old_sim.ingest(*COLUMNS)

    assert [(o.error, o.added, o.changed) for o in outcomes] == [(None, 0, 0)] * 20
    assert_as_served(old_sim)


@pytest.mark.proof
def test_an_older_release_fills_the_columns_of_a_newer_one(sim: Sim) -> None:
    with older():
        sim.ingest(*COLUMNS)

    assert_as_served(sim)


def test_a_value_left_in_extra_beside_its_column_is_moved_without_a_new_version(
    lake_path: Path,
) -> None:
    old = without(GROUPS, "name")
    with open_lake(lake_path) as lake:
        commit(lake, load_of(old, {"id": "1", "name": "a"}, whole=Whole()))

        done = commit(lake, load_of(GROUPS, {"id": "1", "name": "a"}, whole=Whole()))

        rows = lake.rows("select name, _extra, valid_to from raw.groups")
    assert (done.added, done.changed, done.is_noted) == (0, 0, True)
    assert rows == [("a", None, None)]


def test_a_column_missing_from_a_version_is_filled_in_place_once(lake_path: Path) -> None:
    def load(lake: Lake, name: str | None) -> tuple[int, int]:
        done = commit(lake, load_of(GROUPS, {"id": "1", "name": name}, {"id": "2"}))
        return done.added, done.changed

    with open_lake(lake_path) as lake:
        commit(lake, load_of(without(GROUPS, "name"), {"id": "1"}, {"id": "2"}))
        lake.execute("alter table raw.groups drop column name")
    with open_lake(lake_path) as lake:
        first = load(lake, "a")
        changed = commit(lake, load_of(GROUPS, {"id": "2", "name": "b"}))

        names = lake.rows("select id, name from raw.groups where valid_to is null order by id")
        versions = lake.rows("select id, count(*) from raw.groups group by id order by id")
    assert first == (0, 0)
    assert (changed.added, changed.changed) == (1, 1)
    assert names == [(1, "a"), (2, "b")]
    assert versions == [(1, 1), (2, 2)]


def test_a_column_that_is_added_again_has_one_definition_which_says_when(lake_path: Path) -> None:
    of_the_name = "from meta.columns where endpoint = 'groups' and member = 'name'"
    with open_lake(lake_path) as lake:
        before = lake.rows(f"select added_at is null {of_the_name}")
        lake.execute("alter table raw.groups drop column name")
    with open_lake(lake_path) as lake:
        after = lake.rows(f"select added_at is null {of_the_name}")

    assert (before, after) == ([(True,)], [(False,)])


@pytest.mark.proof
def test_tables_with_columns_unknown_to_this_release_are_loaded(sim: Sim) -> None:
    with open_lake(sim.settings().lake) as lake:
        for table in META:
            lake.execute(f"alter table meta.{table} add column of_later varchar")
        for name in COLUMNS:
            lake.execute(f"alter table raw.{name} add column of_later varchar")
        lake.execute(
            "insert into meta.columns (endpoint, member, kind) values ('groups', 'x', 'complex')"
        )

    outcomes = sim.ingest(*COLUMNS) + sim.ingest(*COLUMNS)

    assert [outcome.error for outcome in outcomes] == [None] * 8
    assert_as_served(sim)


NOTED = "select format_version, release from meta.lake"


@pytest.mark.parametrize(
    "left",
    ["drop table meta.lake", pytest.param("delete from meta.lake", marks=pytest.mark.proof)],
)
def test_a_lake_without_a_recorded_format_is_read_and_gets_one_when_written(
    lake_path: Path, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_lake(lake_path) as lake:
        lake.execute(left)
    monkeypatch.setattr("fleetlake.lake.evolution.format.MIGRATIONS", ())
    with open_lake(lake_path, read_only=True) as lake:
        assert lake.rows("select count(*) from raw.groups") == [(0,)]

    for _ in range(2):
        with open_lake(lake_path) as lake:
            assert lake.rows(NOTED) == [(newest_format(), this_release())]


def test_doctor_and_check_look_at_a_lake_of_an_earlier_release_and_do_not_upgrade_it(
    lake_path: Path,
) -> None:
    with open_lake(lake_path) as lake:
        lake.execute("drop table meta.announced")
    damage = Damage(kind=DamageKind.MISSING, table="raw.users", name="x", found="the file is gone")

    found = {check.name: check for check in run_checks(Settings(lake=lake_path))}
    note_damage(lake_path, CheckReport(files=1, size=1, is_full=False, damages=(damage,)))

    assert found["lake"].error is found["integrity"].error is None
    assert found["lake"].found.endswith("; the next command that writes upgrades it")
    with open_lake(lake_path, read_only=True) as lake:
        assert lake.rows("select kind from meta.events") == [("check",)]
        with pytest.raises(LakeError, match="announced does not exist"):
            lake.rows("from meta.announced")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_lake_of_a_newer_format_is_refused_with_an_explanation(
    lake_path: Path, read_only: bool
) -> None:
    with open_lake(lake_path) as lake:
        lake.execute(
            "update meta.lake set format_version = ?, release = '99.1.0'", [newest_format() + 1]
        )

    with (
        pytest.raises(LakeError, match=r"has format \d+, but .* supports formats up to") as refusal,
        open_lake(lake_path, read_only=read_only),
    ):
        pass

    assert "wheel of fleetlake 99.1.0 or a later release" in refusal.value.remedy


PROMOTED = [
    ("groups", "name", "name", Kind.JSON),
    ("net_devices", "router_id", "router", Kind.TEXT),
    ("routers", "created_at", "created_at", Kind.TEXT),
]


@pytest.mark.proof
def test_a_releases_column_replaces_one_promoted_differently(tmp_path: Path) -> None:
    sim, names = new_sim(tmp_path, **SMALL), [name for name, *_ in PROMOTED]
    with older({name: column for name, column, *_ in PROMOTED}):
        sim.ingest(*names)
        with open_lake(sim.settings().lake) as lake:
            for name, _, member, kind in PROMOTED:
                promote(lake, ENDPOINTS[name], member, kind)
    before = {name: held(sim, f"select count(*) from raw.{name}") for name in names}

    for _ in range(2):
        assert [outcome.error for outcome in sim.ingest(*names)] == [None] * len(names)

    for name, column, member, _ in PROMOTED:
        served = [record for record in sim.truth(name) if record[member] is not None]
        extra = held(sim, f"select count(*) from raw.{name} where _extra is not null")
        assert held(sim, f"select count(*) from raw.{name}") == before[name], name
        assert held(sim, f"select count({column}) from raw.{name}") == [(len(served),)], name
        assert extra == [(0,)], name
    assert held(sim, "select count(*) from meta.promoted") == [(0,)]
