"""`make bench-fleet`: a day of fleets of several sizes; calls, CPU and memory of each command.

Each fleet is served by the simulator and read into a lake of its own, by `fleetlake ingest`:

- lists and events: what exists, and everything of a day that is listed for the whole fleet;
- samples: what is requested device by device, from an hour before the clock's start, and the two
  lists that say which devices have new ones.

Both are read again after the clock was moved by an hour, and the lists and events once more with
nothing new. Marts are built and published before and after that hour. The call limit is off;
minutes are those that the calls need at the setting's default. Several workers read shares of the
devices (`ingest --shard`) into a shared lake; lists and events always belong to the first share.

The lake must have every record of a list or an event that the simulator made, and every sample of
`COMPARED` routers. Fixes need one call per router that moved, so of more than `LARGEST_WHOLE`
routers the samples of one share in twelve are read. Router logs need the same calls and are left
out. All of this asks each device at each load.

The part `day` is measured alone (`--parts day`): 24 hourly loads of alerts and of all that is read
device by device, router logs too, each device as often as its default freshness says. A last load
asks each device, so that the rows can be compared.

A large fleet takes hours, so the parts of a day can be measured alone (`--parts`), and sections one
by one: those of other sizes in the file stay.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

from fleetlake.endpoints import ALERTS, ENDPOINTS, requested_endpoints
from fleetlake.endpoints.model import Api, Endpoint, Mode
from fleetlake.planning.coverage import SETTLE
from fleetlake.planning.intervals import BEGINNING
from fleetlake.planning.shards import Shard
from tools.bench.cases import DLT_PYTHON, environment
from tools.bench.figures import Figures, Section, read
from tools.bench.fleet_report import FLEET_REPORT
from tools.bench.measure import Measure, measure
from tools.bench.page_server import GREGORIAN, ticks_of
from tools.bench.records import ready

HERE = Path(__file__).parent
SIZES = (1_000, 3_000, 10_000, 100_000)
SHARED_SIZE = 10_000
WORKERS = (1, 2, 4)
PARTS = ("lists", "samples", "marts")
"""What is measured of a day: lists and events, samples, and build with publish."""
DAY = "day"
COMPARED = 24
LARGEST_WHOLE = 20_000
TWELFTH = Shard(1, 12)
START = datetime(2026, 6, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
KEYS = {
    "portal_api_id": "portal-id",
    "portal_api_key": "portal-key",
    "mgr_api_id": "admin-id",
    "mgr_api_key": "admin-key",
}

AT_EACH_LOAD = {f"freshness__{e.name}": "0" for e in requested_endpoints() if e.is_divisible}
_V2 = [e for e in requested_endpoints() if e.api is Api.V2]
LOGS = ENDPOINTS["router_logs"]
WHOLE = tuple(e for e in _V2 if not e.is_divisible)
SERIES = tuple(e for e in _V2 if e.is_divisible and e is not LOGS)
MOVED = {e.fan_out.moved.endpoint for e in SERIES if e.fan_out and e.fan_out.moved}


@dataclass
class Fleet:
    """A simulated fleet, the lake that it is read into, and the cost of each command."""

    url: str
    routers: int
    workers: int
    environment: dict[str, str]
    section: Section
    parts: Collection[str] = PARTS
    now: datetime = START
    checked: dict[str, int] = field(default_factory=dict)

    def advance(self) -> None:
        """Move the service's clock by an hour."""
        body = json.dumps({"advance_seconds": HOUR.total_seconds()}).encode()
        with urlopen(Request(f"{self.url}/sim/clock", data=body, method="POST")):
            self.now += HOUR

    def calls(self) -> int:
        """Return the number of calls that the service has answered."""
        with urlopen(f"{self.url}/sim/state") as answer:
            return sum(json.load(answer)["calls"].values())

    @property
    def shares(self) -> list[Shard]:
        """The shares of the devices that are read, one by each worker."""
        if self.routers > LARGEST_WHOLE:
            return [TWELFTH]
        return [Shard(number + 1, self.workers) for number in range(self.workers)]

    def ingest_whole(self, run: str) -> None:
        """Measure an ingest of lists and events."""
        if "lists" not in self.parts:
            return
        self._ingest("ingest lists, events", run, [[e.name for e in WHOLE]])

    def ingest_samples(self, run: str, *options: str) -> None:
        """Measure an ingest of samples by all workers."""
        if "samples" not in self.parts:
            return
        name = "ingest samples" + (", a twelfth" if self.shares == [TWELFTH] else "")
        named = [*(e.name for e in SERIES), *sorted(MOVED), *options]
        self._ingest(name, run, [[*named, "--shard", str(share)] for share in self.shares])

    def follow_a_day(self) -> None:
        """Measure a first load and 24 hourly ones; then ask each device, and compare."""
        everything = [*(e.name for e in (*SERIES, LOGS)), *sorted(MOVED), ALERTS.name]
        since = f"{START - HOUR:%Y-%m-%dT%H:%M:%S}"
        self._ingest("ingest by device", "first", [[*everything, "--since", since]])
        for _ in range(24):
            self.advance()
            self._ingest("ingest by device", "each hour", [everything])
        self.environment |= {f"FLEETLAKE_{k.upper()}": v for k, v in AT_EACH_LOAD.items()}
        self._ingest("ingest by device", "each device", [everything])
        self._check_samples((*SERIES, LOGS))

    def _ingest(self, name: str, run: str, workers: Sequence[Sequence[str]]) -> None:
        """Measure workers: the sum of their CPU, the memory of the largest."""
        before = self.calls()
        with ThreadPoolExecutor(len(workers)) as pool:
            taken = list(pool.map(lambda words: self._run("ingest", *words), workers))
        self._keep(name, run, replace(_together(taken), calls=self.calls() - before))

    def publish_marts(self, run: str) -> None:
        """Measure a build of the marts and their publication."""
        if "marts" in self.parts:
            for command in ("build", "publish"):
                self._keep(command, run, self._run(command))

    def _run(self, *words: str) -> Measure:
        taken, _ = measure([sys.executable, "-m", "fleetlake", *words], self.environment)
        return taken

    def _keep(self, name: str, run: str, taken: Measure) -> None:
        self.section.result(name, run).measures.append(taken)
        sys.stderr.write(
            f"  {self.section.title}: {name}, {run}: {taken.calls:,} calls, "
            f"{taken.cpu_seconds:.1f} s CPU, {taken.wall_seconds:.1f} s, {taken.peak_mb:,.0f} MB\n"
        )
        sys.stderr.flush()

    def truth(self, resource: str, **limits: str) -> Iterator[dict[str, Any]]:
        """Yield the records that the simulator made, without holding them."""
        asked = "&".join(f"{name}={value}" for name, value in limits.items())
        with urlopen(f"{self.url}/sim/truth/{resource}?{asked}") as lines:
            for line in lines:
                yield json.loads(line, strict=False)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query of the lake."""
        words = [sys.executable, "-m", "fleetlake", "query", sql, "--format", "json"]
        rows: list[dict[str, Any]] = json.loads(
            subprocess.check_output(words, env=self.environment)
        )
        return rows

    def check(self) -> None:
        """Compare the lake with what the simulator made. Raises: SystemExit if they differ."""
        for endpoint in WHOLE if "lists" in self.parts else ():
            if endpoint.mode is Mode.UPSERT and endpoint.event_time is None:
                self._check_latest(endpoint)
            else:
                self._compare(endpoint.name, self._held(endpoint), self._made(endpoint))
        if "samples" in self.parts:
            self._check_samples()

    def _check_latest(self, endpoint: Endpoint) -> None:
        """Compare a table of the latest values, which keeps those of devices that are gone."""
        made = {int(record["id"]) for record in self.truth(endpoint.name)}
        held = {row["id"] for row in self.rows(f"select id from raw.{endpoint.name}")}
        self._compare(endpoint.name, len(held & made), len(made))

    def _check_samples(self, series: Sequence[Endpoint] = SERIES) -> None:
        routers = [r["id"] for r in self.rows("select id from raw.routers order by id")]
        some = routers[:: max(1, len(routers) // COMPARED)]
        for endpoint in series:
            near = self._devices(endpoint, some)
            ids = [id_ for id_ in near if any(share.has(id_) for share in self.shares)]
            made = sum(self._made(endpoint, device=str(id_)) for id_ in ids)
            self._compare(endpoint.name, self._held(endpoint, ids), made)

    def _compare(self, name: str, held: int, made: int) -> None:
        if held != made:
            raise SystemExit(f"{name}: the lake has {held:,} records, the service made {made:,}.")
        self.checked[name] = held

    def _devices(self, endpoint: Endpoint, routers: Sequence[int]) -> list[int]:
        """Return the ids of these routers, or of their interfaces, that a series is read for."""
        assert endpoint.fan_out is not None
        if endpoint.fan_out.source == "routers":
            return list(routers)
        listed = ", ".join(map(str, routers))
        sql = f"select distinct id from raw.net_devices where router_id in ({listed})"
        return [row["id"] for row in self.rows(sql)]

    def _made(self, endpoint: Endpoint, **limits: str) -> int:
        """Count the records that must be in the lake: settled, and not before the first read."""
        if endpoint.window_column is None:
            return sum(1 for _ in self.truth(endpoint.name, **limits))
        path = endpoint.column(endpoint.window_column).path
        since, until = START - HOUR if endpoint.is_divisible else BEGINNING, self.now - SETTLE
        times = (time_of(record, path) for record in self.truth(endpoint.name, **limits))
        return sum(since <= time < until for time in times)

    def _held(self, endpoint: Endpoint, ids: Sequence[int] | None = None) -> int:
        """Count the same records in the lake, of some devices only if `ids` names them."""
        chosen = "valid_to is null" if endpoint.mode is Mode.HISTORY else "true"
        if endpoint.event_time:
            chosen = f"{endpoint.event_time} < timestamptz '{self.now - SETTLE}'"
        if ids is not None and endpoint.fan_out:
            chosen += f" and {endpoint.fan_out.partition} in ({', '.join(map(str, ids)) or 'null'})"
        [row] = self.rows(f"select count(*) as n from raw.{endpoint.name} where {chosen}")
        return int(row["n"])


def environment_of(url: str, folder: Path) -> dict[str, str]:
    """Return the environment of commands that read all lists of a simulated service."""
    names = ("lake", "published", "reports", "state", "push_journal", "push_secrets_file")
    return environment(
        base_url=f"{url}/api/v2/",
        v3_base_url=f"{url}/api/v3",
        v3_token="simulator-token",
        calls_per_minute="0",
        clock="service",
        **{name: str(folder / name) for name in names},
        **KEYS,
    )


def time_of(record: dict[str, Any], path: Sequence[str]) -> datetime:
    """Return the time at a path of a record; that of a version-1 UUID is embedded in it.

    >>> time_of({"action": {"timestamp": "2026-06-15T12:00:00Z"}}, ["action", "timestamp"])
    datetime.datetime(2026, 6, 15, 12, 0, tzinfo=datetime.timezone.utc)
    """
    member: Any = record
    for name in path:
        member = member[name]
    return GREGORIAN + timedelta(microseconds=ticks_of(member))


def _together(taken: Sequence[Measure]) -> Measure:
    return Measure(
        cpu_seconds=sum(one.cpu_seconds for one in taken),
        busiest_cpu_seconds=max(one.cpu_seconds for one in taken),
        wall_seconds=max(one.wall_seconds for one in taken),
        peak_mb=max(one.peak_mb for one in taken),
    )


def live(fleet: Fleet) -> Iterator[Section]:
    """Let a fleet live, and its lake follow; yield what was measured whenever it was checked."""
    if DAY in fleet.parts:
        fleet.follow_a_day()
        yield fleet.section
        return
    fleet.ingest_whole("a day")
    fleet.ingest_samples("an hour", "--since", f"{START - HOUR:%Y-%m-%dT%H:%M:%S}")
    fleet.check()
    fleet.publish_marts("first")
    yield fleet.section
    fleet.advance()
    fleet.ingest_whole("an hour later")
    fleet.ingest_samples("an hour later")
    fleet.ingest_whole("nothing new")
    fleet.check()
    fleet.publish_marts("an hour later")
    yield fleet.section


def bench(
    routers: int,
    workers: int,
    server: str = "",
    *,
    parts: Collection[str] = PARTS,
    keep: Callable[[Section], None] = lambda _: None,
) -> Section:
    """Measure a fleet of a size; with a PostgreSQL server, on a shared lake.

    `keep` is called with what there is so far, after the first day and at the end.
    """
    plural = "worker" if workers == 1 else "workers"
    place = "a shared lake" if server else "a lake in a folder"
    title = f"{routers:,} routers, {workers} {plural}, {place}"
    title += "" if set(parts) == set(PARTS) else f", only {' and '.join(parts)}"
    name = f"{routers} {workers} {'shared' if server else 'folder'}"
    options = ["--port", "0", "--routers", str(routers), "--days", "1", "--speed", "0"]
    options += ["--now", START.isoformat()]
    with tempfile.TemporaryDirectory() as text, ready("fleetsim", *options) as url:
        folder = Path(text)
        lake = {"lake": str(folder / "lake")}
        if server:
            lake = {"lake": f"postgres:{_database(server)}", "lake_files": str(folder / "files")}
        env = environment(
            base_url=f"{url}/api/v2/",
            published=str(folder / "published"),
            state=str(folder / "state"),
            calls_per_minute="0",
            clock="service",
            **({} if DAY in parts else AT_EACH_LOAD),
            **lake,
            **KEYS,
        )
        fleet = Fleet(url, routers, workers, env, Section(name=name, title=title), parts)
        for section in live(fleet):
            keep(section)
        return fleet.section


def _database(server: str) -> str:
    """Return the address of a new database on a PostgreSQL server."""
    name = f"fleet_{uuid4().hex[:12]}"
    subprocess.check_call(["psql", "-q", server, "-c", f"create database {name}"])
    return server.replace("/postgres?", f"/{name}?")


def keep(section: Section, path: Path) -> None:
    """Write a section beside the others of a file, in their order."""
    others = read(path).sections if path.exists() else []
    sections = [section, *(other for other in others if other.name != section.name)]
    Figures(sections=sorted(sections, key=_order)).write(path)


def _order(section: Section) -> tuple[str, int, int]:
    routers, workers, place = section.name.split()
    return place, int(routers), int(workers)


def main() -> None:
    """Measure each size, print the table, and keep the figures.

    Results of chosen sizes (`N`) go to `data/bench`, or with `--page` beside the README.
    """
    parser = argparse.ArgumentParser(prog="make bench-fleet", description=__doc__)
    parser.add_argument("--routers", type=int, nargs="+", help=f"instead of {SIZES}")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    parser.add_argument("--parts", nargs="+", choices=(*PARTS, DAY), default=PARTS)
    parser.add_argument("--place", choices=("folder", "shared"), help="instead of both")
    parser.add_argument("--page", action="store_true", help="render the README's tables and plot")
    options = parser.parse_args()
    server = os.environ.get("FLEETLAKE_TEST_POSTGRES", "")
    sizes, is_page = options.routers or SIZES, options.page or not options.routers
    target = HERE / "fleet.json" if is_page else Path("data/bench/fleet.json")
    shared = min(sizes, key=lambda size: abs(size - SHARED_SIZE))
    runs = [(size, 1, "") for size in sizes if options.place != "shared"]
    runs += [(shared, n, server) for n in options.workers if server and options.place != "folder"]
    for run in runs:  # a large fleet takes hours: keep what there is
        bench(*run, parts=options.parts, keep=partial(keep, path=target))
    FLEET_REPORT.show(read(target))
    subprocess.check_call([DLT_PYTHON, HERE / "fleet_plot.py", target])
    if is_page:
        subprocess.check_call([sys.executable, "-m", "tools.bench.page"])
    sys.stdout.write(f"Figures and plot are in {target.parent}.\n")


if __name__ == "__main__":
    main()
