"""The README and plot beside this file, rendered from the recorded figures."""

import json
import subprocess
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tools.bench import profiled
from tools.bench.cases import DLT_PYTHON
from tools.bench.figures import LAKE_REPORT, PEER_REPORT, Report, read
from tools.bench.fleet_report import FLEET_REPORT, growth_table
from tools.bench.hour import HOUR_REPORT
from tools.bench.ratios import panels, peers_of, ratio_table
from tools.blocks import filled

HERE = Path(__file__).parent
PAGE = HERE / "README.md"


def tables(path: Path, report: Report) -> str:
    """Return the tables of the figures in a file."""
    return report.markdown(read(path))


def ratios(path: Path) -> str:
    """Return the table of ratios of the figures in a file."""
    return ratio_table(read(path))


def profile(path: Path) -> str:
    """Return the tables of the profiles in a file."""
    return profiled.table(profiled.read(path))


def growth(path: Path) -> str:
    """Return the table of how the costs in a file grow."""
    return growth_table(read(path))


BLOCKS = {
    "bench-ratios": partial(ratios, HERE / "figures.json"),
    "bench": partial(tables, HERE / "figures.json", PEER_REPORT),
    "bench-hour": partial(tables, HERE / "hour.json", HOUR_REPORT),
    "bench-lake": partial(tables, HERE / "lake.json", LAKE_REPORT),
    "bench-fleet": partial(tables, HERE / "fleet.json", FLEET_REPORT),
    "bench-fleet-growth": partial(growth, HERE / "fleet.json"),
    "bench-profile": partial(profile, HERE / "profile.json"),
}


def as_measured(page: str) -> str:
    """Return the page with every table rendered from the current figures."""
    present = {name: block for name, block in BLOCKS.items() if block.args[0].exists()}
    return filled(page, present)


def draw(path: Path) -> None:
    """Draw the ratios of the figures in a file as a PNG beside it, in the bench's environment."""
    figures = read(path)
    drawn = json.dumps(
        {"peers": peers_of(figures), "panels": [asdict(panel) for panel in panels(figures)]}
    )
    words = [DLT_PYTHON, HERE / "plot.py", path.with_suffix(".png")]
    subprocess.run(words, input=drawn, text=True, check=True)


if __name__ == "__main__":
    draw(HERE / "figures.json")
    PAGE.write_text(as_measured(PAGE.read_text()))
