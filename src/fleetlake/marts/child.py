"""dbt in a process of its own: it runs one command and tells of it in lines of JSON.

Each line says in `line` what it is, and the rest are the members of that class of
`fleetlake.marts.dbt`: an `unknown` name that was selected, a `step` that has ended, an `error`,
a result for each model (`node`), data test (`test`) and unit test (`rule`), and last an `end`.
They alone go to standard output; what dbt, its models or Python print goes to standard error.

The process ends when the one that started it has ended: a build that is killed cannot end its
child, and two dbt processes would then write one scratch file. Standard input is a pipe that
nobody writes to, and it ends with its other end.
"""

# dbt makes objects by the hundred thousand that live as long as it does. To look through them
# for garbage as often as Python does, while it is imported above all, takes a sixth of its seconds.
# ruff: noqa: E402 - for that reason
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
        _tell("error", text=str(outcome.exception))
        return _COULD_NOT
    if isinstance(outcome.result, RunExecutionResult):
        for result in outcome.result.results:
            _tell_result(result)
    if outcome.result is not None:  # as it is after `--help`
        _tell("end")
    return _DONE if outcome.success else _FAILED


def _end_with_parent() -> None:
    """Wait for the end of standard input, and end at once."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def _tell(line: str, **members: object) -> None:
    _LINES.write(json.dumps({"line": line, **members}) + "\n")
    _LINES.flush()


def _on_event(event: EventMsg) -> None:
    info: Any = event.info
    data: Any = event.data
    if info.level == "error":
        _tell("error", text=info.msg.strip())
    if info.name == "NoNodesForSelectionCriteria":
        _tell("unknown", name=data.spec_raw)
    if info.name in _STEPS:
        is_test = info.name == "LogTestResult"
        _tell(
            "step",
            name=data.node_info.node_name,
            kind=data.node_info.resource_type,
            status=data.status.split(" ")[0].lower(),
            index=data.index,
            total=data.num_models if is_test else data.total,
            seconds=data.execution_time,
        )


def _tell_result(result: Any) -> None:
    """Tell what became of a model, a seed or a test; the hooks and exposures are nobody's."""
    node = result.node
    kind = str(node.resource_type)
    outcome = {"name": node.name, "status": str(result.status)}
    if kind in {"model", "seed"}:
        _tell(
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
        _tell(
            "test",
            **outcome,
            model=about.rsplit(".", 1)[-1],
            failures=result.failures or 0,
            seconds=result.execution_time,
            sql=node.compiled_code or "",
        )
    elif kind == "unit_test":
        _tell("rule", **outcome, message=(result.message or "").strip())


if __name__ == "__main__":
    sys.exit(main())
