"""The shell: interactive SQL on a lake that others may write at the same time."""

import os
import pty
import readline
import shutil
import signal
import subprocess
import sys
import time
from itertools import count, takewhile
from pathlib import Path

import duckdb
import psutil
import pytest
from typer.testing import CliRunner

from fleetlake import cli
from fleetlake.cli.interrupts import leave, on_ctrl_c
from fleetlake.cli.screen import console
from fleetlake.cli.shell import _complete, _names, _run, _statements, attach_lines
from fleetlake.errors import UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import attach_statements, store_keys
from fleetlake.lake.guard import close_off
from fleetlake.lake_address import parse_lake_address
from fleetlake.settings import load_settings
from tests.support.processes import command, environment, fleetlake


@pytest.fixture(scope="module")
def trips_lake(empty_lake, tmp_path_factory):
    """Return a lake with 700 trips, to copy."""
    path = shutil.copytree(empty_lake, tmp_path_factory.mktemp("trips") / "lake")
    with open_lake(Path(path)) as lake:
        lake.execute("create table marts.trips as select i as trip_id from range(700) r(i)")
        lake.execute("create view staging.stg_trips as from marts.trips")
    return path


@pytest.fixture
def env(trips_lake, tmp_path):
    shutil.copytree(trips_lake, tmp_path / "lake")
    return environment(tmp_path)


def typed(text: str, env: dict[str, str]) -> str:
    """Return what the shell prints for these lines, in this process."""
    load_settings.cache_clear()
    done = CliRunner().invoke(cli.app, ["shell"], env=env, input=text)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_statements_run_at_each_semicolon_and_errors_do_not_end_the_shell(env):
    out = typed("select max(trip_id)\nfrom marts.trips;\nselect nothing;\nselect 40 + 2;", env)

    assert "699" in out
    assert "nothing" in out
    assert "42" in out
    assert out.index("699") < out.index("nothing") < out.index("42")


@pytest.mark.usefixtures("env")
def test_a_failed_statement_leaves_no_implicit_transaction_open(tmp_path, capsys):
    pivot = "pivot (from marts.trips limit 3) on trip_id using count(*)"
    made = f"create table memory.main.z as {pivot}"
    with open_lake(tmp_path / "lake", read_only=True) as lake:
        close_off(lake)
        for statement in (made, made, f"explain {pivot}", "select 41 + 1", "begin"):
            _run(lake, console(), statement)
        _run(lake, console(), "select no_column")
        _run(lake, console(), "rollback")

    out = capsys.readouterr().out
    assert "42" in out
    assert "ransaction" not in out


def test_the_shell_cannot_change_the_lake(env, tmp_path):
    out = typed("delete from marts.trips;\n.tables\n.quit\nselect 'not run';", env)

    assert "read-only" in out
    assert "trips" in out
    assert "not run" not in out
    with open_lake(tmp_path / "lake", read_only=True) as lake:
        assert lake.rows("select count(*) from marts.trips") == [(700,)]


def test_ctrl_c_discards_an_unfinished_statement():
    lines = iter(["select 1", KeyboardInterrupt, "select 2;", "select 3"])

    def read(_prompt):
        line = next(lines, None)
        if line is KeyboardInterrupt:
            raise KeyboardInterrupt
        return line

    assert list(_statements(read)) == ["select 2;", "select 3"]


def test_an_error_in_the_shell_says_what_to_do(env):
    out = typed(
        "from marts.trisp;\nselect hp from marts.trips;\ndelete from marts.trips;\nselec 1;", env
    )

    first, column, second = (part.strip() for part in out.split("What to do: ")[1:])
    assert first.startswith("`.tables` lists the tables.")
    assert column.startswith("`describe raw.alerts;` lists the columns of raw.alerts")
    assert second.startswith("Queries only read")
    assert "selec" in second  # which comes with none


@pytest.mark.proof
def test_a_long_result_is_truncated_with_a_note(env):
    assert "The first 500 rows" in typed("from marts.trips;", env)


def test_tab_completes_the_name_of_a_table(env):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("shell"), env={**env, "TERM": "dumb"}, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        os.write(ours, b"select count(*) from marts.tri\t;\n.quit\n")
        out = b"".join(iter(lambda: chunk(ours), b"")).decode()
    os.close(ours)

    assert "700" in out


def test_tab_offers_tables_views_columns_and_keywords_in_any_case(trips_lake):
    offered = {
        "marts.tr": ["marts.trips"],
        "MARTS.TR": ["marts.trips"],
        "staging.": ["staging.stg_trips"],
        "trip_": ["trip_id"],
        "sel": ["select"],
    }
    before = readline.get_completer()
    with open_lake(trips_lake, read_only=True) as lake:
        _complete(_names(lake))
    complete = readline.get_completer()
    readline.set_completer(before)

    for word, names in offered.items():
        assert list(takewhile(bool, (complete(word, n) for n in count()))) == names


