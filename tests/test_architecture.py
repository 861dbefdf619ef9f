"""The layers of the modules and their import rules, checked against the source."""

import ast
import doctest
import importlib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import fleetlake
from fleetlake.endpoints import ENDPOINTS

SOURCE = Path(str(fleetlake.__file__)).parent.parent
PACKAGES = ("fleetlake", "fleetsim")
FILES = sorted(file for package in PACKAGES for file in (SOURCE / package).rglob("*.py"))
MOST_LINES = 500

FLOORS = [
    ["text", "startup"],
    ["errors"],
    ["lake_address", "account", "concurrency"],
    ["machine"],
    ["settings", "serving"],
    ["endpoints"],
    ["decoding", "planning", "fleetsim"],
    ["service"],
    ["lake"],
    ["reading", "receiving"],
    ["alerting"],
    ["care"],
    ["marts"],
    ["loading", "exporters", "publishing", "notifying", "semantic_layer"],
    ["monitoring", "demo"],
    ["analysis", "dashboard"],
    ["privacy", "assistants"],
    ["cli"],
    ["__main__"],
]
"""Packages and modules of fleetlake, lowest first: each imports only from layers below its own."""

FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}


def room_of(module: str) -> str:
    """Return the package or module that a dotted name belongs to.

    >>> room_of("fleetlake.lake.commit"), room_of("fleetlake.errors"), room_of("fleetsim.world")
    ('lake', 'errors', 'fleetsim')
    """
    parts = module.split(".")
    return parts[0] if parts[0] == "fleetsim" or len(parts) == 1 else parts[1]


def module_of(file: Path) -> str:
    """Return the dotted name of a source file, a package's own `__init__` included."""
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file, parsed only in the worker that runs these tests."""
    return ast.parse(file.read_text())


@cache
def imports() -> dict[str, set[str]]:
    """Return the modules of ours that each module imports."""
    return {
        module_of(file): {name for name in imports_of(file) if name.split(".")[0] in PACKAGES}
        for file in FILES
    }


def imports_of(file: Path) -> Iterator[str]:
    """Yield the full name of every module that a file imports, anywhere in the file."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from [f"{'.' * node.level}{node.module or ''}"] * bool(node.level)
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else str(node.module)


def words_of(file: Path) -> set[str]:
    """Return the string literals of a file, without docstrings."""
    tree = tree_of(file)
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


MODULES = {module_of(file) for file in FILES}
ROOMS = {module_of(file): room_of(module_of(file)) for file in FILES} | {"fleetlake": "__main__"}


def test_every_package_belongs_to_a_layer():
    assert {*ROOMS.values()} <= {*FLOOR}


def test_a_package_imports_only_from_lower_layers():
    upward = {
        f"{module} -> {imported}"
        for module, names in imports().items()
        for imported in names
        if room_of(imported) != ROOMS[module] and FLOOR[room_of(imported)] >= FLOOR[ROOMS[module]]
    }

    assert upward == set()


def test_there_are_no_circular_imports():
    # A package means its `__init__`, which runs before its modules.
    order = TopologicalSorter(
        {
            module: {name for name in names if name != module and name in MODULES}
            for module, names in imports().items()
        }
    )

    assert list(order.static_order())


def test_imports_use_the_full_name():
    relative = {file for file in FILES if any(name.startswith(".") for name in imports_of(file))}

    assert relative == set()


def test_packages_that_need_no_service_do_not_import_httpx():
    pure = {"lake", "care", "marts", "publishing", "decoding", "planning", "text", "exporters"}
    knowing = {
        module_of(file)
        for file in FILES
        if ROOMS[module_of(file)] in pure
        and any(name.split(".")[0] == "httpx" for name in imports_of(file))
    }

    assert knowing == set()


def test_only_one_module_names_the_tables_functions_and_settings_of_ducklake():
    naming = {
        module_of(file)
        for file in FILES
        if any("ducklake_" in word.replace("ducklake_lake", "") for word in words_of(file))
    }

    assert naming == {"fleetlake.lake.ducklake"}


