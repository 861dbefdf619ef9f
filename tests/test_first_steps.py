"""What a new user sees: folders without a lake, lakes without a row."""

import json
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.errors import BuildFailed, LakeError, SettingsError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG, UNCHECKED, attach_statements
from fleetlake.lake.connection import lake_errors
from fleetlake.lake_address import SharedLake
from fleetlake.loading.forecast import CallForecast
from fleetlake.monitoring.doctor import Check, run_checks
from fleetlake.settings import KEY_SETTINGS, Settings, load_settings


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the folder of a lake that does not exist yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEETLAKE_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("FLEETLAKE_PUBLISHED", str(tmp_path / "published"))
    return tmp_path / "lake"


@pytest.fixture
def made(place: Path, empty_lake: Path) -> Path:
    """Return a lake into which nothing was ever loaded."""
    return Path(shutil.copytree(empty_lake, place))


@pytest.mark.parametrize("command", ["build", "publish", "maintain", "status", "docs"])
def test_a_folder_without_a_lake_is_named_and_not_created(command: str, place: Path) -> None:
    done = CliRunner().invoke(app, [command])

    assert isinstance(done.exception, LakeError)
    assert done.exception.what == f"There is no lake in {place}."
    assert list(place.parent.iterdir()) == []


def test_a_shared_catalog_without_a_lake_is_named(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / CATALOG)) as catalog:
        catalog.execute("create table of_others (id integer)")
    attach = attach_statements(tmp_path, read_only=True)  # DuckDB says the same of PostgreSQL

    with (
        duckdb.connect(config=UNCHECKED) as connection,
        pytest.raises(LakeError) as failure,
        lake_errors(SharedLake(SecretStr("host=db password=hunter2"), "/mnt/fleet")),
    ):
        connection.execute(attach)

    assert failure.value.what == "There is no lake in postgres:***."
    assert failure.value.remedy.startswith("Run `fleetlake ingest`")


