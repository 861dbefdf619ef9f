"""A newer release that renames or retypes what a lake holds: before, after, and in between."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.commit import commit_load
from fleetlake.lake.evolution.migrations import (
    MIGRATIONS,
    ForgetMart,
    Migration,
    RenameColumn,
    RenameEndpoint,
    RenameMart,
    RetypeColumn,
    Step,
)
from fleetlake.lake.evolution.promote import promote
from fleetlake.lake.locks import stream_lock
from fleetlake.publishing.publish import publish
from tests.conftest import Sim, new_sim
from tests.processes import UNSETTLED
from tests.test_lake import GROUPS, NET_DEVICES, load_of

Migrations = Callable[..., None]


def with_field(endpoint: Endpoint, name: str, **changes: Any) -> Endpoint:
    """Return the endpoint with another field, kind or both in one of its columns."""
    columns = [replace(c, **changes) if c.name == name else c for c in endpoint.columns]
    return replace(endpoint, columns=tuple(columns))


@contextmanager
def release_with(*rows: Endpoint, instead_of: str = "groups") -> Iterator[None]:
    """Run a release whose endpoint table has other rows for a while."""
    before, given = dict(ENDPOINTS), {row.name: row for row in rows}
    after = {name: given.get(name, row) for name, row in before.items() if name != instead_of}
    ENDPOINTS.clear()
    ENDPOINTS.update(after | given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleetlake.endpoints._ROWS", tuple(ENDPOINTS.values()))
        try:
            yield
        finally:
            ENDPOINTS.clear()
            ENDPOINTS.update(before)


RELEASED = MIGRATIONS


@pytest.fixture(autouse=True)
def of_the_first_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this release write lakes of the first format until a test gives it migrations."""
    monkeypatch.setattr("fleetlake.lake.evolution.migrations.MIGRATIONS", ())


@pytest.fixture
def lake_path(tmp_path: Path) -> Path:
    """Return the path of a new lake of that format."""
    with open_lake(tmp_path / "lake"):
        return tmp_path / "lake"


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Migrations:
    """Return what makes this release one with more migrations, a tuple of steps for each."""

    def give(*migrations: tuple[Step, ...]) -> None:
        rows = [
            Migration(about=f"change {number}", steps=steps)
            for number, steps in enumerate(migrations, start=1)
        ]
        monkeypatch.setattr("fleetlake.lake.evolution.migrations.MIGRATIONS", tuple(rows))

    return give


def columns_of_groups(lake: Lake) -> dict[str, str]:
    return dict(
        lake.rows(
            "select column_name, data_type from duckdb_columns() "
            "where schema_name = 'raw' and table_name = 'groups'"
        )
    )


def format_of(lake: Lake) -> int:
    [(version,)] = lake.rows("select format_version from meta.lake")
    return int(version)


def test_a_renamed_column_keeps_its_values_and_starts_no_version(
    tmp_path: Path, newer: Migrations
) -> None:
    before = with_field(GROUPS, "name", field="title")
    with release_with(before), open_lake(tmp_path / "lake") as lake:
        commit_load(lake, load_of(before, {"id": "1", "title": "a"}, {"id": "2", "name": "b"}))
    newer((RenameColumn(endpoint="groups", old="title", new="name", kind=Kind.TEXT),))

    with open_lake(tmp_path / "lake") as lake:
        rows = lake.rows("select id, name, _extra from raw.groups order by id")
        again = commit_load(
            lake, load_of(GROUPS, {"id": "1", "name": "a"}, {"id": "2", "name": "b"})
        )
        registered = lake.rows(
            "select member from meta.columns "
            "where endpoint = 'groups' and member in ('title', 'name')"
        )
        drift = lake.rows("select * from meta.schema_drift")
    assert rows == [(1, "a", None), (2, "b", None)]
    assert (again.added, again.changed) == (0, 0)
    assert registered == [("name",)]
    assert drift == []


