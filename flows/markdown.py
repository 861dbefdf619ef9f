"""Escaping of foreign text in a run's artifacts, which Prefect renders as Markdown."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleetlake.text.plain import plain

_MARKS = re.compile(r"[\\`*_\[\]<>|~&#:@]|(?<=www)\.|^[-+]|(?<=^\d)[.)]", re.IGNORECASE)
"""Characters that start or end a link, HTML, emphasis, code, a cell, a heading or a list."""


def as_text(value: object) -> str:
    r"""Return Markdown that shows a value literally, on one line: no link, no HTML, no cell.

    >>> print(as_text("[a](http://b) | <img src=c>"))
    \[a\](http\://b) \| \<img src=c\>
    """
    return _MARKS.sub(r"\\\g<0>", plain(value))


def table_of_text(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table artifact with every text escaped."""
    return [
        {name: as_text(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
        for row in rows
    ]
