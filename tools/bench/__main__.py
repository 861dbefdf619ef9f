"""`make bench`: fleetlake and other ways to read the same pages, measured in one run.

Rounds are interleaved and each begins with another peer, so that a machine that is busy for a
while is busy for all; ratios are more reliable than seconds. Each measurement is a separate
process, and the bench stops if one does not end with as many rows as there are records.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import urlopen

from tools.bench.cases import Case, Peer, chosen, to_load
from tools.bench.figures import AGAIN, FIRST, PEER_REPORT, Figures, Section
from tools.bench.measure import Measure, measure
from tools.bench.page import PAGE, as_measured, draw
from tools.bench.records import ready, write_records

HERE = Path(__file__).parent
ROUNDS = 3


def served(url: str) -> dict[str, float]:
    """Return what the page server served since the last call."""
    with urlopen(f"{url}/served") as answer:
        given: dict[str, float] = json.load(answer)
    return given


def take(peer: Peer, case: Case, url: str, folder: Path) -> Measure:
    """Let a peer load the pages into the folder; return the cost.

    Raises: SystemExit if it does not store as many rows as there are records.
    """
    environment = to_load(case, url, folder)
    served(url)
    taken, out = measure(peer.command(case, url, folder), environment)
    given = served(url)
    check(peer, case, kept(peer, case, environment, out), given)
    return Measure(
        cpu_seconds=taken.cpu_seconds,
        wall_seconds=taken.wall_seconds,
        peak_mb=taken.peak_mb,
        calls=int(given["calls"]),
        server_cpu_seconds=given["cpu_seconds"],
    )


def kept(peer: Peer, case: Case, environment: dict[str, str], out: str) -> dict[str, int]:
    """Return the rows that a peer stores, or the bytes that it read, as it reports them."""
    if peer.is_ours:
        sql = f"select count(*) as rows from raw.{case.resource}"
        words = [sys.executable, "-m", "fleetlake", "query", sql, "--format", "json"]
        [row] = json.loads(subprocess.check_output(words, env=environment))
        return {"rows": row["rows"]}
    reported: dict[str, int] = json.loads(out)
    return reported


def check(peer: Peer, case: Case, reported: dict[str, int], given: dict[str, float]) -> None:
    """Compare what a peer loaded with what there is to load."""
    if "rows" in reported and reported["rows"] != case.records:
        raise SystemExit(f"{peer.name} holds {reported['rows']:,} rows of {case.records:,}.")
    if "bytes" in reported and (reported["bytes"], case.records) != (
        given["bytes"],
        given["records"],
    ):
        raise SystemExit(f"{peer.name} took {reported['bytes']:,} of {given['bytes']:,} bytes.")


def turns(peers: Sequence[Peer], rounds: int) -> Iterator[tuple[Peer, int]]:
    """Yield every peer in every round; each round begins with another one."""
    for number in range(rounds):
        first = number % len(peers)
        yield from ((peer, number) for peer in (*peers[first:], *peers[:first]))


def run(case: Case, peers: Sequence[Peer], rounds: int, records: Path) -> Section:
    """Measure every peer that takes part in the case, round by round."""
    peers = [peer for peer in peers if peer.takes_part(case)]
    section = Section(name=case.name, title=case.title)
    options = [str(records), case.resource, str(case.records), str(case.latency_ms)]
    options += ["new-members"] if case.has_new_members else []
    with ready("tools.bench.page_server", *options) as url:
        for peer, number in turns(peers, rounds):
            with tempfile.TemporaryDirectory() as folder:
                for name in (FIRST, AGAIN) if peer.keeps else (FIRST,):
                    taken = take(peer, case, url, Path(folder))
                    section.result(peer.name, name).measures.append(taken)
                    tell(f"{case.title}, round {number + 1}: {peer.name}, {name}", taken)
    return section


def tell(what: str, taken: Measure) -> None:
    """Print the progress of the bench."""
    sys.stderr.write(f"  {what}: {taken.cpu_seconds:.2f} s CPU, {taken.wall_seconds:.2f} s\n")
    sys.stderr.flush()


def bench(cases: Sequence[Case], peers: Sequence[Peer], rounds: int) -> Figures:
    """Measure every case."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        for resource in dict.fromkeys(case.resource for case in cases):
            count = max(case.records for case in cases if case.resource == resource)
            sys.stderr.write(f"  making {count:,} {resource}\n")
            write_records(resource, count, Path(folder) / resource)
        for case in cases:
            figures.sections.append(run(case, peers, rounds, Path(folder) / case.resource))
    return figures


def main() -> None:
    """Measure, print the table, and keep the figures as JSON, plot and page.

    A part of the bench (`ONLY`, `N`) is written to `data/bench`, a whole one to this folder.
    """
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", default="", help="cases and peers, by comma")
    parser.add_argument("--records", type=int, help="of each case, at most")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    cases, peers = chosen(only, options.records)
    figures = bench(cases, peers, options.rounds)
    PEER_REPORT.show(figures)
    is_whole = not only and options.records is None
    folder = HERE if is_whole else Path("data/bench")
    figures.write(folder / "figures.json")
    draw(folder / "figures.json")
    if is_whole:
        PAGE.write_text(as_measured(PAGE.read_text()))
    sys.stdout.write(f"Figures and plot are in {folder}.\n")


if __name__ == "__main__":
    main()
