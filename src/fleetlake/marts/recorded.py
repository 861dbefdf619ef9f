"""What dbt sent to DuckDB for each model and data test of an hour's build, to send it again.

To import dbt and to render the models takes half of such a build, only to arrive at the statements
of the hour before: what differs is in variables. So a build records its statements, and the next
ones repeat them without dbt. If one fails, or a data test fails the build, dbt builds from the same
rows instead, and reports it.

DuckDB runs what the file says, so it lies in the user's state folder, never in a lake, which may
come from others; only this user's own file is read.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import duckdb

from fleetlake.machine.atomic_files import write_atomically
from fleetlake.machine.ownership import excess_rights, open_own
from fleetlake.marts.dbt import BuildStep, DbtRun, NodeResult, OnProgress, TestResult

_COMMENT = re.compile(r'/\* \{.*?"node_id": "([^"]+)"\} \*/\s*')
_READS = re.compile(r"(select|from|describe|pragma|show)\b", re.IGNORECASE)
_TEST_QUERY = "dbt_internal_test"
_WRITE_OF_OTHERS = 0o022
_MOST_FILES = 5  # each is of one lake


@dataclass(frozen=True, kw_only=True)
class Step:
    """A table's model or a data test, and its statements; without any, no build has run it yet.

    What is not `is_repeatable` has none: dbt does more for it than to send the same statements.

    `node` is dbt's id. `sources` are the source tables that it depends on, as `schema.table`.
    `model` is that of a test, and `sql` the query of its bad rows.
    """

    node: str
    name: str
    kind: str
    sources: tuple[str, ...]
    statements: tuple[str, ...] = ()
    schema: str = ""
    unit: tuple[str, ...] = ()
    model: str = ""
    sql: str = ""
    fails_build: bool = True
    is_repeatable: bool = True

    def run(self, connection: duckdb.DuckDBPyConnection) -> NodeResult | TestResult:
        """Send the statements, in the open transaction."""
        began = time.monotonic()
        text = ";\n".join(self.statements)
        if self.kind != "test":
            connection.execute(text)
            return NodeResult(
                name=self.name,
                schema=self.schema,
                kind=self.kind,
                status="success",
                seconds=time.monotonic() - began,
                message="",
                sql="",
                unit=self.unit,
            )
        failures, warns, fails = connection.execute(text).fetchone() or (0, False, False)
        status = "warn" if warns else "pass"
        return TestResult(
            name=self.name,
            model=self.model,
            status="fail" if fails and self.fails_build else status,
            failures=failures,
            seconds=time.monotonic() - began,
            sql=self.sql,
        )


class Statements:
    """The statements that dbt sends to DuckDB, by the model or data test of their comment."""

    def __init__(self) -> None:
        self._sent: dict[str, list[str]] = {}

    def add(self, sql: str) -> None:
        """Add a statement, if it is that of a model or test."""
        if found := _COMMENT.match(sql):
            self._sent.setdefault(found[1], []).append(sql[found.end() :].strip().rstrip(";"))

    def of(self, node: str, kind: str) -> tuple[str, ...]:
        """Return what is to be repeated of a model or test: not what dbt asked of the catalog."""
        sent = self._sent.get(node, ())
        if kind == "test":
            return tuple(text for text in sent if _TEST_QUERY in text)
        return tuple(text for text in sent if not _READS.match(text))


def write_steps(file: Path, project: str, steps: Iterable[Step]) -> None:
    """Record steps of a project, whose digest is given; steps without statements keep theirs."""
    known = {step.node: step for step in read_steps(file, project) if step.is_repeatable}
    merged = [
        step if step.statements or not step.is_repeatable else known.get(step.node, step)
        for step in steps
    ]
    with suppress(OSError):  # a full disk is reported by what needs the space
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = {"project": _made_of(project), "steps": [asdict(step) for step in merged]}
        write_atomically(file, json.dumps(content), mode=0o600)
        for old in sorted(file.parent.iterdir(), key=_age)[_MOST_FILES:]:
            old.unlink()


def _made_of(project: str) -> str:
    """Return the digest of a project with the versions of what makes statements of it."""
    return " ".join([project, *map(version, ("fleetlake", "dbt-core", "dbt-duckdb", "duckdb"))])


def _age(file: Path) -> float:
    return -file.stat().st_mtime


def read_steps(file: Path, project: str) -> Iterator[Step]:
    """Yield the recorded steps of a project in their order; none if it has changed since."""
    with suppress(OSError, ValueError, LookupError, TypeError):  # as of another release
        with os.fdopen(open_own(file, os.O_RDONLY), "rb") as own:
            content = json.loads(own.read())
        if content["project"] == _made_of(project) and not excess_rights(file, _WRITE_OF_OTHERS):
            for step in content["steps"]:
                lists = {name: tuple(step[name]) for name in ("sources", "statements", "unit")}
                yield Step(**{**step, **lists})


def repeat(
    connection: duckdb.DuckDBPyConnection,
    steps: Iterable[Step],
    changed: frozenset[str],
    on_progress: OnProgress,
) -> DbtRun | None:
    """Run the steps that depend on changed source tables; None, and no change, if dbt has to.

    The connection has the scratch file open, the lake attached at the snapshot to read, and the
    build's variables set. All
    steps are one transaction: for each one, DuckLake reads the statistics of all its tables.
    """
    due = [step for step in steps if changed.intersection(step.sources)]
    if not due or not all(step.statements for step in due):
        return None
    results = list[NodeResult | TestResult]()
    try:
        connection.execute("BEGIN")
        for index, step in enumerate(due, 1):
            result = step.run(connection)
            if result.status == "fail":
                return None
            results.append(result)
            on_progress(
                BuildStep(
                    name=step.name,
                    kind="test" if step.kind == "test" else "model",
                    status=result.status,
                    index=index,
                    total=len(due),
                    seconds=result.seconds,
                )
            )
        connection.execute("COMMIT")
    except duckdb.Error:  # the transaction ends with the connection
        return None
    return DbtRun(
        nodes=tuple(one for one in results if isinstance(one, NodeResult)),
        tests=tuple(one for one in results if isinstance(one, TestResult)),
    )
