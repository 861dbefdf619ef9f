r"""Texts that a spreadsheet would run as a formula, and the mark that keeps it from doing so. Pure.

A text that begins with = + - @, a tab or a carriage return gets an apostrophe in front. So does
one that has apostrophes before such a character: then the mark can be taken off again exactly.
"""

import re

_FORMULA = "^'*[=+@\\t\\r-]"
_MARKED = "^'+[=+@\\t\\r-]"


def guarded(text: str) -> str:
    """Return a text as a cell that no spreadsheet runs.

    >>> guarded("=1+1"), guarded("'=1+1"), guarded("router-1")
    ("'=1+1", "''=1+1", 'router-1')
    """
    return f"'{text}" if re.match(_FORMULA, text) else text


def guarded_sql(column: str) -> str:
    """Return SQL that does the same to a text column, given as SQL."""
    return f"CASE WHEN {_matches(column, _FORMULA)} THEN chr(39) || {column} ELSE {column} END"


def unguarded_sql(column: str) -> str:
    """Return SQL that gives the text back that was guarded."""
    return f"CASE WHEN {_matches(column, _MARKED)} THEN {column}[2:] ELSE {column} END"


def _matches(column: str, pattern: str) -> str:
    return f"regexp_matches({column}, '{pattern.replace(chr(39), chr(39) * 2)}')"