@pytest.mark.proof
def test_a_renamed_column_takes_in_what_was_promoted_under_its_new_name(
    tmp_path: Path, newer: Migrations
) -> None:
    before = with_field(GROUPS, "name", field="title")
    with release_with(before), open_lake(tmp_path / "lake") as lake:
        commit_load(lake, load_of(before, {"id": "1", "title": "a"}, {"id": "2", "name": "b"}))
        promote(lake, before, "name", Kind.TEXT)
    newer((RenameColumn(endpoint="groups", old="title", new="name", kind=Kind.TEXT),))

    with open_lake(tmp_path / "lake") as lake:
        assert lake.rows("select id, name from raw.groups order by id") == [(1, "a"), (2, "b")]
        assert lake.rows("select * from meta.promoted") == []


@pytest.mark.proof
def test_a_retyped_column_keeps_what_fits_and_moves_the_rest_to_extra(
    tmp_path: Path, newer: Migrations
) -> None:
    before = with_field(GROUPS, "name", kind=Kind.TEXT)
    texts = {"1": "5", "2": "x", "3": "1.5", "4": None, "5": "9007199254740993"}
    with open_lake(tmp_path / "lake") as lake:
        commit_load(lake, load_of(before, *({"id": i, "name": t} for i, t in texts.items())))
    newer((RetypeColumn(endpoint="groups", member="name", old=Kind.TEXT, new=Kind.INTEGER),))

    after = with_field(GROUPS, "name", kind=Kind.INTEGER)
    with release_with(after), open_lake(tmp_path / "lake") as lake:
        rows = lake.rows("select id, name, _extra from raw.groups order by id")
        again = commit_load(lake, load_of(after, {"id": "1", "name": 5}))
        kinds = columns_of_groups(lake)
        registered = lake.rows(
            "select kind from meta.columns where endpoint = 'groups' and member = 'name'"
        )
    assert rows == [
        (1, 5, None),
        (2, None, '{"name":"x"}'),
        (3, None, '{"name":"1.5"}'),
        (4, None, None),
        (5, 9007199254740993, None),
    ]
    assert kinds["name"] == "BIGINT"
    assert registered == [(str(Kind.INTEGER),)]
    assert (again.added, again.changed) == (0, 0)


def test_seconds_in_extra_move_to_their_column_and_start_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = with_field(NET_DEVICES, "uptime", kind=Kind.INTEGER)
    sent = [{"id": "1", "uptime": 86412.734}, {"id": "2", "uptime": 7}, {"id": "3", "x": 1}]
    with release_with(before, instead_of="net_devices"), open_lake(tmp_path / "lake") as lake:
        commit_load(lake, load_of(before, *sent))
        misfit = lake.rows("select uptime, _extra->>'uptime' from raw.net_devices where id = 1")
    monkeypatch.setattr("fleetlake.lake.evolution.migrations.MIGRATIONS", RELEASED)

    grown = [{**one, "uptime": one["uptime"] + 3600.5} for one in sent[:2]]
    with open_lake(tmp_path / "lake") as lake:
        rows = lake.rows("select id, uptime, _extra from raw.net_devices order by id")
        again = commit_load(lake, load_of(NET_DEVICES, *grown, sent[2]))
        drift = lake.rows("select member from meta.schema_drift")
        kind = lake.rows(
            "select kind from meta.columns where (endpoint, member) = ('net_devices', 'uptime')"
        )
    assert misfit == [(None, "86412.734")]
    assert rows == [(1, 86412.734, None), (2, 7.0, None), (3, None, '{"x":1}')]
    assert (again.added, again.changed) == (0, 0)
    assert drift == [("x",)]
    assert kind == [("real",)]


def test_a_retyped_column_may_say_how_its_values_change(lake_path: Path, newer: Migrations) -> None:
    with open_lake(lake_path) as lake:
        commit_load(lake, load_of(GROUPS, {"id": "1", "name": "on"}, {"id": "2", "name": "?"}))
    flag = RetypeColumn(
        endpoint="groups",
        member="name",
        old=Kind.TEXT,
        new=Kind.FLAG,
        value="case {} when 'on' then true when 'off' then false end",
    )
    newer((flag,))

    with (
        release_with(with_field(GROUPS, "name", kind=Kind.FLAG)),
        open_lake(lake_path) as lake,
    ):
        rows = lake.rows("select name, _extra from raw.groups order by id")
    assert rows == [(True, None), (None, '{"name":"?"}')]


