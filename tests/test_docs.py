"""What README, docs and CONTRIBUTING.md name exists, and their figures are those of the code."""

import ast
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from fleetlake.cli.prefect.deployments import SHORTEST_INTERVAL
from fleetlake.cli.prefect.server import KEPT_DAYS, server
from fleetlake.cli.prefect.worker import STOP_TIMEOUT_SECONDS
from fleetlake.decoding.bounds import KEPT_CHARACTERS, MAX_DEPTH, MAX_MEMBERS, MAX_RECORD_BYTES
from fleetlake.lake.lateness import SHARE_ON_TIME
from fleetlake.lake.rows import RESTS_DAYS
from fleetlake.lake.shrunken_lists import FEW
from fleetlake.loading.writer import BYTES_PER_COMMIT, ROWS_PER_COMMIT, SECONDS_PER_COMMIT
from fleetlake.planning.coverage import LOOKBACK
from fleetlake.service.clock import REFUSED_SKEW, REPORTED_SKEW
from fleetlake.settings import DAY_ROWS
from fleetsim.drives import WAYS
from tests.test_architecture import FLOORS
from tools import compare_tracks

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "docs" / "architecture.md"

LINKED_FUNCTION = re.compile(r"\[`(\w+)`\]\(([\w./]+\.py)\)")


def functions_of(file: Path) -> set[str]:
    """Return the names of a file's functions and methods."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, kinds)}


def block_of(page: Path, name: str) -> str:
    """Return the part of a page between two markers."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", page.read_text(), re.DOTALL)
    assert found, name
    return found[1]


def test_every_function_that_the_architecture_links_to_is_in_the_linked_file():
    links = LINKED_FUNCTION.findall(ARCHITECTURE.read_text())
    missing = {
        (name, target)
        for name, target in links
        if name not in functions_of((ARCHITECTURE.parent / target).resolve())
    }

    assert len(links) > 50
    assert len(links) == ARCHITECTURE.read_text().count("](../"), "a link that names no function"
    assert missing == set()


def test_the_architecture_page_draws_the_enforced_layers():
    lines = block_of(ARCHITECTURE, "floors").strip().removeprefix("```text").splitlines()
    drawn = [line.split("   ")[0].split() for line in lines if line.strip("`")]

    assert drawn == FLOORS[::-1]


def test_the_path_of_a_page_has_as_many_modules_as_the_architecture_page_says():
    steps = [line for line in block_of(ARCHITECTURE, "way").splitlines() if line]
    modules = [{target for _, target in LINKED_FUNCTION.findall(step)} for step in steps]
    flat = [target for of_step in modules for target in of_step]

    assert all(len(of_step) == 1 for of_step in modules)
    assert len(flat) == len(set(flat))
    assert f"**{len(flat)} modules, none of them twice**" in ARCHITECTURE.read_text()


def test_every_file_that_contributing_names_exists():
    named = {
        name
        for name in re.findall(
            r"[\w./-]+\.(?:py|md|sql|yml|toml)\b|\b(?:src|tests|sql|docs)/[\w/]+/",
            (ROOT / "CONTRIBUTING.md").read_text(),
        )
        # A leading underscore or slash is the rest of a name that has a <placeholder>.
        if "/" in name.lstrip("/") and not name.startswith(("/", "_"))
    }

    assert len(named) > 30
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_every_make_target_that_contributing_names_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    makefiles = (ROOT / "Makefile").read_text() + (ROOT / "tools/bench.mk").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefiles, re.MULTILINE))

    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", text)) <= targets


def test_each_test_selection_that_contributing_names_selects_tests():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    text = text.replace("<endpoint>", "routers").replace("<target>", "csv")
    found = re.findall(
        r'make check-one FILE="?([\w./ ]+?)"? K="?([\w ]+?)"?(?:  |$)', text, re.MULTILINE
    )
    files = sorted({file for of_line, _ in found for file in of_line.split()})
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *files]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tests = [line for line in shown.splitlines() if "::" in line]

    assert len(found) > 7
    for of_line, selection in found:
        names = [test for test in tests if test.startswith(tuple(of_line.split()))]
        for word in selection.split(" or "):
            assert any(word in name for name in names), f"{of_line} has no test named {word}"


def test_the_page_about_tracks_has_each_family_of_drives_and_the_locked_version_of_the_library():
    page = compare_tracks.PAGE.read_text("utf-8")
    families = {compare_tracks.family_of(way) for way in WAYS.values()}
    lock = (ROOT / "requirements/tracks.lock").read_text("utf-8")

    for block in ("trips compared", "stops compared"):
        rows = block_of(compare_tracks.PAGE, block).splitlines()[2:]
        assert {row.split(" | ")[0].removeprefix("| ") for row in rows} == families
    assert re.findall(r"trackintel (\d[\d.]*\d)", page) == re.findall(r"trackintel==(\S+)", lock)


WORDS = {
    1_000_000: "million",
    2: "two",
    3: "three",
    timedelta(minutes=2): "two minutes",
    timedelta(minutes=5): "five minutes",
    timedelta(minutes=10): "ten minutes",
    timedelta(days=1): "a day",
}


def words(figure: object) -> str:
    """Return a figure as a page spells it."""
    return WORDS.get(figure, str(figure))


GRACE = f"gives its runs {STOP_TIMEOUT_SECONDS:g} s to finish a commit"
BATCH = (
    f"pages for up to {SECONDS_PER_COMMIT:g} seconds, {ROWS_PER_COMMIT:,} rows "
    f"or {BYTES_PER_COMMIT / 1e6:g} MB"
)
OPERATION = [
    f"more than {MAX_RECORD_BYTES / 1e6:g} MB, {MAX_MEMBERS:,} unknown members",
    f"unknown members or {MAX_DEPTH} levels",
    f"the first {words(KEPT_CHARACTERS)} characters of a record",
    f"and more than {words(FEW)}, disappear at once",
    f"find {SHARE_ON_TIME:.1%} of them, at least {words(LOOKBACK)}",
    f"clocks that differ by more than {words(REPORTED_SKEW)}",
    f"when they differ by more than {words(REFUSED_SKEW)}",
]


@pytest.mark.parametrize(
    ("page", "figures"),
    [
        ("docs/how-to/operate.md", OPERATION),
        ("docs/how-to/connect.md", [f"has not read the table for {words(RESTS_DAYS)} days"]),
        ("docs/how-to/query.md", [f"more than {DAY_ROWS:,} rows per day"]),
        (
            "docs/how-to/schedule.md",
            [
                f"no schedule more often than every {words(SHORTEST_INTERVAL)}",
                f"ended more than {KEPT_DAYS} days ago",
                GRACE,
            ],
        ),
        ("compose.yaml", [GRACE]),
        ("docs/container.md", [GRACE]),
        ("docs/architecture.md", [BATCH]),
        ("docs/explanation/exactly-once.md", [BATCH]),
    ],
)
def test_the_figures_that_a_page_promises_are_those_of_the_code(page, figures):
    text = " ".join((ROOT / page).read_text().split())

    assert [figure for figure in figures if figure not in text] == []


def test_the_help_of_the_server_says_when_it_deletes_runs():
    assert f"deletes runs after {KEPT_DAYS} days" in str(server.__doc__)
