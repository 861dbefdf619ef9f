"""Draw each peer's cost relative to the plain script's: `plot.py FIGURES.png < ratios.json`.

Runs in the bench's own environment. The scale is logarithmic, because peers differ by two orders of
magnitude: a bar begins at the script's cost, and twice and half of it are equally long. The colours
are legible on white and on black.
"""

import json
import sys
from pathlib import Path
from textwrap import fill
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

GREY, OTHER, OWN, MARK = "#808890", "#9aa5b1", "#2f81f7", "#d9822b"
SCRIPT, COLUMNS, TITLE_WIDTH = "script", 3, 54
LARGEST_STEP = 2.6
"""The factor by which the scale is longer than the costs, so that the numbers fit."""


def draw(axes: Any, panel: dict[str, Any], names: list[str]) -> None:
    """Draw a bar of CPU time for each peer, and a mark at its wall-clock time."""
    known = [(place, name) for place, name in enumerate(names) if name in panel["cpu"]]
    for place, name in known:
        cpu, wall = panel["cpu"][name], panel["wall"][name]
        axes.barh(
            place, cpu - 1, left=1, color=OWN if name.startswith("fleetlake") else OTHER, height=0.6
        )
        axes.plot([wall], [place], "d", color=MARK, markersize=5)
        axes.annotate(
            f"{cpu:.2f}" if cpu < 10 else f"{cpu:.0f}",
            (max(cpu, wall, 1), place),
            (7, 0),
            textcoords="offset points",
            va="center",
        )
    axes.axvline(1, color=GREY, linewidth=0.8)
    axes.set_title(fill(panel["title"], TITLE_WIDTH), fontsize=9.5, loc="left")


def plot(ratios: dict[str, Any], path: Path) -> None:
    """Write the picture: a panel for each comparison, and the peers from the top."""
    panels, names = ratios["panels"], [n for n in ratios["peers"] if n != SCRIPT][::-1]
    plt.switch_backend("agg")
    plt.rcParams.update({f"{part}.color": GREY for part in ("text", "xtick", "ytick")})
    plt.rcParams.update({"axes.edgecolor": GREY, "axes.labelcolor": GREY, "font.size": 9})
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    costs = [c for panel in panels for part in ("cpu", "wall") for c in panel[part].values()]
    rows = -(-len(panels) // COLUMNS)
    picture, places = plt.subplots(
        rows,
        COLUMNS,
        figsize=(4.1 * COLUMNS, (0.28 * len(names) + 0.8) * rows),
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    places[0][0].set(
        xscale="log",
        xlim=(min(costs, default=1) / 1.3, max(costs, default=1) * LARGEST_STEP),
        yticks=range(len(names)),
        yticklabels=names,
    )
    places[0][0].xaxis.set_major_formatter("{x:g}")
    places[0][0].xaxis.set_minor_formatter(NullFormatter())
    for axes, panel in zip(places.flat, panels, strict=False):
        draw(axes, panel, names)
    for axes in places.flat[len(panels) :]:
        axes.set_visible(False)
    picture.supxlabel(
        "relative to the plain script (1): CPU time (bar, number), wall time (mark)", fontsize=9
    )
    picture.savefig(path, dpi=100, transparent=True)


if __name__ == "__main__":
    plot(json.load(sys.stdin), Path(sys.argv[1]))
