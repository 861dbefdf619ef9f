"""The errors of a build: what failed, with the first bad rows, or which name matches nothing."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import BuildFailed, UsageError
from fleetlake.marts.dbt import DbtRun, NodeResult
from fleetlake.marts.dbt_process import MORE_MEMORY, OUT_OF_MEMORY
from fleetlake.marts.spark_session import UNANSWERED
from fleetlake.marts.sql_project import own_models, project_folder
from fleetlake.text.quoting import literal, quoted
from fleetlake.text.wording import did_you_mean


def no_such_model(names: Sequence[str]) -> UsageError:
    """Return the error for selected names that match nothing, with the nearest model."""
    names = [name.lstrip("+") for name in names]
    ours = (project_folder() / "models").rglob("*.sql")
    models = [path.stem for path in (*ours, *own_models())]
    suggestion = did_you_mean(names[0].rstrip("+"), models)
    return UsageError(
        f"No model is called {' or '.join(map(repr, names))}, so no mart was changed.",
        remedy=f'{suggestion}`fleetlake query "show tables"` lists the marts.',
    )


def build_failed(run: DbtRun) -> BuildFailed:
    """Return the error that lists each failed model and test, with the first bad rows."""
    faults = _faults(run)
    marts = {node.name for node in run.nodes if node.schema == "marts"}
    stale, is_partial = sorted(marts & run.stale), bool(marts - run.stale)
    kept = f" These marts still hold the last good rows: {', '.join(stale)}." if stale else ""
    others = " The other marts of this build are up to date." if is_partial else ""
    remedy = "Fix the model or the rows and build again."
    if any(OUT_OF_MEMORY in fault for fault in faults):
        remedy = MORE_MEMORY
    elif any(UNANSWERED in node.message for node in run.nodes):
        remedy = "Check that the cluster's driver runs, and build again."
    return BuildFailed(
        f"The build failed.{kept}{others}" + "".join(f"{os.linesep}  {fault}" for fault in faults),
        remedy=remedy,
        is_partial=is_partial,
    )


def _faults(run: DbtRun) -> list[str]:
    failed = [node for node in run.nodes if node.status == "error"]
    unanswered = [node.name for node in failed if UNANSWERED in node.message]
    faults = [f"{n.name}: {n.message}{_causes(n)}" for n in failed if n.name not in unanswered]
    if unanswered:
        more = f" and {len(unanswered) - 1} more" if len(unanswered) > 1 else ""
        faults.append(f"{unanswered[0]}{more}: the cluster no longer answered.")
    faults += [f"{t.name}: the test could not run." for t in run.tests if t.status == "error"]
    for test in run.tests:
        if test.status == "fail":
            rows = "".join(f"{os.linesep}    {row_as_text(row)}" for row in test.rows)
            faults.append(f"{test.name} on {test.model}: {test.failures} bad rows, first:{rows}")
    return faults


def _causes(node: NodeResult) -> str:
    """Return lines about the records that may be why a model failed, and the command to see one."""
    if not node.suspects:
        tables = ", ".join(f"raw.{table}" for table in node.reads)
        return f"{os.linesep}    It reads {tables}." if tables else ""
    lines = ["Records whose values may be the cause:", *(f"  {one}" for one in node.suspects)]
    where = node.suspects[0].partition(": ")[0]
    lines.append(f'`fleetlake query "from {where}"` shows the first.')
    return "".join(f"{os.linesep}    {line}" for line in lines)


def row_as_text(row: Mapping[str, Any]) -> str:
    """Return a bad row as `name=value` pairs."""
    return ", ".join(f"{name}={value}" for name, value in row.items())


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
