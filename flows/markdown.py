"""Texts of others in the artifacts of a run, which a page renders as Markdown."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleetlake.text.plain import plain

_MARKS = re.compile(r"[\\`*_\[\]<>|~&#:@]|(?<=www)\.|^[-+]|(?<=^\d)[.)]", re.IGNORECASE)
"""Characters that begin or end a link, HTML, an emphasis, code, a cell, a heading or a list."""


def as_text(value: object) -> str:
    r"""Return Markdown that shows a value as it is, on one line: never a link, HTML, or a cell.

    >>> print(as_text("[a](http://b) | <img src=c>"))
    \[a\](http\://b) \| \<img src=c\>
    """
    return _MARKS.sub(r"\\\g<0>", plain(value))


def table_of_text(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table artifact with every text in them shown as it is."""
    return [
        {name: as_text(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
        for row in rows
    ]
