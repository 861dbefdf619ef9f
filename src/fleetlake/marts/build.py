"""Build the marts: one dbt run over one snapshot of the lake, then a switch.

Marts are made of the lake's rows and nothing else, the clock included. So a build leaves alone
what stands only on tables that have not changed since the last good build, and with nothing
new it does not even start dbt.

Everything dbt writes lies in `<lake>/dbt/`, which may be deleted at any time: the next build
then computes everything anew.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.errors import BuildFailed, UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import UNCHECKED
from fleetlake.lake.catalog import is_empty, require_lake
from fleetlake.lake.connection import stoppable
from fleetlake.lake.locks import commit_lock
from fleetlake.lake_address import LakeAddress, as_settings
from fleetlake.machine.child_environment import lake_access
from fleetlake.machine.file_locks import LockTaken, file_lock
from fleetlake.machine.ownership import require_own
from fleetlake.machine.umask import apply_umask
from fleetlake.marts.dbt import (
    MORE_MEMORY,
    OUT_OF_MEMORY,
    OnProgress,
    Progress,
    Run,
    TestResult,
    project_folder,
    run_dbt,
)
from fleetlake.marts.plan import SCRATCH, Plan, plan_build, record_built
from fleetlake.marts.session import (
    MEMORY_VARIABLE,
    SNAPSHOT_VARIABLE,
    attach_snapshot,
    limit_memory,
)
from fleetlake.marts.switch import Switcher
from fleetlake.settings import BUILD_MEMORY
from fleetlake.text.quoting import literal, quoted

_OTHER_BUILD_SECONDS = 600
_SHOWN_ROWS = 5
_SHOWN = {("staging", True), ("marts", False)}
"""Schema of the models that the lake gets, and whether they are views."""


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """A model of a build; a view has no rows of its own, so `rows` is None."""

    name: str
    schema: str
    kind: str
    rows: int | None
    seconds: float
    is_written: bool
    tests_passed: int
    tests_warned: int


@dataclass(frozen=True, kw_only=True)
class BuildResult:
    """What a build made of which snapshot of the lake, in seconds of wall time.

    `models` are those that were computed: none when nothing was new. `nothing_loaded` says that
    the lake never got a row, so that its marts are empty for a reason.
    """

    models: tuple[ModelResult, ...]
    tests: tuple[TestResult, ...]
    snapshot_id: int
    is_full: bool
    nothing_loaded: bool
    seconds: float

    @property
    def warnings(self) -> tuple[TestResult, ...]:
        """Return the data tests that found bad rows in what the service sent."""
        return tuple(test for test in self.tests if test.status == "warn")


def _say_nothing(_: Progress) -> None:
    """Ignore progress."""


def build_marts(
    lake_path: LakeAddress,
    *,
    select: str | None = None,
    is_full: bool = False,
    memory: str = BUILD_MEMORY,
    on_progress: OnProgress = _say_nothing,
) -> BuildResult:
    """Build the marts of a lake, or those that dbt's `select` names.

    `is_full` computes everything from the beginning, which also happens by itself when the
    project has changed. `memory` is DuckDB's, in its words. Marts in the lake change only when
    all models and tests are good.

    Raises: BuildFailed naming what failed, with its first bad rows; UsageError for a selection
    that is not in the project; LakeError without a lake.
    """
    began = time.monotonic()
    lake = lake_path.resolve()
    require_lake(lake)
    with _only_build(lake / "dbt") as work:
        snapshot, nothing_loaded = _newest_snapshot(lake)
        build = _Build(lake=lake, work=work, snapshot=snapshot, memory=memory)
        plan = plan_build(lake, work, select=select, is_full=is_full, until=snapshot)
        run, models = build.carry_out(plan, on_progress)
    return BuildResult(
        models=models,
        tests=run.tests,
        snapshot_id=snapshot,
        is_full=plan.is_full,
        nothing_loaded=nothing_loaded,
        seconds=time.monotonic() - began,
    )


def write_docs(lake_path: LakeAddress) -> Path:
    """Write the dbt docs site of a lake's marts, lineage included, as one page; return it.

    Raises: BuildFailed if the marts were never built.
    """
    lake = lake_path.resolve()
    require_lake(lake)
    with _only_build(lake / "dbt") as work:
        snapshot, _ = _newest_snapshot(lake)
        build = _Build(lake=lake, work=work, snapshot=snapshot)
        if not build.file.exists():
            raise BuildFailed("There are no marts yet.", remedy="Run `fleetlake build` first.")
        run_dbt(["docs", "generate", "--static"], work=work, environment=build.environment())
    return work / "target" / "static_index.html"


@contextmanager
def _only_build(work: Path) -> Iterator[Path]:
    """Hold the lake's build lock: two builds would share one scratch file."""
    apply_umask()
    require_own(work, "build", otherwise="set FLEETLAKE_LAKE to a folder of your own")
    work.mkdir(parents=True, exist_ok=True)
    try:
        with file_lock(work / "build.lock", seconds=_OTHER_BUILD_SECONDS):
            yield work
    except LockTaken:
        raise BuildFailed(
            "Another build of this lake is still under way.", remedy="Wait for it, or end it."
        ) from None


