"""A newer release that retypes what a lake holds: before, after, and in between."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import LakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.evolution.format import (
    MIGRATIONS,
    Migration,
    RetypeColumn,
)
from fleetlake.lake.locks import stream_lock
from tests.support.cases import use_rows
from tests.support.loads import commit
from tests.test_lake import GROUPS, NET_DEVICES, load_of

Migrations = Callable[..., None]


def with_field(endpoint: Endpoint, name: str, **changes: Any) -> Endpoint:
    """Return the endpoint with another field, kind or both in one of its columns."""
    columns = [replace(c, **changes) if c.name == name else c for c in endpoint.columns]
    return replace(endpoint, columns=tuple(columns))


@contextmanager
def release_with(*rows: Endpoint, instead_of: str = "groups") -> Iterator[None]:
    """Run a release whose endpoint table has other rows for a while."""
    with pytest.MonkeyPatch.context() as patch:
        use_rows(patch, *rows, instead_of=instead_of)
        yield


RELEASED = MIGRATIONS
TO_INTEGER = RetypeColumn(endpoint="groups", member="name", old=Kind.TEXT, new=Kind.INTEGER)
TO_REAL = RetypeColumn(endpoint="groups", member="name", old=Kind.INTEGER, new=Kind.REAL)


@pytest.fixture(autouse=True)
def of_the_first_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this release write lakes of the first format until a test gives it migrations."""
    monkeypatch.setattr("fleetlake.lake.evolution.format.MIGRATIONS", ())


@pytest.fixture
def lake_path(tmp_path: Path) -> Path:
    """Return the path of a new lake of that format."""
    with open_lake(tmp_path / "lake"):
        return tmp_path / "lake"


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Migrations:
    """Return what makes this release one with more migrations, a tuple of steps for each."""

    def give(*migrations: tuple[RetypeColumn, ...]) -> None:
        rows = [
            Migration(about=f"change {number}", steps=steps)
            for number, steps in enumerate(migrations, start=1)
        ]
        monkeypatch.setattr("fleetlake.lake.evolution.format.MIGRATIONS", tuple(rows))

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


@pytest.mark.proof
def test_a_retyped_column_keeps_what_fits_and_moves_the_rest_to_extra(
    tmp_path: Path, newer: Migrations
) -> None:
    before = with_field(GROUPS, "name", kind=Kind.TEXT)
    texts = {"1": "5", "2": "x", "3": "1.5", "4": None, "5": "9007199254740993"}
    with open_lake(tmp_path / "lake") as lake:
        commit(lake, load_of(before, *({"id": i, "name": t} for i, t in texts.items())))
    newer((TO_INTEGER,))

    after = with_field(GROUPS, "name", kind=Kind.INTEGER)
    with release_with(after), open_lake(tmp_path / "lake") as lake:
        rows = lake.rows("select id, name, _extra from raw.groups order by id")
        again = commit(lake, load_of(after, {"id": "1", "name": 5}))
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
        commit(lake, load_of(before, *sent))
        misfit = lake.rows("select uptime, _extra->>'uptime' from raw.net_devices where id = 1")
    monkeypatch.setattr("fleetlake.lake.evolution.format.MIGRATIONS", RELEASED)

    grown = [{**one, "uptime": one["uptime"] + 3600.5} for one in sent[:2]]
    with open_lake(tmp_path / "lake") as lake:
        rows = lake.rows("select id, uptime, _extra from raw.net_devices order by id")
        again = commit(lake, load_of(NET_DEVICES, *grown, sent[2]))
        drift = lake.rows("select member from meta.schema_drift")
        kind = lake.rows(
            "select kind from meta.columns where (endpoint, member) = ('net_devices', 'uptime')"
        )
    assert misfit == [(None, "86412.734")]
    assert rows == [(1, 86412.734, None), (2, 7.0, None), (3, None, '{"x":1}')]
    assert (again.added, again.changed) == (0, 0)
    assert drift == [("x",)]
    assert kind == [("real",)]


def test_a_lake_that_lacks_what_changed_only_gets_the_new_format(
    lake_path: Path, newer: Migrations
) -> None:
    newer(
        (
            RetypeColumn(endpoint="no_such", member="name", old=Kind.TEXT, new=Kind.REAL),
            RetypeColumn(endpoint="groups", member="no_such", old=Kind.TEXT, new=Kind.REAL),
        )
    )

    with open_lake(lake_path) as lake:
        assert format_of(lake) == 2
        assert columns_of_groups(lake)["name"] == "VARCHAR"


