"""`make bench-lake`: scans, merges and builds of a large lake, with DuckDB's memory capped at 2 GB.

The rows are created directly in the lake: 35 days of usage and signal samples, and vehicle fixes.
Each step is a separate process. A scan that does not count every row, or a merge that does not
add exactly the new rows, ends the bench.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.bench.cases import environment
from tools.bench.figures import LAKE_REPORT, Figures, Section
from tools.bench.measure import measure

HERE = Path(__file__).parent
SIZES = (20_000_000, 100_000_000)
ROUNDS = 3
DAYS_S = 35 * 86_400


class LargeLake:
    """A lake in a folder, the steps that run on it, and their cost."""

    def __init__(self, rows: int, folder: Path) -> None:
        self.rows, self.path = rows, folder / "lake"
        self.section = Section(name=str(rows), title=f"{rows:,} rows")
        self._environment = environment(lake=str(self.path), build_memory="2GB")

    def fill(self, run: str, first_s: int, last_s: int) -> None:
        """Measure filling a span of seconds."""
        span = (str(self.path), str(self.rows), str(first_s), str(last_s))
        self._measured("fill", run, "tools.bench.lake_fill", *span)

    def step(self, name: str, run: str, step: str) -> dict[str, int]:
        """Measure a step; return its own report."""
        out = self._measured(name, run, "tools.bench.lake_steps", step, str(self.path))
        done: dict[str, int] = json.loads(out)
        return done

    def build(self, run: str) -> None:
        """Measure a build of the marts, with their data tests."""
        self._measured("build", run, "fleetlake", "build")

    def _measured(self, name: str, run: str, *words: str) -> str:
        taken, out = measure([sys.executable, "-m", *words], self._environment)
        self.section.result(name, run).measures.append(taken)
        sys.stderr.write(f"  {self.section.title}: {name}, {run}: {taken.wall_seconds:.1f} s\n")
        sys.stderr.flush()
        return out


def bench(rows: int, folder: Path, rounds: int) -> Section:
    """Fill a lake, scan it, read part of it again, build its marts, and build a new hour."""
    lake = LargeLake(rows, folder)
    lake.fill("35 days", 0, DAYS_S)
    held = 0
    for _ in range(rounds):
        held = lake.step("scan", "all usage samples", "scan")["rows"]
        lake.step("scan", "the newest day", "scan-day")
    lake.step("sample", "the newest rows", "sample")
    for _ in range(rounds):
        held += merge(lake)
    if lake.step("scan", "after the merges", "scan")["rows"] != held:
        raise SystemExit(f"A scan of {rows:,} rows missed some, or met some twice.")
    lake.build("everything")
    lake.fill("one new hour", DAYS_S, DAYS_S + 3600)
    lake.build("one new hour")
    return lake.section


def merge(lake: LargeLake) -> int:
    """Commit existing rows with new ones among them; return how many were new."""
    done = lake.step("merge", "100,000 rows, 1% new", "merge")
    if done["added"] != -(-done["rows"] // 100):
        raise SystemExit(f"A merge added {done['added']:,} rows, and a hundredth was new.")
    return done["added"]


def main() -> None:
    """Measure each size, print the table, and keep the figures.

    Results for a non-default size (`N`) go to `data/bench`.
    """
    parser = argparse.ArgumentParser(prog="make bench-lake", description=__doc__)
    parser.add_argument("--rows", type=int, help="of one lake, instead of 20 and 100 million")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    figures = Figures()
    for rows in [options.rows] if options.rows else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            figures.sections.append(bench(rows, Path(folder), options.rounds))
    LAKE_REPORT.show(figures)
    target = Path("data/bench/lake.json") if options.rows else HERE / "lake.json"
    figures.write(target)
    if not options.rows:
        subprocess.check_call([sys.executable, "-m", "tools.bench.page"])
    sys.stdout.write(f"Figures are in {target}.\n")


if __name__ == "__main__":
    main()
