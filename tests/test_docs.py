"""Everything that docs/architecture.md and CONTRIBUTING.md name exists."""

import ast
import re
from pathlib import Path

from tests.test_architecture import FLOORS

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
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", text)) <= targets
