"""Records that may be why a model failed: the database's message names a value, never a record."""

import re
from collections.abc import Iterable, Iterator

import duckdb

from fleetlake.endpoints import ENDPOINTS
from fleetlake.text.quoting import literal, quoted

LARGEST = 1e15
"""A number beyond it stands out: bytes are fewer in any sample, and no count is larger."""

FIRST_DAY, LAST_DAY = "1990-01-01", "2100-01-01"
MOST_RECORDS = 3
MOST_CHARACTERS = 100

_ABOUT_VALUES = re.compile(r"(?:Conversion|Out of Range|Invalid Input) Error")
_TEXT = re.compile(r"'([^'\n]+)'")
_NUMBER = re.compile(r"(?<![\w.])-?\d{2,38}(?:\.\d+)?(?:[eE]\+?\d{1,3})?(?![\w.])")


def suspects(
    connection: duckdb.DuckDBPyConnection, tables: Iterable[str], message: str
) -> Iterator[str]:
    """Yield a line per record of these raw tables with a value that a message is likely about.

    Such a value is named by the message, or far outside what others of its type are. The lake is
    attached as `lake`. Nothing is yielded for messages that are not about values.
    """
    if not _ABOUT_VALUES.search(message):
        return
    for table in tables:
        columns = connection.execute(f"describe lake.raw.{quoted(table)}").fetchall()
        conditions = {
            name: rule for name, type_, *_ in columns if (rule := _stands_out(name, type_, message))
        }
        if not conditions:
            continue
        key = ENDPOINTS[table].key
        shown = [
            f"case when {rule} then left({quoted(name)}::varchar, {MOST_CHARACTERS}) end"
            for name, rule in conditions.items()
        ]
        found = connection.execute(
            f"select {', '.join([*map(quoted, key), *shown])} from lake.raw.{quoted(table)} "
            f"where {' or '.join(conditions.values())} limit {MOST_RECORDS}"
        ).fetchall()
        for row in found:
            values = zip(conditions, row[len(key) :], strict=True)
            odd = ", ".join(f"{name}={value}" for name, value in values if value is not None)
            which = " and ".join(
                f"{name} = {literal(str(value))}" for name, value in zip(key, row, strict=False)
            )
            yield f"raw.{table} where {which}: {odd}"


def _stands_out(name: str, type_: str, message: str) -> str | None:
    """Return the condition that a value of a column stands out, None for other types."""
    column = quoted(name)
    if type_.startswith("TIMESTAMP") or type_ == "DATE":
        return f"({column} < {literal(FIRST_DAY)} or {column} > {literal(LAST_DAY)})"
    if type_ == "VARCHAR":
        texts = [f"contains({column}, {literal(text)})" for text in _TEXT.findall(message)]
        return f"({' or '.join(texts)})" if texts else None
    if type_ in {"BIGINT", "INTEGER", "HUGEINT", "DOUBLE"} and not name.endswith("id"):
        named = [f"{column} = {number}::double" for number in _NUMBER.findall(message)]
        far = [f"{column} > {LARGEST:.0f}", f"{column} < -{LARGEST:.0f}"]
        return f"({' or '.join([*far, *named])})"
    return None
