"""dbt as a child process: one invocation, its events read as they come, its results after.

A process of its own keeps dbt's global state, its threads and its memory out of ours, and a
Ctrl-C ends it without ending us first.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetlake.errors import BuildFailed

_QUIET = {
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}
_PATIENCE_SECONDS = 10
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

    unique_id: str
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

    @property
    def is_good(self) -> bool:
        """True when every model was built and no test failed."""
        return {*(n.status for n in self.nodes), *(t.status for t in self.tests)} <= _GOOD


def project_folder() -> Path:
    """Return the dbt project: inside the installed package, or beside `src` in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "sql", package.parent.parent / "sql"):
        if (folder / "dbt_project.yml").is_file():
            return folder
    raise BuildFailed(
        "The dbt project is missing from this installation.", remedy="Install fleetlake again."
    )


def call_dbt(
    arguments: list[str],
    *,
    work: Path,
    environment: Mapping[str, str],
    on_progress: OnProgress = lambda _: None,
) -> list[str]:
    """Run one dbt command over the project and return the errors it spoke of.

    Everything that it writes lies below `work`. Raises: BuildFailed if it ended badly without
    a word on models or tests.
    """
    said: list[str] = []
    with _child(_command(arguments, work), environment) as child:
        for event in _events(child):
            _tell(event, said, on_progress)
    # dbt's codes: 0 all good, 1 some model or test failed, 2 it could not do its work.
    if child.returncode not in {0, 1}:
        raise _could_not("do its work", said, work)
    return said


def run_dbt(
    arguments: list[str], *, work: Path, environment: Mapping[str, str], on_progress: OnProgress
) -> Run:
    """Run a dbt command that builds or tests, and return what each model and test did.

    Raises: BuildFailed if dbt could not start its work; failed models and tests are results.
    """
    results = work / "target" / "run_results.json"
    results.unlink(missing_ok=True)
    said = call_dbt(arguments, work=work, environment=environment, on_progress=on_progress)
    if not results.is_file():
        raise _could_not("read the project", said, work)
    return _read_results(results, work / "target" / "manifest.json")


def _could_not(what: str, said: list[str], work: Path) -> BuildFailed:
    return BuildFailed(
        f"dbt could not {what}: {' '.join(said[-5:]) or 'it said nothing.'}",
        remedy=f"Its log is {work / 'logs' / 'dbt.log'}.",
    )


def _command(arguments: list[str], work: Path) -> list[str]:
    """Return the command line; flags about output go before the subcommand's own."""
    project = str(project_folder())
    return [
        *(sys.executable, "-m", "fleetlake.marts.child"),
        *("--log-format", "json", "--log-level", "info", "--log-level-file", "info"),
        *("--no-use-colors", "--log-path", str(work / "logs")),
        *arguments,
        *("--project-dir", project, "--profiles-dir", project),
        *("--target-path", str(work / "target")),
    ]


@contextmanager
def _child(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a child in a session of its own, so that we alone decide when it is interrupted."""
    child = subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
        command,
        env={**os.environ, **_QUIET, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield child
        child.wait()
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


def _events(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield dbt's log events; a line that is no event is passed on as its message."""
    for line in child.stdout or ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            yield {"info": {"level": "error", "msg": line.strip()}, "data": {}}


def _tell(event: dict[str, Any], said: list[str], on_progress: OnProgress) -> None:
    """Report a finished step, and remember what went wrong."""
    info, data = event["info"], event["data"]
    if info["level"] == "error":
        said.append(info["msg"].strip())
    if info.get("name") in {"LogModelResult", "LogTestResult", "LogSeedResult"}:
        node = data["node_info"]
        on_progress(
            Progress(
                name=node["node_name"],
                kind=node["resource_type"],
                status=str(data["status"]).split(" ")[0].lower(),
                index=data["index"],
                total=data.get("total", data.get("num_models", 0)),
                seconds=data["execution_time"],
            )
        )


def _read_results(results: Path, manifest: Path) -> Run:
    """Return what dbt's own result files say."""
    described = json.loads(manifest.read_bytes())
    nodes, rules = described["nodes"], described["unit_tests"]
    outcome = json.loads(results.read_bytes())["results"]
    known = [(r, nodes[r["unique_id"]]) for r in outcome if r["unique_id"] in nodes]
    return Run(
        nodes=tuple(_node(r, n) for r, n in known if n["resource_type"] in {"model", "seed"}),
        tests=tuple(_test(r, n, nodes) for r, n in known if n["resource_type"] == "test"),
        rules=tuple(
            RuleResult(
                name=rules[r["unique_id"]]["name"],
                status=str(r["status"]),
                message=(r["message"] or "").strip(),
            )
            for r in outcome
            if r["unique_id"] in rules
        ),
    )


def _node(result: dict[str, Any], node: dict[str, Any]) -> NodeResult:
    config = node["config"]
    return NodeResult(
        unique_id=node["unique_id"],
        name=node["name"],
        schema=node["schema"],
        kind=config["materialized"],
        status=str(result["status"]),
        seconds=result["execution_time"],
        message=(result["message"] or "").strip(),
        sql=result.get("compiled_code") or "",
        unit=tuple(config["meta"].get("unit", ())),
    )


def _test(
    result: dict[str, Any], node: dict[str, Any], nodes: dict[str, dict[str, Any]]
) -> TestResult:
    parents = node["depends_on"]["nodes"]
    about = node.get("attached_node") or (parents[0] if parents else "")
    return TestResult(
        name=node["name"],
        model=nodes[about]["name"] if about in nodes else about.rsplit(".", 1)[-1],
        status=str(result["status"]),
        failures=result["failures"] or 0,
        seconds=result["execution_time"],
        sql=result.get("compiled_code") or "",
    )