def _newest_snapshot(path: LakeAddress) -> tuple[int, bool]:
    """Return the lake's newest snapshot, with every raw table in it, and if nothing was loaded."""
    with open_lake(path) as lake:
        ((newest,),) = lake.rows("SELECT max(snapshot_id) FROM lake.snapshots()")
        return int(newest), is_empty(lake)


@dataclass(frozen=True, kw_only=True)
class _Build:
    """One build: the lake, dbt's folder, and the snapshot that is read."""

    lake: LakeAddress
    work: Path
    snapshot: int
    memory: str = BUILD_MEMORY

    @property
    def file(self) -> Path:
        return self.work / SCRATCH

    @property
    def spill(self) -> Path:
        return self.work / "spill"

    def environment(self) -> dict[str, str]:
        """Return what the project's profile and plugin read."""
        return {
            **lake_access(self.lake),
            "FLEETLAKE_BUILD_FILE": str(self.file),
            **as_settings(self.lake),
            SNAPSHOT_VARIABLE: str(self.snapshot),
            MEMORY_VARIABLE: self.memory,
        }

    def carry_out(self, plan: Plan, on_progress: OnProgress) -> tuple[Run, tuple[ModelResult, ...]]:
        """Run dbt as planned, switch what it made into the lake, and record that.

        Raises: BuildFailed with the first bad rows of each failed test.
        """
        if plan.options is None:
            return Run(nodes=(), tests=()), ()
        if plan.is_full:
            record_built(self.work, None)
        run = self.run(plan, on_progress)
        if run.unknown:
            raise _unknown(run.unknown)
        if not run.is_good:
            raise _failure(self.with_bad_rows(run))
        models = self.switch(run)
        record_built(self.work, plan.record)
        return run, models

    def run(self, plan: Plan, on_progress: OnProgress) -> Run:
        """Run dbt over the snapshot."""
        # Listing the schemas of what is not built takes a second, and so do dbt's files of results.
        arguments = ["build", "--cache-selected-only", "--no-write-json"]
        arguments += ["--exclude-resource-type", "unit_test"]
        arguments += plan.options or ()
        arguments += ["--full-refresh"] if plan.is_full else []
        return run_dbt(
            arguments, work=self.work, environment=self.environment(), on_progress=on_progress
        )

    def with_bad_rows(self, run: Run) -> Run:
        """Return the run with the first bad rows of each failed test."""
        with duckdb.connect(config=UNCHECKED) as connection:
            limit_memory(connection, self.memory, self.spill)
            attach_snapshot(connection, self.lake, self.snapshot)
            connection.execute(self._attached())
            tests = tuple(
                replace(test, rows=_first_rows(connection, test.sql))
                if test.status == "fail"
                else test
                for test in run.tests
            )
        return replace(run, tests=tests)

    def switch(self, run: Run) -> tuple[ModelResult, ...]:
        """Bring the lake's marts and staging views to what was built, in one transaction."""
        with open_lake(self.lake) as lake, commit_lock(self.lake):
            limit_memory(lake.connection, self.memory, self.spill)
            lake.execute(self._attached())
            try:
                with stoppable(lake.connection):
                    return _switch(lake.connection, run)
            except duckdb.Error as error:
                raise BuildFailed(
                    f"The marts are built, but the lake would not take them: {error}",
                    remedy="Run the build again; the last good marts are in place.",
                ) from error

    def _attached(self) -> str:
        return f"ATTACH {literal(self.file)} AS build (READ_ONLY)"


