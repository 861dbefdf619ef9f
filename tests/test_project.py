"""A project of one's own: what `init` writes, and how each command finds it from below."""

import logging
import os
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from pydantic import SecretStr
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.cli.init import write_project
from fleetlake.cli.prefect.deployments import read_deployments
from fleetlake.dashboard.report import NEWEST
from fleetlake.errors import LakeError, SettingsError, UsageError
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import address_of
from fleetlake.machine import ownership, umask
from fleetlake.machine.project import found_project, package_files
from fleetlake.marts.sql_project import project_folder
from fleetlake.settings import Settings, load_settings

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.usefixtures("default_folders")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new project; the test stands in a folder below it."""
    folder = tmp_path / "fleet"
    assert CliRunner().invoke(app, ["init", str(folder)]).exit_code == 0
    below = folder / "notes" / "2026"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    return folder


def test_init_writes_a_project_and_says_what_it_wrote(tmp_path):
    folder = tmp_path / "new" / "fleet"

    done = CliRunner().invoke(app, ["init", str(folder)])

    written = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert done.exit_code == 0
    assert written == {
        ".env.example",
        ".gitignore",
        "README.md",
        "dashboard/failovers_by_day.toml",
        "fleetlake.toml",
        "prefect.yaml",
        "sql/models/_models.yml",
        "sql/models/failovers_by_router.sql",
        "sql/tests/failovers_end_after_they_start.sql",
    }
    assert all(f"wrote {folder}/{name}" in done.output for name in written)


def test_git_ignores_the_keys_the_data_and_the_reports_of_a_project_and_of_a_clone(tmp_path):
    CliRunner().invoke(app, ["init", str(tmp_path)])

    for folder in (tmp_path, ROOT):
        ignored = (folder / ".gitignore").read_text().split()
        for name in (".env", "data/lake", NEWEST, "fleet-report-2026-11-20.html"):
            assert any(fnmatch(name, f"{line}*") for line in ignored), (folder, name)


def test_init_changes_no_file_that_is_there_and_says_so(tmp_path):
    (tmp_path / "README.md").write_text("ours")
    (tmp_path / ".gitignore").symlink_to("nowhere")

    done = CliRunner().invoke(app, ["init", str(tmp_path)])

    assert (tmp_path / "README.md").read_text() == "ours"
    assert not (tmp_path / "nowhere").exists()
    assert f"exists, left unchanged: {tmp_path}/README.md" in done.output
    assert f"wrote {tmp_path}/fleetlake.toml" in done.output


def test_init_refuses_a_clone_a_file_and_a_folder_of_another_user(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    for folder, words in ((ROOT, "is a clone of fleetlake"), (file, "is a file")):
        with pytest.raises(UsageError, match=words):
            list(write_project(folder))

    monkeypatch.setattr(ownership, "is_foreign", lambda _: True)
    with pytest.raises(LakeError, match="belongs to user"):
        list(write_project(tmp_path))
    assert [*tmp_path.iterdir()] == [file]


def test_the_examples_in_the_settings_files_name_what_exists(project):
    as_written = (project / "fleetlake.toml").read_text()
    examples = tomllib.loads(re.sub(r"^# (?=\w+ = )", "", as_written, flags=re.MULTILINE))
    names = re.findall(r"^FLEETLAKE_(\w+)=", (project / ".env.example").read_text(), re.MULTILINE)
    variables = yaml.safe_load((project_folder() / "dbt_project.yml").read_text())["vars"]

    given = examples.pop("vars")
    assert examples.keys() | {name.lower() for name in names} <= Settings.model_fields.keys()
    assert given.items() <= variables.items()
    assert len(examples) > 3
    assert len(given) > 2
    assert len(names) > 4
    assert load_settings().base_url is None, "examples are not in force"


def test_the_project_is_found_from_any_folder_below_it_and_its_folders_lie_there(project):
    folders = {name: value for name, value in load_settings() if isinstance(value, Path)}
    del folders["state"]  # all projects of a user share it

    assert found_project() == project
    assert folders["lake"] == project / "data" / "lake"
    assert {folder.parent for folder in folders.values()} == {project / "data"}
    assert len(folders) > 4


def test_a_relative_folder_of_the_environment_lies_in_the_project_too(project, monkeypatch):
    monkeypatch.setenv("FLEETLAKE_LAKE", "fleet")

    assert load_settings().lake == project / "fleet"


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        ("parquet", None, "{project}/data/exports/parquet"),
        ("csv", "out", "{project}/out"),
        ("delta", "/mnt/out", "/mnt/out"),
        ("parquet", "s3://bucket/out/", "s3://bucket/out/"),
        ("postgres", "host=db dbname=fleet", "host=db dbname=fleet"),
    ],
)
def test_an_export_folder_of_the_settings_lies_in_the_project(project, target, given, expected):
    addresses = {target: SecretStr(given)} if given else {}

    found = address_of(TARGETS[target], addresses)

    assert found.get_secret_value() == expected.format(project=project)


def test_in_the_project_itself_folders_stay_relative(project, monkeypatch):
    monkeypatch.chdir(project)

    assert load_settings().lake == Path("data/lake")


def test_a_command_below_a_project_names_the_projects_lake(project):
    done = CliRunner().invoke(app, ["status"])

    assert isinstance(done.exception, LakeError)
    assert done.exception.what == f"There is no lake in {project / 'data' / 'lake'}."


def test_a_clone_is_a_project(monkeypatch):
    monkeypatch.chdir(ROOT / "docs")

    assert found_project() == package_files() == ROOT


def test_a_folder_without_a_project_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert found_project() is None


def test_a_settings_file_with_an_error_is_named_with_the_line(project):
    (project / "fleetlake.toml").write_text("[vars]\nstop_s = 240\n[vars]\n")

    with pytest.raises(SettingsError, match=rf"{project}/fleetlake\.toml: .* line 3"):
        load_settings()


def test_a_settings_file_of_another_user_above_is_not_used(project, monkeypatch):
    monkeypatch.setattr(ownership, "is_foreign", lambda _: True)

    with pytest.raises(SettingsError, match=r"fleetlake\.toml belongs to user"):
        load_settings()
    assert umask.configured_umask() == 0o077
    monkeypatch.chdir(project)
    assert load_settings().concurrency == 8


def test_arguments_come_before_environment_before_env_file_before_settings_file(
    project, monkeypatch
):
    (project / "fleetlake.toml").write_text(
        "concurrency = 2\ncalls_per_day = 2\nretry_attempts = 2\nshrink_pct = 2\n"
    )
    (project / ".env").write_text(
        "FLEETLAKE_CONCURRENCY=3\nFLEETLAKE_CALLS_PER_DAY=3\nFLEETLAKE_RETRY_ATTEMPTS=3\n"
        "FLEETLAKE_EXPORTS__POSTGRES=postgresql://db/fleet\nOTHER=1\n"
    )
    monkeypatch.setenv("FLEETLAKE_CONCURRENCY", "4")
    monkeypatch.setenv("FLEETLAKE_CALLS_PER_DAY", "4")

    settings = Settings(concurrency=5)

    assert settings.concurrency == 5
    assert settings.calls_per_day == 4
    assert settings.retry_attempts == 3
    assert settings.shrink_pct == 2
    assert settings.exports["postgres"].get_secret_value() == "postgresql://db/fleet"
    assert "OTHER" not in os.environ


def test_the_umask_of_the_env_file_counts_before_that_of_the_settings_file(project):
    (project / "fleetlake.toml").write_text('umask = "037"\n')
    (project / ".env").write_text("FLEETLAKE_UMASK=027\n")

    assert umask.configured_umask() == 0o027


def test_a_misspelt_setting_in_the_env_file_is_an_error_that_names_the_file(project):
    (project / ".env").write_text("FLEETLAKE_BASE_ULR=https://svc.example/\n")

    with pytest.raises(SettingsError) as failure:
        load_settings()

    assert ".env: there is no setting base_ulr (base_url?)" in failure.value.what


def test_a_secret_in_the_settings_file_is_warned_of_without_being_shown(project, caplog):
    (project / "fleetlake.toml").write_text(
        'mgr_api_key = "k-77aa41"\ndashboard_token = "k-77aa41"\nlake_files = "/mnt"\n'
        '[exports]\npostgres = "p://u:k-77aa41@h/d"\n'
    )

    with caplog.at_level(logging.WARNING):
        load_settings()

    [told] = [record.getMessage() for record in caplog.records]
    names = "FLEETLAKE_MGR_API_KEY, FLEETLAKE_DASHBOARD_TOKEN, FLEETLAKE_EXPORTS__POSTGRES"
    assert f"Move them to .env, as {names}." in told
    assert "k-77aa41" not in told


def test_a_settings_file_without_secrets_is_not_warned_of(project, caplog):
    (project / "fleetlake.toml").write_text('lake = "postgres:host=db"\nlake_files = "/mnt"\n')

    with caplog.at_level(logging.WARNING):
        load_settings()

    assert caplog.records == []


def test_flows_of_the_project_are_deployed_from_it_and_the_others_from_the_package(project):
    (project / "flows").mkdir()
    (project / "flows" / "mine.py").touch()
    file = {
        "deployments": [
            {"name": "mine", "entrypoint": "flows/mine.py:mine"},
            {"name": "events", "entrypoint": "flows/ingest.py:ingest"},
        ]
    }
    (project / "prefect.yaml").write_text(yaml.safe_dump(file))

    read = read_deployments(project)["deployments"]

    assert [d["entrypoint"] for d in read] == ["flows/mine.py:mine", "flows.ingest.ingest"]
    (project / "prefect.yaml").unlink()
    ours = {d["name"] for d in read_deployments(project)["deployments"]}
    assert {"events", "marts", "nightly"} <= ours
    clone = {d["entrypoint"] for d in read_deployments(ROOT)["deployments"]}
    assert "flows/ingest.py:ingest" in clone


def test_a_deployment_file_without_deployments_is_refused(project):
    (project / "prefect.yaml").write_text("name: fleet\n")

    with pytest.raises(UsageError, match="lists no deployments"):
        read_deployments(project)
