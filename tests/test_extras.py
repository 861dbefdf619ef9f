"""What says that an optional part of the package is missing: one sentence, with the command."""

import sys
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.errors import FleetlakeError, LakeError, SettingsError
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import open_exporter
from fleetlake.lake.attach import attach_statements
from fleetlake.lake_address import SharedLake


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch):
    """Return what makes Python not find a module."""

    def hide(name: str) -> None:
        for module in [m for m in sys.modules if m.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)

    return hide


@pytest.mark.parametrize(
    ("target", "driver"),
    [
        ("delta", "deltalake"),
        ("iceberg", "pyiceberg"),
        ("postgres", "adbc_driver_postgresql"),
        ("snowflake", "adbc_driver_snowflake"),
        ("bigquery", "adbc_driver_bigquery"),
    ],
)
def test_an_export_without_its_driver_names_the_extra(monkeypatch, without, target, driver):
    monkeypatch.delitem(sys.modules, f"fleetlake.exporters.{target}", raising=False)
    without(driver)

    with pytest.raises(SettingsError) as missing:
        open_exporter(TARGETS[target], SecretStr("anywhere"))

    assert f"[{target}]'." in missing.value.remedy


@pytest.mark.parametrize(
    ("package", "files", "extra"),
    [
        ("duckdb_extension_httpfs", "s3://bucket/fleet", "s3"),
        ("duckdb_extension_postgres_scanner", "/mnt/fleet", "postgres"),
    ],
)
def test_a_shared_lake_without_its_extension_names_the_extra(without, package, files, extra):
    without(package)

    with pytest.raises(LakeError) as missing:
        attach_statements(SharedLake(SecretStr("host=db"), files))

    assert f"[{extra}]'." in missing.value.remedy


def test_a_shared_lake_without_the_driver_of_its_catalog_names_the_extra(without):
    without("adbc_driver_postgresql")

    with pytest.raises(LakeError) as missing:
        SharedLake(SecretStr("host=db"), "/mnt/fleet").connect()

    assert "[postgres]'." in missing.value.remedy


@pytest.mark.parametrize("command", ["server", "setup", "worker", "up"])
def test_a_command_of_prefect_without_it_names_the_extra(
    tmp_path: Path, monkeypatch, without, command
):
    monkeypatch.chdir(tmp_path)
    without("prefect")

    done = CliRunner().invoke(app, ["prefect", command])

    assert isinstance(done.exception, FleetlakeError)
    assert done.exception.exit_code == 3
    assert done.exception.what == "Prefect is not installed."
    assert "[flows]'." in done.exception.remedy
    assert list(tmp_path.iterdir()) == []
