"""dbt in a child process: runs the commands it is sent, and reports on them in JSON lines.

Each line of standard input is a command: its words, dbt's `flags` that stand before them, the
`places` of project and profile that stand after them, and the variables of the `environment` that
differ from one command to the next. Importing dbt and parsing the project take most of the time of
a small build, so the process keeps the parsed project for the next command and ends when the pipe
closes. Its parent starts another one if the project has changed. In `record`, a command may have
the `file` in which to record what it does, and the `digest` of the project.

The member `line` is the type of a line of output; the others are the fields of the class in
`fleetlake.marts.dbt`. The types are: `unknown` for a selected name that matches nothing, `step`
for a finished step, `error`, a result for each model (`node`), data test (`test`) and unit test
(`unit_test`), and finally `end`. Standard output holds nothing else; what dbt, its models or
Python print goes to standard error.

The pipe also closes when the parent is killed, and then the process exits at once, in the middle
of a command too. Otherwise two dbt processes could write one scratch file.
"""

# dbt creates hundreds of thousands of objects that live until it exits. Python's default garbage
# collection scans them so often, above all during imports, that it takes a sixth of the run time.
# ruff: noqa: E402 - the collector is turned off before the imports
import gc

gc.disable()

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import wraps
from graphlib import TopologicalSorter
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.adapters.duckdb.environments.local import DuckDBCursorWrapper
from dbt.artifacts.schemas.run import RunExecutionResult
from dbt.cli.main import dbtRunner, dbtRunnerResult
from dbt.contracts.graph.manifest import Manifest
from dbt_common.events.base_types import BaseEvent, EventLevel, EventMsg
from dbt_common.events.event_manager import EventManager
from dbt_common.events.event_manager_client import ctx_set_event_manager

from fleetlake.marts.recorded import Statements, Step, write_steps
from fleetlake.marts.spark_session import connect_spark

gc.freeze()
gc.set_threshold(100_000, 50, 100)
gc.enable()

_TABLES = frozenset({"table", "incremental"})
_NO_TABLES = frozenset({"view", "ephemeral", "seed"})
_FAILED = frozenset({"fail", "error"})
_MODELS = ("model.", "seed.")
_STEPS = frozenset({"LogModelResult", "LogTestResult", "LogSeedResult"})
_STATM = Path("/proc/self/statm")
_LINES = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")


class _Events(EventManager):
    """dbt's events without those for a debug log: writing them takes a tenth of an hour's build."""

    def fire_event(
        self, e: BaseEvent, level: EventLevel | None = None, *rest: Any, **named: Any
    ) -> None:
        if (level or e.level_tag()) is not EventLevel.DEBUG:
            super().fire_event(e, level, *rest, **named)


