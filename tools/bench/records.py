"""The records that are served: the simulator's own, written once to a file."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from urllib.request import urlopen

from tools.bench.cases import CASES

ROUTERS = 18_000
"""A fleet with as many records of every resource as the largest case needs."""
FLEET = {"days": "60", "now": "2026-06-15T12:00:00Z", "speed": "0"}


@contextmanager
def ready(*command: str) -> Iterator[str]:
    """Run a server that says `ready URL`; yield the address."""
    with subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("ready ").strip()
        finally:
            process.kill()


def write_records(resource: str, count: int, path: Path) -> None:
    """Read records from the simulator's truth.

    Raises: SystemExit if the simulated fleet has fewer of them.
    """
    largest = max(case.records for case in CASES if case.resource == resource)
    fleet = FLEET | {"routers": str(50 + ROUTERS * count // largest)}
    options = [part for name, value in fleet.items() for part in (f"--{name}", value)]
    with (
        ready("fleetsim", "--port", "0", *options) as url,
        urlopen(f"{url}/sim/truth/{resource}") as lines,
        path.open("wb") as file,
    ):
        written = sum(1 for line in islice(lines, count) if file.write(line))
    if written < count:
        raise SystemExit(f"The simulated fleet has fewer than {count:,} {resource}.")
