"""dbt as a child process: one invocation, reported in JSON lines that `dbt_child.py` writes.

A separate process keeps dbt's global state, threads and memory out of this one, and lets Ctrl-C
stop dbt first.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fleetlake.errors import BuildFailed
from fleetlake.machine.child_environment import plain_environment
from fleetlake.marts.sql_project import project_folder, ready_project

_QUIET = {
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}
_STOP_SECONDS = 10
OUT_OF_MEMORY = "Out of Memory Error"
"""DuckDB's error when it exceeds its memory limit even though it spills to disk."""
MORE_MEMORY = "Set FLEETLAKE_BUILD_MEMORY to a higher value, e.g. 4GB."
_GOOD = frozenset({"success", "pass", "warn", "no-op"})


@dataclass(frozen=True, kw_only=True)
class BuildStep:
    """One finished step of a build: `index` of `total`, a model or a data test."""

    name: str
    kind: str
    status: str
    index: int
    total: int
    seconds: float


OnProgress = Callable[[BuildStep], None]


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """The result of a data test; `failures` counts bad rows, `rows` holds the first few."""

    name: str
    model: str
    status: str
    failures: int
    seconds: float
    sql: str = field(repr=False)
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeResult:
    """The result of a model or seed; `message` is the database's error if it failed."""

    name: str
    schema: str
    kind: str
    status: str
    seconds: float
    message: str
    sql: str = field(repr=False)
    unit: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class UnitTestResult:
    """The result of a unit test; `message` shows the rows that differ if it failed."""

    name: str
    status: str
    message: str


@dataclass(frozen=True, kw_only=True)
class DbtRun:
    """The results of one dbt invocation."""

    nodes: tuple[NodeResult, ...]
    tests: tuple[TestResult, ...]
    unit_tests: tuple[UnitTestResult, ...] = ()
    unknown: tuple[str, ...] = ()
    """Names in the selection that match nothing in the project."""

    @property
    def is_good(self) -> bool:
        """True if every model was built and no test failed."""
        results: tuple[NodeResult | TestResult | UnitTestResult, ...]
        results = (*self.nodes, *self.tests, *self.unit_tests)
        return {result.status for result in results} <= _GOOD


def run_dbt(
    arguments: list[str],
    *,
    work: Path,
    environment: Mapping[str, str],
    on_progress: OnProgress = lambda _: None,
) -> DbtRun:
    """Run one dbt command over the project; return the results of its models and tests.

    dbt gets only the variables in `environment`: no keys of the service, no Prefect settings.
    It writes only below `work`. Failed models and tests are results, not exceptions. Raises:
    BuildFailed if dbt failed without results.
    """
    errors: list[str] = []
    results: dict[str, list[dict[str, Any]]] = {
        kind: [] for kind in ("node", "test", "unit_test", "unknown", "end")
    }
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stray_output,
        _child(_command(arguments, work), environment, stray_output) as child,
    ):
        for line in _messages(child):
            what = line.pop("line")
            if what == "error":
                errors.append(line["text"])
            elif what == "step":
                on_progress(BuildStep(**line))
            else:
                results[what].append(line)
        child.wait()
        stray_output.seek(0)
        printed = stray_output.read().splitlines()
    run = DbtRun(
        nodes=tuple(NodeResult(**{**n, "unit": tuple(n["unit"])}) for n in results["node"]),
        tests=tuple(TestResult(**test) for test in results["test"]),
        unit_tests=tuple(UnitTestResult(**test) for test in results["unit_test"]),
        unknown=tuple(line["name"] for line in results["unknown"]),
    )
    if not results["end"] or (child.returncode and run.is_good):
        raise _dbt_failed(child.returncode, errors or printed, work)
    return run


def _dbt_failed(code: int, errors: list[str], work: Path) -> BuildFailed:
    """Return the error of a dbt process that ended without results, with its last messages."""
    if any(OUT_OF_MEMORY in text for text in errors):
        return BuildFailed("dbt exceeded the memory limit of the build.", remedy=MORE_MEMORY)
    ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else "failed"
    # dbt reports some errors twice, once in a longer form.
    last = [text for text in errors[-5:] if not any(text in other != text for other in errors)]
    where = f"Its log is {work / 'logs' / 'dbt.log'}."
    if code == -signal.SIGKILL:
        where = (
            "The machine has probably run out of memory: lower FLEETLAKE_BUILD_MEMORY, or stop"
            f" other programs. {where}"
        )
    return BuildFailed(f"dbt {ended}: {' '.join(last) or 'it gave no message.'}", remedy=where)


def _command(arguments: list[str], work: Path) -> list[str]:
    """Return the command line; dbt wants output flags before the subcommand."""
    ours = project_folder()
    return [
        *(sys.executable, "-P", "-m", "fleetlake.marts.dbt_child"),
        *("--log-level", "none", "--log-level-file", "info", "--log-path", str(work / "logs")),
        *("--no-use-colors", "--no-use-colors-file"),
        *arguments,
        *("--project-dir", str(ready_project(ours, work)), "--profiles-dir", str(ours)),
        *("--target-path", str(work / "target")),
    ]


@contextmanager
def _child(
    command: list[str], environment: Mapping[str, str], stray_output: IO[str]
) -> Iterator[subprocess.Popen[str]]:
    """Run a child in its own session, so that a terminal's Ctrl-C does not reach it directly.

    Its standard error goes to `stray_output`.
    """
    child = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
        command,
        env={**plain_environment(), **_QUIET, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stray_output,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        yield child
    finally:
        _stop(child)


def _stop(child: subprocess.Popen[str]) -> None:
    """Stop a child that still runs: first SIGTERM, then SIGKILL."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe:
            pipe.close()


def _messages(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield the child's messages until it ends; drop a line that a kill has cut off."""
    for line in child.stdout or ():
        if line.endswith("\n"):
            yield json.loads(line)
