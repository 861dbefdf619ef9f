"""`make bench-moved`: calls for the routers that moved, compared with one call for every router.

A series of fixes can only be requested router by router. The clock is moved twice, and the fixes
are ingested again: by an hour, in which every vehicle has new fixes, and by a span in which a fifth
of the fleet has some. Other routers are requested too if their newest fix is so recent that a late
one may precede it. The service counts the calls and lists the routers that moved;
the lake must have every fix once. Exits with 1 if it does not.
"""

# ruff: noqa: T201 - it is run for what it prints

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleetlake.endpoints import ENDPOINTS
from tests.processes import Service, environment, fleetlake, query, service

SERIES = ENDPOINTS["historical_locations"]
BULK = "locations"
START = datetime(2026, 6, 15, 3, tzinfo=UTC)
SETTLE = timedelta(seconds=60)
STEPS = timedelta(hours=1), timedelta(minutes=8)
PATIENCE_S = 3600
Fix = tuple[str, str]


@dataclass(frozen=True)
class Step:
    """What an ingest did after the clock moved: routers, and calls as the service counts them."""

    step: timedelta
    routers: int
    moved: int
    list_calls: int
    series_calls: int

    def __str__(self) -> str:
        made = self.list_calls + self.series_calls
        return (
            f"after {self.step.total_seconds() / 60:.0f} minutes {self.moved:,} of {self.routers:,}"
            f" routers ({self.moved / self.routers:.0%}) have new fixes: {made:,} calls"
            f" ({self.list_calls:,} to learn which, {self.series_calls:,} for fixes)"
            f" instead of {self.routers:,}"
        )


def ingest(env: dict[str, str], *options: str) -> None:
    """Ingest the bulk list and the series."""
    done = fleetlake("ingest", BULK, SERIES.name, *options, env=env, timeout=PATIENCE_S)
    if done.returncode:
        raise SystemExit(done.stderr)


def made_by(simulated: Service, since: datetime, until: datetime) -> set[Fix]:
    """Return the fixes of a span according to the simulator's truth."""
    made = simulated.truth(SERIES.name, until=until.isoformat())
    return {
        (fix["_device"], fix["created_at_timeuuid"])
        for fix in made
        if datetime.fromisoformat(fix["created_at"]) >= since
    }


def steps(simulated: Service, env: dict[str, str]) -> Iterator[Step]:
    """Move the clock and ingest; yield the cost of each step."""
    [routers] = query("select count(*) as n from raw.routers where valid_to is null", env)
    now = START
    for step in STEPS:
        before = simulated.state()["calls"]
        simulated.advance(step.total_seconds())
        ingest(env)
        calls = simulated.state()["calls"]
        moved = made_by(simulated, now - SETTLE, now + step - SETTLE)
        now += step
        yield Step(
            step=step,
            routers=routers["n"],
            moved=len({router for router, _ in moved}),
            list_calls=calls[BULK] - before[BULK],
            series_calls=calls[SERIES.name] - before[SERIES.name],
        )


def unlike(simulated: Service, env: dict[str, str], since: datetime) -> int:
    """Return how many fixes are missing, invented or duplicated in the lake."""
    sql = f"select router_id::varchar as router, created_at_timeuuid as id from raw.{SERIES.name}"
    kept = [(row["router"], row["id"]) for row in query(sql, env)]
    made = made_by(simulated, since, START + sum(STEPS, timedelta()) - SETTLE)
    print(f"{len(kept):,} fixes in the lake, {len(made):,} made by the service")
    return len(made.symmetric_difference(kept)) + len(kept) - len(set(kept))


def bench(routers: int) -> int:
    """Print the cost of each step; return how many fixes in the lake differ from the service's."""
    since = START - timedelta(hours=1)
    with (
        tempfile.TemporaryDirectory() as folder,
        service(routers=routers, days=1, speed=0, now=START.isoformat()) as simulated,
    ):
        env = environment(Path(folder), simulated.url, concurrency=16)
        ingest(env, "--since", since.isoformat())
        for step in steps(simulated, env):
            print(step, flush=True)
        return unlike(simulated, env, since)


def main() -> int:
    """Run the bench; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routers", type=int, default=10_000)
    return 1 if bench(parser.parse_args().routers) else 0


if __name__ == "__main__":
    sys.exit(main())