@pytest.mark.proof
def test_a_renamed_endpoint_is_loaded_on_from_where_it_was(
    tmp_path: Path, newer: Migrations
) -> None:
    sim = new_sim(tmp_path, routers=4, days=1)
    old = replace(ENDPOINTS["alerts"], name="alarms", resource="alerts")
    with release_with(old, instead_of="alerts"):
        sim.ingest("alarms")
        with open_lake(tmp_path / "lake") as lake:
            lake.execute("create view staging.stg_alarms as from raw.alarms")
            before = _rows_of(lake, "alarms")
    newer((RenameEndpoint(old="alarms", new="alerts"),))

    [again] = sim.ingest("alerts")
    sim.advance(3600)
    sim.ingest("alerts")

    with open_lake(tmp_path / "lake", read_only=True) as lake:
        tables = {name for (name,) in lake.rows("select table_name from duckdb_tables()")}
        views = {name for (name,) in lake.rows("select view_name from duckdb_views()")}
        kept = [uuid for (uuid,) in lake.rows("select created_at_timeuuid from raw.alerts")]
        old_rows = [_rows_of(lake, name)["meta"] for name in ("alarms", "alerts")]
    served = [record["created_at_timeuuid"] for record in sim.truth("alerts", sim_settled(sim))]
    assert (again.error, again.added, again.changed) == (None, 0, 0)
    assert before["raw"] > 0
    assert before["meta"] > 5
    assert "alarms" not in tables
    assert "stg_alarms" not in views
    assert set(served) <= set(kept)
    assert len(kept) == len(set(kept))
    assert old_rows[0] == 0
    assert old_rows[1] >= before["meta"]


def _rows_of(lake: Lake, name: str) -> dict[str, int]:
    """Return how many rows an endpoint has in its raw table and in all tables of meta."""
    tables = lake.rows(
        "select table_name from duckdb_columns() "
        "where schema_name = 'meta' and column_name = 'endpoint'"
    )
    of_meta = [
        lake.rows(f"select count(*) from meta.{table} where endpoint = ?", [name])[0][0]
        for (table,) in tables
    ]
    found = lake.rows("select 1 from duckdb_tables() where table_name = ?", [name])
    rows = lake.rows(f"select count(*) from raw.{name}")[0][0] if found else 0
    return {"raw": rows, "meta": sum(of_meta)}


@pytest.mark.proof
def test_a_renamed_mart_is_one_table_that_is_found_under_its_old_name_too_until_that_is_forgotten(
    lake_path: Path, tmp_path: Path, newer: Migrations
) -> None:
    published = tmp_path / "published"
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.journeys as select range as id from range(3)")
    publish(lake_path, published)
    renames = ((RenameMart(old="journeys", new="rides"),), (RenameMart(old="rides", new="trips"),))
    newer(*renames)

    with open_lake(lake_path) as lake:
        tables = lake.rows("select table_name from duckdb_tables() where schema_name = 'marts'")
        lake.execute("create or replace table marts.trips as select range as n from range(5)")
        rows = lake.rows("select n from marts.trips")
        by_old_name = [lake.rows(f"select n from marts.{old}") for old in ("rides", "journeys")]
    done = publish(lake_path, published)

    assert tables == [("trips",)]
    assert by_old_name == [rows, rows]
    assert len(rows) == 5
    assert done.rows == {"trips": 5}
    with duckdb.connect(str(published / "fleet.duckdb"), read_only=True) as reader:
        assert reader.execute("select n from journeys").fetchall() == rows
        files = f"{published}/journeys/*.parquet"
        assert reader.execute("select n from read_parquet(?)", [files]).fetchall() == rows

    newer(*renames, (ForgetMart(old="journeys"), ForgetMart(old="no_such")))
    with open_lake(lake_path) as lake:
        views = lake.rows("select view_name from duckdb_views() where schema_name = 'marts'")
    publish(lake_path, published)

    assert views == [("rides",)]
    assert (published / "rides").exists()
    assert not (published / "journeys").exists()


