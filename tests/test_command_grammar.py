"""One grammar for all commands: subcommands, `--format`, suggestions, completion, help."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner, Result

from fleetlake.cli import app
from fleetlake.cli.command_table import HEADINGS, MOVED
from fleetlake.errors import RecordsMissing
from fleetlake.lake import open_lake
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.settings import load_settings
from tests.support.cases import REQUESTED
from tests.support.processes import environment

FORMATS = ["table", "json", "csv"]
NASTY = "=1+1, “é”\x1b[31m\n"
"""Text from outside: a formula, a separator, a colour and a line break."""


def commands(group=None, *path: str) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the words and the object of every command, including groups and subcommands."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)


COMMANDS = dict(commands())
GROUPS = {words: command for words, command in COMMANDS.items() if hasattr(command, "commands")}
LISTS = [words for words in GROUPS if words[0] == "records" and words[1:]]
"""Groups that list items of the lake."""

LEAVES = {words: command for words, command in COMMANDS.items() if words not in GROUPS}


def joined(words: tuple[str, ...]) -> str:
    return " ".join(words)


def unframed(text: str) -> str:
    """Return an error without its frame and line breaks."""
    return " ".join(text.replace("│", " ").split())


def running(folder: Path) -> Callable[..., Result]:
    """Return a function that runs a command line on the lake of a folder."""
    env = environment(folder)

    def invoke(*words: str, **settings: str) -> Result:
        load_settings.cache_clear()
        return CliRunner().invoke(app, words, env={**env, **settings, "COLUMNS": "120"})

    return invoke


@pytest.fixture
def run(lake_path):
    """Return a function that runs a command line on this test's empty lake."""
    return running(lake_path.parent)


def timeless(printed: str) -> str:
    """Return what a command printed without the figures that differ from moment to moment."""
    return re.sub(r'"(measured_at|disk_free_bytes)": .*', "", printed)


@pytest.fixture(scope="module")
def filled_lake(module_lake):
    """Return a lake with a gap, quarantined records, an unknown member and an event."""
    with open_lake(module_lake) as lake:
        lake.execute(
            "insert into meta.gaps values ('west', 'alerts', '7', '2026-01-01 02:00:00+02', "
            "'2026-01-02 00:00:00.5Z', ?, '2026-01-03 00:00:00Z', null)",
            [NASTY],
        )
        lake.execute(
            "insert into meta.quarantine by name select 'west' as account_profile, unnest("
            "['routers', 'routers', 'users']) as endpoint, ? as reason, ? as raw, "
            "timestamptz '2026-01-04 00:00:00Z' as quarantined_at",
            [NASTY, json.dumps({"id": 1, "name": NASTY})],
        )
        lake.execute(
            "insert into meta.schema_drift by name select 'west' as account_profile, "
            "'routers' as endpoint, 'colour' as member, ? as example, "
            "timestamptz '2026-01-05 00:00:00Z' as first_seen_at",
            [json.dumps(NASTY)],
        )
        record_event(lake, EventKind.CHECK, NASTY, details={"file": NASTY})
    return module_lake


@pytest.fixture(scope="module")
def shown(filled_lake):
    """Return a function that runs a command line on that lake; for commands that only read."""
    return running(filled_lake.parent)


@pytest.fixture
def filled(filled_lake, tmp_path):
    """Return a function that runs a command line on this test's copy of that lake."""
    shutil.copytree(filled_lake, tmp_path / "lake")
    return running(tmp_path)


GAP = {
    "account_profile": "west",
    "endpoint": "alerts",
    "partition": "7",
    "start_at": "2026-01-01T00:00:00Z",
    "end_at": "2026-01-02T00:00:00.500000Z",
    "reason": NASTY,
    "recorded_at": "2026-01-03T00:00:00Z",
    "acknowledged_at": None,
}
RECORD = {
    "account_profile": "west",
    "endpoint": "users",
    "partition": "",
    "reason": NASTY,
    "raw": json.dumps({"id": 1, "name": NASTY}),
    "quarantined_at": "2026-01-04T00:00:00Z",
    "last_seen_at": "2026-01-04T00:00:00Z",
    "times_seen": 1,
}
EXPECTED = {
    ("records", "gaps", "list"): [GAP],
    ("records", "quarantine", "list"): [
        {"endpoint": "routers", "reason": NASTY, "records": 2},
        {"endpoint": "users", "reason": NASTY, "records": 1},
    ],
    ("records", "quarantine", "list", "users"): [
        {"endpoint": "users", "reason": NASTY, "records": 1}
    ],
    ("records", "quarantine", "show", "users"): [RECORD],
    ("records", "columns", "list"): [
        {
            "endpoint": "routers",
            "member": "colour",
            "first_seen_at": "2026-01-05T00:00:00Z",
            "example": json.dumps(NASTY),
            "column": None,
            "kind": None,
        }
    ],
    ("records", "columns", "list", "users"): [],
}


