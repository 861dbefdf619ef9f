r"""Text that a spreadsheet would run as a formula, and the apostrophe that prevents it. Pure.

A text that starts with = + - @, a tab or a carriage return gets an apostrophe in front. So does
a text with apostrophes before such a character, so that the mark can be removed exactly.
"""

import re

_FORMULA = "^'*[=+@\\t\\r-]"
_MARKED = "^'+[=+@\\t\\r-]"


def guarded(text: str) -> str:
    """Return a text as a cell that no spreadsheet runs as a formula.

    >>> guarded("=1+1"), guarded("'=1+1"), guarded("router-1")
    ("'=1+1", "''=1+1", 'router-1')
    """
    return f"'{text}" if re.match(_FORMULA, text) else text


def guarded_sql(column: str) -> str:
    """Return SQL that does the same to a text column; `column` is an SQL expression."""
    return f"CASE WHEN {_matches(column, _FORMULA)} THEN chr(39) || {column} ELSE {column} END"


def unguarded_sql(column: str) -> str:
    """Return SQL that restores the original text."""
    return f"CASE WHEN {_matches(column, _MARKED)} THEN {column}[2:] ELSE {column} END"


def _matches(column: str, pattern: str) -> str:
    return f"regexp_matches({column}, '{pattern.replace(chr(39), chr(39) * 2)}')"