def _switch(connection: duckdb.DuckDBPyConnection, run: Run) -> tuple[ModelResult, ...]:
    """Write what readers of the lake are meant to see: staging views and marts."""
    switcher = Switcher(connection)
    shown = [node for node in run.nodes if (node.schema, node.kind == "view") in _SHOWN]
    written = {}
    connection.execute("BEGIN")
    for node in shown:
        put = switcher.put_view if node.kind == "view" else switcher.put_table
        written[node.name] = put(node)
    connection.execute("COMMIT")
    return tuple(
        ModelResult(
            name=node.name,
            schema=node.schema,
            kind=node.kind,
            rows=_count(connection, node.schema, node.name) if node.kind != "view" else None,
            seconds=node.seconds,
            is_written=written.get(node.name, False),
            tests_passed=sum(t.model == node.name and t.status == "pass" for t in run.tests),
            tests_warned=sum(t.model == node.name and t.status == "warn" for t in run.tests),
        )
        for node in run.nodes
    )


def _count(connection: duckdb.DuckDBPyConnection, schema: str, name: str) -> int:
    row = connection.execute(
        f"SELECT count(*) FROM build.{quoted(schema)}.{quoted(name)}"
    ).fetchone()
    return int(row[0]) if row else 0


def _first_rows(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Mapping[str, Any], ...]:
    """Return the first bad rows that a test's query finds."""
    try:
        found = connection.execute(f"SELECT * FROM ({sql}) LIMIT {_SHOWN_ROWS}")
    except duckdb.Error:
        return ()
    names = [column[0] for column in found.description or ()]
    return tuple(dict(zip(names, row, strict=True)) for row in found.fetchall())


def _unknown(names: Sequence[str]) -> UsageError:
    """Return the error that names what was selected and is not there, and what was meant."""
    names = [name.lstrip("+") for name in names]
    models = [path.stem for path in (project_folder() / "models").rglob("*.sql")]
    nearest = get_close_matches(names[0].rstrip("+"), models, n=1)
    meant = f"Did you mean {nearest[0]}? " if nearest else ""
    return UsageError(
        f"No model is called {' or '.join(map(repr, names))}, so no mart was changed.",
        remedy=f"{meant}`fleetlake build` lists the marts.",
    )


def _failure(run: Run) -> BuildFailed:
    """Return the error that names each failed model and test, with first bad rows."""
    faults = [f"{n.name}: {n.message}" for n in run.nodes if n.status == "error"]
    faults += [f"{t.name}: the test could not run." for t in run.tests if t.status == "error"]
    for test in run.tests:
        if test.status == "fail":
            rows = "".join(f"{os.linesep}    {_as_text(row)}" for row in test.rows)
            faults.append(f"{test.name} on {test.model}: {test.failures} bad rows, first:{rows}")
    is_memory = any(OUT_OF_MEMORY in fault for fault in faults)
    return BuildFailed(
        "The build failed, and the last good marts stay in place."
        + "".join(f"{os.linesep}  {fault}" for fault in faults),
        remedy=MORE_MEMORY if is_memory else "Mend the model or the rows and build again.",
    )


def _as_text(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.items())
