"""Draw what loads cost week after week: `year_plot.py FIGURES.json`.

Writes a PNG beside the figures. Runs in the bench's own environment.
"""

import json
import sys
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

GREY, OWN = "#808890", "#2f81f7"
PANELS = {
    "cpu_ratio": "CPU time of a load, of a fixed query's",
    "files": "files",
    "catalog_mb": "catalog in MB",
    "lake_mb": "Parquet files in MB",
    "memory_mb": "memory in MB",
    "descriptors": "open descriptors",
}


def plot(weeks: list[dict[str, Any]], path: Path) -> None:
    """Write the picture: a panel for each quantity, its median by week."""
    plt.switch_backend("agg")
    plt.rcParams.update({f"{part}.color": GREY for part in ("text", "xtick", "ytick")})
    plt.rcParams.update({"axes.edgecolor": GREY, "axes.labelcolor": GREY, "font.size": 9})
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    picture, places = plt.subplots(2, 3, figsize=(9.6, 4.4), layout="constrained", sharex=True)
    for axes, (name, title) in zip(places.flat, PANELS.items(), strict=True):
        axes.plot(range(1, len(weeks) + 1), [week[name] for week in weeks], "o-", color=OWN, ms=3)
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9.5, loc="left")
    picture.supxlabel("week", fontsize=9)
    picture.savefig(path, dpi=100, transparent=True)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    plot(json.loads(source.read_text()), source.with_suffix(".png"))
