"""What `query` and `shell` refuse, and what still works."""

import shutil
from contextlib import suppress

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from fleetlake import cli
from fleetlake.cli.shell import attach_lines
from fleetlake.errors import UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import attach_statements, split_password
from fleetlake.lake.guard import close_off, spill_folder, spill_into
from fleetlake.lake_address import parse_lake_address
from tests.support.processes import environment


@pytest.fixture(scope="module")
def outside(empty_lake, tmp_path_factory):
    """Return a folder with a lake, and a text file beside it that no query may read."""
    folder = tmp_path_factory.mktemp("outside")
    shutil.copytree(empty_lake, folder / "lake")
    with open_lake(folder / "lake") as lake:
        lake.execute(
            "create table marts.trips as select i as trip_id, i % 3 as kind, "
            "repeat('x', 200) as note from range(60000) r(i)"
        )
    (folder / "secret.txt").write_text("s3cret")
    return folder


@pytest.fixture(scope="module")
def guarded(outside):
    with spill_folder() as spill, open_lake(outside / "lake", read_only=True) as lake:
        spill_into(lake, spill)
        close_off(lake)
        yield lake


@pytest.fixture
def ask(guarded):
    """Return a function that runs SQL as `query` does and returns its last statement's rows."""

    def rows(sql: str) -> list[tuple[object, ...]]:
        found = [result.fetchall() for result in guarded.run_user_sql(sql)]
        return found[-1] if found else []

    yield rows
    roll_back(guarded)


def roll_back(lake):
    """End the transaction that refused SQL may have left open."""
    with suppress(duckdb.Error):
        lake.connection.execute("rollback")


