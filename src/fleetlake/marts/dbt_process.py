"""dbt as a child process, kept from one command to the next; `dbt_child.py` is what it runs.

A separate process keeps dbt's global state, threads and memory out of this one, and lets Ctrl-C
stop dbt first. To import dbt and to parse the project takes most of the time of a small build, so
a process that builds repeatedly keeps one `DbtProcess`.
"""

import hashlib
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from fleetlake.errors import BuildFailed
from fleetlake.machine.child_environment import plain_environment
from fleetlake.marts.dbt import (
    BuildStep,
    DbtRun,
    NodeResult,
    OnProgress,
    TestResult,
    UnitTestResult,
)
from fleetlake.marts.session import SNAPSHOT_VARIABLE, TIME_VARIABLE
from fleetlake.marts.sql_project import (
    profiles_folder,
    project_digest,
    project_folder,
    ready_project,
)
from fleetlake.settings import load_settings

_QUIET = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
_STOP_SECONDS = 10
MOST_COMMANDS = 100
MOST_MEMORY_BYTES = 1_000_000_000
"""A process that holds more than this after a command is replaced; a new one holds a quarter."""

OUT_OF_MEMORY = "Out of Memory Error"
"""DuckDB's error when it exceeds its memory limit even though it spills to disk."""
MORE_MEMORY = "Set FLEETLAKE_BUILD_MEMORY to a higher value, e.g. 4GB."


class DbtProcess:
    """A dbt process for one command after the other; not for several threads.

    It is replaced when the project or the environment has changed (apart from the lake's snapshot,
    which goes with each command), after a command that it could not run, after many commands, and
    when it holds too much memory. It ends with this process, even if that is killed.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._made_for: object = None
        self._commands = 0
        self._stray_output: IO[str] = tempfile.TemporaryFile(  # noqa: SIM115 - `close` closes it
            "a+", encoding="utf-8", errors="replace"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._end()
        self._stray_output.close()

    def run(
        self,
        words: list[str],
        *,
        work: Path,
        environment: Mapping[str, str],
        on_progress: OnProgress = lambda _: None,
        record_of: str = "",
        target: str = "",
    ) -> DbtRun:
        """Run one dbt command over the project; return the results of its models and tests.

        `target` is an output of `profiles.yml`, by default DuckDB in this process's child.

        With the digest of the project in `record_of`, what it does is recorded. dbt gets only the
        variables in `environment`: no keys of the service, no Prefect settings. It writes only
        below `work`. Failed models and tests are results, not exceptions. Raises: BuildFailed if
        dbt failed without results.
        """
        child = self._child_for(work, environment)
        self._stray_output.truncate(0)
        try:
            command = _command(words, work, target)
            record = {"file": str(steps_file(work)), "digest": record_of} if record_of else {}
            environment = _of_command(environment)
            _send(child, {**command, "environment": environment, "record": record})
            report = _Report.of(child, on_progress)
            self._require_run(report, work)
        except BaseException:  # Ctrl-C too: its work is no longer wanted
            self._end()
            raise
        self._commands += 1
        if self._commands >= MOST_COMMANDS or report.memory_bytes > MOST_MEMORY_BYTES:
            self._end()
        return report.run

    def _child_for(self, work: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Return the process if it can run a command in this environment, otherwise a new one."""
        fixed = dict(environment.items() - _of_command(environment).items())
        made_for = (project_digest(project_folder()), work, fixed)
        child = self._child
        if child is None or child.poll() is not None or made_for != self._made_for:
            self._end()
            child = self._child = _start(work, fixed, self._stray_output)
            self._made_for, self._commands = made_for, 0
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            _stop(child)

    def _require_run(self, report: "_Report", work: Path) -> None:
        """Require a command's results. Raises: BuildFailed with dbt's last messages."""
        if report.is_complete:
            return
        code = self._child.wait() if self._child and report.end is None else 0
        self._stray_output.seek(0)
        raise _dbt_failed(code, report.errors or self._stray_output.read().splitlines(), work)


