"""The order of the modules, and what may be known where: read off the source itself."""

import ast
import doctest
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fleetlake
from fleetlake.endpoints import ENDPOINTS

SOURCE = Path(fleetlake.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 350

ORDER = [
    ["plain"],
    ["errors", "quoting", "spreadsheet", "member_names", "answers", "patience", "outline"],
    ["record_bounds", "strict_json"],
    ["spelt"],
    ["secrets", "network"],
    ["ownership", "umask"],
    ["file_locks", "place", "prefect_auth", "account"],
    ["settings", "vocabulary", "child_environment"],
    ["columns"],
    ["timeuuid", "intervals", "tasks", "shard"],
    ["values", "endpoint", "spoken"],
    ["endpoints", "record_structs"],
    ["ratelimit", "retry", "gate", "wire", "clock"],
    ["shared_limit"],
    ["client"],
    ["records"],
    ["normalise"],
    ["cursors"],
    ["pages"],
    ["windows", "plan", "retention"],
    ["reading"],
    ["lake"],
    ["writer", "run"],
    ["streams"],
    ["load"],
    ["ingest"],
    ["status", "budget", "marts", "simulator", "quarantine", "verify"],
    ["layout"],
    ["publish"],
    ["exporters", "demo", "permissions"],
    ["doctor"],
    ["cli"],
    ["__main__"],
]
"""A module imports from rows above its own, or from its own package."""

ROW = {name: number for number, names in enumerate(ORDER) for name in names}
SIMULATOR_MAY_READ = {"columns", "endpoint", "endpoints", "errors", "simulator"}


def unit_of(file: Path) -> str:
    """Return the module, or package, directly below `fleetlake` that a file belongs to.

    A package's `__main__` is a program of its own that stands above all.
    """
    if file.name == "__main__.py":
        return "__main__"
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(file: Path) -> Iterator[str]:
    """Yield every module that a file imports, wherever in it, by its full name."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: say the full name"
            assert node.module
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if node.module == "fleetlake" else node.module


def own_imports_of(file: Path) -> set[str]:
    """Return the units of fleetlake that a file imports."""
    return {name.split(".")[1] for name in imports_of(file) if name.startswith("fleetlake.")}


each_file = pytest.mark.parametrize(
    "file", FILES, ids=[str(file.relative_to(SOURCE)) for file in FILES]
)


def test_every_module_has_its_place_in_the_order():
    units = {unit_of(file) for file in FILES} - {"__init__"}

    assert units <= set(ROW)


@each_file
def test_a_module_imports_only_from_above_or_from_its_own_package(file):
    unit = unit_of(file)
    if unit == "__init__":
        assert own_imports_of(file) == set()
        return

    assert {i for i in own_imports_of(file) if i != unit and ROW[i] >= ROW[unit]} == set()


@pytest.mark.parametrize("unit", ["lake", "marts", "publish", "records", "normalise", "cursors"])
def test_what_needs_no_service_does_not_know_the_client(unit):
    for file in FILES:
        if unit_of(file) == unit:
            found = set(imports_of(file))
            assert not {"httpx", "fleetlake.client", "fleetlake.pages"} & found, file


@each_file
def test_nobody_imports_the_flows_and_only_its_set_up_imports_prefect(file):
    found = {name.split(".")[0] for name in imports_of(file)}

    assert "flows" not in found
    assert "prefect" not in found or file.name == "prefect_setup.py"


def test_the_simulator_shares_only_the_vocabulary_with_what_it_tests():
    for file in FILES:
        if unit_of(file) == "simulator":
            assert own_imports_of(file) <= SIMULATOR_MAY_READ, file


def test_only_the_demo_and_the_command_line_know_the_simulator():
    knowing = {unit_of(file) for file in FILES if "simulator" in own_imports_of(file)}

    assert knowing <= {"simulator", "cli", "demo"}


def words_of(file: Path) -> set[str]:
    """Return the string literals of a file, docstrings left out."""
    tree = ast.parse(file.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    }


@each_file
def test_no_code_but_the_table_names_an_endpoint(file):
    if unit_of(file) in {"endpoints", "simulator"}:
        return
    found = words_of(file)

    named = {name for name in ENDPOINTS if found & {name, f"{name}/", f"/{name}/", f"raw.{name}"}}
    assert named == set()


@each_file
def test_no_file_is_too_long_to_be_read_in_one_sitting(file):
    assert len(file.read_text().splitlines()) <= MOST_LINES


@each_file
def test_every_module_says_what_it_is_for(file):
    assert ast.get_docstring(ast.parse(file.read_text()))


@each_file
def test_nothing_sleeps_but_the_limiter_and_nothing_retries_but_retry(file):
    source = file.read_text()
    unit = unit_of(file)
    if unit not in {"ratelimit", "shared_limit", "simulator", "cli", "demo"}:
        assert "sleep(" not in source
    if unit != "retry":
        assert "stamina" not in set(imports_of(file))


DOCTESTED = [file for file in FILES if ">>>" in file.read_text()]


@pytest.mark.parametrize("file", DOCTESTED, ids=[str(f.relative_to(SOURCE)) for f in DOCTESTED])
def test_examples_in_docstrings_are_true(file):
    name = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)

    result = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))

    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("module", ["fleetlake", "fleetlake.cli", "fleetlake.endpoints"])
def test_a_command_starts_without_loading_what_it_may_not_need(module):
    heavy = "{'prefect', 'dbt', 'duckdb', 'pyarrow', 'httpx', 'polars', 'starlette'}"
    script = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


LIBRARIES_AT_WORK = """
import sys
from fleetlake.cli.lean import start_lean
start_lean()
import duckdb, pyarrow
rows = pyarrow.table({"n": pyarrow.array([1, 2])})
[(total,)] = duckdb.execute("select sum(n) + ? from rows", [3]).fetchall()
print(total, "pandas" in sys.modules)
"""


def test_values_go_through_arrow_and_duckdb_without_loading_pandas():
    done = subprocess.run(
        [sys.executable, "-c", LIBRARIES_AT_WORK], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["6", "False"]
