"""dbt as a child process: one invocation, told of in lines as it goes (`child.py` writes them).

A process of its own keeps dbt's global state, its threads and its memory out of ours, and a
Ctrl-C ends it without ending us first.
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

_QUIET = {
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}
_PATIENCE_SECONDS = 10
OUT_OF_MEMORY = "Out of Memory Error"
"""What DuckDB says when even the disk cannot help it to keep within its memory."""
MORE_MEMORY = "Set FLEETLAKE_BUILD_MEMORY to more, 4GB for example."
_GOOD = frozenset({"success", "pass", "warn", "no-op"})


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One finished step of a build: `index` of `total`, a model or a data test."""

    name: str
    kind: str
    status: str
    index: int
    total: int
    seconds: float


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class TestResult:
    """A data test of a build; `failures` counts bad rows, `rows` holds the first few."""

    name: str
    model: str
    status: str
    failures: int
    seconds: float
    sql: str = field(repr=False)
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeResult:
    """A model or seed of a build, with what the database said when it failed."""

    name: str
    schema: str
    kind: str
    status: str
    seconds: float
    message: str
    sql: str = field(repr=False)
    unit: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuleResult:
    """A unit test, with the rows that differ when it failed."""

    name: str
    status: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one dbt invocation did."""

    nodes: tuple[NodeResult, ...]
    tests: tuple[TestResult, ...]
    rules: tuple[RuleResult, ...] = ()
    unknown: tuple[str, ...] = ()
    """What was selected and is nothing in the project."""

    @property
    def is_good(self) -> bool:
        """True when every model was built and no test failed."""
        results: tuple[NodeResult | TestResult | RuleResult, ...]
        results = (*self.nodes, *self.tests, *self.rules)
        return {result.status for result in results} <= _GOOD


def project_folder() -> Path:
    """Return the dbt project: inside the installed package, or beside `src` in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "sql", package.parent.parent / "sql"):
        if (folder / "dbt_project.yml").is_file():
            return folder
    raise BuildFailed(
        "The dbt project is missing from this installation.", remedy="Install fleetlake again."
    )


def run_dbt(
    arguments: list[str],
    *,
    work: Path,
    environment: Mapping[str, str],
    on_progress: OnProgress = lambda _: None,
) -> Run:
    """Run one dbt command over the project; return what each model and test did, if any.

    `environment` is all that it gets of ours: no key of the service, nothing of Prefect's.
    Everything that it writes lies below `work`. Failed models and tests are results. Raises:
    BuildFailed if it ended badly without a word on models or tests.
    """
    said: list[str] = []
    results: dict[str, list[dict[str, Any]]] = {
        kind: [] for kind in ("node", "test", "rule", "unknown", "end")
    }
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as aside,
        _child(_command(arguments, work), environment, aside) as child,
    ):
        for line in _lines(child):
            what = line.pop("line")
            if what == "error":
                said.append(line["text"])
            elif what == "step":
                on_progress(Progress(**line))
            else:
                results[what].append(line)
        child.wait()
        aside.seek(0)
        printed = aside.read().splitlines()
    run = Run(
        nodes=tuple(NodeResult(**{**n, "unit": tuple(n["unit"])}) for n in results["node"]),
        tests=tuple(TestResult(**test) for test in results["test"]),
        rules=tuple(RuleResult(**rule) for rule in results["rule"]),
        unknown=tuple(line["name"] for line in results["unknown"]),
    )
    if not results["end"] or (child.returncode and run.is_good):
        raise _could_not(child.returncode, said or printed, work)
    return run


def _could_not(code: int, said: list[str], work: Path) -> BuildFailed:
    """Return the error of a dbt that did not get as far as results, by what it said last."""
    if any(OUT_OF_MEMORY in text for text in said):
        return BuildFailed("dbt ran out of the memory that a build may use.", remedy=MORE_MEMORY)
    ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else "could not do its work"
    # It tells some errors twice, once in more words.
    last = [text for text in said[-5:] if not any(text in other != text for other in said)]
    where = f"Its log is {work / 'logs' / 'dbt.log'}."
    if code == -signal.SIGKILL:
        where = (
            "A machine does that which runs out of memory: set FLEETLAKE_BUILD_MEMORY to less, or"
            f" end something else. {where}"
        )
    return BuildFailed(f"dbt {ended}: {' '.join(last) or 'it said nothing.'}", remedy=where)


def _command(arguments: list[str], work: Path) -> list[str]:
    """Return the command line; flags about output go before the subcommand's own."""
    project = str(project_folder())
    return [
        *(sys.executable, "-m", "fleetlake.marts.child"),
        *("--log-level", "none", "--log-level-file", "info", "--log-path", str(work / "logs")),
        *("--no-use-colors", "--no-use-colors-file"),
        *arguments,
        *("--project-dir", project, "--profiles-dir", project),
        *("--target-path", str(work / "target")),
    ]


@contextmanager
def _child(
    command: list[str], environment: Mapping[str, str], aside: IO[str]
) -> Iterator[subprocess.Popen[str]]:
    """Run a child in a session of its own, so that we alone decide when it is interrupted.

    What it prints beside its lines goes to a file.
    """
    child = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
        command,
        env={**plain_environment(), **_QUIET, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=aside,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        yield child
    finally:
        _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    """End a child that still runs, kindly first."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe:
            pipe.close()


def _lines(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what the child tells, until it has ended; one that was killed may cut a line."""
    for line in child.stdout or ():
        if line.endswith("\n"):
            yield json.loads(line)