def test_a_shared_catalog_that_does_not_answer_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "postgres:host=127.0.0.1 port=1 user=fleet password=hunter2 dbname=fleet"
    monkeypatch.setenv("FLEETLAKE_LAKE", address)
    monkeypatch.setenv("FLEETLAKE_LAKE_FILES", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    done = CliRunner().invoke(app, ["status"])

    assert isinstance(done.exception, LakeError)
    assert done.exception.what.startswith("The catalog of the shared lake does not answer: ")
    assert "Connection refused" in done.exception.what
    assert "hunter2" not in done.exception.what


def test_an_empty_lake_setting_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLAKE_LAKE", "")

    with pytest.raises(SettingsError, match="FLEETLAKE_LAKE: is empty"):
        load_settings()


@pytest.mark.usefixtures("made")
def test_status_reports_a_lake_without_a_load() -> None:
    shown = CliRunner().invoke(app, ["status"])

    assert shown.exit_code == 0
    assert "Nothing loaded yet: run `fleetlake ingest`." in shown.output


@pytest.mark.release
@pytest.mark.usefixtures("made")
def test_building_a_lake_without_a_load_warns_in_one_line() -> None:
    shown = CliRunner().invoke(app, ["build", "--select", "stg_accounts"])

    assert shown.exit_code == 0
    assert "Warning: nothing was ever loaded" in shown.stderr


@pytest.mark.release
@pytest.mark.usefixtures("made")
def test_a_build_stays_within_its_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLAKE_BUILD_MEMORY", "1KB")

    done = CliRunner().invoke(app, ["build", "--select", "stg_accounts"])

    assert isinstance(done.exception, BuildFailed)
    assert "FLEETLAKE_BUILD_MEMORY" in done.exception.remedy
    assert "Possible solutions" not in str(done.exception)  # DuckDB's own lock is not held


def test_publishing_a_lake_without_a_load_warns_in_one_line(made: Path) -> None:
    with open_lake(made) as lake:
        lake.execute("create table marts.trips (trip_id bigint)")

    shown = CliRunner().invoke(app, ["publish"])

    assert shown.exit_code == 0
    assert shown.stderr.startswith("Warning: nothing was ever loaded")
    assert len(shown.stderr.splitlines()) == 1


def test_a_demo_never_replaces_a_published_real_fleet(made: Path) -> None:
    with open_lake(made) as lake:
        lake.execute("create table marts.trips (trip_id bigint)")
    CliRunner().invoke(app, ["publish"])
    real = (made.parent / "published").resolve()

    (made / "demo.json").write_text("{}")
    refused = CliRunner().invoke(app, ["publish"])

    assert isinstance(refused.exception, LakeError)
    assert "is of a real fleet" in str(refused.exception)
    assert (made.parent / "published").resolve() == real


def test_a_demo_publishes_where_the_settings_say_and_otherwise_in_its_lake(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made / "demo.json").write_text("{}")
    with open_lake(made) as lake:
        lake.execute("create table marts.trips (trip_id bigint)")

    for _ in range(2):
        assert CliRunner().invoke(app, ["publish"]).exit_code == 0
    assert not (made / "published").exists()
    monkeypatch.delenv("FLEETLAKE_PUBLISHED")
    load_settings.cache_clear()
    assert CliRunner().invoke(app, ["publish"]).exit_code == 0

    assert (made.parent / "published" / "snapshot.json").is_file()
    assert (made / "published" / "snapshot.json").is_file()


def test_raw_tables_of_the_settings_are_published_unless_the_option_names_others(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLAKE_PUBLISH_RAW", "alerts,users")
    with open_lake(made) as lake:
        lake.execute("create table marts.trips (trip_id bigint)")

    def tables(*words: str) -> set[str]:
        assert CliRunner().invoke(app, ["publish", *words]).exit_code == 0
        found = json.loads((made.parent / "published" / "snapshot.json").read_text())["tables"]
        return {name for name in found if name.startswith("raw_")}

    assert tables() == {"raw_alerts", "raw_users"}
    assert tables("--raw", "routers") == {"raw_routers"}
    assert tables() == {"raw_alerts", "raw_users"}


def test_a_plan_before_the_first_load_says_that_nothing_is_known() -> None:
    shown = CliRunner().invoke(app, ["ingest", "--plan"])

    assert shown.exit_code == 0
    assert "a first load depend on the fleet" in shown.output
    assert "0 calls" not in shown.output


def test_a_plan_of_a_fleet_needs_no_lake_and_says_what_a_freshness_costs(place: Path) -> None:
    shown = CliRunner().invoke(app, ["ingest", "--plan", "--fleet", "10000"])

    said = " ".join(shown.output.split())
    costs = [int(n.replace(",", "")) for n in re.findall(r"every \d+ h: ([\d,]+) calls", said)]
    assert shown.exit_code == 0
    assert not place.exists()
    [present] = re.findall(r"Each hour: ([\d,]+) calls", said)
    assert costs[0] > 20_000
    assert 5_000 > int(present.replace(",", "")) > costs[1]  # the present freshness is not repeated
    assert "The first load: at least" in said


@pytest.mark.parametrize("words", ["ingest", "backfill alerts --from 2026-11-01 --to 2026-11-02"])
def test_a_load_without_a_service_creates_no_lake(words: str, place: Path) -> None:
    done = CliRunner().invoke(app, words.split())

    assert isinstance(done.exception, SettingsError)
    assert "FLEETLAKE_BASE_URL" in done.exception.what
    assert not place.exists()


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (1, "About 1 call, less than a minute at 450 calls a minute."),
        (1350, "About 1,350 calls, 3 min at 450 calls a minute."),
    ],
)
def test_a_plan_states_the_cost_of_the_next_load(
    monkeypatch: pytest.MonkeyPatch, calls: int, said: str
) -> None:
    forecast = CallForecast(endpoint="alerts", unread=None, records=calls, calls=calls)
    monkeypatch.setattr("fleetlake.loading.forecast.plan_ingest", lambda *_, **__: [forecast])

    shown = CliRunner().invoke(app, ["ingest", "--plan"])

    assert said in shown.output


