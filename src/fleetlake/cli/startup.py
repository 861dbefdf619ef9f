"""Faster start-up: skip imports and threads that no command needs."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _PandasBlocker:
    """A module finder that reports pandas as not installed."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("fleetlake's commands run without pandas", name=name)
        return None


def skip_unneeded_imports() -> None:
    """Keep this process from loading libraries that it does not use.

    pyarrow and DuckDB import pandas, if it is installed, only to check whether a value is a pandas
    object. That takes a quarter of the CPU time of an ingest with nothing new. numpy comes with
    pyarrow and would start threads for linear algebra.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path.insert(0, _PandasBlocker)
