"""Names and texts quoted for SQL and for spreadsheets, so that data is never run. Pure.

Names of columns, tables and files come from the service, from users and from the file system. Every
DuckDB statement with such a name is built with this module. Values are passed as parameters where a
statement takes parameters, and as a `literal` where it does not (ATTACH, COPY).

A spreadsheet runs text that starts with = + - @, a tab or a carriage return: it gets an apostrophe
in front. So does a text with apostrophes before such a character, so that the mark can be removed
exactly.
"""

import re


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier. Raises: ValueError if it contains a NUL.

    >>> print(quoted('o"brien'), quoted("5g_band"))
    "o""brien" "5g_band"
    """
    if "\0" in name:
        raise ValueError("an SQL name cannot hold a NUL character")
    return '"' + name.replace('"', '""') + '"'


def literal(text: object) -> str:
    """Return a text as an SQL string. Raises: ValueError if it contains a NUL.

    >>> print(literal("o'brien"))
    'o''brien'
    """
    text = str(text)
    if "\0" in text:
        raise ValueError("an SQL string cannot hold a NUL character")
    return "'" + text.replace("'", "''") + "'"


def exact(path: object) -> str:
    """Return a path as a glob pattern that matches only itself, for DuckDB's file readers.

    >>> exact("/data/[a]*/x")
    '/data/[[]a][*]/x'
    """
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


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