def test_the_dashboard_sees_published_files_and_never_the_lake():
    seen = {
        room_of(name)
        for module, names in imports().items()
        for name in names
        if ROOMS[module] == "dashboard"
    }

    assert not seen & {"lake", "loading", "service", "reading", "exporters"}


def test_only_the_prefect_commands_import_prefect_and_nothing_imports_flows():
    found = {module_of(file): {name.split(".")[0] for name in imports_of(file)} for file in FILES}

    assert {module for module, names in found.items() if "flows" in names} == set()
    assert {module for module, names in found.items() if "prefect" in names} == {
        "fleetlake.cli.prefect.setup"
    }


def test_the_simulator_shares_no_code_with_what_it_tests_but_how_to_listen():
    shared = {
        room_of(name)
        for module, names in imports().items()
        for name in names
        if ROOMS[module] == "fleetsim"
    }

    assert shared == {"fleetsim", "serving"}


def test_only_the_command_line_imports_the_simulator():
    knowing = {
        ROOMS[module]
        for module, names in imports().items()
        if any(name.startswith("fleetsim") for name in names)
    }

    assert knowing <= {"fleetsim", "cli"}


def test_no_two_modules_share_a_name():
    names = Counter(
        file.stem for file in FILES if "cli" not in file.parts and "__" not in file.stem
    )

    assert {name for name, count in names.items() if count > 1} == set()


def test_a_command_shares_its_name_only_with_a_module_that_it_uses():
    ours = {module for module in MODULES if module.startswith("fleetlake.")}
    commands = {module for module in ours if module.startswith("fleetlake.cli.")}
    others = {module.rpartition(".")[2]: module for module in ours - commands}
    names = Counter(command.rpartition(".")[2] for command in commands)
    unrelated = {
        command
        for command in commands
        if (other := others.get(command.rpartition(".")[2]))
        and not imports()[command] & {other, other.rpartition(".")[0]}
        and not any(one.startswith(f"{other}.") for one in imports()[command])
    }

    assert {name for name, count in names.items() if count > 1} == set()
    assert unrelated == set()


def test_no_two_public_classes_share_a_name():
    public = Counter(
        node.name
        for tree in map(tree_of, FILES)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert {name for name, count in public.items() if count > 1} == set()


def test_only_the_endpoint_table_names_an_endpoint():
    migrations = "fleetlake.lake.evolution.format"  # names tables as they were
    naming = {
        (module_of(file), name)
        for file in FILES
        if ROOMS[module_of(file)] not in {"endpoints", "fleetsim"} and module_of(file) != migrations
        for words in [words_of(file)]
        for name in ENDPOINTS
        if words & {name, f"{name}/", f"/{name}/", f"raw.{name}"}
    }

    assert naming == set()


def test_no_module_exceeds_500_lines():
    long = {file for file in FILES if len(file.read_text().splitlines()) > MOST_LINES}

    assert long == set()


def test_every_module_has_a_docstring():
    assert {file for file in FILES if not ast.get_docstring(tree_of(file))} == set()


def test_only_the_call_limit_sleeps():
    may_sleep = {"service.rate_limit", "demo.pushes"}
    sleeping = {
        module_of(file).removeprefix("fleetlake.")
        for file in FILES
        if ROOMS[module_of(file)] not in {"fleetsim", "cli"} and "sleep(" in file.read_text()
    }

    assert sleeping <= may_sleep


def test_only_the_retry_module_retries():
    retrying = {module_of(file) for file in FILES if "stamina" in set(imports_of(file))}

    assert retrying == {"fleetlake.service.retry"}


def test_docstring_examples_are_correct():
    with_examples = [module_of(file) for file in FILES if ">>>" in file.read_text()]

    results = {
        name: doctest.testmod(importlib.import_module(name), verbose=False)
        for name in with_examples
    }

    assert {name for name, result in results.items() if result.failed} == set()
    assert {name for name, result in results.items() if not result.attempted} == set()
