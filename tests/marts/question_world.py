"""The simulated world that the questions are about, and what it says happened there.

A fleet lives for 16 days while its lists are polled. It has a router that was reset before the
first poll, modems that change places, links that flap, worn batteries, a vehicle whose receiver
breaks, and days on which most samples of signal lack LTE; at the end, a site is on a backup,
another is offline, and vehicles are on the road.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from fleetlake.lake import Lake, open_lake
from fleetlake.marts import build_marts
from tests.support.sim import EVENT_TIMES, MINUTE, NOW, delete_last_minute, new_sim

Record = dict[str, Any]

SEED, ROUTERS = 5, 16
FIRST_POLL, POLL = timedelta(hours=31), timedelta(days=1)
"""The first poll is after the only reset of a router, whose old id is therefore never known."""
END = timedelta(minutes=23309)
LAST_HOURS = 20
"""In these hours, batteries are polled every hour, so that a discharge has several readings."""
LISTS = ("accounts", "batteries", "groups", "net_device_health", "net_devices", "routers")
BROKEN = timedelta(days=9)
"""A receiver has sent no fix for this long."""
LTE_SINCE = 18
"""On even days, samples and fixes before this hour lack the values of LTE."""
MEASURED = ("net_device_signal_samples", "historical_locations")
PLACE_RADIUS_M = 150
ROUNDED = 1e-6


def id_of(url: str | None) -> int | None:
    """Return the id at the end of a record's URL."""
    return int(url.rstrip("/").rpartition("/")[2]) if url else None


def instant(text: str) -> datetime:
    """Return an ISO time as an instant in UTC."""
    return datetime.fromisoformat(text)


