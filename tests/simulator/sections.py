"""Which section of the service contract each test checks.

`@section("Limits")` names it; `python tests/simulator/sections.py` prints the table, and so
does a test run. It reads the source, so it counts the same under any runner.
"""

import ast
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


def section(name: str) -> Callable[[Test], Test]:
    """Name the section of the contract (or "Observed: ...") that a test checks."""
    assert name
    return lambda test: test


def checks_by_section() -> Counter[str]:
    """Return how many tests check each section."""
    found: Counter[str] = Counter()
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.update(_named(node))
    return found


def _named(test: ast.FunctionDef) -> list[str]:
    """Return the sections a test's decorators name."""
    calls = [mark for mark in test.decorator_list if isinstance(mark, ast.Call)]
    named = [call for call in calls if getattr(call.func, "id", "") == "section"]
    return [call.args[0].value for call in named if isinstance(call.args[0], ast.Constant)]


def table() -> str:
    """Return the sections with their numbers of checks, as text."""
    counts = checks_by_section()
    rows = [f"{name:<62} {count:>4}" for name, count in sorted(counts.items())]
    return "\n".join(
        [f"{'contract section':<62} checks", *rows, f"{'all':<62} {counts.total():>4}"]
    )


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