def test_migrations_run_once_in_order_and_are_told_in_one_line(
    lake_path: Path, newer: Migrations, caplog: pytest.LogCaptureFixture
) -> None:
    with open_lake(lake_path) as lake:
        commit(lake, load_of(GROUPS, {"id": "1", "name": "5"}))
        lake.execute("update meta.lake set release = '0.0.9'")
    newer((TO_INTEGER,), (TO_REAL,))

    for _ in range(2):
        with open_lake(lake_path) as lake:
            assert format_of(lake) == 3
            assert lake.rows("select name from raw.groups") == [(5.0,)]
            assert columns_of_groups(lake)["name"] == "DOUBLE"

    [told] = caplog.messages
    assert "was upgraded from 0.0.9 to fleetlake" in told
    assert told.endswith("change 1; change 2.")


def test_a_lake_that_records_no_format_is_migrated_from_the_first(
    lake_path: Path, newer: Migrations
) -> None:
    with open_lake(lake_path) as lake:
        lake.execute("drop table meta.lake")
    newer((TO_INTEGER,), (TO_REAL,))

    with open_lake(lake_path) as lake:
        assert columns_of_groups(lake)["name"] == "DOUBLE"
        assert format_of(lake) == 3


def test_a_reader_of_an_older_lake_says_what_to_run(lake_path: Path, newer: Migrations) -> None:
    newer((TO_INTEGER,))

    with (
        pytest.raises(LakeError, match=r"has format 1; .* reads format 2") as refusal,
        open_lake(lake_path, read_only=True),
    ):
        pass

    assert "fleetlake maintain" in refusal.value.remedy


def test_a_lake_is_not_migrated_while_a_stream_is_loaded(
    lake_path: Path, newer: Migrations
) -> None:
    newer((TO_INTEGER,))
    with stream_lock(lake_path, "groups"):
        pass
    lock = _held(lake_path / "locks" / "groups.lock")

    with lock, pytest.raises(LakeError, match=r"must be upgraded .* groups"), open_lake(lake_path):
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


class Broken(RetypeColumn):
    """A step that fails, as a full disk would make it."""

    def apply(self, lake: Lake) -> None:
        lake.execute("select error('the disk is gone')")


@pytest.mark.proof
def test_a_migration_that_fails_leaves_the_lake_of_the_last_one_that_succeeded(
    lake_path: Path, newer: Migrations
) -> None:
    with open_lake(lake_path) as lake:
        commit(lake, load_of(GROUPS, {"id": "1", "name": "5"}))
    broken = Broken(endpoint="groups", member="name", old=Kind.REAL, new=Kind.TEXT)
    newer((TO_INTEGER,), (TO_REAL, broken))
    with pytest.raises(LakeError, match="the disk is gone"), open_lake(lake_path):
        pass
    newer((TO_INTEGER,))
    with open_lake(lake_path, read_only=True) as lake:
        left = columns_of_groups(lake)["name"], lake.rows("select name from raw.groups")

    newer((TO_INTEGER,), (TO_REAL,))
    with open_lake(lake_path) as lake:
        assert lake.rows("select name from raw.groups") == [(5.0,)]
    assert left == ("BIGINT", [(5,)])


KILLED = """
import os, signal, sys
from pathlib import Path
from fleetlake.endpoints.columns import Kind
from fleetlake.lake import open_lake
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution import format as lake_format
from fleetlake.lake.evolution.format import Migration, RetypeColumn

statements = 0

def execute(self, sql, parameters=None, _execute=Lake.execute):
    global statements
    statements += 1
    if statements == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return _execute(self, sql, parameters)

Lake.execute = execute
name = dict(endpoint="groups", member="name")
lake_format.MIGRATIONS = (
    Migration(about="one", steps=[RetypeColumn(**name, old=Kind.TEXT, new=Kind.INTEGER)]),
    Migration(about="two", steps=[RetypeColumn(**name, old=Kind.INTEGER, new=Kind.REAL)]),
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
        commit(lake, load_of(GROUPS, {"id": "1", "name": "5"}, {"id": "2", "name": "x"}))
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
    assert seen == {(1, "VARCHAR", 2), (2, "BIGINT", 1), (3, "DOUBLE", 1)}


def _state(lake_path: Path, newer: Migrations) -> tuple[Any, ...]:
    """Return a lake's format, the type that was changed, and how many names it holds."""
    newer((), ())  # of the newest format, so that nothing is migrated here
    with closing(sqlite3.connect(lake_path / CATALOG)) as catalog:
        assert catalog.execute("pragma quick_check").fetchone() == ("ok",)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fleetlake.lake.catalog.require_known_format", lambda *_, **__: None)
        with open_lake(lake_path, read_only=True) as lake:
            [(names,)] = lake.rows("select count(name) from raw.groups")
            return format_of(lake), columns_of_groups(lake)["name"], names


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
