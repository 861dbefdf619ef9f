"""The README and the how-to guides are correct: their commands run, and do what they say."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetlake.lake import open_lake
from tests.support.consoles import console_commands, plain_settings, run_command, runnable
from tests.support.processes import Service, fleetlake, service
from tools.site_pages import DOCS, ROOT

pytestmark = pytest.mark.xdist_group("readme")

README = (ROOT / "README.md").read_text()
_ELSEWHERE = {"own-endpoints.md"}  # it needs a project: `test_probe.py` follows it
GUIDES = [
    page.read_text()
    for page in sorted((DOCS / "how-to").glob("*.md"))
    if page.name not in _ELSEWHERE
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the demo in an empty folder; return the folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    env = plain_settings(folder)
    done = fleetlake("demo", "--routers", "4", "--days", "1", env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture(scope="module")
def fleet() -> Iterator[Service]:
    """Run one service for all pages: they load into one lake, and a second fleet is another."""
    with service(routers=3, days=1) as fleet:
        yield fleet


def test_its_first_screen_is_one_sentence_two_commands_and_their_output() -> None:
    first = README.split("\n## ")[0]

    assert len(first.splitlines()) < 40
    assert len(README.splitlines()) <= 200
    assert re.findall(r"^\$ (.*)$", first, flags=re.MULTILINE) == ["make demo", "make test"]


@pytest.mark.proof
def test_the_demo_prints_the_table_in_the_readme(demo: tuple[Path, str]) -> None:
    shown = re.findall(r"<!-- demo -->\n```text\n(.*?)```", README, flags=re.DOTALL)[0]
    _, title, _, header, *_ = shown.splitlines()

    printed = demo[1]
    names = [name.strip() for name in header.strip("┃").split("┃")]
    assert title in printed
    assert all(name in printed for name in names)


@pytest.mark.proof
def test_the_demo_prints_how_soon_pushed_alerts_are_in_the_lake(demo: tuple[Path, str]) -> None:
    folder, printed = demo
    shape = r"pushed: (\d+) alerts? in the lake, \d+\.\d s after the service sent [a-z() ]+"

    with open_lake(folder / "data" / "lake", read_only=True) as lake:
        [(count,)] = lake.rows("select count(*) from raw.pushed_alerts")
    assert re.search(rf"^{shape}$", README, re.MULTILINE)
    assert [int(n) for n in re.findall(shape, printed)] == ([count] if count else [])


@pytest.mark.release
def test_the_demo_runs_again_and_loads_only_what_is_new(demo: tuple[Path, str]) -> None:
    folder, first = demo
    env = plain_settings(folder)

    again = fleetlake("demo", env=env, cwd=folder)

    rows = [
        int(re.findall(r"([\d,]+) rows added", out)[0].replace(",", ""))
        for out in (first, again.stdout)
    ]
    assert again.returncode == 0, again.stderr
    assert rows[0] > 2_000
    assert rows[1] < rows[0] / 20


@pytest.mark.proof
@pytest.mark.parametrize(
    ("pages", "least"),
    [([README], 9), pytest.param([README, *GUIDES], 35, marks=pytest.mark.release)],
    ids=["readme", "guides"],
)
def test_the_commands_of_the_pages_succeed(
    demo: tuple[Path, str], fleet: Service, pages: list[str], least: int
) -> None:
    """Run each fleetlake and python command once, in sequence, against a simulated service."""
    folder, _ = demo
    typed = [line for page in pages for line in runnable(console_commands(page))]
    by_words = {line.split("  #")[0].strip(): line for line in typed}
    by_words.pop("fleetlake demo", None)  # the test above runs it
    for line in by_words.values():
        run_command(line, folder=folder, fleet=fleet)

    assert len(by_words) >= least


@pytest.mark.parametrize(
    "name", ["HTTPS_PROXY", "NO_PROXY", "socksio", "SSL_CERT_FILE", "SSL_CERT_DIR"]
)
def test_a_guide_explains_how_to_set_a_proxy_and_certificate_authorities(name: str) -> None:
    paragraphs = "\n\n".join(GUIDES).split("\n\n")

    assert [text for text in paragraphs if name in text and "proxy" in text.lower()]
