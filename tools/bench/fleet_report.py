"""How the figures of `make bench-fleet` are shown: the cost of each command, and how it grows."""

import math
from collections.abc import Iterator

from fleetlake.settings.schema import Settings
from tools.bench.figures import ABSENT, Figures, Report, Result, Section
from tools.bench.measure import Measure

CALLS_PER_MINUTE = Settings.model_fields["calls_per_minute"].default
COLUMNS = ("", "run", "calls", "minutes", "CPU s", "busiest", "peak MB", "CPU ms / router")


def cells(section: Section, result: Result) -> list[str]:
    """Return the cells of a command; minutes are those of its calls at the default limit.

    No wall time: it depends on what else the machine does. The CPU time of the busiest worker shows
    how evenly several workers divide a command.
    """
    last = result.measures[-1]
    routers = int(section.name.split()[0])
    return [
        result.name,
        result.run,
        f"{last.calls:,}" if last.calls else ABSENT,
        f"{last.calls / CALLS_PER_MINUTE:,.1f}" if last.calls else ABSENT,
        f"{last.cpu_seconds:,.1f}",
        f"{last.busiest_cpu_seconds or last.cpu_seconds:,.1f}",
        f"{last.peak_mb:,.0f}",
        f"{last.cpu_seconds * 1000 / routers:.2f}",
    ]


def exponent(smaller: float, larger: float, growth: float) -> float:
    """Return how a cost grows with the fleet: 1 is linear, 0 constant, 2 quadratic.

    >>> exponent(2.0, 32.0, 4.0)
    2.0
    """
    return math.log(larger / smaller) / math.log(growth)


def growth(figures: Figures) -> Iterator[tuple[str, str, str, float, float]]:
    """Yield for each command its two largest fleets, and the exponents of its CPU and memory.

    Only fleets that one worker reads into a folder are compared.
    """
    found: dict[tuple[str, str], dict[int, Measure]] = {}
    for section in figures.sections:
        if section.name.endswith(" 1 folder"):
            for result in section.results:
                of_sizes = found.setdefault((result.name, result.run), {})
                of_sizes[int(section.name.split()[0])] = result.measures[-1]
    for (name, run), of_sizes in found.items():
        if len(of_sizes) > 1:
            (small, before), (large, after) = sorted(of_sizes.items())[-2:]
            cpu = exponent(before.cpu_seconds, after.cpu_seconds, large / small)
            sizes = f"{small:,} to {large:,}"
            yield name, run, sizes, cpu, exponent(before.peak_mb, after.peak_mb, large / small)


FLEET_REPORT = Report(COLUMNS, cells)


def growth_table(figures: Figures) -> str:
    """Return the exponents as a table."""
    lines = ["|  | run | routers | CPU | peak memory |", "|:--|:--|--:|--:|--:|"]
    lines += [f"| {n} | {r} | {s} | {cpu:.2f} | {mb:.2f} |" for n, r, s, cpu, mb in growth(figures)]
    return "\n".join(lines)