def main() -> None:
    """Run one command after the other until standard input closes."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    ctx_set_event_manager(_Events())
    connect_spark()
    commands: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=[commands], daemon=True).start()
    project: Manifest | None = None
    while True:
        command = json.loads(commands.get())
        os.environ.update(command["environment"])
        flags, places = command["flags"], command["places"]
        project = project or parse(flags, places)
        if project is not None:
            _run([*flags, *command["words"], *places], project, **command["record"])


def _receive(commands: SimpleQueue[bytes]) -> None:
    """Queue each line of standard input; exit at once when it closes."""
    with open(sys.stdin.fileno(), "rb", buffering=0) as lines:  # noqa: PTH123 - a descriptor
        for line in lines:
            commands.put(line)
    os._exit(0)


def parse(flags: list[str], places: list[str]) -> Manifest | None:
    """Return the parsed project; None after a report of why it cannot be parsed."""
    words = [*flags, "--no-write-json", "parse", *places]
    outcome = dbtRunner(callbacks=[_on_event]).invoke(words)
    if isinstance(outcome.result, Manifest):
        return outcome.result
    _emit_end(outcome)
    return None


def _run(words: list[str], project: Manifest, file: str = "", digest: str = "") -> None:
    """Run a command, and report on it; with a `file`, record what it does."""
    sent = _listen() if file else Statements()
    outcome = dbtRunner(project, callbacks=[_on_event]).invoke(words)
    _close_scratch_file()
    if isinstance(outcome.result, RunExecutionResult):
        for result in outcome.result.results:
            _emit_result(result, project)
        if file and outcome.success:
            write_steps(Path(file), digest, _steps(project, sent, outcome.result))
    _emit_end(outcome)


def _listen() -> Statements:
    """Return what will have the statements that dbt sends to DuckDB from now on."""
    sent = Statements()
    cursor: Any = DuckDBCursorWrapper  # whose method is replaced
    execute = getattr(cursor.execute, "__wrapped__", cursor.execute)

    @wraps(execute)
    def listening(self: Any, sql: str, bindings: Any = None) -> Any:
        sent.add(sql)
        return execute(self, sql, bindings)

    cursor.execute = listening
    return sent


def _steps(project: Any, sent: Statements, run: RunExecutionResult) -> Iterator[Step]:
    """Yield the tables' models and the data tests, in an order to run them in.

    A data test follows the last model that it reads.
    """
    ran = {result.node.unique_id: result.node for result in run.results}
    _reached([], project, "parent_map")  # makes the map
    sorted_nodes = TopologicalSorter(project.parent_map).static_order()
    order = {name: place for place, name in enumerate(sorted_nodes)}
    nodes = {}
    for name, node in project.nodes.items():
        if str(node.resource_type) == "test":
            place = max((order[parent] for parent in node.depends_on.nodes), default=0)
            nodes[place, 1, name] = ran.get(name, node)
        elif str(node.config.materialized) not in _NO_TABLES:
            nodes[order[name], 0, name] = node
    for (_, is_test, name), node in sorted(nodes.items(), key=itemgetter(0)):
        found = _reached([name], project, "parent_map") & project.sources.keys()
        sources = (project.sources[source] for source in found)
        kind = "test" if is_test else node.config.materialized
        yield Step(
            node=name,
            name=node.name,
            kind=kind,
            sources=tuple(sorted(f"{one.source_name}.{one.name}" for one in sources)),
            statements=sent.of(name, kind) if _is_repeatable(node) else (),
            is_repeatable=_is_repeatable(node),
            schema=node.schema,
            unit=tuple(node.config.meta.get("unit", ())),
            model=_model_of(node) if is_test else "",
            sql=(getattr(node, "compiled_code", None) or "") if is_test else "",
            fails_build=not is_test or node.config.severity.lower() == "error",
        )


def _is_repeatable(node: Any) -> bool:
    """Return whether a later build may send the same statements for a model or data test.

    Some settings have dbt look at the tables first, or write elsewhere.
    """
    config = node.config
    if str(node.resource_type) == "test":
        return not config.store_failures
    return (
        config.materialized in _TABLES
        and getattr(config, "on_schema_change", None) in {None, "ignore", "fail"}
        and getattr(config, "incremental_strategy", None) != "microbatch"
    )


def _close_scratch_file() -> None:
    """Close the scratch file: the parent reads it next, and other builds write it."""
    connections: Any = DuckDBConnectionManager  # which has no types
    with suppress(Exception):  # no model was reached, so it was not opened
        connections.env().close()
    connections.close_all_connections()


def _emit_end(outcome: dbtRunnerResult) -> None:
    if outcome.exception is not None:
        _emit("error", text=str(outcome.exception))
    _emit(
        "end",
        # Without a result: dbt could not run the command, or `--help` was asked for.
        is_run=outcome.exception is None and outcome.result is not None,
        is_good=outcome.success,
        memory_bytes=_memory_bytes(),
    )


def _memory_bytes() -> int:
    """Return the memory of this process; 0 where the system does not list it."""
    if not _STATM.exists():
        return 0
    return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _emit(line: str, **members: object) -> None:
    _LINES.write(json.dumps({"line": line, **members}) + "\n")
    _LINES.flush()


def _on_event(event: EventMsg) -> None:
    info: Any = event.info
    data: Any = event.data
    if info.level == "error":
        _emit("error", text=info.msg.strip())
    if info.name == "NoNodesForSelectionCriteria":
        _emit("unknown", name=data.spec_raw)
    if info.name in _STEPS:
        is_test = info.name == "LogTestResult"
        _emit(
            "step",
            name=data.node_info.node_name,
            kind=data.node_info.resource_type,
            status=data.status.split(" ")[0].lower(),
            index=data.index,
            total=data.num_models if is_test else data.total,
            seconds=data.execution_time,
        )


def _emit_result(result: Any, project: Manifest) -> None:
    """Report the result of a model, a seed or a test; hooks and exposures are left out."""
    node = result.node
    kind = str(node.resource_type)
    outcome = {"name": node.name, "status": str(result.status)}
    if kind in {"model", "seed"}:
        _emit(
            "node",
            **outcome,
            schema=node.schema,
            kind=node.config.materialized,
            seconds=result.execution_time,
            message=(result.message or "").strip(),
            sql=getattr(node, "compiled_code", None) or "",
            unit=node.config.meta.get("unit", ()),
            reads=_tables_of(node, project) if result.status in _FAILED else (),
        )
    elif kind == "test":
        _emit(
            "test",
            **outcome,
            model=_model_of(node),
            failures=result.failures or 0,
            seconds=result.execution_time,
            sql=node.compiled_code or "",
            spoils=_spoiled(node, project) if result.status in _FAILED else (),
        )
    elif kind == "unit_test":
        _emit("unit_test", **outcome, message=(result.message or "").strip())


def _model_of(test: Any) -> str:
    """Return the name of the model that a data test is about."""
    about = getattr(test, "attached_node", None) or next(iter(test.depends_on.nodes), "")
    return str(about.rsplit(".", 1)[-1])


def _spoiled(test: Any, project: Manifest) -> list[str]:
    """Return the names of the models that a test is about, and of all that depend on them."""
    about = getattr(test, "attached_node", None)
    found = _reached([about] if about else [*test.depends_on.nodes], project, "child_map")
    return sorted(project.nodes[name].name for name in found if name.startswith(_MODELS))


def _tables_of(model: Any, project: Manifest) -> list[str]:
    """Return the names of the raw tables that a model depends on."""
    found = _reached([model.unique_id], project, "parent_map")
    sources = (project.sources[name] for name in found if name in project.sources)
    return sorted(source.identifier for source in sources if source.schema == "raw")


def _reached(first: list[str], project: Manifest, direction: str) -> set[str]:
    """Return these nodes and sources, and all that a map leads to from them."""
    maps: Any = project  # whose method has no types
    if maps.child_map is None:
        maps.build_parent_and_child_maps()
    waiting, found = first, set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found and (name in project.nodes or name in project.sources):
            found.add(name)
            waiting += getattr(maps, direction).get(name, ())
    return found


if __name__ == "__main__":
    main()
