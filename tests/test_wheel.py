"""The built wheel works alone: in an empty folder, without the clone, and is never written to."""

import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from tests.flows.server import free_port
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[1]
VENDORED = "vendor/maplibre-gl.mjs"
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("wheel")]


@dataclass(frozen=True)
class Installed:
    """A wheel in an environment of its own, and an empty folder to type commands in."""

    environment: Path
    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of a plain shell."""
        state = str(self.folder.parent / "state")
        return {
            "PATH": f"{self.environment}/bin:/usr/bin:/bin",
            "HOME": str(self.folder.parent),
        } | {
            "LANG": "C.UTF-8",
            "FLEETLAKE_STATE": state,
        }

    def python(self, code: str) -> str:
        """Return what a program prints that runs in the environment."""
        return self.run("python", "-c", code)

    def run(self, *words: str, **variables: str) -> str:
        """Type a command in the folder; return what it prints."""
        done = subprocess.run(
            [self.environment / "bin" / words[0], *words[1:]],
            cwd=self.folder,
            env=self.variables | variables,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def written_to(folder: Path) -> Mapping[Path, int]:
    """Return when each file of a folder was written, but for compiled modules."""
    files = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return {path: path.stat().st_mtime_ns for path in files}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel into an environment that sees our packages, but not the clone."""
    folder = tmp_path_factory.mktemp("wheel")
    environment, empty = folder / "environment", folder / "empty"
    empty.mkdir()
    built = subprocess.run(
        [sys.executable, "-c", BUILD, folder], cwd=ROOT, check=True, capture_output=True, text=True
    )
    venv = [sys.executable, "-m", "venv", "--without-pip", environment]
    subprocess.run(venv, check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-qq"]
    wheel = folder / built.stdout.strip()
    subprocess.run([*pip, "--no-index", "--no-deps", "--no-compile", wheel], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # A folder on a path file's line is searched, but its own path files, which name the clone,
    # are not read.
    packages = environment / "lib" / version / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return Installed(environment, empty)


def test_the_clone_is_out_of_sight(installed: Installed) -> None:
    seen = installed.python("import sys, fleetlake, fleetsim; print(fleetlake.__file__, *sys.path)")

    assert str(ROOT / "src") not in seen
    assert seen.startswith(str(installed.environment))


@pytest.fixture(scope="module")
def demo(installed: Installed) -> str:
    """Run the demo in the empty folder; return what it printed."""
    return installed.run("fleetlake", "demo", "--routers", "5", "--days", "1")


def test_the_demo_ends_well_in_an_empty_folder(installed: Installed, demo: str) -> None:
    published = installed.folder / "data/lake/published/fleet.duckdb"

    assert "Which routers failed over?" in demo
    assert "\n  fleetlake status" in demo
    with duckdb.connect(str(published), read_only=True) as marts:
        [(routers,)] = marts.execute("select count(*) from device_inventory").fetchall()
    assert routers == 5


@pytest.mark.usefixtures("demo")
def test_the_dashboard_of_the_package_shows_the_demo(installed: Installed) -> None:
    command = [installed.environment / "bin" / "fleetlake", "dashboard", "--port", "0"]
    with subprocess.Popen(
        command, cwd=installed.folder, env=installed.variables, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("ready ").strip()
        page = httpx.get(f"{url}/now")
        fleet = httpx.get(f"{url}/api/now/summary").json()
        parts = [httpx.get(f"{url}/static/{name}") for name in ("main.js", VENDORED)]
        process.send_signal(signal.SIGTERM)

    assert "What needs a person" in page.text
    assert fleet["values"]["devices"] == [5]
    assert [part.status_code for part in parts] == [200, 200]
    assert process.returncode == 0


def test_up_runs_the_flows_of_the_package(installed: Installed) -> None:
    port = str(free_port())
    command = [installed.environment / "bin" / "fleetlake", "prefect", "up", "--port", port]
    with subprocess.Popen(
        command, cwd=installed.folder, env=installed.variables, stdout=subprocess.DEVNULL
    ) as process:
        try:
            ended = wait_for(lambda: ended_run(installed.folder / "data/up", port, process))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(300)

    assert ended["state_type"] == "COMPLETED", ended
    assert (installed.folder / "data/up/lake/catalog.sqlite").exists()


def ended_run(folder: Path, port: str, process: "subprocess.Popen[bytes]") -> dict[str, Any] | None:
    """Return a run that has ended, None if there is none yet."""
    assert process.poll() is None, (folder / "server.log").read_text()
    password = folder / "prefect/fleetlake-auth"
    if not password.exists():
        return None
    user, _, word = password.read_text().strip().partition(":")
    wanted = {"flow_runs": {"state": {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}}}
    try:
        answer = httpx.post(
            f"http://127.0.0.1:{port}/api/flow_runs/filter", json=wanted, auth=(user, word)
        )
    except httpx.TransportError:
        time.sleep(0.5)
        return None
    runs: list[dict[str, Any]] = answer.json() if answer.is_success else []
    return runs[0] if runs else None


@pytest.mark.usefixtures("demo")
def test_a_project_builds_its_own_marts_and_writes_nothing_to_the_installation(
    installed: Installed,
) -> None:
    package = installed.environment / "lib"
    before = written_to(package)

    assert "wrote fleetlake.toml" in installed.run("fleetlake", "init", ".")
    installed.run("fleetlake", "build")
    installed.run("fleetlake", "publish", "--to", "published")
    installed.run("fleetlake", "export", "parquet", "--to", "exported")
    installed.run("fleetlake", "docs", "--to", "docs/index.html")

    assert duckdb.read_parquet(f"{installed.folder}/published/trips/*.parquet").columns
    assert list((installed.folder / "exported").rglob("*.parquet"))
    assert duckdb.read_parquet(f"{installed.folder}/published/failovers_by_router/*").columns
    assert "failovers_by_router" in (installed.folder / "docs/index.html").read_text()
    assert written_to(package) == before