def run_dbt(
    words: list[str],
    *,
    work: Path,
    environment: Mapping[str, str],
    on_progress: OnProgress = lambda _: None,
) -> DbtRun:
    """Run one dbt command, as `DbtProcess.run` does, in a process for it alone."""
    with DbtProcess() as dbt:
        return dbt.run(words, work=work, environment=environment, on_progress=on_progress)


@dataclass(frozen=True)
class _Report:
    """What dbt reported of one command; `end` is None if the process ended before its last line."""

    run: DbtRun
    errors: list[str]
    end: Mapping[str, Any] | None

    @classmethod
    def of(cls, child: subprocess.Popen[str], on_progress: OnProgress) -> Self:
        """Read the report of a command until its last line, or until the process ends."""
        kinds = ("node", "test", "unit_test", "unknown", "error", "end")
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        for text in child.stdout or ():
            if not text.endswith("\n"):  # a kill has cut it off
                break
            line = json.loads(text)
            kind = line.pop("line")
            if kind == "step":
                on_progress(BuildStep(**line))
            else:
                found[kind].append(line)
            if kind == "end":
                break
        run = DbtRun(
            nodes=tuple(
                NodeResult(**{**n, "unit": tuple(n["unit"]), "reads": tuple(n["reads"])})
                for n in found["node"]
            ),
            tests=tuple(TestResult(**{**t, "spoils": tuple(t["spoils"])}) for t in found["test"]),
            unit_tests=tuple(UnitTestResult(**test) for test in found["unit_test"]),
            unknown=tuple(line["name"] for line in found["unknown"]),
        )
        errors = [line["text"] for line in found["error"]]
        return cls(run, errors, found["end"][0] if found["end"] else None)

    @property
    def is_complete(self) -> bool:
        """Return whether dbt ran the command, and names what is wrong if something is."""
        if self.end is None or not self.end["is_run"]:
            return False
        return bool(self.end["is_good"]) or not self.run.is_good

    @property
    def memory_bytes(self) -> int:
        return int(self.end["memory_bytes"]) if self.end else 0


def _of_command(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that differ from one command to the next."""
    return {
        name: environment[name]
        for name in (SNAPSHOT_VARIABLE, TIME_VARIABLE)
        if name in environment
    }


def _command(words: list[str], work: Path, target: str) -> dict[str, list[str]]:
    """Return a dbt command line in the parts that `dbt_child.py` asks for."""
    ours = project_folder()
    return {
        "flags": [
            *("--log-level", "none", "--log-level-file", "info", "--log-path", str(work / "logs")),
            *("--no-use-colors", "--no-use-colors-file"),
        ],
        "words": words,
        "places": [
            *(
                "--project-dir",
                str(ready_project(ours, work)),
                "--target-path",
                str(work / "target"),
            ),
            *("--profiles-dir", str(profiles_folder() if target else ours)),
            *(("--target", target) if target else ()),
        ],
    }


def steps_file(work: Path) -> Path:
    """Return the user's own file of what dbt did in a folder of work."""
    name = hashlib.sha256(str(work.resolve()).encode()).hexdigest()
    return load_settings().state.absolute() / "dbt" / f"{name}.json"


def _start(
    work: Path, environment: Mapping[str, str], stray_output: IO[str]
) -> subprocess.Popen[str]:
    """Start the child in its own session, so that a terminal's Ctrl-C does not reach it directly.

    Its standard error goes to `stray_output`.
    """
    return subprocess.Popen(  # noqa: S603 - our own interpreter, no shell
        _program(work),
        cwd=work,
        env={**plain_environment(), **_QUIET, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stray_output,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


def _program(work: Path) -> list[str]:
    """Return the child's command line; it names the folder, which lists of processes show."""
    return [sys.executable, "-P", "-m", "fleetlake.marts.dbt_child", str(work)]


def _send(child: subprocess.Popen[str], command: Mapping[str, Any]) -> None:
    """Send a command; if the child has ended, its report will be missing."""
    if child.stdin:
        with suppress(BrokenPipeError):
            child.stdin.write(json.dumps(command) + "\n")
            child.stdin.flush()


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
            with suppress(BrokenPipeError):  # what it did not read
                pipe.close()


def _dbt_failed(code: int, errors: list[str], work: Path) -> BuildFailed:
    """Return the error of a command without results; `code` is that of an ended process, or 0."""
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
