"""A dbt process is kept for the next command, and replaced where it could give wrong results."""

import os
import sys

import pytest

from fleetlake.errors import BuildFailed
from fleetlake.marts import dbt_process
from fleetlake.marts.dbt_process import MOST_COMMANDS, MOST_MEMORY_BYTES, DbtProcess
from fleetlake.marts.session import SNAPSHOT_VARIABLE, TIME_VARIABLE

PROGRAM = """
import json, os, sys
for line in sys.stdin:
    command = json.loads(line)
    if command["words"] == ["die"]:
        os.kill(os.getpid(), 9)
    known = ("FLEETLAKE_BUILD_SNAPSHOT", "FLEETLAKE_BUILD_TIME")
    sent = [command["environment"].get(name) for name in known]
    print(json.dumps({"line": "unknown", "name": [os.getpid(), sent]}))
    end = {"is_run": command["words"] != ["fail"], "is_good": True, "memory_bytes": MEMORY}
    print(json.dumps({"line": "end", **end}), flush=True)
"""
"""Answers like dbt's process, and names itself and the snapshot and time that it was sent."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    put_program(monkeypatch, memory=MOST_MEMORY_BYTES)


def put_program(monkeypatch, *, memory):
    code = PROGRAM.replace("MEMORY", str(memory))
    program = [sys.executable, "-I", "-S", "-c", code]
    monkeypatch.setattr(dbt_process, "_program", lambda _: program)


@pytest.fixture
def kept():
    with DbtProcess() as process:
        yield process


def ask(process, folder, *, snapshot=1, words=("build",), **environment):
    """Return the process that ran a command, and the snapshot and time that it was sent."""
    environment |= {SNAPSHOT_VARIABLE: str(snapshot), TIME_VARIABLE: f"at {snapshot}"}
    [answer] = process.run([*words], work=folder, environment=environment).unknown
    return answer


def test_one_process_runs_every_command_and_gets_the_snapshot_and_time_of_each(kept, tmp_path):
    (first, one), (second, two) = (ask(kept, tmp_path, snapshot=s) for s in (7, 8))

    assert first == second != os.getpid()
    assert (one, two) == (["7", "at 7"], ["8", "at 8"])


def change_project(monkeypatch, _process):
    monkeypatch.setattr(dbt_process, "project_digest", lambda _, **__: "another")


def kill(_monkeypatch, process):
    process._child.kill()  # noqa: SLF001 - as the system does that has no memory left
    process._child.wait()  # noqa: SLF001


CHANGES = {
    "another project": (change_project, {}),
    "another environment": (lambda *_: None, {"FLEETLAKE_LAKE": "other"}),
    "it was killed": (kill, {}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_process_that_does_not_fit_the_next_command_is_replaced(
    kept, tmp_path, monkeypatch, change
):
    before, _ = ask(kept, tmp_path)
    happen, environment = CHANGES[change]
    happen(monkeypatch, kept)

    after, _ = ask(kept, tmp_path, **environment)

    assert after != before


def test_a_process_is_replaced_after_many_commands(kept, tmp_path):
    before, _ = ask(kept, tmp_path)
    kept._commands = MOST_COMMANDS - 1  # noqa: SLF001 - instead of running them all

    last, _ = ask(kept, tmp_path)
    after, _ = ask(kept, tmp_path)

    assert last == before != after


def test_a_process_that_holds_too_much_memory_is_replaced(kept, tmp_path, monkeypatch):
    put_program(monkeypatch, memory=MOST_MEMORY_BYTES + 1)

    before, after = (ask(kept, tmp_path)[0] for _ in range(2))

    assert before != after


@pytest.mark.parametrize("words", ["fail", "die"])
def test_a_command_that_dbt_could_not_run_fails_and_the_next_one_runs(kept, tmp_path, words):
    before, _ = ask(kept, tmp_path)

    with pytest.raises(BuildFailed, match=r"dbt (failed|was ended by SIGKILL)"):
        ask(kept, tmp_path, words=[words])

    assert ask(kept, tmp_path)[0] != before


def test_no_process_is_left_when_it_is_closed(tmp_path):
    with DbtProcess() as process:
        number, _ = ask(process, tmp_path)

    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