@pytest.mark.parametrize("words", COMMANDS, ids=joined)
def test_every_command_says_what_it_does_and_what_its_options_mean(words):
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "120"})

    command = COMMANDS[words]
    assert shown.exit_code == 0
    assert len(command.help) > 40
    assert all(getattr(parameter, "help", "") for parameter in command.params)
    texts = [command.help, *(str(getattr(parameter, "help", "")) for parameter in command.params)]
    assert not [text for text in texts if "[" in text], "Rich drops a word in brackets as markup"


@pytest.mark.parametrize("is_plain", [False, True], ids=["rich", "plain"])
def test_help_shows_each_command_under_its_heading(monkeypatch, *, is_plain: bool):
    if is_plain:
        monkeypatch.setattr("typer.core.HAS_RICH", False)
    text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output

    shown, heading = {}, ""
    for line in text.partition("Exit codes")[0].splitlines():
        heading = next((h for h in HEADINGS if line.strip("╭─╮: ") == h), heading)
        if heading and line.startswith(("│ ", "  ")) and line[2:3].strip():
            shown[line[2:].split()[0]] = heading
    assert shown == {one.name: title for title, ones in HEADINGS.items() for one in ones}


@pytest.mark.parametrize(
    "words",
    [
        ("query",),
        ("status",),
        ("records", "gaps", "list"),
        ("records", "quarantine", "list"),
        ("records", "quarantine", "show"),
        ("records", "columns", "list"),
        ("records", "verify"),
        ("doctor",),
        ("ingest",),
    ],
    ids=joined,
)
def test_every_command_that_prints_rows_accepts_the_same_formats(words):
    [option] = [p for p in COMMANDS[words].params if "--format" in p.opts]

    arguments = ["x"] if words in {("query",), ("records", "verify")} else []
    refused = CliRunner().invoke(app, [*words, *arguments, "--format", "xml"])

    assert option.default == "table"
    assert refused.exit_code == 2
    assert "'table', 'json', 'csv'" in unframed(refused.output)


@pytest.mark.parametrize("words", EXPECTED, ids=joined)
def test_json_is_one_document_with_stable_keys_utc_times_and_plain_numbers(shown, words):
    done = shown(*words, "--format", "json")

    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout) == EXPECTED[words]


@pytest.mark.parametrize("words", EXPECTED, ids=joined)
def test_csv_has_the_same_values_and_names_as_json(shown, words):
    text = shown(*words, "--format", "csv").stdout_bytes.decode()

    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows == [
        {name: in_csv(name, value) for name, value in record.items()} for record in EXPECTED[words]
    ]


def in_csv(name: str, value: object) -> str:
    """Return a JSON value as CSV shows it: times with their offset, empty for null."""
    if value is None:
        return ""
    return str(value).replace("Z", "+00:00") if name.endswith("_at") else str(value)


def cells(shown: str) -> list[list[str]]:
    """Return the cells of a printed table, row by row; a folded cell is several rows."""
    rows = [line.strip("│").split("│") for line in shown.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in row] for row in rows]


def test_gaps_are_shown_with_their_bounds_until_and_after_they_are_acknowledged(filled):
    before, failed = cells(filled("records", "gaps").stdout), filled("status").exception
    said = [filled("records", "gaps", "acknowledge").stdout for _ in range(2)]
    after, passed = cells(filled("records", "gaps").stdout), filled("status").exception

    bounds = ["2026-01-01 00:00:00.000000", "2026-01-02 00:00:00.500000"]
    assert before[0][:4] == after[0][:4] == ["alerts", "7", *bounds]
    assert (before[0][-1], after[0][-1]) == ("no", "yes")
    assert said == ["1 gap acknowledged.\n", "0 gaps acknowledged.\n"]
    assert isinstance(failed, RecordsMissing)
    assert passed is None


