"""dbt in a child process: runs the commands it is sent, and reports on them in JSON lines.

Each line of standard input is a command: its words, dbt's `flags` that stand before them, the
`places` of project and profile that stand after them, and the variables of the `environment` that
differ from one command to the next. Importing dbt and parsing the project take most of the time of
a small build, so the process keeps the parsed project for the next command and ends when the pipe
closes. Its parent starts another one if the project has changed. The `digest` of a command is that
of the project, and `cache` the file of what dbt made of it, for later processes.

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
import marshal
import os
import pickle
import sys
import threading
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import fields
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from types import CodeType
from typing import Any

from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.artifacts.schemas.run import RunExecutionResult
from dbt.cli.main import dbtRunner, dbtRunnerResult
from dbt.contracts.graph.manifest import Manifest
from dbt_common.clients.jinja import MacroFuzzEnvironment
from dbt_common.events.base_types import BaseEvent, EventLevel, EventMsg
from dbt_common.events.event_manager import EventManager
from dbt_common.events.event_manager_client import ctx_set_event_manager

from fleetlake.machine.atomic_files import write_atomically
from fleetlake.machine.ownership import excess_rights, open_own

gc.freeze()
gc.set_threshold(100_000, 50, 100)
gc.enable()

_FAILED = frozenset({"fail", "error"})
_MODELS = ("model.", "seed.")
_STEPS = frozenset({"LogModelResult", "LogTestResult", "LogSeedResult"})
_STATM = Path("/proc/self/statm")
_WRITE_OF_OTHERS = 0o022
_MOST_CACHES = 5  # each is of one lake
_LINES = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")


class _Events(EventManager):
    """dbt's events without those for a debug log: writing them takes a tenth of an hour's build."""

    def fire_event(
        self, e: BaseEvent, level: EventLevel | None = None, *rest: Any, **named: Any
    ) -> None:
        if (level or e.level_tag()) is not EventLevel.DEBUG:
            super().fire_event(e, level, *rest, **named)


class _Cache:
    """What dbt makes of a project, for the next process: to make it takes half of an hour's build.

    That is the parsed project, and the code of each template (macro, model or test), by the class
    of its environment and its text. `made_of` is the project's digest, and what tells two versions
    and places of one project apart. Python runs what the file says, so it lies in the user's state
    folder, never in a lake, which may come from others; only this user's own file is read.
    """

    def __init__(self, file: Path, *made_of: str) -> None:
        self.file, self.is_changed = file, False
        versions = map(version, ("dbt-core", "dbt-common", "dbt-duckdb", "jinja2"))
        self.made_of = [*made_of, sys.version, *versions]
        self.fields = b""
        self.codes: dict[tuple[str, str], CodeType] = {}
        with suppress(OSError, ValueError):
            with os.fdopen(open_own(file, os.O_RDONLY), "rb") as own:
                digest, content = own.read().split(b"\n")
            if digest == _digest(content) and not excess_rights(file, _WRITE_OF_OTHERS):
                found_of, *found = marshal.loads(b64decode(content))  # noqa: S302 - our own
                if found_of == self.made_of:
                    self.fields, self.codes = found

    def project(self) -> Manifest | None:
        """Return the parsed project if the file has it."""
        return Manifest(**pickle.loads(self.fields)) if self.fields else None  # noqa: S301

    def add(self, project: Manifest) -> None:
        """Add a project that was just parsed; `Manifest` itself is pickled wrongly by dbt 1.11."""
        names = (field.name for field in fields(project) if not field.name.startswith("_"))
        self.fields = pickle.dumps({name: getattr(project, name) for name in names})
        self.is_changed = True

    def serve_code(self) -> None:
        """Let dbt take the code of templates from here."""
        templates: Any = MacroFuzzEnvironment  # whose method is overloaded
        compiled = templates.compile

        def known(environment: object, source: str) -> CodeType:
            key = (type(environment).__name__, source)
            if key not in self.codes:
                self.codes[key], self.is_changed = compiled(environment, source), True
            return self.codes[key]

        templates.compile = known

    def save(self) -> None:
        """Write the file if something is new; a full disk is reported by what needs the space."""
        if self.is_changed:
            content = b64encode(marshal.dumps((self.made_of, self.fields, self.codes)))
            with suppress(OSError):
                self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                text = b"\n".join((_digest(content), content)).decode()
                write_atomically(self.file, text, mode=0o600)
                for old in sorted(self.file.parent.iterdir(), key=_age)[_MOST_CACHES:]:
                    old.unlink()
            self.is_changed = False


def _digest(content: bytes) -> bytes:
    return sha256(content).hexdigest().encode()


def _age(file: Path) -> float:
    return -file.stat().st_mtime


def main() -> None:
    """Run one command after the other until standard input closes."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    ctx_set_event_manager(_Events())
    commands: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=[commands], daemon=True).start()
    project: Manifest | None = None
    cache: _Cache | None = None
    while True:
        command = json.loads(commands.get())
        os.environ.update(command["environment"])
        flags, places = command["flags"], command["places"]
        if cache is None:
            cache = _Cache(Path(command["cache"]), command["digest"], *places)
        if project is None and (project := parse(flags, places, cache)):
            cache.serve_code()  # of what commands need, not of the thousands of descriptions
        if project is not None:
            _run([*flags, *command["words"], *places], project, cache)


def _receive(commands: SimpleQueue[bytes]) -> None:
    """Queue each line of standard input; exit at once when it closes."""
    with open(sys.stdin.fileno(), "rb", buffering=0) as lines:  # noqa: PTH123 - a descriptor
        for line in lines:
            commands.put(line)
    os._exit(0)


def parse(flags: list[str], places: list[str], cache: _Cache) -> Manifest | None:
    """Return the parsed project; None after a report of why it cannot be parsed."""
    if project := cache.project():
        return project
    words = [*flags, "--no-write-json", "parse", *places]
    outcome = dbtRunner(callbacks=[_on_event]).invoke(words)
    if isinstance(outcome.result, Manifest):
        cache.add(outcome.result)
        return outcome.result
    _emit_end(outcome)
    return None


def _run(words: list[str], project: Manifest, cache: _Cache) -> None:
    outcome = dbtRunner(project, callbacks=[_on_event]).invoke(words)
    _close_scratch_file()
    cache.save()
    if isinstance(outcome.result, RunExecutionResult):
        for result in outcome.result.results:
            _emit_result(result, project)
    _emit_end(outcome)


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
        about = getattr(node, "attached_node", None) or next(iter(node.depends_on.nodes), "")
        _emit(
            "test",
            **outcome,
            model=about.rsplit(".", 1)[-1],
            failures=result.failures or 0,
            seconds=result.execution_time,
            sql=node.compiled_code or "",
            spoils=_spoiled(node, project) if result.status in _FAILED else (),
        )
    elif kind == "unit_test":
        _emit("unit_test", **outcome, message=(result.message or "").strip())


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
