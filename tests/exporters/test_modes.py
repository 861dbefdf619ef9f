"""Soft deletes, the time of writing, and foreign keys: what teams of warehouses expect."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adbc_driver_postgresql import dbapi
from pydantic import SecretStr

from fleetlake.errors import ExportFailed, SettingsError, UsageError
from fleetlake.exporters import TARGETS
from fleetlake.exporters.contract import SYNCED_AT
from fleetlake.exporters.export import Exported, export, renew, require_lists
from fleetlake.exporters.sql import SqlExporter
from fleetlake.lake import Lake, open_lake
from tests.exporters.targets import OPENERS, OpenedTarget

LIST = "raw.routers"

every_kind = pytest.mark.parametrize(
    "target",
    [
        "parquet",
        pytest.param("delta", marks=pytest.mark.proof),
        pytest.param("iceberg", marks=pytest.mark.proof),
        pytest.param("postgres", marks=pytest.mark.postgres),
    ],
    indirect=True,
)
postgres_only = pytest.mark.parametrize(
    "target", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture(scope="module")
def opened(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Open one lake for all tests; each fills its tables anew."""
    copy = shutil.copytree(empty_lake, tmp_path_factory.mktemp("modes") / "lake")
    with open_lake(Path(copy)) as lake:
        yield lake


@pytest.fixture
def lake(opened: Lake) -> Lake:
    """Return a lake with a list: router 1 in two versions, router 2 gone, 3 of two accounts."""
    opened.execute("delete from raw.routers")
    add_version(opened, 1, "one", 1, until=2)
    add_version(opened, 1, "uno", 2)
    add_version(opened, 2, "two", 1, until=3)
    add_version(opened, 3, "three", 1)
    add_version(opened, 3, "left the other account", 2, until=3)
    return opened


@pytest.fixture
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OpenedTarget:
    return OPENERS[request.param](tmp_path / "target", monkeypatch)


def add_version(lake: Lake, id_: int, name: str, day: int, until: int | None = None) -> None:
    """Add a version of a router, valid from a day of November, by default until now."""
    ends = f"timestamptz '2026-11-{until:02} 00:00:00Z'" if until else "null"
    lake.execute(
        "insert into raw.routers (id, name, account_id, valid_from, valid_to) values "
        f"({id_}, '{name}', 9, timestamptz '2026-11-{day:02} 00:00:00Z', {ends})"
    )


def send(lake: Lake, target: OpenedTarget, *names: str, **options: Any) -> Exported:
    done = export(lake, TARGETS[target.name], target.address, names or [LIST], **options)
    return done[0]


def held(target: OpenedTarget, table: str = "raw_routers") -> dict[int, tuple[Any, ...]]:
    """Return the name, whether it is deleted, and the day of that, by router."""
    return {
        row["id"]: (row["name"], row["_deleted"], row["_deleted_at"] and row["_deleted_at"].day)
        for row in target.read(table)
    }


@every_kind
def test_a_record_that_left_its_list_is_marked_and_one_that_was_erased_is_gone(lake, target):
    send(lake, target, mode="soft_delete")
    first = held(target)
    again = send(lake, target)
    lake.execute("update raw.routers set valid_to = '2026-11-05 00:00:00Z' where name = 'three'")
    add_version(lake, 2, "back", 6)
    second = send(lake, target)
    moved = held(target)
    lake.execute("delete from raw.routers where id in (1, 3)")  # as an erasure does
    third = send(lake, target)

    assert first == {1: ("uno", False, None), 2: ("two", True, 3), 3: ("three", False, None)}
    assert moved == {1: ("uno", False, None), 2: ("back", False, None), 3: ("three", True, 5)}
    assert held(target) == {2: ("back", False, None)}
    assert (again.sent, again.removed, again.full_reason) == (0, 0, None)
    assert (second.sent, second.removed, second.full_reason) == (2, 2, None)
    assert (third.sent, third.removed, third.full_reason) == (0, 2, None)


@every_kind
def test_a_list_keeps_its_mode_until_another_is_named(lake, target):
    send(lake, target, modes={"routers": "soft_delete"})
    add_version(lake, 4, "four", 7)
    kept = send(lake, target)
    renewed = renew(lake, TARGETS[target.name], target.address)
    soft = held(target)
    back = send(lake, target, mode="history")

    assert (kept.sent, kept.full_reason) == (1, None)
    assert renewed == ["raw_routers"]
    assert {*soft} == {1, 2, 3, 4}
    assert back.full_reason == "its columns or key changed"
    versions = sorted((row["id"], row["valid_from"].day) for row in target.read("raw_routers"))
    assert versions == [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2), (4, 7)]


@every_kind
def test_rows_say_when_an_export_wrote_them_and_only_new_rows_say_it_anew(lake, target):
    def written() -> dict[int, Any]:
        return {row["id"]: row[SYNCED_AT] for row in target.read("raw_routers")}

    send(lake, target, mode="soft_delete")
    first = written()
    lake.execute("update raw.routers set name = 'drei' where id = 3")
    lake.execute("update raw.routers set name = name where id = 2")  # no change
    send(lake, target)
    second = written()
    send(lake, target)

    assert len({*first.values()}) == 1
    assert second[3] > first[3]
    assert {id_ for id_ in first if first[id_] == second[id_]} == {1, 2}
    assert written() == second