def test_a_plan_marks_what_is_unknown_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        CallForecast(endpoint="alerts", unread=timedelta(hours=3), records=4_500, calls=9),
        CallForecast(endpoint="users", unread=None, records=None, calls=None),
    ]
    monkeypatch.setattr("fleetlake.loading.forecast.plan_ingest", lambda *_, **__: found)

    def shown(limit: int) -> list[str]:
        load_settings.cache_clear()
        env = {"COLUMNS": "120", "FLEETLAKE_CALLS_PER_MINUTE": str(limit)}
        return CliRunner().invoke(app, ["ingest", "--plan"], env=env).output.splitlines()

    rows = [line.strip("│").split("│") for line in shown(6) if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["alerts", "3 h", "4,500", "9", "1.5", ""],
        ["users", "", "", "", "", "first load: everything the service holds"],
    ]
    assert (
        shown(6)[-1] == "At least 9 calls, 2 min at 6 calls a minute. The service was not called."
    )
    assert shown(9)[-1].startswith("At least 9 calls, 1 min at 9 calls a minute.")
    assert shown(0)[-1] == "At least 9 calls. The service was not called."


@pytest.mark.parametrize("words", [["ingest", "--plan"], ["doctor"], ["status"], ["build"]])
def test_a_command_refuses_a_misspelt_variable_and_names_what_was_meant_but_no_value(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("FLEETLAKE_CALL_PER_MINUTE", "60")
    monkeypatch.setenv("FLEETLAKE_MGR_APIKEY", "the-secret")

    refused = CliRunner().invoke(app, words).exception

    assert isinstance(refused, SettingsError)
    assert refused.exit_code == 3
    assert refused.what == (
        "There is no setting FLEETLAKE_CALL_PER_MINUTE (FLEETLAKE_CALLS_PER_MINUTE?), "
        "FLEETLAKE_MGR_APIKEY (FLEETLAKE_MGR_API_KEY?)."
    )


def test_a_command_warns_of_a_variable_that_resembles_no_setting_and_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FLEETLAKE_LATER_RELEASES", "1")

    CliRunner().invoke(app, ["ingest", "--plan"])

    warning = "There is no setting FLEETLAKE_LATER_RELEASES, so it has no effect."
    assert caplog.messages.count(warning) == 1


def found_by_doctor(name: str, **settings: Any) -> Check:
    """Return one check; those after it are not run."""
    return next(check for check in run_checks(Settings(**settings)) if check.name == name)


def test_doctor_creates_no_lake_but_says_which_command_does(place: Path) -> None:
    found = found_by_doctor("lake", lake=place)

    assert found.error is None
    assert "`fleetlake ingest` creates it" in found.found
    assert not place.exists()


def test_doctor_lists_a_variable_that_is_not_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETLAKE_HOME", "/opt/fleetlake")

    found = found_by_doctor("settings")

    assert found.error is None
    assert "FLEETLAKE_HOME" in found.found


def test_doctor_warns_of_a_v3_token_without_its_root_url() -> None:
    found = found_by_doctor("v3", v3_token="token")

    assert "FLEETLAKE_V3_BASE_URL is not" in str(found.error)


def test_doctor_checks_the_keys_of_each_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEY_SETTINGS:
        monkeypatch.setenv(f"FLEETLAKE_PROFILES__WEST__{key.upper()}", "some-key")

    found = {check.name: check for check in run_checks(Settings())}

    assert found["keys of west"].error is None
    assert "FLEETLAKE_BASE_URL" in found["service of west"].found
    assert "keys" not in found


def test_doctor_reports_a_folder_in_which_no_lake_can_be_created(tmp_path: Path) -> None:
    (tmp_path / "afile").touch()

    found = found_by_doctor("lake", lake=tmp_path / "afile" / "lake")

    assert "Cannot write to" in found.found


def test_the_demo_names_commands_as_they_can_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("fleetlake.cli.demo")  # the package has a command of that name
    program = Path(sys.executable).with_name("fleetlake")

    monkeypatch.setenv("PATH", "/nowhere")
    elsewhere = module.typed_as("fleetlake status")
    monkeypatch.chdir(program.parent.parent)
    below = module.typed_as("fleetlake status")
    monkeypatch.setenv("PATH", str(program.parent))

    assert elsewhere == f"{program} status"
    assert below == "bin/fleetlake status"
    assert module.typed_as("fleetlake status") == "fleetlake status"
