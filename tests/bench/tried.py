"""`make bench-tried`: variants of a first load, each with one change, and the load as it is.

python -m tests.bench.tried VARIANT ENDPOINT     loads with one variant, in a separate process
python -m tests.bench.tried                      measures all variants
"""

import argparse
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetlake.startup import prepare_start
from tests.bench.cases import CASES, Case, chosen, to_load
from tests.bench.figures import FIRST, LAKE_REPORT, Figures, Section
from tests.bench.measure import measure
from tests.bench.records import ready, write_records

HERE = Path(__file__).parent
RECORDS, ROUNDS = 250_000, 5
ALERT_BYTES = 255
"""About the memory of an alert in a batch."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A changed environment, or a replacement for an attribute of a module or a class."""

    environment: Mapping[str, str] = field(default_factory=dict)
    owner: str = "fleetlake.loading.ingest"
    name: str = "ingest"
    instead: Callable[[Any], Any] = lambda own: own

    def put(self) -> None:
        """Apply the change in this process."""
        os.environ.update(self.environment)
        prepare_start()  # as the command does, before imports
        owner = pkgutil.resolve_name(self.owner)
        setattr(owner, self.name, self.instead(getattr(owner, self.name)))


VARIANTS = {
    "as it is": Variant(),
    "rows through Arrow's scanner": Variant(
        owner="fleetlake.lake.connection:Lake",
        name="stream",
        instead=lambda _: pkgutil.resolve_name("fleetlake.lake.connection:Lake.view"),
    ),
    "commits of 25,000 rows": Variant(
        owner="fleetlake.loading.writer",
        name="BYTES_PER_COMMIT",
        instead=lambda _: 25_000 * ALERT_BYTES,
    ),
    "a DuckDB thread per core": Variant(
        name="open_lake", instead=lambda own: lambda path, **_: own(path)
    ),
    "algebra threads": Variant(environment={"OPENBLAS_NUM_THREADS": str(os.cpu_count())}),
}


def load(name: str, endpoint: str) -> None:
    """Load an endpoint with the variant, through the command."""
    VARIANTS[name].put()
    sys.argv = ["fleetlake", "ingest", endpoint]
    importlib.import_module("fleetlake.cli").main()


def bench(case: Case, rounds: int, records: Path) -> Section:
    """Measure each variant, round by round."""
    section = Section(name="tried", title=case.title)
    options = (str(records), case.resource, str(case.records), str(case.latency_ms))
    with ready("tests.bench.page_server", *options) as url:
        for number in range(rounds):
            for name in VARIANTS:
                with tempfile.TemporaryDirectory() as folder:
                    words = [sys.executable, "-m", "tests.bench.tried", name, case.resource]
                    taken, _ = measure(words, to_load(case, url, Path(folder)))
                section.result(name, FIRST).measures.append(taken)
                sys.stderr.write(f"  round {number + 1}: {name}, {taken.cpu_seconds:.2f} s CPU\n")
    return section


def main() -> None:
    """Measure, print the table, and keep the figures."""
    parser = argparse.ArgumentParser(prog="make bench-tried", description=__doc__)
    parser.add_argument("variant", nargs="?", choices=list(VARIANTS))
    parser.add_argument("endpoint", nargs="?", default="alerts")
    parser.add_argument("--records", type=int, help=f"instead of {RECORDS:,}")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if options.variant:
        load(options.variant, options.endpoint)
        return
    [case], _ = chosen([CASES[0].name], options.records or RECORDS)
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records"
        write_records(case.resource, case.records, records)
        figures.sections.append(bench(case, options.rounds, records))
    LAKE_REPORT.show(figures)
    figures.write(Path("data/bench/tried.json") if options.records else HERE / "tried.json")
    if not options.records:
        subprocess.check_call([sys.executable, "-m", "tests.bench.page"])


if __name__ == "__main__":
    main()
