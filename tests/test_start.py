"""What a start costs, in counts: the modules that a command imports, the statements of a run."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import typer.main

from fleetlake.cli import app
from fleetlake.cli.command_table import HEADINGS
from fleetlake.lake.connection import Lake
from fleetlake.loading.forecast import plan_ingest
from tests.support.processes import command, environment, service
from tests.support.sim import NOW, Sim

HEAVY = {"prefect", "dbt", "duckdb", "pyarrow", "httpx", "polars", "psutil", "starlette"}
LISTED = [one for commands in HEADINGS.values() for one in commands]
COMMANDS = [*LISTED, *(nested for one in LISTED for nested in one.commands)]
NEEDLESS = {
    "rich",
    "pygments",
    "click",
    "polars",
    "stamina",
    "tenacity",
    "dbt",
    "prefect",
}
"""Packages that a run with nothing new does not import."""

MOST_STATEMENTS = 12
"""On tables of the lake, in a run of one stream with nothing new."""


def imported_by(*words: str, env: dict[str, str] | None = None) -> set[str]:
    """Return every module that a command imports, with its output in a pipe."""
    python, *rest = command(*words)
    done = subprocess.run(
        [python, "-X", "importtime", *rest], env=env, capture_output=True, text=True, check=True
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_a_command_is_imported_without_what_it_may_not_need():
    modules = sorted({one.target.partition(":")[0] for one in COMMANDS if not one.commands})
    script = f"import sys, {', '.join(modules)}; print(sorted({HEAVY} & set(sys.modules)))"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_help_imports_no_command_and_no_rich():
    modules = imported_by("--help")

    assert "fleetlake.cli.command_table" in modules
    assert not packages(modules) & {*HEAVY, *NEEDLESS, "pydantic"}
    assert not modules & {one.target.partition(":")[0] for one in COMMANDS if not one.commands}


def test_help_lists_each_command_with_the_first_paragraph_of_its_own_help():
    group = typer.main.get_command(app)
    built = [group, *(group.commands[name] for name in ("records", "prefect"))]
    own = [
        (name, command.help.split("\n\n")[0])
        for one in built
        for name, command in one.commands.items()
    ]

    assert sorted(own) == sorted((one.name, one.summary) for one in COMMANDS)


@pytest.mark.proof
def test_a_run_with_nothing_new_imports_only_what_it_uses(tmp_path: Path):
    with service(routers=5, days=1) as fleet:
        env = environment(tmp_path, fleet.url)
        subprocess.run(command("ingest", "users"), env=env, capture_output=True, check=True)

        modules = imported_by("ingest", "users", env=env)
        of_status = packages(imported_by("status", env=env))

    assert "duckdb" in of_status
    assert not of_status & {"pyarrow", "numpy", "httpx", "yaml"}
    assert {"fleetlake.loading.load", "duckdb", "httpx", "pyarrow"} <= modules
    assert "fleetlake.endpoints.endpoint_files" not in modules  # for files of a project
    assert packages(modules) & NEEDLESS == set()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that a lake runs from now on."""
    run: list[str] = []
    execute = Lake.execute

    def counted(lake: Lake, sql: str, parameters: object = None) -> object:
        run.append(sql)
        return execute(lake, sql, parameters)

    monkeypatch.setattr(Lake, "execute", counted)
    return run


def test_a_run_with_nothing_new_needs_few_statements(sim: Sim, statements: list[str]):
    sim.ingest("alerts")
    statements.clear()

    [outcome] = sim.ingest("alerts")

    assert (outcome.added, outcome.error) == (0, None)
    # Whether a file has no checksum yet depends on how fast the first run was.
    of_tables = [s for s in statements if ("meta." in s or "raw." in s) and "meta.files" not in s]
    assert 0 < len(of_tables) <= MOST_STATEMENTS, "\n".join(of_tables)
    read = [table for sql in statements for table in re.findall(r"^select.* from (meta\.\w+)", sql)]
    assert read.count("meta.watermarks") == 1
    assert "meta.promoted" not in read  # it never had a row


def test_a_plan_of_several_lists_reads_each_small_table_once(sim: Sim, statements: list[str]):
    sim.ingest("routers", "alerts", "activity_logs")
    statements.clear()

    plan_ingest(sim.settings(), ["routers", "alerts", "activity_logs"], now=NOW)

    read = Counter(table for sql in statements for table in re.findall(r" from (meta\.\w+)", sql))
    assert read == dict.fromkeys(("meta.watermarks", "meta.intervals", "meta.reads"), 1)


LIBRARIES_AT_WORK = """
import sys
from fleetlake.startup import prepare_start
prepare_start()
import httpx, pyarrow
print(pyarrow.default_memory_pool().backend_name, "rich" in sys.modules)
"""


def test_arrow_uses_the_systems_allocator_and_httpx_imports_no_command_line():
    done = subprocess.run(
        [sys.executable, "-c", LIBRARIES_AT_WORK], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["system", "False"]
