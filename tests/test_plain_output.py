"""Output is plain text: a terminal interprets none of it, and lost output is not a success."""

import ast
import io
import logging
import re
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import fleetlake
from fleetlake import cli
from fleetlake.cli import screen
from fleetlake.cli.docs import docs
from fleetlake.cli.init import init
from fleetlake.cli.lake_records import show_quarantined
from fleetlake.cli.output import PlainFormatter
from fleetlake.cli.rich_screen import RichScreen
from fleetlake.errors import FleetlakeError
from fleetlake.lake import open_lake
from fleetlake.loading.outcome import Outcome
from fleetlake.marts import BuildResult, BuildStep, ModelResult, dbt
from fleetlake.receiving.access_log import LOGGER
from fleetlake.text.plain import plain, plain_lines
from tests.support.processes import command, environment

# The package exports the commands, which have the names of their modules.
build = import_module("fleetlake.cli.build")
export = import_module("fleetlake.cli.export")
SOURCE = Path(fleetlake.__file__).parent
NAMES = ["Truck [/yard]", "[bold]x[/bold]", "00:30:44:ab:cd:ef", ":warning:", "[link=x]a"]
HIDDEN = "\x1b[31m\x07\r\x9b\u202e\u200b\u2066\ufeff\u2028\x00"


@pytest.fixture
def printed(monkeypatch):
    """Return a function that prints on our console and returns the output."""

    def show(act) -> str:
        out = io.StringIO()
        on = screen.console(stderr=True)
        monkeypatch.setattr(on, "file", out)
        act(on)
        return out.getvalue()

    return show


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_printed_literally_in_tables_lists_and_messages(printed, name):
    drawn = screen.table(name, (name,), [(name,)])

    assert printed(lambda on: on.print(drawn)).count(name) == 3
    assert printed(lambda on: screen.print_rows(on, (name,), [(name,)])).count(name) == 2
    wide = name + " wide" * 100
    assert name in printed(lambda on: screen.print_rows(on, (name,), [(wide,)]))
    assert printed(lambda on: on.print(f"say {name}")) == f"say {name}\n"


def test_control_characters_are_shown_escaped_and_never_reach_a_terminal(printed):
    drawn = screen.table(HIDDEN, (HIDDEN,), [(HIDDEN,)])

    for out in (
        printed(lambda on: on.print(drawn)),
        printed(lambda on: screen.print_rows(on, (HIDDEN,), [(HIDDEN,), (HIDDEN * 99,)])),
        printed(lambda on: on.print(HIDDEN)),
        str(FleetlakeError(HIDDEN, remedy=HIDDEN)),
        PlainFormatter().format(logging.LogRecord("x", 30, "", 1, "%s", (HIDDEN,), None)),
    ):
        assert "\\x1b[31m" in out
        assert "\\u202e\\u200b" in out
        assert not set(HIDDEN) - set("[31m") & set(out)


def test_text_in_any_language_is_unchanged():
    text = "Muñoz 車両 Ελλάδα наклейка 🚚 “ok”"

    assert plain(text) == plain_lines(text) == text


def test_a_wrong_argument_is_quoted_without_its_control_characters():
    odd = ("\x1b[31m\u202enonsense", "--\x1b[31m\u202enonsense")
    for words in [[*before, one] for one in odd for before in ([], ["records", "gaps"])]:
        said = CliRunner().invoke(cli.app, words).output

        assert not {"\x1b", "\u202e"} & set(said)
        assert "\\x1b[31m\\u202enonsense" in said


@pytest.mark.parametrize("output", ["csv", "json"])
def test_machine_formats_on_a_terminal_show_control_characters(lake_path, monkeypatch, output):
    monkeypatch.setattr("fleetlake.cli.output.is_read_by_people", lambda: True)
    sql = (
        "select 'a' || chr(27) || '[2J' || chr(155) || chr(8238) || 'b' || chr(10) || 'c' as x, 1 n"
    )

    run = CliRunner().invoke(
        cli.app, ["query", sql, "--format", output], env=environment(lake_path.parent)
    )

    assert run.exit_code == 0
    assert all(line.isprintable() for line in run.stdout.split("\n"))
    assert len(run.stdout.splitlines()) == (2 if output == "csv" else 3)