def test_a_mode_of_what_is_not_a_list_is_refused(lake, tmp_path):
    with pytest.raises(UsageError, match="keeps as history"):
        export(lake, TARGETS["csv"], SecretStr(str(tmp_path)), ["raw.alerts"], mode="soft_delete")
    with pytest.raises(SettingsError, match=r"EXPORT_MODES__ROUTER: router is not"):
        require_lists({"router": "soft_delete"})


def ask(target: OpenedTarget, sql: str) -> list[Any]:
    address = target.address.get_secret_value()
    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if sql.startswith("select") else []


def foreign_keys(target: OpenedTarget) -> set[tuple[str, str]]:
    """Return the tables that reference another one, without enforcing it."""
    found = ask(
        target,
        "select conrelid::regclass::text, confrelid::regclass::text from pg_constraint "
        "where contype = 'f' and not convalidated "
        "and connamespace = current_schema()::regnamespace",
    )
    return {*found}


@pytest.fixture
def fleet(lake: Lake) -> Lake:
    """Return a lake with two devices, and trips of them and of a third that was removed."""
    lake.execute(
        "create or replace table marts.device_inventory as "
        "select i as router_id, 'a' as router_name from range(1, 3) r(i)"
    )
    lake.execute(
        "create or replace table marts.trips as select i as router_id, 'trip ' || i as trip_id, "
        "date '2026-11-01' as trip_date from range(1, 4) r(i)"
    )
    return lake


NAMED = ("trips", "device_inventory")


@postgres_only
@pytest.mark.parametrize("names", [NAMED, NAMED[::-1]], ids=["child first", "parent first"])
def test_foreign_keys_join_tables_and_refuse_no_row(fleet, target, names):
    for name in names:
        send(fleet, target, name)
    keys = foreign_keys(target)
    fleet.execute("delete from marts.device_inventory where router_id = 1")
    fleet.execute("insert into marts.trips values (99, 'an orphan', '2026-11-02')")
    done = export(fleet, TARGETS["postgres"], target.address, names)
    fleet.execute("create or replace table marts.device_inventory as select 2 as router_id, 5 as n")
    send(fleet, target, "device_inventory")

    assert keys == foreign_keys(target) == {("trips", "device_inventory")}
    assert [(one.sent, one.full_reason) for one in sorted(done, key=lambda one: one.table)] == [
        (0, None),
        (1, None),
    ]
    assert {row["router_id"] for row in target.read("trips")} == {1, 2, 3, 99}
    assert [row["n"] for row in target.read("device_inventory")] == [5]


@postgres_only
def test_lists_with_soft_deletes_are_parents_of_other_lists(lake, target):
    lake.execute("delete from raw.net_devices")
    lake.execute("insert into raw.net_devices (id, router_id, valid_from) values (7, 1, now())")
    send(lake, target, LIST, "raw.net_devices", mode="soft_delete")

    assert foreign_keys(target) == {("raw_net_devices", "raw_routers")}
    send(lake, target, mode="history")  # its id is no key any more
    assert foreign_keys(target) == set()


@postgres_only
def test_a_user_without_the_right_to_skip_foreign_keys_exports_without_them(fleet, target):
    schema = target.address.get_secret_value().rpartition("%3D")[2]
    role = f"{schema}_plain"
    ask(target, f"create role {role} login")
    ask(target, f"grant all on schema {schema} to {role}")
    address = SecretStr(target.address.get_secret_value().replace("user=fleet", f"user={role}"))
    for _ in range(2):
        done = export(fleet, TARGETS["postgres"], address, NAMED)
        fleet.execute("insert into marts.trips values (99, 'an orphan', '2026-11-02')")

    [(version,)] = ask(target, "select current_setting('server_version_num')::int")
    assert bool(foreign_keys(target)) is (version >= 180_000)
    assert [one.sent for one in done] == [0, 1]


@postgres_only
@pytest.mark.parametrize("step", ["_create", "_load", "_finish"])
def test_an_export_that_stops_between_steps_is_repeated_exactly(fleet, target, monkeypatch, step):
    send(fleet, target, "trips")

    def stopped(self: SqlExporter, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        raise RuntimeError("stopped")

    exporter = pytest.importorskip("fleetlake.exporters.postgres").PostgresExporter
    original = getattr(exporter, step)
    with monkeypatch.context() as patch:
        patch.setattr(exporter, step, stopped)
        with pytest.raises(ExportFailed, match="stopped"):
            send(fleet, target, "device_inventory")
    before = foreign_keys(target)
    send(fleet, target, "device_inventory")
    again = send(fleet, target, "device_inventory")

    assert before == set()
    assert foreign_keys(target) == {("trips", "device_inventory")}
    assert len(target.read("device_inventory")) == 2
    assert (again.sent, again.removed, again.full_reason) == (0, 0, None)


@postgres_only
def test_tables_of_an_earlier_release_get_the_time_and_keys_and_views_over_them_stay(fleet, target):
    for name in NAMED:
        send(fleet, target, name)
        ask(target, f"alter table {name} drop column {SYNCED_AT}")
    ask(target, "alter table device_inventory drop constraint device_inventory_pkey cascade")
    ask(
        target,
        f"update fleetlake_exports set mark = (mark::jsonb #- '{{columns,{SYNCED_AT}}}')::text",
    )
    ask(target, "create view devices as select router_id from device_inventory")
    done = export(fleet, TARGETS["postgres"], target.address, NAMED)

    assert {one.full_reason for one in done} == {f"its rows have no {SYNCED_AT} yet"}
    assert foreign_keys(target) == {("trips", "device_inventory")}
    assert len(target.read("devices")) == 2
    assert all(row[SYNCED_AT] for row in target.read("device_inventory"))
