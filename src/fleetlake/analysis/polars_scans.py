"""What Polars asks of a lazy frame, as SQL: the columns, and what SQL can apply of its filter.

Only comparisons that mean the same in DuckDB and in Polars are translated. Polars then applies the
whole filter itself, so a filter that is not translated costs time, never rows.
"""

import io
import json
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import polars as pl
from duckdb import DuckDBPyRelation
from polars import DataFrame, Expr

from fleetlake.text.quoting import literal, quoted

_OPERATORS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_HINT = "dynamic_pred"
"""Starts the text of what Polars adds to a filter as a hint, and cannot evaluate itself."""


def split_filter(predicate: pl.Expr) -> tuple[str | None, pl.Expr | None]:
    """Return the part of a filter that SQL can apply, and all that Polars has to apply.

    >>> print(split_filter((pl.col("to") == "x") & pl.col("name").str.ends_with("y"))[0])
    "to"::varchar = 'x'
    >>> split_filter(pl.col("n").is_null())[0] is None
    True
    """
    text = predicate.meta.serialize(format="json")
    parts = [*_conjuncts(json.loads(text))]
    real = [part for part in parts if not _is_hint(part)]
    translated = [sql for part in real if (sql := _as_sql(part))]
    own = predicate if len(real) == len(parts) else _joined(real)
    return " AND ".join(translated) or None, own


def _conjuncts(tree: Any) -> Iterator[Any]:
    match tree:
        case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield tree


def _is_hint(tree: Any) -> bool:
    match tree:
        case {"Display": {"fmt_str": str(text)}}:
            return text.startswith(_HINT)
        case _:
            return False


def _joined(trees: list[Any]) -> pl.Expr | None:
    parts = [pl.Expr.deserialize(io.BytesIO(json.dumps(t).encode()), format="json") for t in trees]
    return pl.all_horizontal(parts) if parts else None


def _as_sql(tree: Any) -> str | None:
    match tree:
        case {
            "BinaryExpr": {
                "left": {"Column": str(name)},
                "op": str(operator),
                "right": {"Literal": {"Scalar": dict(scalar)}},
            }
        } if operator in _OPERATORS and len(scalar) == 1:
            [(kind, value)] = scalar.items()
            text = _value(kind, value)
            # Polars sees JSON and UUIDs as texts; DuckDB would read the text as JSON or a UUID.
            column = f"{quoted(name)}::varchar" if kind == "String" else quoted(name)
            return None if text is None else f"{column} {_OPERATORS[operator]} {text}"
        case _:
            return None


def _value(kind: str, value: Any) -> str | None:
    """Return a value of Polars as SQL, None for a kind that is not translated."""
    text = None
    match kind, value:
        case (
            ("Boolean" | "Int8" | "Int16" | "Int32" | "Int64" | "UInt8" | "UInt16" | "UInt32"),
            _,
        ):
            text = str(value)
        case (("Float32" | "Float64"), float()) if math.isfinite(value):
            text = f"{value!r}::{'float' if kind == 'Float32' else 'double'}"
        case "String", str() if "\0" not in value:
            text = literal(value)
        case "Date", int():
            text = f"(date '1970-01-01' + {value})"
        case "Datetime", [int(microseconds), "Microseconds", {"inner": "UTC"}]:
            text = f"make_timestamptz({microseconds}::bigint)"
    return text


def frames(  # noqa: PLR0917 - Polars passes the last four
    open_relation: Callable[[], AbstractContextManager[DuckDBPyRelation]],
    rows_at_once: int,
    with_columns: list[str] | None,
    predicate: Expr | None,
    n_rows: int | None,
    batch_size: int | None,
) -> Iterator[DataFrame]:
    """Yield what Polars asks for: these columns of the first rows, of which it keeps some.

    Each scan has its own connection, because Polars may read two at once, as in a join.
    """
    where, own = (None, None) if predicate is None else split_filter(predicate)
    with open_relation() as relation:
        first = relation if n_rows is None else relation.limit(n_rows)
        kept = first if where is None else first.filter(where)
        if with_columns is not None:
            kept = kept.project(", ".join(map(quoted, with_columns)))
        for batch in kept.to_arrow_reader(batch_size or rows_at_once):
            frame = DataFrame(batch)
            yield frame if own is None else frame.filter(own)