def midnight(at: datetime) -> datetime:
    """Return when the day of an instant began, in UTC."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


class Between(NamedTuple):
    """An expected value that is known within limits."""

    low: Any
    high: Any


def about(value: Any, by: Any) -> Between:
    """Return the limits of a value that may be off by so much, either way."""
    return Between(value - by, value + by)


UNSURE = "?"
"""A column of expected rows: of a row that may be missing, it is true."""


def differences(answer: list[Record], expected: list[Record]) -> list[str]:
    """Return the expected rows that an answer misses, and its rows that are not expected.

    Rows have no order, and an answer's columns that no expected row has are not compared.
    """
    left, found = list(answer), []
    for row in sorted(expected, key=lambda one: bool(one.get(UNSURE))):
        hit = next((one for one in left if _is_met(one, row)), None)
        if hit is not None:
            left.remove(hit)
        elif not row.get(UNSURE):
            found.append(f"missed: {row}")
    return found + [f"unexpected: {row}" for row in left]


def _is_met(answer: Record, expected: Record) -> bool:
    """Return whether a row has the expected values."""
    for name, value in expected.items():
        if name == UNSURE:
            continue
        said = answer[name]
        if isinstance(value, Between):
            if said is None or not value.low <= said <= value.high:
                return False
        elif isinstance(value, float) and said is not None:
            if abs(said - value) > ROUNDED:
                return False
        elif said != value:
            return False
    return True


def has_lte(at: datetime) -> bool:
    """Return whether samples and fixes of that time have the values of LTE."""
    return at.day % 2 == 1 or at.hour >= LTE_SINCE


def leave_out_lte(lake: Lake) -> None:
    """Leave out the values of LTE where they are lacking."""
    for table in MEASURED:
        lake.execute(
            f"update raw.{table} set rsrp = null, sinr = null"
            f" where day(created_at) % 2 = 0 and hour(created_at) < {LTE_SINCE}"
        )


class World:
    """A fleet at the end of its days, the lake that was loaded from it, and the truth about it."""

    unsettled = MINUTE
    """How long an event may be invisible."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, NOW
        self.sim = new_sim(
            folder, routers=ROUTERS, days=0.25, seed=SEED, scenario="live-shapes", flapping=True
        )
        self.polls: dict[datetime, dict[str, list[Record]]] = {}
        self.records, self.frame = cache(self._records), cache(self._frame)

    def live(self, *, loads: bool = True) -> None:
        """Let the days pass while polling the lists; then load everything."""
        end = NOW + END
        full = {NOW + FIRST_POLL + POLL * n for n in range((END - FIRST_POLL) // POLL + 1)}
        hourly = {end - timedelta(hours=n) for n in range(1, LAST_HOURS + 1)}
        for moment in sorted({*full, *hourly, end}):
            self.sim.advance((moment - self.now).total_seconds())
            self.now = moment
            names = () if moment == end else LISTS if moment in full else ("batteries",)
            if loads:
                assert [one.error for one in self.sim.ingest(*names) if one.error] == []
            self.polls[moment] = {name: self.sim.truth(name) for name in names or LISTS}

    def build(self) -> None:
        """Break a receiver, leave out the last minute and some LTE; build with depots as places."""
        with open_lake(self.sim.settings().lake) as lake:
            delete_last_minute(lake, self.now)
            leave_out_lte(lake)
            lake.execute(
                "delete from raw.historical_locations where router_id = ? and created_at >= ?",
                [self.broken, self.now - BROKEN],
            )
        lines = [f"{name},{lat},{lon},{PLACE_RADIUS_M}," for name, lat, lon in self.places()]
        (self.folder / "fleetlake.toml").touch()
        header = "name,latitude_deg,longitude_deg,radius_m,wkt"
        (self.folder / "places.csv").write_text("\n".join([header, *lines, ""]), "utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            build_marts(self.sim.settings().lake)

    @cached_property
    def began(self) -> datetime:
        """Return when the history of the fleet began."""
        return instant(self.sim.ask("GET", "/sim/state").json()["started_at"])

    @property
    def midnight(self) -> datetime:
        """Return when the last day began."""
        return midnight(self.now)

    def known_from(self, router: int) -> datetime:
        """Return since when there is data about a router."""
        [record] = [one for one in self.records("routers") if int(one["id"]) == router]
        return max(self.began, instant(record["created_at"]))

    def places(self) -> list[tuple[str, float, float]]:
        """Return a place around each vehicle's depot: where most of its trips begin."""
        starts = self.frame("trips").group_by("router_id", "from_latitude", "from_longitude").len()
        depots = starts.sort("len").group_by("router_id", maintain_order=True).last()
        spots = depots.select("from_latitude", "from_longitude").unique().sort("from_latitude")
        return [(f"depot {n}", *spot) for n, spot in enumerate(spots.rows())]

    @cached_property
    def broken(self) -> int:
        """Return the vehicle whose receiver breaks."""
        return min(r["router_id"] for r in self.sim.truth("reporting") if r["is_vehicle"])

    @cached_property
    def listed(self) -> frozenset[str]:
        """Return the ids of the routers and interfaces that are registered at the end."""
        lists = (self.sim.truth(name) for name in ("routers", "net_devices"))
        return frozenset(one["id"] for records in lists for one in records)

    def _records(self, name: str) -> list[Record]:
        """Return the truth about a resource or cause, without what no load could see."""
        records = self.sim.truth(name)
        if name in EVENT_TIMES:
            settled = self.now - self.unsettled
            records = [r for r in records if instant(_event_time(r)) < settled]
        if name in MEASURED:
            no_lte = {"rsrp": None, "sinr": None}
            records = [r if has_lte(instant(r["created_at"])) else r | no_lte for r in records]
        if name == "historical_locations":
            since = self.now - BROKEN
            records = [
                r
                for r in records
                if int(r["_device"]) != self.broken or instant(r["created_at"]) < since
            ]
        return [r for r in records if (of := _device_of(r)) is None or of in self.listed]

    def _frame(self, name: str) -> pl.DataFrame:
        """Return the truth about a resource or cause as a table; a URL becomes an id."""
        return as_frame(self.records(name))


def _event_time(record: Record) -> str:
    return str(record["action"]["timestamp"] if "action" in record else record["created_at"])


def _device_of(record: Record) -> str | None:
    """Return the id of the router or interface that a record is about; None for others."""
    url = record.get("router") or record.get("net_device")
    router = record.get("router_id") or record.get("_device")
    return str(router) if router else str(id_of(url)) if url else None


def as_frame(records: Iterable[Record]) -> pl.DataFrame:
    """Return records as a table, with times as instants and URLs as ids."""
    frame = pl.DataFrame(list(records), infer_schema_length=None)
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    times = [name for name in texts if name.endswith("_at")]
    urls = [n for n in texts if frame[n].drop_nulls().str.starts_with("http").any()]
    return frame.with_columns(
        pl.col(times).str.to_datetime(time_unit="us", time_zone="UTC"),
        pl.col(urls).str.extract(r"(\d+)/$").cast(pl.Int64),
    )