def test_machine_formats_keep_every_byte(lake_path):
    env = environment(lake_path.parent)
    sql = "select 'Truck [/yard] :warning: é' || chr(27) as name"
    run = CliRunner()

    csv = run.invoke(cli.app, ["query", sql, "--format", "csv"], env=env).stdout_bytes
    json = run.invoke(cli.app, ["query", sql, "--format", "json"], env=env).stdout_bytes

    assert csv == "name\nTruck [/yard] :warning: é\x1b\n".encode()
    assert json == '[\n{"name":"Truck [/yard] :warning: é\\u001b"}\n]\n'.encode()


PRINTERS = {"cli/screen.py", "cli/rich_screen.py", "cli/output.py"}
"""The modules that decide how text is written."""

WRITERS = {
    *("cli/shell.py", "cli/__init__.py"),
    *("cli/dashboard.py", "cli/mcp.py", "receiving/push_server.py"),  # the line `ready URL`
}
"""These write to standard output themselves, but only prompts and our own text."""

RAW = {
    "escape",
    "markup.escape",
    "rich.print",
    "typer.echo",
    "typer.secho",
    "click.echo",
    "Console",
    "TextColumn",
    "print",
}


def raw_prints(file: Path) -> list[str]:
    """Return the calls in a file that print without the function that makes text plain."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in RAW or name.endswith("Text.from_markup"):
                found.append(name)
            found += [f"{name}({k.arg})" for k in node.keywords if k.arg in {"markup", "emoji"}]
            if re.fullmatch(r"sys\.(stdout|stderr)\.write", name):
                found.append(name)
    return found


def test_only_one_place_prints():
    found = {str(file.relative_to(SOURCE)): raw_prints(file) for file in SOURCE.rglob("*.py")}
    for name in WRITERS:
        found[name] = [c for c in found[name] if c not in {"sys.stdout.write", "typer.echo"}]
    for name in {*PRINTERS, "__main__.py", "cli/interrupts.py"}:
        del found[name]

    assert {name: calls for name, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    ("value", "shown", "shown_as_id"),
    [
        (None, "", ""),
        (True, "yes", "yes"),
        (False, "no", "no"),
        (1234567, "1,234,567", "1234567"),
        (0.1 + 0.2, "0.3", "0.3"),
        ("a b", "a b", "a b"),
    ],
)
def test_a_value_is_shown_as_people_read_it(value, shown, shown_as_id):
    assert screen.cell(value) == shown
    assert screen.cell(value, counts=False) == shown_as_id


def test_numbers_stand_at_the_right_of_a_column_and_texts_at_the_left():
    drawn = screen.table("", ("text", "mixed", "number"), [("a", "b", 1), ("c", 2, None)])

    assert [column.justify for column in drawn.columns] == ["left", "left", "right"]
    assert screen.table("", ("none",), []).columns[0].justify == "left"


def test_rows_are_a_table_up_to_the_width_of_the_screen_and_blocks_beyond_it(printed):
    frame = len("│  │")
    fits, too_wide = ("x" * (screen.PLAIN_WIDTH - frame + more) for more in (0, 1))

    assert "record 1" not in printed(lambda on: screen.print_rows(on, ("a",), [(fits,)]))
    assert printed(lambda on: screen.print_rows(on, ("a", "bcd"), [(1, too_wide)])) == (
        f"record 1\na  : 1\nbcd: {too_wide}\n"
    )


def test_a_message_without_a_terminal_is_one_line_so_that_its_commands_can_be_copied(printed):
    message = f'Run `fleetlake query "select {"x, " * 200}"`.'

    assert printed(lambda on: on.print(message)) == f"{message}\n"


def test_lines_that_are_copied_from_the_output_are_never_broken(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(screen, "PLAIN_WIDTH", 20)
    page = tmp_path / "page.html"
    page.touch()
    monkeypatch.setattr("fleetlake.marts.build.write_docs", lambda _: page)
    record = SimpleNamespace(
        endpoint="alerts", reason="a reason of some length", raw="{}" * 20, times_seen=1
    )
    monkeypatch.setattr("fleetlake.lake.open_lake", lambda *_, **__: nullcontext())
    monkeypatch.setattr("fleetlake.loading.quarantine.quarantined", lambda *_: [record])

    init(tmp_path / "project")
    init(tmp_path / "project")
    docs(tmp_path / "docs.html")
    show_quarantined()

    *wrote, described, reason, raw = capsys.readouterr().out.splitlines()
    files = [path for path in (tmp_path / "project").rglob("*") if path.is_file()]
    for line, start in zip(wrote, [*["  wrote "] * len(files), "Next: "], strict=False):
        assert line.startswith(start)
    assert len(wrote) == 2 * (len(files) + 1)
    assert wrote[-2].startswith("  exists, left unchanged: ")
    assert described == f"Written to {tmp_path / 'docs.html'}."
    assert [reason, raw] == ["alerts: a reason of some length", f"  {record.raw}"]


def test_a_load_tells_a_log_how_far_each_stream_is_and_how_it_ended(printed, monkeypatch, capsys):
    monkeypatch.setattr(screen, "SECONDS_BETWEEN_LINES", 0.0)
    ended = Outcome(endpoint="users", added=30, calls=2, seconds=0.5)

    def load(watcher):
        watcher.on_page("users", 1000)
        watcher.on_page("alerts", 1)
        watcher.on_page("users", 200)
        watcher.on_end(ended)
        watcher.on_page("users", 7)
        watcher.on_stop()
        return [ended]

    lines = printed(lambda on: screen.run_with_progress(on, load)).splitlines()

    assert [line.strip() for line in lines] == [
        "… users: 1,000 records so far",
        "… alerts: 1 record so far",
        "… users: 1,200 records so far",
        "users: 30 added (2 calls, 0.5 s)",
        "… users: 7 records so far",
        "Stopping: committing what was read. Press Ctrl-C again to leave at once.",
    ]
    assert capsys.readouterr().out.startswith("1 stream: 30 rows added (2 calls, ")


def test_a_log_has_no_line_about_progress_within_five_seconds(printed, monkeypatch):
    now = iter([100.0, 104.9, 105.0, 105.0, 105.0, 109.9])
    monkeypatch.setattr(screen, "time", SimpleNamespace(monotonic=lambda: next(now)))

    def copy(on):
        with screen.copy_progress(on, "copying") as on_copied:
            for _ in range(3):
                on_copied(1_000_000, 9_000_000)

    assert printed(copy).strip() == "… copying: 2.0 of 9.0 MB so far"


def test_a_build_counts_marts_and_tests_and_can_list_the_marts(printed):
    mart = ModelResult(
        name="trips",
        schema="marts",
        kind="incremental",
        rows=1200,
        seconds=1.234,
        is_written=True,
        tests_passed=3,
        tests_warned=0,
    )
    below = replace(mart, name="stg_trips", schema="staging", kind="view", rows=None)
    passed = dbt.TestResult(name="t", model="trips", status="pass", failures=0, seconds=1, sql="")
    result = BuildResult(
        models=(below, mart),
        dropped=(),
        tests=(passed, passed, replace(passed, status="warn")),
        snapshot_id=1,
        is_full=True,
        nothing_loaded=False,
        seconds=2.5,
    )
    [header, row] = [
        [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
        for line in printed(lambda on: on.print(build.mart_table(result))).splitlines()
        if "│" in line or "┃" in line
    ]

    assert build.build_summary(result) == (
        "1 mart (and 1 model they depend on) in 2.5 s; 2 data tests passed."
    )
    assert header == ["mart", "kind", "rows", "seconds", "data tests"]
    assert row == ["trips", "incremental", "1,200", "1.23", "3 passed"]
    assert "up to date" in build.build_summary(replace(result, models=()))


@pytest.mark.parametrize(
    ("is_verbose", "lines"),
    [
        (False, "  unique_trips: fail, 0.2 s\n  stops: error, 0.2 s\n"),
        (
            True,
            (
                "  trips: ok, 0.2 s\n  places: ok, 0.2 s\n  unique_trips: fail, 0.2 s\n"
                "  stops: error, 0.2 s\n  visits: skip, 0.2 s\n"
            ),
        ),
    ],
)
def test_a_build_writes_what_failed_to_a_log_and_all_models_if_asked(printed, is_verbose, lines):
    step = BuildStep(name="trips", kind="model", status="ok", index=1, total=2, seconds=0.25)

    def run(on):
        with build.build_progress(on, is_verbose=is_verbose) as on_progress:
            on_progress(step)
            on_progress(replace(step, name="not_null_trips", kind="test", status="pass"))
            on_progress(replace(step, name="places", kind="seed", status="success"))
            on_progress(replace(step, name="unique_trips", kind="test", status="fail"))
            on_progress(replace(step, name="stops", status="error"))
            on_progress(replace(step, name="visits", status="skip"))

    assert printed(run) == lines


def test_a_terminal_shows_how_far_an_export_and_a_load_are():
    out = io.StringIO()
    on = RichScreen(file=out, force_terminal=True, width=100)

    with screen.count_bars(on, "rows") as (on_rows, _):
        on_rows("trips", 1000)
        on_rows("trips", 234)
    with screen.count_bars(on, "records") as (on_page, forget):
        on_page("users", 1)
        forget("users")
        on_page("alerts", 5000)
        on_page("alerts", 678)

    assert "1,234 rows" in out.getvalue()
    assert "5,678 records" in out.getvalue()
    assert "users" not in out.getvalue().partition("5,678")[2]


@pytest.mark.parametrize("name", NAMES)
def test_a_progress_bar_shows_a_name_literally(name):
    column = screen.text_column("{task.description}")

    assert column.render(SimpleNamespace(description=name)).plain == name


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    with open_lake(folder / "lake"):
        pass
    return environment(folder)


JSON = ("query", "select 1 as a", "--format", "json")


@pytest.mark.proof
@pytest.mark.parametrize(
    "words", [("records", "gaps"), JSON, ("query", "select 1 as a")], ids=["gaps", "json", "table"]
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_a_full_disk_has_its_own_exit_code(env, words, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command(*words),
            env={**env, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 11
    assert done.stderr.startswith("Error: Standard output could not be written: No space left")
    assert "Traceback" not in done.stderr


def test_a_closed_output_ends_a_command_before_it_begins(env):
    words = ["sh", "-c", 'exec "$@" >&-', "sh", *command("records", "gaps")]

    done = subprocess.run(words, env=env, stderr=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stderr.splitlines()[0]) == (
        11,
        "Error: Standard output is closed.",
    )


@pytest.mark.proof
@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["ascii", "C"],
)
def test_a_terminal_without_these_characters_shows_replacements(env, locale):
    words = command("query", "select '…✓é' as shown, 'Muñoz' as name")
    done = subprocess.run(words, env={**env, **locale}, capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"...ok\\xe9" in done.stdout
    assert b"Mu\\xf1oz" in done.stdout
    assert done.stdout.isascii()


def test_a_line_of_the_access_log_has_its_time_and_nothing_that_a_terminal_interprets(monkeypatch):
    monkeypatch.setattr(
        "fleetlake.receiving.push_server.serve", lambda *_: LOGGER.info("a request%s", HIDDEN)
    )

    logged = CliRunner().invoke(cli.app, ["receive"]).stderr.splitlines()
    silent = CliRunner().invoke(cli.app, ["receive", "--no-access-log"]).stderr

    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} a request.*", logged[-1])
    assert not {*HIDDEN.replace("[31m", "")} & {*logged[-1]}
    assert "a request" not in silent
