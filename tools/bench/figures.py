"""The figures of a bench: kept as JSON, shown as a table on the screen and in the README."""

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table

from tools.bench.measure import Measure

FIRST, AGAIN = "first load", "nothing new"
ABSENT = "-"
WIDEST = 24


@dataclass(kw_only=True)
class Result:
    """The cost of one measurement, round by round."""

    name: str
    run: str
    measures: list[Measure] = field(default_factory=list)

    def median(self, quantity: str) -> float:
        """Return the median of the rounds."""
        return statistics.median(getattr(m, quantity) for m in self.measures)


@dataclass(kw_only=True)
class Section:
    """The results that are compared with each other; `cpu_before` are those of the previous run."""

    name: str
    title: str
    results: list[Result] = field(default_factory=list)
    cpu_before: dict[str, float] = field(default_factory=dict)

    def result(self, name: str, run: str) -> Result:
        """Return the result of a name and run, or an empty one if there is none yet."""
        for result in self.results:
            if (result.name, result.run) == (name, run):
                return result
        self.results.append(Result(name=name, run=run))
        return self.results[-1]

    def cpu(self, name: str, run: str) -> float | None:
        """Return the median CPU seconds of a result, or None if it was not measured."""
        found = [r for r in self.results if (r.name, r.run) == (name, run)]
        return found[0].median("cpu_seconds") if found else None


def _machine() -> str:
    """Return what the figures were measured on: processor, cores, Python."""
    name = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [ln for ln in info.read_text().splitlines() if ln.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    return f"{os.cpu_count()} cores of {name}, Python {platform.python_version()}"


@dataclass(kw_only=True)
class Figures:
    """Everything that one run of a bench measured, and the machine."""

    taken_at: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
    machine: str = field(default_factory=_machine)
    sections: list[Section] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write the figures as JSON, with the medians of the figures that the file had before."""
        before = {s.name: s for s in read(path).sections} if path.exists() else {}
        for section in self.sections:
            if known := before.get(section.name):
                section.cpu_before = {
                    f"{r.name}, {r.run}": round(r.median("cpu_seconds"), 3) for r in known.results
                }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def read(path: Path) -> Figures:
    """Return the figures written by a bench."""
    return msgspec.json.decode(path.read_bytes(), type=Figures)


def ratio(part: float | None, whole: float | None) -> str:
    """Return the ratio of two costs, as text.

    >>> ratio(4.0, 0.5), ratio(4.0, None)
    ('8.0', '-')
    """
    if part is None or not whole:
        return ABSENT
    return f"{part / whole:.2f}" if part < whole else f"{part / whole:.1f}"


COLUMNS = ("", "run", "CPU s", "least to most", "before", "wall s", "peak MB")
PEER_COLUMNS = (*COLUMNS, "calls", "server s", "/ script", "fleetlake /")


def cells(section: Section, result: Result) -> list[str]:
    """Return the cells that every table has for a result: medians, but the highest memory."""
    cpu = [m.cpu_seconds for m in result.measures]
    before = section.cpu_before.get(f"{result.name}, {result.run}")
    return [
        result.name,
        result.run,
        f"{statistics.median(cpu):.2f}",
        f"{min(cpu):.2f} to {max(cpu):.2f}" if len(cpu) > 1 else ABSENT,
        ABSENT if before is None else f"{before:.2f}",
        f"{result.median('wall_seconds'):.2f}",
        f"{max(m.peak_mb for m in result.measures):,.0f}",
    ]


def peer_cells(section: Section, result: Result) -> list[str]:
    """Return the cells of a result in the table of peers; ratios are of CPU seconds."""
    cpu, own = result.median("cpu_seconds"), section.cpu("fleetlake", result.run)
    return [
        *cells(section, result),
        f"{result.measures[-1].calls:,}",
        f"{result.median('server_cpu_seconds'):.2f}",
        ratio(cpu, section.cpu("script", result.run)),
        ratio(own, cpu),
    ]


def _side(column: str) -> Literal["left", "right"]:
    """Return the alignment of a column's cells: words left, numbers right."""
    return "left" if column in {"", "run"} else "right"


@dataclass(frozen=True)
class Report:
    """How figures are shown: the columns, and the cells of a result under them."""

    columns: Sequence[str]
    cells_of: Callable[[Section, Result], list[str]]

    def show(self, figures: Figures) -> None:
        """Print a table."""
        table = Table(title=figures.machine, title_justify="left")
        for column in self.columns:
            table.add_column(column, justify=_side(column), max_width=WIDEST)
        for section in figures.sections:
            table.add_section()
            table.add_row(section.title, style="bold")
            for result in section.results:
                table.add_row(*self.cells_of(section, result))
        Console(width=140).print(table)

    def markdown(self, figures: Figures) -> str:
        """Return a table for each section."""
        lines = [f"Taken {figures.taken_at} on {figures.machine}."]
        for section in figures.sections:
            lines += ["", f"**{section.title}**", "", f"| {' | '.join(self.columns)} |"]
            lines += [f"|{'|'.join(':--' if _side(c) == 'left' else '--:' for c in self.columns)}|"]
            lines += [f"| {' | '.join(self.cells_of(section, r))} |" for r in section.results]
        return "\n".join(lines)


PEER_REPORT = Report(PEER_COLUMNS, peer_cells)
LAKE_REPORT = Report(COLUMNS, cells)