def test_a_lake_that_lacks_what_changed_only_gets_the_new_format(
    lake_path: Path, newer: Migrations
) -> None:
    newer(
        (
            RenameEndpoint(old="no_such", new="nor_this"),
            RenameMart(old="no_such", new="nor_this"),
            RenameColumn(endpoint="groups", old="no_such", new="nor_this", kind=Kind.TEXT),
            RetypeColumn(endpoint="groups", member="no_such", old=Kind.TEXT, new=Kind.REAL),
        )
    )

    with open_lake(lake_path) as lake:
        assert format_of(lake) == 2
        assert "name" in columns_of_groups(lake)


def test_migrations_run_once_in_order_and_are_told_in_one_line(
    tmp_path: Path, newer: Migrations, caplog: pytest.LogCaptureFixture
) -> None:
    first = with_field(GROUPS, "name", field="heading")
    with release_with(first), open_lake(tmp_path / "lake") as lake:
        commit_load(lake, load_of(first, {"id": "1", "heading": "a"}))
        lake.execute("update meta.lake set release = '0.0.9'")
    newer(
        (RenameColumn(endpoint="groups", old="heading", new="title", kind=Kind.TEXT),),
        (RenameColumn(endpoint="groups", old="title", new="name", kind=Kind.TEXT),),
    )

    for _ in range(2):
        with open_lake(tmp_path / "lake") as lake:
            assert format_of(lake) == 3
            assert lake.rows("select name from raw.groups") == [("a",)]

    [told] = caplog.messages
    assert "was upgraded from 0.0.9 to fleetlake" in told
    assert told.endswith("change 1; change 2.")


def test_a_lake_that_records_no_format_is_migrated_from_the_first(
    lake_path: Path, newer: Migrations
) -> None:
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.journeys as select 1 as id; drop table meta.lake")
    newer((RenameMart(old="journeys", new="trips"),), (RenameMart(old="trips", new="drives"),))

    with open_lake(lake_path) as lake:
        assert lake.rows("select id from marts.drives") == [(1,)]
        assert format_of(lake) == 3


def test_a_reader_of_an_older_lake_says_what_to_run(lake_path: Path, newer: Migrations) -> None:
    newer((RenameMart(old="a", new="b"),))

    with (
        pytest.raises(LakeError, match=r"has format 1; .* reads format 2") as refusal,
        open_lake(lake_path, read_only=True),
    ):
        pass

    assert "fleetlake maintain" in refusal.value.remedy


def test_a_lake_is_not_migrated_while_a_stream_is_loaded_under_its_old_name(
    lake_path: Path, newer: Migrations
) -> None:
    newer((RenameEndpoint(old="alarms", new="alerts"),))
    with release_with(replace(GROUPS, name="alarms")), stream_lock(lake_path, "alarms"):
        pass
    lock = _held(lake_path / "locks" / "alarms.lock")

    with lock, pytest.raises(LakeError, match=r"must be upgraded .* alarms"), open_lake(lake_path):
        pass

    with open_lake(lake_path) as lake:
        assert format_of(lake) == 2


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a lock file as another process would."""
    script = f"import fcntl; f = open({str(path)!r}, 'r+'); fcntl.flock(f, 2); print(flush=True)"
    script += "; input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


class Broken:
    """A step that fails, as a full disk would make it."""

    renames_table = False

    def apply(self, lake: Lake) -> None:
        lake.execute("select error('the disk is gone')")


@pytest.mark.proof
def test_a_migration_that_fails_leaves_the_lake_of_the_last_one_that_succeeded(
    tmp_path: Path, newer: Migrations
) -> None:
    before = with_field(GROUPS, "name", field="heading")
    with release_with(before), open_lake(tmp_path / "lake") as lake:
        commit_load(lake, load_of(before, {"id": "1", "heading": "a"}))
    one = RenameColumn(endpoint="groups", old="heading", new="title", kind=Kind.TEXT)
    two = RenameColumn(endpoint="groups", old="title", new="name", kind=Kind.TEXT)
    newer((one,), (two, Broken()))
    with pytest.raises(LakeError, match="the disk is gone"), open_lake(tmp_path / "lake"):
        pass
    newer((one,))
    with (
        release_with(with_field(GROUPS, "name", field="title")),
        open_lake(tmp_path / "lake", read_only=True) as lake,
    ):
        left = lake.rows("select title from raw.groups")

    newer((one,), (two,))
    with open_lake(tmp_path / "lake") as lake:
        assert lake.rows("select name from raw.groups") == [("a",)]
    assert left == [("a",)]


KILLED = """
import os, signal, sys
from pathlib import Path
from fleetlake.endpoints.columns import Kind
from fleetlake.lake import open_lake
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution import migrations
from fleetlake.lake.evolution.migrations import Migration, RenameColumn, RenameMart, RetypeColumn

