"""Run the notebooks of `docs/notebooks` without Jupyter, and store what their cells print.

A notebook is a JSON file. `python -m tools.notebooks` (`make notebooks`) simulates a fleet, runs
the cells on its lake, and writes their outputs into the files.
"""

import ast
import io
import json
import tempfile
from contextlib import redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fleetlake.marts import build_marts
from fleetlake.settings import load_settings
from tests.support.mart_truth_fleet import born

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))

Notebook = dict[str, Any]


def run(notebook: Notebook, lake: Path) -> Notebook:
    """Return a notebook with the outputs of its code cells, run in one namespace on a lake."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    with pytest.MonkeyPatch.context() as patch, pl.Config():  # restores what a notebook sets
        patch.setenv("FLEETLAKE_LAKE", str(lake))
        load_settings.cache_clear()
        try:
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    count += 1
                    outputs = _outputs("".join(cell["source"]), namespace, count)
                    cells.append({**cell, "execution_count": count, "outputs": outputs})
                else:
                    cells.append(cell)
        finally:
            namespace["lake"].close()
            load_settings.cache_clear()
    return {**notebook, "cells": cells}


def _outputs(source: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Run a cell; return what it printed and the value of its last expression, as Jupyter does."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
    if value is not None:
        shown = {"text/plain": _lines(repr(value))}
        if draw := getattr(value, "_repr_svg_", None):
            shown["image/svg+xml"] = _lines(draw())
        outputs.append(
            {
                "data": shown,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def read(path: Path) -> Notebook:
    """Return the content of a notebook."""
    content: Notebook = json.loads(path.read_text("utf-8"))
    return content


def main() -> None:
    """Simulate a fleet for ten days, build its marts, and run each notebook."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder) / "lake"
        fleet = born(routers=24, seed=5, lake=lake)
        fleet.live(10, poll=timedelta(hours=12))
        build_marts(lake)
        for path in NOTEBOOKS:
            executed = run(read(path), lake)
            path.write_text(json.dumps(executed, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