def test_quarantined_records_are_counted_with_advice_until_they_are_acknowledged(filled):
    advice = "run `fleetlake records quarantine acknowledge`"
    listed = " ".join(filled("records", "quarantine").stdout.split())
    counts = [[row[0], row[-1]] for row in cells(filled("records", "quarantine").stdout) if row[0]]
    acknowledged = [
        filled("records", "quarantine", "acknowledge", *of).stdout for of in (["users"], [])
    ]
    left = filled("records", "quarantine")

    kept = "acknowledged; meta.quarantine keeps them.\n"
    assert counts == [["routers", "2"], ["users", "1"]]
    assert advice in listed
    assert acknowledged == [f"1 record {kept}", f"2 records {kept}"]
    assert left.stdout == "No quarantined records.\n"


def test_a_retry_says_how_many_records_it_stored_and_gives_advice_on_the_rest(lake_path, run):
    with open_lake(lake_path) as lake:
        lake.execute(
            "insert into meta.quarantine by name select 'default' as account_profile, 'users' as "
            "endpoint, 'x' as reason, '' as partition, unnest(['{\"id\": \"1\"}', '{}']) as raw, "
            "timestamptz '2026-01-04 00:00:00Z' as quarantined_at"
        )
    first, second = (
        " ".join(run("records", "quarantine", "retry").stdout.split()) for _ in range(2)
    )
    run("records", "quarantine", "acknowledge")
    last = run("records", "quarantine", "retry").stdout

    assert first.startswith("1 record stored; 1 still quarantined. If the service corrects")
    assert second.startswith("0 records stored; 1 still quarantined. If the service corrects")
    assert last == "0 records stored; 0 still quarantined.\n"


def test_a_member_without_a_column_is_shown_with_its_first_day_and_an_example(shown):
    [row] = cells(shown("records", "columns").stdout)

    assert row[:3] == ["routers", "colour", "2026-01-05 00:00"]
    assert row[3].startswith('"=1+1')
    assert row[4] == ""


def test_the_csv_guard_applies_to_every_command(shown):
    for words in [("records", "gaps", "list"), ("records", "quarantine", "list")]:
        guarded = shown(*words, "--format", "csv", FLEETLAKE_CSV_GUARD="true").stdout
        plain = shown(*words, "--format", "csv").stdout

        assert "'=1+1" in guarded
        assert "'=1+1" not in plain


def test_status_prints_streams_and_open_gaps_as_json_and_streams_as_csv(shown):
    as_json, as_csv = shown("status", "--format", "json"), shown("status", "--format", "csv")

    document = json.loads(as_json.stdout)
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    assert document["open_gaps"] == [GAP]
    assert {row["endpoint"] for row in rows} == set(REQUESTED)
    counts = {(r["account_profile"], r["endpoint"]): (r["rows"], r["quarantined"]) for r in rows}
    assert counts == {
        (s["account_profile"], s["endpoint"]): (str(s["rows"]), str(s["quarantined"]))
        for s in document["streams"]
    }
    for done in (as_json, as_csv):
        assert isinstance(done.exception, RecordsMissing)


OLD = [
    (("gaps",), "fleetlake records gaps"),
    (("status", "--json"), "fleetlake status --format json"),
    (("records", "gaps", "--acknowledge"), "fleetlake records gaps acknowledge"),
    (("records", "quarantine", "--endpoint", "users"), "fleetlake records quarantine list users"),
    (
        ("records", "quarantine", "--endpoint", "users", "show"),
        "fleetlake records quarantine show users",
    ),
    (
        ("records", "quarantine", "list", "--endpoint=users"),
        "fleetlake records quarantine list users",
    ),
    (
        ("records", "quarantine", "acknowledge", "--endpoint", "users"),
        "fleetlake records quarantine acknowledge users",
    ),
    (
        ("records", "columns", "--type", "text", "promote", "routers", "colour"),
        "fleetlake records columns promote --type text routers colour",
    ),
]


