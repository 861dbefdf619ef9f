"""Build the marts: one dbt run over one snapshot of the lake, then a switch.

If a model or a data test fails, its mart and those that depend on it keep their last good rows and
are marked as stale; the others change together.

Marts depend on the lake's rows only, not on the clock. A build therefore skips models whose
tables have not changed since the last good build, and does not start dbt if nothing has changed.

dbt writes only to `<lake>/dbt/`, and to the storage of a target. That folder may be deleted at any
time: the next build then recomputes everything.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from fleetlake.errors import BuildFailed
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import ONE_THREAD, UNCHECKED
from fleetlake.lake.catalog import is_empty, require_lake
from fleetlake.lake.connection import stoppable
from fleetlake.lake.ducklake import (
    FILES_ONLY,
    FILES_OR_CATALOG,
    add_statistics,
    newest_in_marts,
    newest_snapshot,
)
from fleetlake.lake.durable import flush_files
from fleetlake.lake.locks import another_build, build_lock, commit_lock
from fleetlake.lake.run_log import record_build, record_stale_marts
from fleetlake.lake_address import LakeAddress, as_settings
from fleetlake.machine.child_environment import lake_access
from fleetlake.machine.file_locks import LockTaken, file_lock
from fleetlake.machine.io_faults import io_fault
from fleetlake.marts.build_failures import build_failed, no_such_model, suspects
from fleetlake.marts.dbt import (
    BuildResult,
    BuildStep,
    DbtRun,
    ModelResult,
    NodeResult,
    OnProgress,
)
from fleetlake.marts.dbt_process import DbtProcess, run_dbt, steps_file
from fleetlake.marts.marks import drop_marts_without_model
from fleetlake.marts.on_target import (
    BuildTarget,
    TargetBuild,
    forget_storages,
    remove_rows,
    target_build,
)
from fleetlake.marts.plan import (
    SCRATCH,
    Plan,
    build_time,
    discard_scratch,
    earlier_builds,
    last_built,
    plan_build,
    record_built,
    work_folder,
)
from fleetlake.marts.recorded import read_steps, repeat
from fleetlake.marts.session import (
    MEMORY_VARIABLE,
    SNAPSHOT_VARIABLE,
    TIME_VARIABLE,
    attach_snapshot,
    limit_memory,
    set_variables,
)
from fleetlake.marts.sql_project import varies
from fleetlake.marts.switch import BUILT_AT, Switcher, replace_current_views
from fleetlake.settings import BUILD_MEMORY
from fleetlake.text.quoting import literal, quoted

_OTHER_BUILD_SECONDS = 600
_SHOWN_ROWS = 5
_SHOWN = {("staging", True), ("marts", False)}
"""The models that are copied into the lake: their schema, and whether they are views."""


_VIEWS = "config.schema:staging,config.materialized:view"


def _ignore_step(_: BuildStep) -> None:
    """Ignore progress."""


def build_marts(
    lake_path: LakeAddress,
    *,
    select: str | None = None,
    is_full: bool = False,
    is_live: bool = False,
    memory: str = BUILD_MEMORY,
    target: BuildTarget | None = None,
    on_progress: OnProgress = _ignore_step,
    dbt: DbtProcess | None = None,
) -> BuildResult:
    """Build all marts of a lake, or those that match dbt's selection syntax in `select`.

    `is_full` recomputes everything from scratch; a build after a change of the project always
    does. `is_live` computes only the live marts, and what they need, if live tables have changed;
    until everything has been built once, it builds everything. `memory` is DuckDB's memory limit,
    such as "4GB". With a `target`, another engine builds all but live marts. Who builds repeatedly
    passes a `dbt` process to keep. A mart in the lake changes only if its own model and tests, and
    those it depends on, succeed.

    Raises: BuildFailed with the names of what failed and the first bad rows, after all other marts
    have changed; UsageError for a selection that matches nothing; LakeError if there is no lake.
    """
    began = time.monotonic()
    lake = lake_path.resolve()
    require_lake(lake)
    target = None if is_live else target
    with _build_lock(lake) as folder:
        work = folder / f"on-{target.name}" if target else folder
        work.mkdir(exist_ok=True)
        with open_lake(lake) as opened:
            snapshot, nothing_loaded = newest_snapshot(opened), is_empty(opened)
            elsewhere = None
            if target:
                elsewhere = target_build(
                    target,
                    opened,
                    address=lake,
                    work=work,
                    snapshot=snapshot,
                    memory=memory,
                    is_full=is_full,
                )
            earlier = elsewhere.earlier if elsewhere else earlier_builds(work)
            plan = plan_build(
                opened,
                last_built(earlier.folder),
                select=select,
                is_full=is_full,
                is_live=is_live,
                is_new=earlier.is_new,
                until=snapshot,
            )
            built_at = elsewhere.built_at if elsewhere else build_time()
            if not elsewhere and (select or not plan.is_full):  # which goes on from times before
                built_at = build_time(earlier.latest, newest_in_marts(opened, BUILT_AT))
            build = _Build(
                lake=lake,
                work=work,
                made=earlier.folder,
                snapshot=snapshot,
                began=began,
                memory=memory,
                elsewhere=elsewhere,
                built_at=built_at,
            )
            with nullcontext(dbt) if dbt else DbtProcess() as process:
                run, models, dropped = build.execute(opened, plan, process, on_progress)
    return BuildResult(
        models=models,
        dropped=dropped,
        tests=run.tests,
        snapshot_id=snapshot,
        is_full=plan.is_full,
        nothing_loaded=nothing_loaded,
        seconds=time.monotonic() - began,
    )


def write_docs(lake_path: LakeAddress) -> Path:
    """Write the dbt docs site of a lake's marts as one page; return its path.

    Raises: BuildFailed if the marts were never built.
    """
    lake = lake_path.resolve()
    require_lake(lake)
    with _build_lock(lake) as work:
        with open_lake(lake) as opened:
            snapshot = newest_snapshot(opened)
        build = _Build(
            lake=lake,
            work=work,
            made=work,
            snapshot=snapshot,
            began=time.monotonic(),
            built_at=build_time(),
        )
        if not build.file.exists():
            raise BuildFailed("There are no marts yet.", remedy="Run `fleetlake build` first.")
        run_dbt(["docs", "generate", "--static"], work=work, environment=build.environment())
    return work / "target" / "static_index.html"


def forget_other_storages(lake_path: LakeAddress, target: BuildTarget | None) -> None:
    """Remove what builds have left in storages other than a target's. Raises: BuildFailed."""
    with _build_lock(lake_path.resolve()) as work:
        forget_storages(work, but=target)


