"""`make bench-profile`: where a first load spends its time, sampled from outside by py-spy.

It samples every running thread a hundred times a second, and assigns each sample to the innermost
function of fleetlake and to what that function had called. The page beside this
file shows the largest shares; `data/bench/profile-*.txt` has all of them, for any viewer of
flame graphs that reads collapsed stacks.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tools.bench.cases import CASES, DLT_PYTHON, Case, chosen, to_load
from tools.bench.figures import Figures
from tools.bench.records import ready, write_records

HERE = Path(__file__).parent
LARGEST = 12
CATALOG = "fleetlake/lake/connection.py"
"""All DuckDB calls pass through here; the caller is what counts."""

FRAME = re.compile(r"(?P<function>[^;]+) \((?P<file>[^;()]+):\d+\)")


@dataclass(kw_only=True)
class Profile:
    """Shares of the samples, largest first: the function, what it called, its share."""

    title: str
    taken_at: str = field(default_factory=lambda: Figures().taken_at)
    machine: str = field(default_factory=lambda: Figures().machine)
    looks: int
    shares: list[tuple[str, str, float]]


def place_of(stack: str) -> tuple[str, str]:
    """Return the innermost function of fleetlake in a stack, and what it had called.

    >>> place_of("thread (1): Main;ask (fleetlake/client.py:9);get (httpx/_client.py:7)")
    ('ask (client.py)', 'httpx')
    >>> place_of("thread (1): Main;load (fleetlake/cli/ingest.py:9);_load (<frozen importlib>:7)")
    ('imports', '')
    >>> place_of("append (fleetlake/lake/rows.py:9);Lake.execute (fleetlake/lake/connection.py:4)")
    ('append (lake/rows.py)', 'DuckDB')
    """
    if "<frozen importlib" in stack:
        return "imports", ""
    frames = [(m["function"], m["file"]) for m in FRAME.finditer(stack)]
    own = [n for n, (_, file) in enumerate(frames) if file.startswith("fleetlake/")]
    asking = [n for n in own if frames[n][1] != CATALOG]
    if not asking:
        return "outside", frames[-1][1].split("/")[0] if frames else ""
    function, file = frames[asking[-1]]
    called = [file.split("/")[0] for _, file in frames[asking[-1] + 1 :]]
    into = "DuckDB" if own[-1] > asking[-1] else "".join(called[:1])
    return f"{function} ({file.removeprefix('fleetlake/')})", into


def shares_of(lines: Iterable[str]) -> tuple[int, list[tuple[str, str, float]]]:
    """Return the number of samples in collapsed stacks, and the share of every function."""
    looks: Counter[tuple[str, str]] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        looks[place_of(stack)] += int(count)
    total = looks.total()
    return total, [(*place, count / total) for place, count in looks.most_common()]


def record(case: Case, target: Path) -> None:
    """Write the collapsed stacks of a first load."""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records"
        write_records(case.resource, case.records, records)
        options = (str(records), case.resource, str(case.records), str(case.latency_ms))
        with ready("tools.bench.page_server", *options) as url:
            spy = [DLT_PYTHON.parent / "py-spy", "record", "--nonblocking", "--format", "raw"]
            ingest = [sys.executable, "-m", "fleetlake", "ingest", case.resource]
            words = [*spy, "--output", target, "--", *ingest]
            subprocess.check_call(
                words, env=to_load(case, url, Path(folder)), stdout=subprocess.DEVNULL
            )


def table(profiles: Sequence[Profile]) -> str:
    """Return the largest shares, formatted for the page."""
    lines = [f"Taken {profiles[0].taken_at} on {profiles[0].machine}."]
    for profile in profiles:
        lines += ["", f"**{profile.title}** ({profile.looks:,} looks)", ""]
        lines += ["| share | function | calls |", "|--:|:--|:--|"]
        lines += [f"| {s:.1%} | `{own}` | {into} |" for own, into, s in profile.shares[:LARGEST]]
    return "\n".join(lines)


def read(path: Path) -> list[Profile]:
    """Return the profiles that were written to a file."""
    return msgspec.json.decode(path.read_bytes(), type=list[Profile])


def main() -> None:
    """Profile a first load of alerts and of activity logs, and print where the time went."""
    parser = argparse.ArgumentParser(prog="make bench-profile", description=__doc__)
    parser.add_argument("--records", type=int, help="of each kind, at most")
    options = parser.parse_args()
    cases, _ = chosen([case.name for case in CASES if not case.latency_ms], options.records)
    stacks = Path("data/bench")
    stacks.mkdir(parents=True, exist_ok=True)
    profiles = []
    for case in cases:
        target = stacks / f"profile-{case.name}.txt"
        record(case, target)
        looks, shares = shares_of(target.read_text().splitlines())
        profiles.append(Profile(title=case.title, looks=looks, shares=shares))
    sys.stdout.write(f"{table(profiles)}\n")
    target = stacks / "profile.json" if options.records else HERE / "profile.json"
    target.write_bytes(msgspec.json.format(msgspec.json.encode(profiles), indent=1) + b"\n")
    if not options.records:
        subprocess.check_call([sys.executable, "-m", "tools.bench.page"])


if __name__ == "__main__":
    main()