@pytest.mark.proof
@pytest.mark.parametrize(("old", "new"), OLD, ids=[new for _, new in OLD])
def test_an_old_spelling_works_and_says_on_standard_error_what_to_type(
    filled, filled_lake, tmp_path_factory, old, new
):
    before = shutil.copytree(filled_lake, tmp_path_factory.mktemp("before") / "lake")
    said = filled(*old)
    again = filled(*new.split()[1:], FLEETLAKE_LAKE=str(before))

    assert timeless(said.stdout) == timeless(again.stdout)
    assert said.stdout
    assert said.stderr.startswith("Warning: ")
    assert said.stderr.rstrip().endswith(f"Type `{new}` instead.")
    assert again.stderr == ""


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_command_that_moved_is_found_by_its_old_name_but_not_listed(old, new):
    shown = CliRunner().invoke(app, [old, "--help"])

    assert f"Usage: fleetlake {joined(new)} " in unframed(shown.stdout)
    assert shown.stderr.rstrip().endswith(f"Type `fleetlake {joined(new)} --help` instead.")
    assert (old,) not in COMMANDS


@pytest.mark.parametrize("option", [["--host", "192.0.2.1"], ["--host=192.0.2.1"]])
def test_the_old_option_for_the_address_to_listen_on_still_works(run, option):
    refused = run("receive", *option)

    assert "On 192.0.2.1, everyone" in str(refused.exception)
    assert "`fleetlake receive --listen" in refused.stderr


@pytest.mark.parametrize("words", LISTS, ids=joined)
def test_a_group_without_a_subcommand_lists_its_items(shown, words):
    short, full = shown(*words), shown(*words, "list")

    assert short.stdout == full.stdout
    assert not full.stdout.startswith("No ")
    assert short.stderr == ""


@pytest.mark.parametrize("words", COMMANDS, ids=joined)
def test_a_misspelt_command_gets_the_nearest_suggestion(words):
    misspelt = f"{words[-1][:-1]}{words[-1][-1] * 2}"

    refused = CliRunner().invoke(app, [*words[:-1], misspelt])

    assert refused.exit_code == 2
    assert f"No such command '{misspelt}'. Did you mean '{words[-1]}'" in unframed(refused.output)


OPTIONS = {(): ["--debug", "--version"]} | {
    words: [
        option
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--help" and not parameter.hidden
    ]
    for words, command in LEAVES.items()
}


@pytest.mark.proof
@pytest.mark.parametrize(("words", "options"), OPTIONS.items(), ids=map(joined, OPTIONS))
def test_a_misspelt_option_gets_the_nearest_suggestion(words, options):
    for option in options:
        refused = CliRunner().invoke(app, [*words, f"{option}x"])

        assert refused.exit_code == 2
        said = unframed(refused.output)
        assert f"No such option: {option}x. Did you mean " in said
        assert f"'{option}'" in said


def test_a_value_that_is_not_among_the_choices_is_named_with_all_of_them():
    done = CliRunner().invoke(app, ["query", "select 1", "--format", "parquet"])

    refused = "Invalid value for '--format': 'parquet' is not one of 'table', 'json', 'csv'."
    assert refused in unframed(done.output)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("fleetlake qu", ["query"]),
        ("fleetlake records qu", ["quarantine"]),
        ("fleetlake gaps ", ["list", "acknowledge"]),
        ("fleetlake records gaps ", ["list", "acknowledge"]),
        ("fleetlake records columns pro", ["promote"]),
        ("fleetlake status --form", ["--format"]),
        ("fleetlake records quarantine list --format ", FORMATS),
        ("fleetlake records verify alert_", ["alert_rules", "alert_push_destinations"]),
        ("fleetlake ingest alerts users_", ["users_v3"]),
    ],
)
def test_tab_in_bash_offers_commands_options_values_and_endpoints(typed, offered):
    words = typed.split(" ")
    env = {
        "_FLEETLAKE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }

    shown = CliRunner().invoke(app, [], env=env, prog_name="fleetlake")

    assert shown.exit_code == 0
    assert shown.stdout.split() == offered


def test_the_completion_script_of_a_shell_can_be_shown():
    # Detection would find the user's own shell.
    script = (
        "import sys; sys.argv = ['fleetlake', '--show-completion', sys.argv[1]]\n"
        "from fleetlake.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "bash"],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "_FLEETLAKE_COMPLETE=complete_bash" in done.stdout
    assert done.stderr == ""
