"""DuckDB's extensions are found in both layouts of wheels, for the version that runs."""

import sys
from pathlib import Path

import duckdb
import pytest

from fleetlake.errors import LakeError
from fleetlake.lake.attach import extension_path

VERSION = f"v{duckdb.__version__}"
ALONE = "of_nothing"
"""An extension that no wheel of this environment has."""


def wheel(folder: Path, name: str, version: str) -> Path:
    """Write an extension as `duckdb-core-ext-<name>` has it."""
    file = folder / ".duckdb_extensions" / version / "linux_amd64" / f"{name}.duckdb_extension"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"")
    return file


def earlier_wheel(folder: Path, name: str, version: str) -> Path:
    """Write an extension as `duckdb-extension-<name>` has it."""
    package = folder / f"duckdb_extension_{name}"
    file = package / "extensions" / version / f"{name}.duckdb_extension"
    file.parent.mkdir(parents=True)
    (package / "__init__.py").touch()
    file.write_bytes(b"")
    return file


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of packages, and a home in which DuckDB has installed nothing."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("layout", [wheel, earlier_wheel])
def test_an_extension_is_found_in_each_layout_of_wheels(site: Path, layout) -> None:
    file = layout(site, ALONE, VERSION)

    assert extension_path(ALONE) == file


def test_an_extension_of_another_version_is_passed_over(site: Path) -> None:
    earlier_wheel(site, ALONE, "v1.4.0")
    wheel(site, ALONE, "v9.9.9")
    file = wheel(site, ALONE, VERSION)

    assert extension_path(ALONE) == file


def test_an_extension_that_duckdb_has_installed_is_used(site: Path) -> None:
    own = site / "home" / ".duckdb" / "extensions" / VERSION / "linux_amd64"
    own.mkdir(parents=True)
    (own / f"{ALONE}.duckdb_extension").touch()

    assert extension_path(ALONE) == own / f"{ALONE}.duckdb_extension"


def test_without_a_wheel_of_this_version_a_failed_download_says_what_to_do(site: Path) -> None:
    earlier_wheel(site, ALONE, "v1.4.0")

    with pytest.raises(LakeError, match="is not installed, and its download failed") as missing:
        extension_path(ALONE)

    assert duckdb.__version__ in missing.value.what
    assert missing.value.remedy == "Install fleetlake again."
