"""What libraries would load or start and no command needs."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Unneeded:
    """A finder of modules that says of pandas that it is not installed."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("fleetlake's commands do without pandas", name=name)
        return None


def start_lean() -> None:
    """Keep this process from loading what it will not use.

    pyarrow and DuckDB import pandas, where it is installed, to learn that a value is none of
    its: a quarter of the CPU time of an ingest with nothing new. numpy comes with pyarrow and
    would start threads for linear algebra.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path.insert(0, _Unneeded)