def forget_scratch(lake_path: LakeAddress, storages: Iterable[Path] = ()) -> list[Path]:
    """Remove what builds keep, rows included, here and in storages that they share with engines.

    `storages` are emptied beside those that builds here have noted. The next build computes
    everything. Returns the storages in which nothing was found, such as one that is not mounted.
    Raises: BuildFailed if another build does not end, or something cannot be removed.
    """
    with _build_lock(lake_path.resolve()) as work:
        absent = forget_storages(work, also=storages)
        discard_scratch(work)
        for folder in (work / "spill", work / "logs", *work.glob("on-*")):
            remove_rows(folder)
    return absent


@contextmanager
def _build_lock(lake: LakeAddress) -> Iterator[Path]:
    """Hold the builds of a lake; return the folder of this machine's scratch file.

    Two builds on one machine would share that file. Two machines would overwrite each other's
    marts with those of an older snapshot.
    """
    work = work_folder(lake)
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(work / "build.lock", seconds=_OTHER_BUILD_SECONDS))
        except LockTaken:
            raise another_build(lake) from None
        held.enter_context(build_lock(lake, seconds=_OTHER_BUILD_SECONDS))
        yield work


@dataclass(frozen=True, kw_only=True)
class _Build:
    """One build: the lake, dbt's folder, the snapshot to read, and when it began (monotonic).

    A good one is recorded in the folder `made`. `built_at` is its time in rows that it computes.
    """

    lake: LakeAddress
    work: Path
    made: Path
    snapshot: int
    began: float
    built_at: datetime
    memory: str = BUILD_MEMORY
    elsewhere: TargetBuild | None = None

    @property
    def file(self) -> Path:
        return self.work / SCRATCH

    @property
    def spill(self) -> Path:
        return self.work / "spill"

    def environment(self) -> dict[str, str]:
        """Return the environment variables that the project's profile and plugin read."""
        return {
            **lake_access(self.lake),
            "FLEETLAKE_BUILD_FILE": self.file.name,  # dbt would take a whole path for a URL
            **as_settings(self.lake),
            SNAPSHOT_VARIABLE: str(self.snapshot),
            TIME_VARIABLE: f"{self.built_at}",
            MEMORY_VARIABLE: self.memory,
        }

    def execute(
        self, lake: Lake, plan: Plan, dbt: DbtProcess, on_progress: OnProgress
    ) -> tuple[DbtRun, tuple[ModelResult, ...], tuple[str, ...]]:
        """Run dbt as planned, switch its results into the open lake, and record the build.

        Returns the run, the computed models, and the names of marts that left the lake.

        Raises: BuildFailed with the first bad rows of each failed test.
        """
        if plan.options is None:
            return DbtRun(nodes=(), tests=()), (), ()
        if plan.is_full:
            record_built(self.made, None)
        run = self.repeat(plan, on_progress) or self.run(lake, plan, dbt, on_progress)
        if run.unknown:
            raise no_such_model(run.unknown)
        models, dropped = self.switch(lake, plan, run)
        run = self.with_bad_rows(run)
        if not run.is_good:
            raise build_failed(run)
        record_built(self.made, plan.record)
        return run, models, dropped

    def repeat(self, plan: Plan, on_progress: OnProgress) -> DbtRun | None:
        """Repeat what dbt did in earlier builds, if that is known of all models to build."""
        if not plan.changed or not plan.record or self.elsewhere or varies():
            return None
        steps = [*read_steps(steps_file(self.work), plan.record.project)]
        if not steps:
            return None
        with (
            duckdb.connect(self.file, config=UNCHECKED | ONE_THREAD) as connection,
            stoppable(connection),
        ):
            limit_memory(connection, self.memory, self.spill)
            attach_snapshot(connection, self.lake, self.snapshot)
            connection.execute(
                "SET preserve_insertion_order = false; SET enable_progress_bar = false"
            )
            set_variables(connection, self.snapshot, f"{self.built_at}")
            return repeat(connection, steps, plan.changed, on_progress)

    def run(self, lake: Lake, plan: Plan, dbt: DbtProcess, on_progress: OnProgress) -> DbtRun:
        """Run dbt over the snapshot."""
        # Without these options dbt spends a second listing the schemas of models that it does not
        # build, and another second writing result files.
        arguments = ["build", "--cache-selected-only", "--no-write-json"]
        arguments += ["--exclude-resource-type", "unit_test"]
        arguments += plan.options or ()
        arguments += ["--full-refresh"] if plan.is_full else []
        if self.elsewhere:
            views = self.views() if plan.is_full else ()
            run = self.elsewhere.run(lake, arguments, dbt, on_progress)
            return replace(run, nodes=(*views, *(n for n in run.nodes if n.kind != "view")))
        return dbt.run(
            arguments,
            work=self.work,
            environment=self.environment(),
            on_progress=on_progress,
            record_of=plan.record.project if plan.record and plan.changed and not varies() else "",
        )

    def views(self) -> tuple[NodeResult, ...]:
        """Build the staging views, which are DuckDB's even if another engine builds the rest."""
        words = ["build", "--select", _VIEWS, "--exclude-resource-type", "test"]
        words += ["--exclude-resource-type", "unit_test"]
        return run_dbt(words, work=self.work, environment=self.environment()).nodes

    def with_bad_rows(self, run: DbtRun) -> DbtRun:
        """Return the run with the first bad rows of failed tests, and of failed models' tables."""
        if not any(test.failures for test in run.tests) and not any(n.reads for n in run.nodes):
            return run
        with duckdb.connect(config=UNCHECKED) as connection:
            limit_memory(connection, self.memory, self.spill)
            attach_snapshot(connection, self.lake, self.snapshot)
            connection.execute(self._attached())
            tests = tuple(
                replace(test, rows=_first_rows(connection, test.sql)) if test.failures else test
                for test in run.tests
            )
            nodes = tuple(
                replace(node, suspects=(*suspects(connection, node.reads, node.message),))
                for node in run.nodes
            )
        return replace(run, tests=tests, nodes=nodes)

    def record(self, lake: Lake, plan: Plan, run: DbtRun) -> None:
        """Record the build in the lake's open transaction."""
        record_build(
            lake,
            seconds=time.monotonic() - self.began,
            is_good=run.is_good,
            is_full=plan.is_full,
            models=len(run.nodes),
            tests=Counter(test.status for test in run.tests),
        )
        marts = {node.name for node in run.nodes if node.schema == "marts"}
        record_stale_marts(lake, fresh=marts - run.stale, stale=marts & run.stale)

    def switch(
        self, lake: Lake, plan: Plan, run: DbtRun
    ) -> tuple[tuple[ModelResult, ...], tuple[str, ...]]:
        """Update the lake's marts and staging views to the build's, in one transaction."""
        # Imported here: a build that finds nothing new needs none of it.
        from fleetlake.care.integrity.checksums import add_checksums  # noqa: PLC0415
        from fleetlake.care.thinning import thin_snapshots  # noqa: PLC0415

        with commit_lock(self.lake):
            limit_memory(lake.connection, self.memory, self.spill)
            lake.execute(self._attached())
            try:
                with stoppable(lake.connection):
                    record = partial(self.record, lake, plan, run)
                    switcher = Switcher(lake.connection, self.built_at)
                    switched = _switch(lake, switcher, run, record, is_full=plan.is_full)
                add_statistics(lake)
                if plan.is_live:  # whose files are replaced within seconds
                    thin_snapshots(lake)
                else:
                    with lake.transaction():
                        add_checksums(lake)
            except duckdb.Error as error:
                if isinstance(lake.path, Path) and (fault := io_fault(error, lake.path)):
                    raise fault from error
                raise BuildFailed(
                    f"The marts are built, but could not be copied into the lake: {error}",
                    remedy="Run the build again. The lake still holds the last good marts.",
                ) from error
            lake.execute("DETACH build")
            return switched

    def _attached(self) -> str:
        return f"ATTACH {literal(self.file)} AS build (READ_ONLY)"


