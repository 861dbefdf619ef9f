"""Draw the figures of a first load: `plot.py FIGURES.json` writes a PNG beside them.

Runs in the bench's own environment. The colours are legible on white and on black.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

GREY, OTHER, OWN, MARK = "#808890", "#9aa5b1", "#2f81f7", "#d9822b"


def draw(axes: Any, section: dict[str, Any]) -> None:
    """Draw a bar of CPU seconds for each peer, and a mark at its wall-clock seconds."""
    results = [r for r in section["results"] if r["run"] == "first load"][::-1]
    names = [result["name"] for result in results]
    cpu, wall = (
        [statistics.median(m[quantity] for m in result["measures"]) for result in results]
        for quantity in ("cpu_seconds", "wall_seconds")
    )
    axes.barh(names, cpu, color=[OWN if n == "fleetlake" else OTHER for n in names], height=0.6)
    axes.plot(wall, names, "d", color=MARK, markersize=5, label="wall seconds")
    for place, (seconds, end) in enumerate(zip(cpu, map(max, cpu, wall), strict=True)):
        axes.annotate(
            f"{seconds:.1f}", (end, place), (7, 0), textcoords="offset points", va="center"
        )
    axes.set_title(section["title"], fontsize=9.5, loc="left")
    axes.margins(x=0.16)


def plot(figures: dict[str, Any], path: Path) -> None:
    """Write the picture."""
    plt.switch_backend("agg")
    plt.rcParams.update({f"{part}.color": GREY for part in ("text", "xtick", "ytick")})
    plt.rcParams.update({"axes.edgecolor": GREY, "axes.labelcolor": GREY, "font.size": 9})
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    sections = figures["sections"]
    picture, places = plt.subplots(
        1, len(sections), figsize=(3.9 * len(sections), 2.6), layout="constrained", squeeze=False
    )
    for number, (axes, section) in enumerate(zip(places[0], sections, strict=True)):
        draw(axes, section)
        axes.set_xlabel("CPU seconds of a first load (bar), wall seconds (mark)")
        if number:
            axes.tick_params(labelleft=False)
    picture.savefig(path, dpi=100, transparent=True)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    plot(json.loads(source.read_text()), source.with_suffix(".png"))