FILE = "{outside}/secret.txt"
CATALOG = "{outside}/lake/catalog.sqlite"
REFUSED = [
    f"from read_text('{FILE}')",
    "from read_text('{outside}/lake/files/../../secret.txt')",
    f"from '{FILE}'",
    f"from read_csv('{FILE}')",
    "from glob('{outside}/*')",
    "copy (select 1) to '{outside}/new.csv'",
    "copy (select 1) to '{outside}/lake/files/new.csv'",
    "explain analyze copy (select 1) to '{outside}/lake/files/new.csv'",
    "export database '{outside}/lake/files/new.csv'",
    "attach '{outside}/lake/files/new.csv' as other",
    f"attach '{CATALOG}' as other (type sqlite)",
    "attach 'ducklake:sqlite:{outside}/lake/catalog.sqlite' as other",
    f"from sqlite_scan('{CATALOG}', 'ducklake_table')",
    f"select (select count(*) from \"SQLITE_scan\"('{CATALOG}', 'ducklake_table'))",
    f"create temp table t as from sqlite_scan('{CATALOG}', 'ducklake_table')",
    f"pivot (from sqlite_scan('{CATALOG}', 'ducklake_table')) on table_name using count(*)",
    f"explain analyze from sqlite_scan('{CATALOG}', 'ducklake_table')",
    f"from query('from sqlite' || '_scan(''{CATALOG}'', ''ducklake_table'')')",
    f"call sqlite_attach('{CATALOG}')",
    "from sqlite_query('__ducklake_metadata_lake', 'select 1')",
    f"from read_blob('{CATALOG}')",
    "from read_text('{outside}/lake/files/../catalog.sqlite')",
    "select * from (from READ_BLOB('{outside}/lake/' || 'catalog.sqlite'))",
    f"from read_csv('{CATALOG}', columns = {{{{'a': 'varchar'}}}}, ignore_errors = true)",
    f"from sniff_csv('{CATALOG}')",
    f"from read_json_objects('{CATALOG}', ignore_errors = true)",
    f"from '{CATALOG}'",
    "from __ducklake_metadata_lake.ducklake_table",
    "use __ducklake_metadata_lake",
    "set schema = concat('__ducklake_', 'metadata_lake'); from ducklake_table",
    "set search_path = 'lake.main,__DUCK' || 'lake_metadata_lake.main'; from ducklake_table",
    r"set schema = E'\x5f_ducklake_metadata_lake.main'; from ducklake_table",
    "from query_table('__ducklake_metadata_lake.ducklake_table')",
    "create temp table t as from duckdb_databases()",
    "set variable v = (select count(*) from duckdb_databases())",
    'pivot (from "duckdb_databases"()) on database_name using count(*)',
    "from duckdb_databases()",
    "from duckdb_databases",
    "from duckdb_secrets()",
    "from pragma_database_list",
    "set memory_limit = '1GB'",
    "set enable_external_access = true",
    "set allowed_directories = ['/']",
    "pragma profiling_output = '{outside}/new.csv'",
    "install httpfs",
    "load httpfs",
    "update extensions",
    "create secret s (type s3, key_id 'x')",
    "create macro m() as table from sqlite_scan('a', 'b')",
    "prepare p as select 1",
    "call lake.set_option('data_inlining_row_limit', 0)",
    "from ducklake_expire_snapshots('lake', older_than => now())",
    "from ducklake_cleanup_old_files('lake', cleanup_all => true)",
    "from ducklake_delete_orphaned_files('lake', cleanup_all => true)",
    "from ducklake_merge_adjacent_files('lake')",
    "call enable_logging('QueryLog', storage => 'file', storage_path => '{outside}/new.csv')",
    "checkpoint",
    "detach lake",
    "delete from marts.trips",
    "create table marts.other as select 1",
    "drop table marts.trips",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_a_statement_that_does_more_than_read_the_lake_is_refused_and_changes_nothing(
    ask, guarded, outside, sql
):
    before = sorted(outside.rglob("*"))

    with pytest.raises((UsageError, duckdb.Error)):
        ask(sql.format(outside=outside))

    roll_back(guarded)
    assert sorted(outside.rglob("*")) == before


def test_names_refer_to_the_lake_again_after_a_refused_search_path(ask):
    ask("set schema = concat('__ducklake_', 'metadata_lake')")
    with pytest.raises(UsageError):
        ask("from ducklake_table")

    assert ask("select count(*) from marts.trips") == [(60000,)]


def test_a_transaction_that_failed_can_be_rolled_back(ask):
    ask("begin")
    with pytest.raises(duckdb.Error):
        ask("select error('it failed')")
    ask("rollback")

    assert ask("select 1") == [(1,)]


def test_a_python_variable_is_not_a_table(guarded):
    rows = pa.table({"n": [1]})

    with pytest.raises(duckdb.Error):
        guarded.connection.execute("from rows")
    assert rows.num_rows == 1


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from marts.trips",
        "with t as (from marts.trips) select kind, count(*) from t group by 1",
        "pivot marts.trips on kind using count(*)",
        "pivot marts.trips on kind in (1, 2) using count(*)",
        "describe marts.trips",
        "summarize marts.trips",
        "show all tables",
        "show tables",
        "explain select 1",
        "explain analyze select 1",
        "begin; from marts.trips limit 1; commit",
        "set timezone = 'Europe/Madrid'; select 1",
        "set variable one = 1; select getvariable('one')",
        "create temp table few as from marts.trips limit 3; from few",
        "create temp table none as select * from marts.trips where note = 'query'; from none",
        "explain select * from marts.trips where note = 'query'",
        "pivot (from marts.trips where note <> 'queryx') on kind using count(*)",
        "set variable two = 'queryx'; select getvariable('two')",
        "from lake.snapshots()",
        "select table_name from information_schema.tables",
        "from marts.trips at (version => 2) limit 1",
        "from read_parquet('{outside}/lake/files/marts/trips/*.parquet') limit 1",
        "from unnest([1, 2]) t(x) join range(3) r(y) on x = y",
        "select unnest(json_keys('{{\"a\": 1}}'))",
    ],
)
def test_a_query_about_the_lake_is_allowed(ask, guarded, outside, sql):
    ask("use lake")

    assert ask(sql.format(outside=outside)) is not None
    roll_back(guarded)


def test_a_sort_larger_than_memory_spills_to_disk_and_leaves_no_files(outside):
    with spill_folder() as spill, open_lake(outside / "lake", read_only=True) as lake:
        spill_into(lake, spill)
        lake.execute("set memory_limit = '60MB'; set threads = 1")
        close_off(lake)
        sql = (
            "select t.note || r.i as wide, r.i from marts.trips t, range(6) r(i) "
            "order by hash(t.trip_id), r.i"
        )
        [result] = lake.run_user_sql(f"create temp table sorted as {sql}")
        spilled = sum(file.stat().st_size for file in spill.iterdir())

        assert result.fetchall() == [(360_000,)]
        assert spilled > 0
    assert not spill.exists()