def _switch(
    lake: Lake, switcher: Switcher, run: DbtRun, record: Callable[[], None], *, is_full: bool
) -> tuple[tuple[ModelResult, ...], tuple[str, ...]]:
    """Copy the good models that readers of the lake use; drop marts whose model was removed.

    A removed model changes the project, so the next build is a full one. Any other build only marks
    tables that it creates, because listing the lake's tables takes 0.3 s of CPU.
    """
    connection = lake.connection
    good = [node for node in run.nodes if node.name not in run.stale]
    shown = [node for node in good if (node.schema, node.kind == "view") in _SHOWN]
    written = {}
    connection.execute("BEGIN")
    connection.execute(FILES_ONLY)
    for node in shown:
        write = switcher.replace_view if node.kind == "view" else switcher.update_table
        written[node.name] = write(node)
    connection.execute(FILES_OR_CATALOG)
    if is_full:
        replace_current_views(connection)
    is_listed = is_full or switcher.created
    dropped = drop_marts_without_model(connection) if is_listed else ()
    tables = [node for node in shown if node.kind != "view"]
    models = tuple(
        ModelResult(
            name=node.name,
            schema=node.schema,
            kind=node.kind,
            rows=_count(connection, node.name) if node in tables else None,
            seconds=node.seconds,
            is_written=written.get(node.name, False),
            tests_passed=sum(t.model == node.name and t.status == "pass" for t in run.tests),
            tests_warned=sum(t.model == node.name and t.status == "warn" for t in run.tests),
        )
        for node in good
    )
    record()
    flush_files(lake.path)
    connection.execute("COMMIT")
    return models, dropped


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM build.marts.{quoted(name)}").fetchone()
    return int(row[0]) if row else 0


def _first_rows(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Mapping[str, Any], ...]:
    """Return the first bad rows that a test's query returns."""
    try:
        found = connection.execute(f"SELECT * FROM ({sql}) LIMIT {_SHOWN_ROWS}")
    except duckdb.Error:
        return ()
    names = [column[0] for column in found.description or ()]
    return tuple(dict(zip(names, row, strict=True)) for row in found.fetchall())
