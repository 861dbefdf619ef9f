"""Pushes in the live service's shape, without id, text or time: each alert counts once.

Compared with what the simulated service says that it raised.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts.build import build_marts
from fleetlake.receiving.drain import drain_all
from fleetsim.alert_types import ALERT_TYPES
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions
from tests.support.alert_messages import staged
from tests.support.journals import write
from tests.support.service import instant, keys
from tests.support.sim import NOW, Sim

HOURS = 6
STEP = 2
"""Minutes: what is pushed arrives after at most that long."""
HOST = re.compile(rb"https?://[^/]+")
URL = "https://receiver.example/push"


@dataclass
class Receiver:
    """Stores what the service pushes, at the service's time; each `loses`-th answer is lost.

    `arrived` has bodies without hosts, which differ from read to read.
    """

    journal: Path
    loses: int = 10**9
    sim: Any = None
    arrived: list[tuple[bytes, datetime]] = field(default_factory=list)

    async def send(self, _url: str, body: bytes, _headers: Mapping[str, str]) -> str | None:
        now = datetime.fromtimestamp(self.sim.app.state.simulation.clock.now() / 1e6, UTC)
        at = now + timedelta(seconds=2)
        self.arrived.append((HOST.sub(b"", body), at))
        write(self.journal, body, at=at)
        return "HTTP 502" if len(self.arrived) % self.loses == 0 else None


def pushing_sim(folder: Path, **receiver: Any) -> tuple[Sim, Receiver]:
    """Return a fleet with live shapes whose alerts are all pushed to a receiver."""
    receiving = Receiver(folder / "push-journal", **receiver)
    options = SimulatorOptions(
        routers=12, days=2, now=NOW, speed=0, scenario="live-shapes", flapping=True
    )
    receiving.sim = sim = Sim(create_app(options, receiving.send), folder)
    made = sim.ask(
        "POST",
        "/api/v2/alert_push_destinations/",
        headers=keys(),
        json={"name": "r", "endpoint": {"url": URL}, "authentication": {"secret": "s3cret"}},
    )
    rule = {
        "schedule": None,
        "filter_criteria": {"alert_type__in": sorted(ALERT_TYPES)},
        "http_destinations": [made.json()["destination_config_id"]],
        "associated_accounts": [10157],
    }
    sim.ask("POST", "/api/v2/alert_rules/", headers=keys(), json=rule)
    return sim, receiving


def live(sim: Sim, minutes: int) -> None:
    for _ in range(minutes // STEP):
        sim.advance(60 * STEP)


def drain(sim: Sim) -> None:
    assert drain_all(sim.settings().lake, sim.settings().push_journal).dead_letters == 0


def poll(sim: Sim) -> None:
    assert [outcome.error for outcome in sim.ingest("alerts")] == [None]


def shown(sim: Sim) -> Counter[str]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return Counter(alert_id for (alert_id,) in staged(lake, "alert_id"))


def test_before_a_poll_what_happens_again_in_another_minute_is_another_alert(tmp_path):
    sim, receiver = pushing_sim(tmp_path)
    live(sim, 60 * HOURS)
    drain(sim)

    bodies = Counter(body for body, _ in receiver.arrived)
    minutes = {(body, f"{at:%H:%M}") for body, at in receiver.arrived}
    assert max(bodies.values()) > 1
    assert len(minutes) == bodies.total()
    assert shown(sim).total() == len(minutes)


@pytest.mark.proof
@pytest.mark.parametrize(
    "loses",
    [pytest.param(10**9, marks=pytest.mark.release), 7],
    ids=["every answer arrives", "answers are lost"],
)
def test_after_push_and_poll_each_alert_counts_once_also_if_it_was_pushed_again(tmp_path, loses):
    sim, receiver = pushing_sim(tmp_path, loses=loses)
    poll(sim)
    for hour in range(HOURS):
        live(sim, 60)
        drain(sim)
        if hour % 3:
            poll(sim)
    live(sim, 30)
    drain(sim)
    poll(sim)

    until = NOW + timedelta(hours=HOURS, minutes=25)
    truth = [one for one in sim.truth("alerts") if instant(one["created_at"]) < until]
    bodies = [body for body, _ in receiver.arrived]
    assert (max(Counter(bodies).values()) > 2) == (loses < 10)
    with open_lake(sim.settings().lake, read_only=True) as lake:
        found = staged(lake, "alert_id, created_at")
    assert Counter(id_ for id_, at in found if at < until) == Counter(
        one["created_at_timeuuid"] for one in truth
    )


@pytest.mark.release
@pytest.mark.xdist_group("marts")
def test_marts_after_push_and_poll_count_each_alert_of_the_service_once(tmp_path):
    sim, _ = pushing_sim(tmp_path, loses=7)
    poll(sim)
    live(sim, 60 * HOURS)
    drain(sim)
    build_marts(sim.settings().lake, select="+alert_volume")
    live(sim, 30)
    poll(sim)

    build_marts(sim.settings().lake, select="+alert_volume")

    with open_lake(sim.settings().lake, read_only=True) as lake:
        found = lake.rows(
            "select alert_type, sum(alerts)::bigint from marts.alert_volume group by all"
        )
        [(until,)] = lake.rows("select max(created_at) from raw.alerts")
    truth = [one for one in sim.truth("alerts") if instant(one["created_at"]) <= until]
    assert Counter(dict(found)) == Counter(one["type"] for one in truth)
