"""Draw how the cost of each command grows with the fleet: `fleet_plot.py FIGURES.json`.

Writes a PNG beside the figures. Runs in the bench's own environment. Both axes are logarithmic, so
a cost that grows as fast as the fleet is as steep as the dotted line.
"""

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

GREY, SHAPES = "#808890", "osd^vPX*hD"
COLOURS = {"ingest": "#2f81f7", "build": "#d9822b", "publish": "#8957e5"}


def lines(figures: dict[str, Any], quantity: str) -> dict[str, list[tuple[int, float]]]:
    """Return for each command its costs by number of routers, one worker on a lake in a folder."""
    found: dict[str, list[tuple[int, float]]] = {}
    for section in figures["sections"]:
        routers, workers, place = section["name"].split()
        if (workers, place) != ("1", "folder"):
            continue
        for result in section["results"]:
            name = f"{result['name']}, {result['run']}"
            found.setdefault(name, []).append((int(routers), result["measures"][-1][quantity]))
    return {name: sorted(costs) for name, costs in found.items()}


def draw(axes: Any, costs: dict[str, list[tuple[int, float]]], title: str) -> None:
    """Draw a line for each command, and a dotted one that grows as fast as the fleet."""
    for (name, points), shape in zip(costs.items(), SHAPES, strict=False):
        colour = COLOURS[name.replace(",", " ").split()[0]]
        axes.plot(*zip(*points, strict=True), f"{shape}-", color=colour, label=name, markersize=4)
    sizes = [routers for points in costs.values() for routers, _ in points]
    first, last = min(sizes), max(sizes)
    most = max(cost for points in costs.values() for _, cost in points)
    axes.plot([first, last], [most * first / last, most], ":", color=GREY, label="linear")
    axes.set(xscale="log", yscale="log", xlabel="routers")
    axes.set_title(title, fontsize=9.5, loc="left")


def plot(figures: dict[str, Any], path: Path) -> None:
    """Write the picture."""
    plt.switch_backend("agg")
    plt.rcParams.update({f"{part}.color": GREY for part in ("text", "xtick", "ytick")})
    plt.rcParams.update({"axes.edgecolor": GREY, "axes.labelcolor": GREY, "font.size": 9})
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    picture, (cpu, memory) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    draw(cpu, lines(figures, "cpu_seconds"), "CPU seconds")
    draw(memory, lines(figures, "peak_mb"), "peak memory in MB")
    handles, labels = cpu.get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside right upper", frameon=False)
    picture.savefig(path, dpi=100, transparent=True)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    plot(json.loads(source.read_text()), source.with_suffix(".png"))
