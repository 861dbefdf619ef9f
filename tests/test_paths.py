"""Paths with characters that a library may misread: they work, or are refused before any work."""

import json
import os

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.errors import FleetlakeError, LakeError
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import open_exporter
from fleetlake.machine.io_faults import io_fault
from fleetlake.settings import load_settings
from tests.support.processes import environment
from tests.support.sim import new_sim
from tools.recorded.printed_service import served

ODD = "-all #1 % 'q\" {{x}} {% y %} *$HOME ;~ &=,<>!ü"
"""Every kind of character that works everywhere, also as the beginning of a relative path."""

MISREAD = {
    "a?b": "a question mark",
    "a\\b": "a backslash",
    "a\nb": "control characters",
    "a\tb": "control characters",
    "a\udcffb": "bytes that are not UTF-8",
}
KINDS = ("csv", "parquet", "jsonl", "delta", "iceberg")
RAW = ["--table", "raw.accounts"]
PLACES = "name,latitude_deg,longitude_deg,radius_m,wkt\n'Depot' \"A\",50.1,8.6,100,\n"


@pytest.mark.proof
def test_every_command_works_in_a_project_whose_path_has_characters_that_libraries_misread(
    tmp_path, monkeypatch
):
    project = tmp_path / ODD
    project.mkdir()
    (project / "fleetlake.toml").write_text("")
    (project / "places.csv").write_text(PLACES)
    folders = {name: f"{ODD}/{name}" for name in ("lake", "published")}
    backup = f"{ODD}/backup"
    words = [["ingest", "accounts"], ["build", "--select", "+trips"], ["publish"]]
    words += [["check", "--full"], ["maintain"]]
    words += [["backup", "--", backup], ["restore", f"--to={ODD}/again", "--", backup]]
    words += [["export", kind, f"--to={ODD}/{kind}"] for kind in KINDS]
    words += [["report"], ["status"], ["doctor"]]

    words += [["query", 'select "name" from raw.accounts order by all', "--format", "json"]]
    monkeypatch.chdir(project)
    sim, done = new_sim(tmp_path, routers=1, days=1), {}
    with served(sim):
        for asked in words:
            load_settings.cache_clear()
            env = environment(tmp_path, "http://localhost", **folders)
            done[" ".join(asked)] = CliRunner().invoke(app, asked, env=env)

    assert {text: one.exception for text, one in done.items() if one.exit_code} == {}
    *_, kept = done.values()
    truth = [record["name"] for record in sim.truth("accounts")]
    assert [row["name"] for row in json.loads(kept.stdout)] == sorted(truth)
    written = {path.name for path in (project / ODD).iterdir()}
    assert written >= {"lake", "published", "again", "backup", "csv", "delta"}


LAKE_WORDS = [
    *(["ingest", "accounts"], ["build"], ["status"], ["check"], ["publish"], ["maintain"]),
    *(["backup", "x"], ["query", "select 1"]),
]


@pytest.mark.parametrize("name", MISREAD)
@pytest.mark.parametrize("words", LAKE_WORDS, ids=" ".join)
def test_a_lake_path_that_a_library_would_misread_is_refused_and_nothing_is_written(
    tmp_path, monkeypatch, name, words
):
    monkeypatch.setenv("FLEETLAKE_LAKE", os.fspath(tmp_path / name))

    refused = CliRunner().invoke(app, words).exception

    assert isinstance(refused, FleetlakeError)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", MISREAD)
@pytest.mark.parametrize("kind", KINDS)
def test_an_exports_target_that_a_library_would_misread_is_refused(tmp_path, name, kind):
    folder = tmp_path / name

    with pytest.raises(LakeError) as refused:
        open_exporter(TARGETS[kind], SecretStr(os.fspath(folder)))

    assert MISREAD[name] in refused.value.what
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "name"),
    [
        *((["export", kind, *RAW], "a?b") for kind in KINDS),
        *((words, name) for words in (["restore", "x"], ["publish"]) for name in MISREAD),
    ],
)
def test_a_target_that_a_library_would_misread_is_refused_and_nothing_is_written(
    tmp_path, monkeypatch, lake_path, name, words
):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake_path))
    folder = tmp_path / name

    refused = CliRunner().invoke(app, [*words, "--to", os.fspath(folder)]).exception

    assert isinstance(refused, LakeError)
    assert MISREAD[name] in refused.what
    assert not folder.exists()


@pytest.mark.parametrize("name", MISREAD)
def test_doctor_names_a_lake_path_that_would_be_misread(tmp_path, monkeypatch, name):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(tmp_path / name))

    done = CliRunner().invoke(app, ["doctor"])

    assert f"its path contains {MISREAD[name]}" in " ".join(done.stdout.split())


@pytest.mark.parametrize("name", ["[1]", "a|b", "a^b", "a%20b"])
def test_delta_tables_are_not_written_where_their_library_would_not_find_them(
    tmp_path, monkeypatch, lake_path, name
):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake_path))

    refused = (
        CliRunner().invoke(app, ["export", "delta", *RAW, "--to", str(tmp_path / name)]).exception
    )

    assert isinstance(refused, LakeError)
    assert "its path contains" in refused.what
    assert [*tmp_path.glob("a*")] == []


@pytest.mark.parametrize("name", ["x" * 300, "/".join(["y" * 200] * 25)], ids=["name", "path"])
@pytest.mark.parametrize("words", [["build"], ["status"], ["doctor"], ["backup", "x"]])
def test_a_path_that_is_too_long_is_one_error_that_says_so(tmp_path, monkeypatch, name, words):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(tmp_path / name))

    fault = CliRunner().invoke(app, words).exception

    assert isinstance(fault, Exception)
    assert "longer than the file system allows" in str(io_fault(fault))


def test_a_backup_is_not_written_to_a_path_that_is_not_utf_8(tmp_path, monkeypatch, lake_path):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake_path))

    refused = CliRunner().invoke(app, ["backup", str(tmp_path / "a\udcffb")]).exception

    assert isinstance(refused, FleetlakeError)
    assert "not UTF-8" in refused.what
