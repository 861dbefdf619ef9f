"""dbt runs forked from one process that has imported dbt and parsed the project.

An import takes two CPU seconds, a parse three, and a small build half a second. A run is still a
separate process, started and ended by the code under test: only its command line differs.
The real command line and dbt's own cache of a parsed project are not used here; they are tested by
the tests that use `real_dbt` and by every test of the command `fleetlake build`.
"""

import importlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from fleetlake.marts import dbt_process
from fleetlake.marts.plan import SCRATCH
from fleetlake.marts.session import MEMORY_VARIABLE
from fleetlake.marts.sql_project import project_folder, ready_project
from fleetlake.settings import BUILD_MEMORY

_CLIENT = """
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"."], [0, 1, 2])
    words = {"environment": dict(os.environ), "folder": os.getcwd()}
    server.sendall(json.dumps(words).encode() + b"\\n")
    code = json.loads(server.makefile().readline())
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""Passes its environment and streams to the server, and exits like that process."""

REAL = dbt_process._program  # noqa: SLF001 - the one thing that differs
_ROOT = Path(__file__).parents[2]


class WarmDbt:
    """The server, started by the first command."""

    def __init__(self) -> None:
        self._open = ExitStack()

    def close(self) -> None:
        """End the server."""
        self._open.close()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Fork every run of dbt from the server, until the end of the block."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dbt_process, "_program", self._program)
            yield

    def _program(self, work: Path) -> list[str]:
        """Return the command line of the client, which names what the real child's names.

        A test's own project gets the real child, because it has to be parsed: in a fork, the
        threads of dbt's parser are missing, and it would wait for them for ever.
        """
        real = REAL(work)
        if ready_project(dbt_process.project_folder(), work) != project_folder():
            return real
        *_, module, seen = real
        assert module == "fleetlake.marts.dbt_child"
        return [sys.executable, "-I", "-S", "-c", _CLIENT, self._address, seen]

    @cached_property
    def _address(self) -> str:
        address = str(Path(self._open.enter_context(tempfile.TemporaryDirectory())) / "dbt")
        command = [sys.executable, "-m", "tests.marts.warm_dbt", address, str(project_folder())]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        server = self._open.enter_context(subprocess.Popen(command, cwd=_ROOT, **pipes))
        assert server.stdin is not None
        assert server.stdout is not None
        self._open.callback(server.stdin.close)
        assert server.stdout.readline() == b"ready\n"
        return address


def _parsed(project: Path, folder: Path) -> Any:
    """Return the manifest of a project.

    It contains the name of the scratch file, which all builds share.
    """
    from dbt_common.clients import jinja  # noqa: PLC0415 - tests import this module

    from fleetlake.marts.dbt_child import dbtRunner  # noqa: PLC0415 - likewise

    scratch = {"FLEETLAKE_BUILD_FILE": str(folder / SCRATCH), MEMORY_VARIABLE: BUILD_MEMORY}
    os.environ |= {**scratch, "DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    words = ["--quiet", "--log-level-file", "none", "--log-path", folder, "--no-write-json"]
    words += ["parse", "--project-dir", project, "--profiles-dir", project]
    words += ["--target-path", folder / "target"]
    outcome = dbtRunner().invoke([*map(str, words)])
    if outcome.exception is not None:
        raise outcome.exception
    importlib.import_module("dbt_common.clients.agate_helper")  # as each run does
    for macro in outcome.result.macros.values():  # each run compiles those that it needs
        jinja.template_cache.get_node_template(macro)
    return outcome.result


def _run(request: dict[str, Any], streams: list[int], manifest: Any) -> int:
    """Become the child that runs dbt commands on the server's project."""
    from fleetlake.marts import dbt_child as child  # noqa: PLC0415 - it imports dbt

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    child._LINES = os.fdopen(os.dup(1), "w", encoding="utf-8")  # noqa: SLF001
    child.parse = lambda *_: manifest
    child.main()
    return 0


def _end(run: Callable[[], int]) -> None:
    """End this process with the exit code of a run, or as Python ends after an error."""
    code = 1
    try:
        code = run()
    except BaseException:  # noqa: BLE001 - whatever it is, the server's loop is not ours
        traceback.print_exc()
    os._exit(code)


def _serve(address: str, project: str) -> None:
    """Fork a run for each client, one at a time, until standard input ends."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = _parsed(Path(project), Path(folder))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            client, _ = listener.accept()
            with client:
                _, streams, _, _ = socket.recv_fds(client, 1, 3)
                request = json.loads(client.makefile().readline())
                run = os.fork()
                if not run:
                    client.close()
                    _end(partial(_run, request, streams, manifest))
                for stream in streams:
                    os.close(stream)
                _, status = os.waitpid(run, 0)
                code = os.waitstatus_to_exitcode(status)
                with suppress(BrokenPipeError):  # if the client was killed
                    client.sendall(f"{code}\n".encode())


if __name__ == "__main__":
    _serve(*sys.argv[1:])
