"""Tables of data, and SQL, that stand in files beside the module that reads them."""

import csv
from pathlib import Path


def rows_beside(module: str, name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file in the folder of a module, which gives its `__file__`."""
    return [*csv.DictReader(lines_beside(module, name))]


def lines_beside(module: str, name: str) -> list[str]:
    """Return the lines of a file in the folder of a module."""
    return text_beside(module, name).splitlines()


def text_beside(module: str, name: str) -> str:
    """Return the text of a file in the folder of a module."""
    return Path(module).with_name(name).read_text(encoding="utf-8")


def statements_beside(module: str, name: str) -> dict[str, str]:
    """Return the SQL statements of a file in the folder of a module, by their `-- name:` lines."""
    parts = text_beside(module, name).split("-- name: ")[1:]
    return {title: sql.strip() for title, _, sql in (part.partition("\n") for part in parts)}
