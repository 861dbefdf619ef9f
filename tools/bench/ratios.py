"""The ratios that the bench's page and plot begin with: each cost relative to the script's."""

from dataclasses import dataclass, field

from tools.bench.figures import ABSENT, AGAIN, FIRST, Figures, Section

SCRIPT = "script"
IN_ORDER = (
    "fleetlake",
    SCRIPT,
    "dlt_best",
    "dlt_rest_api",
    "airbyte",
    "singer",
    "download",
)
"""The peers as they are shown, the most interesting first; others follow."""
LARGE = 10.0
"""Ratios from here on are shown without decimals."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One comparison: CPU and wall-clock time of each peer, the script's being 1."""

    title: str
    cpu: dict[str, float] = field(default_factory=dict)
    wall: dict[str, float] = field(default_factory=dict)


def panel(section: Section, run: str, title: str) -> Panel:
    """Return a section's ratios of a run; they are empty if the script was not measured."""
    results = {r.name: r for r in section.results if r.run == run}
    if SCRIPT not in results:
        return Panel(title=title)
    cpu, wall = (
        {n: r.median(quantity) / results[SCRIPT].median(quantity) for n, r in results.items()}
        for quantity in ("cpu_seconds", "wall_seconds")
    )
    return Panel(title=title, cpu=cpu, wall=wall)


def _widest(figures: Figures) -> list[Section]:
    """Return the section with the most peers, the first of several, or nothing if there is none."""
    return sorted(figures.sections, key=lambda section: -len(_names(section)))[:1]


def _names(section: Section) -> set[str]:
    return {result.name for result in section.results}


def panels(figures: Figures) -> list[Panel]:
    """Return a panel for the first load of each section, and one for a run with nothing new.

    Nothing new is of the section with the most peers: its cost does not depend on what is stored.
    """
    loads = [panel(section, FIRST, section.title) for section in figures.sections]
    again = [panel(s, AGAIN, f"nothing new, after {s.title}") for s in _widest(figures)]
    return loads + again


def peers_of(figures: Figures) -> list[str]:
    """Return the names of all measured peers, in the order in which they are shown."""
    measured = set().union(*map(_names, figures.sections))
    return [n for n in IN_ORDER if n in measured] + sorted(measured.difference(IN_ORDER))


def _memory(section: Section, name: str) -> str:
    """Return a peer's peak memory of a first load, in MB, or a dash if it was not measured."""
    found = [r for r in section.results if (r.name, r.run) == (name, FIRST)]
    return f"{max(m.peak_mb for m in found[0].measures):,.0f}" if found else ABSENT


def _text(ratio: float | None) -> str:
    """Return a ratio as text.

    >>> _text(0.4), _text(25.04), _text(None)
    ('0.40', '25', '-')
    """
    if ratio is None:
        return ABSENT
    return f"{ratio:.2f}" if ratio < LARGE else f"{ratio:.0f}"


def ratio_table(figures: Figures) -> str:
    """Return the table: a row for each panel, then the peak memory of the largest sections."""
    names = peers_of(figures)
    rows = [[f"CPU, {p.title}", *(_text(p.cpu.get(n)) for n in names)] for p in panels(figures)]
    rows += [
        [f"wall time, {p.title}", *(_text(p.wall.get(n)) for n in names)]
        for section, p in zip(figures.sections, panels(figures), strict=False)
        if section.name == "far_alerts"  # elsewhere, it follows from the CPU time
    ]
    sections = {s.name: s for s in (*figures.sections[:1], *_widest(figures))}
    rows += [
        [f"peak memory in MB, {section.title}", *(_memory(section, n) for n in names)]
        for section in sections.values()
    ]
    lines = [f"| script = 1.00 | {' | '.join(names)} |", f"|:--|{'--:|' * len(names)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])
