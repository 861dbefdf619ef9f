"""Metrics in SQL: `from metrics.failovers(by := 'carrier, group', grain := 'day')`.

A call becomes the SQL of its metric, in brackets, before DuckDB sees it. So no macro is kept, what
is read is checked and proven as in any query, and a share is that of the sums, whatever it is by.
"""

import re
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

import duckdb

from fleetlake.errors import UsageError

_ARGUMENT = re.compile(
    r"\s*(by|grain|since|until)\s*(?::=|=>)\s*'([^']*)'\s*(?:,|$)", re.IGNORECASE
)
_PARAMETER = re.compile(r"\$(given_\d+)")


class _Call(NamedTuple):
    """A call in a text, by the bytes at which it begins and ends."""

    start: int
    end: int
    metric: str
    arguments: str


def with_metrics(sql: str) -> str:
    """Return SQL with the SQL of each metric in the place of its call.

    Raises: UsageError for a metric, dimension, grain or day that there is not.
    """
    if "metrics" not in sql.lower():
        return sql
    text = sql.encode("utf-8", "surrogatepass")
    for call in reversed([*_calls(sql, text)]):
        inner = _compiled(call.metric, call.arguments)
        text = text[: call.start] + f"({inner})".encode() + text[call.end :]
    return text.decode("utf-8", "surrogatepass")


def _calls(sql: str, text: bytes) -> Iterator[_Call]:
    """Yield the calls; one in a text or a comment of the SQL is none."""
    try:
        starts = [at for at, _ in duckdb.tokenize(sql)]
    except (duckdb.Error, UnicodeEncodeError):
        return  # DuckDB says what is wrong when it runs it
    ends = [*starts[1:], len(text)]
    words = [text[a:b].decode().strip() for a, b in zip(starts, ends, strict=True)]
    for at, word in enumerate(words[:-3]):
        dot, name, bracket = words[at + 1 : at + 4]
        if (word.lower(), dot, bracket) != ("metrics", ".", "(") or (at and words[at - 1] == "."):
            continue
        last = next((n for n in range(at + 4, len(words)) if words[n].startswith(")")), None)
        if last is not None:
            arguments = text[ends[at + 3] : starts[last]].decode()
            yield _Call(starts[at], starts[last] + 1, _name(name), arguments)


def _name(word: str) -> str:
    """Return a name without the comment that may follow it.

    >>> _name('"Alerts" /* of the day */')
    'alerts'
    """
    found = re.match(r'"?(\w*)', word)
    return found[1].lower() if found else word


def _compiled(metric: str, arguments: str) -> str:
    from fleetlake.semantic_layer import MetricQuery, compile_metrics  # noqa: PLC0415 - it takes 0.7 s

    given, at = dict[str, str](), 0
    while arguments[at:].strip():
        found = _ARGUMENT.match(arguments, at)
        if found is None:
            raise UsageError(
                f"metrics.{metric} has arguments that cannot be read: {arguments.strip()}.",
                remedy="Write by := 'carrier, group', grain := 'day', since := '2026-11-01'.",
            )
        given[found[1].lower()], at = found[2], found.end()
    asked = MetricQuery(
        metrics=(metric,),
        by=tuple(filter(None, re.split(r"[,\s]+", given.get("by", "")))),
        grain=given.get("grain", ""),
        since=_day(given.get("since")),
        until=_day(given.get("until")),
    )
    found_sql = compile_metrics(asked)
    return _PARAMETER.sub(lambda m: f"date '{found_sql.parameters[m[1]]}'", found_sql.sql)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise UsageError(f"{text!r} is not a day.", remedy="Write it like 2026-11-01.") from None