def chunk(terminal: int) -> bytes:
    """Return what a terminal shows next; empty once its last process has ended."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


@pytest.mark.proof
def test_the_printed_lines_attach_the_lake_in_a_separate_duckdb(env):
    lines = fleetlake("shell", "--attach", env=env).stdout
    script = f"import duckdb, sys; c = duckdb.connect(); c.execute({lines!r}); "
    script += "print(c.execute('select count(*) from lake.marts.trips').fetchall())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[(700,)]"
    with duckdb.connect() as connection:
        connection.execute(lines)
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("delete from lake.marts.trips")


LONG = "select sum(a.i * b.i) from range(100000000) a(i), range(1000000) b(i)"
"""Hours of work that DuckDB counts as one task."""


def until_busy(process: subprocess.Popen[str]) -> None:
    """Return once a command has used more CPU time than its start needs: its query is running."""
    while psutil.Process(process.pid).cpu_times().user < 2:
        assert process.poll() is None
        time.sleep(0.05)


@pytest.mark.proof
def test_ctrl_c_during_a_statement_returns_to_the_prompt(env):
    with subprocess.Popen(
        command("shell"), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        shell.stdin.write(f"{LONG};\n")
        shell.stdin.flush()
        until_busy(shell)
        shell.send_signal(signal.SIGINT)
        out, _ = shell.communicate("select 40 + 2 as answer;\n", timeout=120)

    assert shell.returncode == 0
    assert out.startswith("Stopped.\n")
    assert "42" in out


def test_ctrl_c_while_rows_are_printed_returns_to_the_prompt(lake_path, monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fleetlake.cli.shell.print_rows", stopped)
    with open_lake(lake_path) as lake:
        _run(lake, console(), "select 1")

    assert capsys.readouterr().out == "Stopped.\n"


def test_leaving_ends_the_process_even_if_its_temporary_files_are_gone(
    tmp_path, monkeypatch, capsys
):
    ended = []
    monkeypatch.setattr("os._exit", ended.append)

    leave(tmp_path / "gone")

    assert ended == [130]
    assert capsys.readouterr().err == "Stopped.\n"


def ended_by_ctrl_c(query: "subprocess.Popen[str]") -> tuple[int, str]:
    """Interrupt a command; return its exit code and output."""
    query.send_signal(signal.SIGINT)
    _, said = query.communicate(timeout=120)
    return query.returncode, said


@pytest.mark.proof
def test_ctrl_c_ends_a_long_query_at_once_without_a_traceback(env):
    with subprocess.Popen(
        command("query", LONG), env=env, stderr=subprocess.PIPE, text=True
    ) as query:
        until_busy(query)
        assert ended_by_ctrl_c(query) == (130, "Stopped.\n")


def test_ctrl_c_ends_a_query_that_waits_for_a_pipe_and_removes_its_temporary_files(env, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env["TMPDIR"] = str(temporary)
    words = command("query", f"from read_csv('{tmp_path / 'pipe'}')", "--unsafe")
    with (
        subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as query,
        (tmp_path / "pipe").open("w"),  # opens once the query opens it
    ):
        assert list(temporary.iterdir()) != []
        assert ended_by_ctrl_c(query) == (130, "Stopped.\n")
    assert list(temporary.iterdir()) == []


@pytest.mark.proof
def test_a_background_query_ignores_ctrl_c(env, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    words = command("query", f"select 40 + 2 as a from read_csv('{tmp_path / 'pipe'}')", "--unsafe")
    words = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *words]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as query:
        with (tmp_path / "pipe").open("w") as pipe:
            query.send_signal(signal.SIGINT)
            pipe.write("n\n1\n")
        out, _ = query.communicate(timeout=120)

    assert query.returncode == 0
    assert "42" in out


def test_the_lines_that_attach_a_shared_lake_contain_no_key(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASOMEBODY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    place = parse_lake_address("postgres:host=db user=fleet password=hunter2", "s3://bucket/fleet")

    lines = attach_lines(place)

    assert "ATTACH 'ducklake:postgres:" in lines
    assert "s3://bucket/fleet" in lines
    assert not [key for key in ("AKIASOMEBODY", "s3cret", "hunter2") if key in lines]


def test_the_keys_of_a_store_are_those_of_the_environment_and_are_hidden_in_messages(monkeypatch):
    values = {
        "AWS_ACCESS_KEY_ID": "an-id",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_SESSION_TOKEN": "a-token",
        "AWS_DEFAULT_REGION": "north",
        "AWS_ENDPOINT_URL": "http://store:9000/",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_REGION", raising=False)
    lake = parse_lake_address("postgres:host=db", "s3://bucket/fleet")

    statements = attach_statements(lake)

    assert (
        "(TYPE s3, SCOPE 's3://bucket/fleet', KEY_ID 'an-id', SECRET 'a-secret', "
        "SESSION_TOKEN 'a-token', REGION 'north', ENDPOINT 'store:9000', URL_STYLE 'path', "
        "USE_SSL 'false');"
    ) in statements
    assert store_keys() == ["a-secret", "a-token"]
    monkeypatch.setenv("AWS_REGION", "south")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store")
    assert "REGION 'south', ENDPOINT 'store', URL_STYLE 'path');" in attach_statements(lake)


@pytest.fixture
def run(env):
    """Return a function that runs a command on the lake and returns its exit code and output."""
    return lambda *words: CliRunner().invoke(cli.app, words, env={**env, "COLUMNS": "80"})


def test_a_record_too_wide_for_a_table_is_printed_as_a_block_in_full(run):
    columns = ", ".join(f"'{'v' * 30}{i}' as column_{i}" for i in range(12))

    lines = run("query", f"select {columns}").output.splitlines()

    assert lines[0] == "record 1"
    assert [line.replace(" ", "") for line in lines[1:]] == [
        f"column_{i}:{'v' * 30}{i}" for i in range(12)
    ]


def test_a_result_without_rows_names_its_columns_however_many_they_are(run):
    few, many = (
        run("query", f"select {', '.join(f'{i} as column_{i}' for i in range(n))} limit 0").output
        for n in (2, 40)
    )

    assert "column_0" in few
    assert many == f"0 rows of {', '.join(f'column_{i}' for i in range(40))}\n"


@pytest.mark.parametrize("sql", ["show tables", "SHOW TABLES;", "select 1 as a; show tables"])
def test_show_tables_lists_the_tables_of_all_schemas(run, sql):
    shown = run("query", sql, "--format", "csv").output.splitlines()

    assert {"marts,trips", "staging,stg_trips", "raw,alerts"} <= {*shown}


def test_a_table_ends_at_a_thousand_rows_and_says_how_many_more(run):
    sql = "select i + 10000 as n from range(1234) r(i)"

    shown, all_of_it = run("query", sql).output, run("query", sql, "--format", "csv").output

    assert shown.count("│ 1") == 1_000
    assert "234 more rows; `--format csv` gives all." in shown
    assert len(all_of_it.splitlines()) == 1_235


def test_each_statement_of_a_query_prints_its_result(run):
    sql = "set timezone = 'UTC'; select 1 as a; select 2 as b, 3 as c;"

    assert run("query", sql, "--format", "csv").output == "a\n1\nb,c\n2,3\n"


def test_a_wrong_statement_keeps_the_results_of_earlier_statements(run):
    done = run("query", "select 1 as a; from nothing", "--format", "csv")

    assert done.output == "a\n1\n"
    assert isinstance(done.exception, UsageError)


def test_a_missing_table_error_suggests_a_query_that_lists_the_tables(run):
    said = str(run("query", "from marts.trisp").exception.remedy)

    advised = said.split('"')[1]
    assert "trips" in run("query", advised).output


def test_a_query_that_writes_is_refused_as_read_only(run):
    assert "only read" in run("query", "delete from marts.trips").exception.remedy
    assert "only read" in run("query", "create table marts.t as select 1").exception.remedy


@pytest.mark.parametrize(
    ("sql", "output"), [("", "table"), (";", "json"), ("/* nothing */", "csv")]
)
def test_a_query_without_a_statement_is_a_clear_error(run, sql, output):
    done = run("query", sql, "--format", output)

    assert isinstance(done.exception, UsageError)
    assert "no statement" in done.exception.what


def test_a_syntax_error_is_shown_without_unrelated_advice(run):
    error = run("query", "selec 1").exception

    assert "selec" in error.what
    assert not error.remedy


@pytest.mark.parametrize(
    ("words", "things"),
    [
        (("records", "gaps"), "lost ranges"),
        (("records", "quarantine", "list"), "quarantined records"),
        (("records", "columns", "list"), "members without a column"),
        (("records", "events"), "events"),
    ],
)
def test_an_empty_list_is_printed_as_a_sentence_without_a_table(run, words, things):
    assert run(*words).output == f"No {things}.\n"


@pytest.mark.usefixtures("closed_files")
def test_listening_for_ctrl_c_ends_with_its_context():
    before, heard = signal.getsignal(signal.SIGINT), []

    with on_ctrl_c(lambda: heard.append("Ctrl-C")):
        signal.raise_signal(signal.SIGINT)  # to this thread: another would get it later

    assert heard == ["Ctrl-C"]
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1
