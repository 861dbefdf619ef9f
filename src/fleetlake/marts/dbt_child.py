"""dbt in a child process: runs one command and reports on it in JSON lines.

The member `line` is the type of a line; the others are the fields of the class in
`fleetlake.marts.dbt`. The types are: `unknown` for a selected name that matches nothing, `step`
for a finished step, `error`, a result for each model (`node`), data test (`test`) and unit test
(`unit_test`), and finally `end`. Standard output holds nothing else; what dbt, its models or
Python print goes to standard error.

The process exits when its parent has ended. Otherwise a killed build would leave its child
running, and two dbt processes would write one scratch file. Nobody writes to the standard input:
it is a pipe that closes when the parent ends.
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
from typing import Any

from dbt.artifacts.schemas.run import RunExecutionResult
from dbt.cli.main import dbtRunner
from dbt_common.events.base_types import EventMsg

gc.freeze()
gc.set_threshold(100_000, 50, 100)
gc.enable()

_STEPS = frozenset({"LogModelResult", "LogTestResult", "LogSeedResult"})
_DONE, _FAILED, _COULD_NOT = 0, 1, 2
_LINES = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")


def main() -> int:
    """Run the dbt command of the command line; return dbt's own exit code."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    outcome = dbtRunner(callbacks=[_on_event]).invoke(sys.argv[1:])
    if outcome.exception is not None:
        _emit("error", text=str(outcome.exception))
        return _COULD_NOT
    if isinstance(outcome.result, RunExecutionResult):
        for result in outcome.result.results:
            _emit_result(result)
    if outcome.result is not None:  # None after `--help`
        _emit("end")
    return _DONE if outcome.success else _FAILED


def _end_with_parent() -> None:
    """Wait until standard input closes, then exit at once."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


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


def _emit_result(result: Any) -> None:
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
        )
    elif kind == "unit_test":
        _emit("unit_test", **outcome, message=(result.message or "").strip())


if __name__ == "__main__":
    sys.exit(main())
