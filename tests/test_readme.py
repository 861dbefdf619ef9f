"""The README is correct: its tables come from the code, and its commands run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment, fleetlake, service
from tests.readme import README, rendered

pytestmark = pytest.mark.xdist_group("readme")


def console_commands() -> list[str]:
    """Return the commands of the README's console blocks, without their comments."""
    blocks = re.findall(r"```console\n(.*?)```", README.read_text(), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the demo in an empty folder; return the folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    env = {k: v for k, v in environment(folder).items() if not k.startswith("FLEETLAKE_")}
    env["FLEETLAKE_STATE"] = str(folder / "state")
    done = fleetlake("demo", "--routers", "10", "--days", "2", env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_its_tables_match_the_code() -> None:
    assert rendered(README.read_text()) == README.read_text(), "run `make readme`"


def test_its_first_screen_is_one_sentence_two_commands_and_their_output() -> None:
    first = README.read_text().split("\n## ")[0]

    assert len(first.splitlines()) < 40
    assert re.findall(r"^\$ (.*)$", first, flags=re.MULTILINE) == ["make demo", "make test"]


@pytest.mark.proof
def test_the_demo_prints_the_table_in_the_readme(demo: tuple[Path, str]) -> None:
    shown = re.findall(r"<!-- demo -->\n```text\n(.*?)```", README.read_text(), flags=re.DOTALL)[0]
    title, _, header, *_ = shown.splitlines()

    printed = demo[1]
    names = [name.strip() for name in header.strip("┃").split("┃")]
    assert title in printed
    assert all(name in printed for name in names)


@pytest.mark.proof
def test_the_demo_runs_again_and_loads_only_what_is_new(demo: tuple[Path, str]) -> None:
    folder, first = demo
    env = {k: v for k, v in environment(folder).items() if not k.startswith("FLEETLAKE_")}
    env["FLEETLAKE_STATE"] = str(folder / "state")

    again = fleetlake("demo", env=env, cwd=folder)

    rows = [
        int(re.findall(r"([\d,]+) rows added", out)[0].replace(",", ""))
        for out in (first, again.stdout)
    ]
    assert again.returncode == 0, again.stderr
    assert rows[0] > 5_000
    assert rows[1] < rows[0] / 20


@pytest.mark.proof
def test_its_commands_succeed(demo: tuple[Path, str]) -> None:
    """Run every fleetlake and python command, in sequence, against a simulated service."""
    folder, _ = demo
    own = {k: v for k, v in environment(folder).items() if not k.startswith("FLEETLAKE_")}
    loads = re.compile(r"fleetlake (doctor|ingest|build|publish|verify|backfill)")
    stays = re.compile(r"fleetlake (simulate(?!.*--print-env)|up)\b")
    commands = [c for c in console_commands() if c.startswith(".venv/bin/") and not stays.search(c)]
    with service(routers=5, days=1) as fleet:
        for line in commands:
            # Loads read a service into a separate lake; the other commands use the demo's lake.
            reads_service = loads.search(line)
            published = folder / "data" / "published"
            fleet_env = environment(folder / "fleet", fleet.url, published=published)
            env = fleet_env if reads_service else own
            words = shlex.split(line.split("  #")[0])
            words[0] = str(Path(sys.executable).parent / Path(words[0]).name)
            done = subprocess.run(
                words, env=env, cwd=folder, capture_output=True, text=True, timeout=600, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"

    assert len(commands) >= 8


def test_every_other_command_in_it_exists() -> None:
    targets = set(
        re.findall(r"^([a-z-]+):", (README.parent / "Makefile").read_text(), re.MULTILINE)
    )
    for line in console_commands():
        if line.startswith("make "):
            assert line.split()[1] in targets
        else:
            assert line.startswith((".venv/bin/", "export FLEETLAKE_")), line


@pytest.mark.parametrize(
    "name", ["HTTPS_PROXY", "NO_PROXY", "socksio", "SSL_CERT_FILE", "SSL_CERT_DIR"]
)
def test_it_explains_how_to_set_a_proxy_and_certificate_authorities(name: str) -> None:
    paragraphs = README.read_text().split("\n\n")

    assert [text for text in paragraphs if name in text and "proxy" in text.lower()]
