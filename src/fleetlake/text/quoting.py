"""Names and texts quoted for SQL, so that data never becomes a statement. Pure.

Names of columns, tables and files come from the service, from users and from the file system.
Every DuckDB statement with such a name is built with this module. Values are passed as
parameters where a statement takes parameters, and as a `literal` where it does not (ATTACH, COPY).
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