def test_queries_work_in_memory_without_a_temporary_folder(outside, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))

    with spill_folder() as spill, open_lake(outside / "lake", read_only=True) as lake:
        spill_into(lake, spill)
        close_off(lake)

        assert [r.fetchall() for r in lake.run_user_sql("select 40 + 2")] == [[(42,)]]


@pytest.fixture
def run(outside, tmp_path):
    env = {**environment(tmp_path), "FLEETLAKE_LAKE": str(outside / "lake"), "COLUMNS": "120"}
    return lambda *words, **more: CliRunner().invoke(cli.app, words, env=env, **more)


@pytest.mark.parametrize(
    "sql",
    [
        f"from read_text('{FILE}')",
        "copy (select 1) to '{outside}/new.csv'",
        f"from sqlite_scan('{CATALOG}', 'ducklake_table')",
        "set threads = 1",
        "load httpfs",
        "delete from marts.trips",
    ],
)
def test_a_refusal_names_the_option_that_allows_the_statement(run, outside, sql):
    error = run("query", sql.format(outside=outside)).exception

    assert isinstance(error, UsageError)
    assert "refused" in error.what
    assert "--unsafe" in error.remedy


def test_the_shell_refuses_the_same_statements_and_continues(run, outside):
    said = run(
        "shell",
        input=f"from read_text('{outside}/secret.txt');\ncopy (select 1) to 'x';\nselect 40 + 2;\n",
    ).output

    assert "s3cret" not in said
    assert said.count("refused") == 2
    assert said.count("--unsafe") == 2
    assert "42" in said


def test_unsafe_allows_reading_and_writing_files_but_not_changing_the_lake(run, outside, tmp_path):
    copy = f"copy (select 1 as a) to '{tmp_path / 'one.csv'}'"

    assert "s3cret" in run("query", f"from read_text('{outside}/secret.txt')", "--unsafe").output
    assert run("query", copy, "--unsafe").exit_code == 0
    assert run("shell", "--unsafe", input=f"{copy.replace('one', 'two')};\n").exit_code == 0
    assert isinstance(run("query", "delete from marts.trips", "--unsafe").exception, UsageError)
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text() == "a\n1\n"


@pytest.mark.parametrize(
    "address",
    [
        "host=db user=fleet password=hunter2",
        "password='hunter2' host=db",
        "postgresql://fleet:hunter2@db/lake",
        "postgres://fleet:hunter2@db:5433/lake?sslmode=require",
        "postgresql:///lake?host=/run/pg&user=fleet&password=hunter2",
    ],
)
def test_the_password_of_a_shared_catalog_is_a_duckdb_secret_and_in_no_address(address):
    place = parse_lake_address(f"postgres:{address}", "/mnt/files")

    lines = attach_statements(place).splitlines()

    assert [line for line in lines if "hunter2" in line] == [
        "CREATE OR REPLACE SECRET catalog_login (TYPE postgres, PASSWORD 'hunter2');"
    ]
    assert "META_SECRET" in lines[-1]
    assert "SECRET" not in attach_lines(place)
    assert "hunter2" not in attach_lines(place)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("host=db password=a\\'b user=x", ("host='db' user='x'", "a'b")),
        ("host = db password = 'a b\\\\c'", ("host='db'", "a b\\c")),
        ("postgresql://u:p%40ss@a:1,b:2/d", ("host='a,b' port='1,2' user='u' dbname='d'", "p@ss")),
        ("postgresql://u:p@[::1]:5/d", ("host='::1' port='5' user='u' dbname='d'", "p")),
        ("postgresql://u@db/d", ("postgresql://u@db/d", None)),
        ("", ("", None)),
    ],
)
def test_an_address_is_read_as_libpq_reads_it(address, expected):
    assert split_password(address) == expected


@pytest.mark.parametrize("setting", [False, True])
def test_guarded_csv_contains_no_formula_and_numbers_stay_numbers(run, setting, monkeypatch):
    sql = "select '=1+1' as \"@a\", -5 as b, 'c' as c"
    monkeypatch.setenv("FLEETLAKE_CSV_GUARD", str(setting))
    words = () if setting else ("--csv-guard",)

    assert run("query", sql, "--format", "csv", *words).output == "'@a,b,c\n'=1+1,-5,c\n"


def test_csv_has_the_values_of_the_lake_unless_guarded(run):
    assert run("query", "select '=1+1' as a, -5 as b", "--format", "csv").output == "a,b\n=1+1,-5\n"
