"""`make bench-hour`: what the schedule's commands cost in each hour after the first load.

A simulated fleet of each size is loaded, built and published once. Then its clock moves by an hour
in each round, and `ingest`, `build` and `publish` run as the hourly schedule runs them, and once
more with nothing new. Calls are those that the service counted. With BEFORE, the checkout of an
earlier version, on which `make setup` has run, the same is done by both versions in turn, each
with a service and a lake of its own.

Beside them is what a user would build instead: dlt's REST source loads twelve of the lists into
DuckDB (`peers/dlt_hour.py`), and dbt builds five marts from them (`peers/dbt`).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tools.bench.cases import DLT_PYTHON
from tools.bench.figures import ABSENT, Figures, Report, Result, Section, ratio
from tools.bench.fleet import START, Fleet, environment_of
from tools.bench.measure import measure
from tools.bench.records import ready

HERE = Path(__file__).parent
FOLDER = "BENCH_FOLDER"
SIZES = (100, 300, 1_000)
PHASES = ("ingest", "build", "publish", "status")
COLUMNS = ("", "run", "CPU s", "least to most", "wall s", "peak MB", "calls", "/ before")
NEW, EARLIER, INSTEAD = "this version", "before", "dlt, dbt"
DBT = HERE / "peers/dbt"


@dataclass(frozen=True)
class Version:
    """A version of fleetlake, or what is used instead: its name in the table, and its Python."""

    name: str
    python: str

    def command(self, phase: str, fleet: Fleet) -> list[str] | None:
        """Return the command line of a phase; None if there is no such command."""
        if self.name != INSTEAD:
            return [self.python, "-m", "fleetlake", phase]
        folder = fleet.environment[FOLDER]
        dbt = [str(Path(sys.executable).with_name("dbt")), "build", "--quiet"]
        dbt += ["--project-dir", str(DBT), "--profiles-dir", str(DBT)]
        return {
            "ingest": [self.python, "-m", "tools.bench.peers.dlt_hour", fleet.url, folder],
            "build": [*dbt, "--target-path", f"{folder}/target", "--log-path", f"{folder}/logs"],
        }.get(phase)


def cells(section: Section, result: Result) -> list[str]:
    """Return the cells of a command: medians, but the highest memory."""
    cpu = [m.cpu_seconds for m in result.measures]
    calls = round(result.median("calls"))
    command = result.name.partition(" ")[0]
    earlier = section.cpu(f"{command} ({EARLIER})", result.run)
    return [
        result.name,
        result.run,
        f"{result.median('cpu_seconds'):.2f}",
        f"{min(cpu):.2f} to {max(cpu):.2f}" if len(cpu) > 1 else ABSENT,
        f"{result.median('wall_seconds'):.2f}",
        f"{max(m.peak_mb for m in result.measures):,.0f}",
        f"{calls:,}" if calls else ABSENT,
        ratio(result.median("cpu_seconds"), earlier),
    ]


HOUR_REPORT = Report(COLUMNS, cells)


def totals(section: Section) -> Iterator[str]:
    """Yield a sentence for each version and run: all commands together, but for `status`."""
    for version in (NEW, EARLIER, INSTEAD):
        for run in ("an hour later", "nothing new"):
            cpu = [section.cpu(f"{phase} ({version})", run) for phase in PHASES[:3]]
            if cpu[0]:
                yield f"{section.title}, {version}, {run}: {sum(filter(None, cpu)):.1f} CPU s"


def bench(routers: int, versions: Sequence[Version], rounds: int) -> Section:
    """Let a fleet of a size live for some hours, and measure what each of them costs."""
    section = Section(name=f"{routers} hour", title=f"{routers:,} routers")
    options = ["--port", "0", "--routers", str(routers), "--days", "2", "--speed", "0"]
    options += ["--now", START.isoformat()]
    with ExitStack() as stack:
        fleets = []
        for version in versions:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = stack.enter_context(ready("fleetsim", *options))
            env = environment_of(url, folder) | {FOLDER: str(folder)}
            fleets.append((version, Fleet(url, routers, 1, env, section)))
        for phase in PHASES[:3]:
            for version, fleet in fleets:
                _run(version, fleet, phase, "first")
        for _ in range(rounds):
            for _, fleet in fleets:
                fleet.advance()
            for run in ("an hour later", "nothing new"):
                for phase in PHASES:
                    for version, fleet in fleets:
                        _run(version, fleet, phase, run)
            fleets.reverse()
    return section


def _run(version: Version, fleet: Fleet, command: str, run: str) -> None:
    words, before = version.command(command, fleet), fleet.calls()
    if words is None:
        return
    taken, _ = measure(words, fleet.environment)
    taken = replace(taken, calls=fleet.calls() - before)
    fleet.section.result(f"{command} ({version.name})", run).measures.append(taken)
    sys.stderr.write(
        f"  {fleet.section.title}: {command} ({version.name}), {run}: {taken.calls:,} calls, "
        f"{taken.cpu_seconds:.2f} s CPU, {taken.wall_seconds:.2f} s, {taken.peak_mb:,.0f} MB\n"
    )


def main() -> None:
    """Measure each size, print the table, and keep the figures."""
    parser = argparse.ArgumentParser(prog="make bench-hour", description=__doc__)
    parser.add_argument("--routers", type=int, nargs="+", help=f"instead of {SIZES}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    options = parser.parse_args()
    versions = [Version(NEW, sys.executable)]
    if options.before:
        versions.append(Version(EARLIER, str(options.before.absolute() / ".venv/bin/python")))
    if DLT_PYTHON.exists():
        versions.append(Version(INSTEAD, str(DLT_PYTHON)))
    for version in versions:
        if not os.access(version.python, os.X_OK):
            sys.exit(f"There is no {version.python}: run `make setup` in its checkout.")
    is_page = not options.routers
    target = HERE / "hour.json" if is_page else Path("data/bench/hour.json")
    sections = []
    for routers in options.routers or SIZES:
        sections.append(bench(routers, versions, options.rounds))
        Figures(sections=sections).write(target)
    HOUR_REPORT.show(Figures(sections=sections))
    for section in sections:
        sys.stdout.writelines(f"{line}\n" for line in totals(section))
    if is_page:
        subprocess.check_call([sys.executable, "-m", "tools.bench.page"])
    sys.stdout.write(f"Figures are in {target}.\n")


if __name__ == "__main__":
    main()
