"""Tables of data that stand in CSV files beside the module that reads them."""

import csv
from pathlib import Path


def rows_beside(module: str, name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file in the folder of a module, which gives its `__file__`."""
    text = Path(module).with_name(name).read_text(encoding="utf-8")
    return [*csv.DictReader(text.splitlines())]