statements = 0

def execute(self, sql, parameters=None, _execute=Lake.execute):
    global statements
    statements += 1
    if statements == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return _execute(self, sql, parameters)

Lake.execute = execute
migrations.MIGRATIONS = (
    Migration(about="one", steps=[
        RenameMart(old="journeys", new="trips"),
        RetypeColumn(endpoint="groups", member="name", old=Kind.TEXT, new=Kind.INTEGER)]),
    Migration(about="two", steps=[RenameMart(old="trips", new="drives")]),
)
with open_lake(Path(sys.argv[1])):
    print("migrated", statements)
"""


@pytest.mark.release
@pytest.mark.proof
def test_a_kill_at_any_statement_of_an_upgrade_leaves_the_old_lake_or_the_new(
    lake_path: Path, tmp_path: Path, newer: Migrations
) -> None:
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.journeys as select range as id from range(3)")
        commit_load(lake, load_of(GROUPS, {"id": "1", "name": "5"}, {"id": "2", "name": "x"}))
    seen = set()
    for statement in range(1, 400, 4):
        killed = shutil.copytree(lake_path, tmp_path / "killed")
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(killed), str(statement)],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        seen.add(_state(killed, newer))
        shutil.rmtree(killed)
        if "migrated" in done.stdout:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert seen == {
        (1, "VARCHAR", "journeys", 2),
        (2, "BIGINT", "trips", 1),
        (3, "BIGINT", "drives", 1),
    }


def _state(lake_path: Path, newer: Migrations) -> tuple[Any, ...]:
    """Return a lake's format, the type that was changed, its mart, and how many names it holds."""
    newer((), ())  # of the newest format, so that nothing is migrated here
    with closing(sqlite3.connect(lake_path / CATALOG)) as catalog:
        assert catalog.execute("pragma quick_check").fetchone() == ("ok",)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleetlake.lake.catalog.require_known_format", lambda *_, **__: None)
        with open_lake(lake_path, read_only=True) as lake:
            [(mart,)] = lake.rows(
                "select table_name from duckdb_tables() where schema_name = 'marts'"
            )
            [(rows,)] = lake.rows(f"select count(*) from marts.{mart}")
            [(names,)] = lake.rows("select count(name) from raw.groups")
            assert rows == 3
            return format_of(lake), columns_of_groups(lake)["name"], mart, names


def test_a_table_cannot_be_renamed_after_a_column_in_one_migration() -> None:
    steps = [
        RenameColumn(endpoint="groups", old="a", new="b", kind=Kind.TEXT),
        RenameEndpoint(old="groups", new="teams"),
    ]

    with pytest.raises(ValueError, match="tables are renamed before columns"):
        Migration(about="both", steps=steps)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("version", "remedy"), [("0.4", "AUTOMATIC_MIGRATION"), ("1.1", "Install the release")]
)
def test_a_catalog_of_another_ducklake_format_is_refused_and_never_migrated(
    lake_path: Path, version: str, remedy: str, read_only: bool
) -> None:
    with closing(sqlite3.connect(lake_path / CATALOG)) as catalog, catalog:
        catalog.execute("update ducklake_metadata set value = ? where key = 'version'", [version])
        before = list(catalog.iterdump())

    with (
        pytest.raises(
            LakeError, match=rf"DuckLake format {version}, .* needs format 1\.0"
        ) as refusal,
        open_lake(lake_path, read_only=read_only),
    ):
        pass

    assert remedy in refusal.value.remedy
    with closing(sqlite3.connect(lake_path / CATALOG)) as catalog:
        assert list(catalog.iterdump()) == before


def sim_settled(sim: Sim) -> datetime:
    """Return the instant before which every record shows up at the service."""
    return datetime.fromisoformat(sim.ask("GET", "/sim/state").json()["now"]) - UNSETTLED
