"""`alert_volume` follows whatever changes about alerts, and computes only what that touches.

After each step the mart is compared with a count of all alerts in plain Python, at the end also
with a full build.
"""

import random
import shutil
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("marts")]

SELECT = "+alert_volume"
START = datetime(2026, 6, 1, tzinfo=UTC)
REPEAT = timedelta(seconds=900)
STEPS = 8
BUILT = "columns(c -> c <> 'built_at')"


@dataclass(frozen=True)
class Alert:
    """An alert, polled or pushed."""

    id: str
    type: str
    router: int | None
    account: int | None
    at: datetime


@dataclass
class World:
    """What is in a lake: alerts, pushes, which push is confirmed, and versions of routers."""

    lake: Path
    add: Callable[..., None]
    chance: random.Random
    alerts: list[Alert] = field(default_factory=list)
    pushes: list[Alert] = field(default_factory=list)
    confirmed: set[str] = field(default_factory=set)
    versions: dict[int, list[tuple[datetime, int, str]]] = field(default_factory=dict)

    def new(self) -> Alert:
        """Return an alert about noon or midnight of a day, often close to others."""
        number = len(self.alerts) + len(self.pushes)
        near = START + timedelta(hours=12 * self.chance.randrange(1, 8))
        router = self.chance.choice([1, 2, None])
        return Alert(
            f"{self.chance.randrange(100)}-{number}",  # in another order than their times
            self.chance.choice(["reboot", "login"]),
            router,
            self.chance.choice([5, 6] if router is None else [5, None, None]),
            near + timedelta(minutes=self.chance.randrange(-20, 21, 5)),
        )

    def poll(self, *alerts: Alert) -> None:
        self.alerts += alerts
        self.add(self.lake, "alerts", *({**_row(a), "created_at_timeuuid": a.id} for a in alerts))

    def push(self, *alerts: Alert) -> None:
        self.pushes += alerts
        rows = ({**_row(a), "push_id": a.id, "alerted_at": a.at} for a in alerts)
        self.add(self.lake, "pushed_alerts", *rows)

    def confirm(self, push: Alert, polled: Alert) -> None:
        self.confirmed.add(push.id)
        self.poll(polled)
        self.execute("insert into meta.confirmations by name select ? as push_id", push.id)

    def reconsider(self, push: str) -> None:
        self.confirmed.discard(push)
        self.execute("delete from meta.confirmations where push_id = ?", push)

    def version(self, router: int, account: int, name: str, **others: Any) -> None:
        track = self.versions.setdefault(router, [])
        since = START + timedelta(hours=20 * len(track))
        track.append((since, account, name))
        close = "update raw.routers set valid_to = ? where id = ? and valid_to is null"
        self.execute(close, since, router)
        row = {"id": router, "account_id": account, "name": name, "valid_from": since}
        self.add(self.lake, "routers", row | others)

    def execute(self, sql: str, *parameters: object) -> None:
        with open_lake(self.lake) as lake:
            lake.execute(sql, [*parameters])

    def counted(self) -> list[tuple[Any, ...]]:
        """Return the rows that the mart must have."""
        left = [push for push in self.pushes if push.id not in self.confirmed]
        before: dict[tuple[Any, ...], datetime] = {}
        days: dict[tuple[Any, ...], list[tuple[datetime, bool]]] = defaultdict(list)
        for alert in sorted(self.alerts + left, key=lambda a: (a.at, a.id)):
            key = (alert.type, alert.router, alert.account if alert.router is None else None)
            repeats = key in before and alert.at - before[key] < REPEAT
            before[key] = alert.at
            account = alert.account or self.account_at(alert)
            days[alert.type, alert.router, account, alert.at.date()].append((alert.at, repeats))
        rows = [
            (*key, self.name(key[1]), len(found), sum(r for _, r in found), 0, *_ends(found))
            for key, found in days.items()
        ]
        return sorted(rows, key=str)

    def account_at(self, alert: Alert) -> int | None:
        track = self.versions.get(alert.router or 0, [])
        return next((a for since, a, _ in reversed(track[1:]) if since <= alert.at), None) or (
            track[0][1] if track else None
        )

    def name(self, router: int | None) -> str | None:
        return self.versions[router][-1][2] if router in self.versions else None


def _ends(found: list[tuple[datetime, bool]]) -> tuple[datetime, datetime]:
    times = [at for at, _ in found]
    return min(times), max(times)


def _row(alert: Alert) -> dict[str, Any]:
    known = {"type": alert.type, "router_id": alert.router, "account_id": alert.account}
    return known | {"detected_at": alert.at, "created_at": alert.at + timedelta(days=1)}


def built(lake: Path, columns: str = BUILT) -> list[tuple[Any, ...]]:
    with open_lake(lake, read_only=True) as opened:
        return sorted(opened.rows(f"select {columns} from marts.alert_volume"), key=str)


@pytest.fixture(scope="module")
def first(module_lake: Path, add: Callable[..., None]) -> World:
    """Return a lake with some alerts of two routers, built, to be copied."""
    world = World(module_lake, add, random.Random(4))
    world.version(1, 5, "Bus")
    world.version(2, 5, "Tram")
    world.poll(*(world.new() for _ in range(12)))
    build_marts(module_lake, select=SELECT)
    return world


@pytest.fixture
def world(first: World, tmp_path: Path) -> World:
    """Return a copy of that world."""
    return replace(deepcopy(first), lake=Path(shutil.copytree(first.lake, tmp_path / "lake")))


def test_after_every_kind_of_change_the_mart_is_what_all_alerts_give(world: World) -> None:
    chance = world.chance
    assert built(world.lake) == world.counted()
    for step in range(STEPS):
        kind = step % 8
        if kind in {0, 4}:
            world.poll(*(world.new() for _ in range(3)))
        if kind in {1, 4, 5}:
            world.push(*(world.new() for _ in range(2)))
        if kind in {2, 5}:
            push = next(p for p in world.pushes if p.id not in world.confirmed)
            moved = timedelta(seconds=chance.choice([0, 0.5, -300]))
            world.confirm(push, replace(push, id=f"{push.id}p", at=push.at + moved))
        if kind == 3:
            world.reconsider(min(world.confirmed))
        if kind == 6:
            world.version(1 + step // 8, 6 + step, "Bus")
        if kind == 7:
            world.version(2, 5, f"Tram {step}")
        build_marts(world.lake, select=SELECT)

        assert built(world.lake) == world.counted(), (step, kind)
    assert len({built_at for (built_at,) in built(world.lake, "built_at")}) > 4

    build_marts(world.lake, select=SELECT, is_full=True)
    assert built(world.lake) == world.counted()


def test_a_new_alert_computes_its_day_and_no_other_row(world: World) -> None:
    at = START + timedelta(days=5, hours=23, minutes=50)
    world.poll(Alert("a", "reboot", 1, 5, at))
    world.poll(Alert("b", "reboot", 1, 5, at + timedelta(minutes=20)))
    build_marts(world.lake, select=SELECT)
    world.poll(Alert("c", "reboot", 1, 5, at + timedelta(minutes=9)))  # so that b repeats it
    world.version(1, 5, "Bus", state="offline")
    build_marts(world.lake, select=SELECT)

    newest = "alert_type, alert_date::varchar, repeats, built_at"
    rows = built(world.lake, newest)
    latest = max(row[3] for row in rows)
    assert [row[:3] for row in rows if row[3] == latest] == [
        ("reboot", "2026-06-06", 1),
        ("reboot", "2026-06-07", 1),
    ]
    assert built(world.lake) == world.counted()

    world.poll(Alert("d", "reboot", 1, 5, at + timedelta(minutes=13)))  # repeats c
    build_marts(world.lake, select=SELECT)
    assert built(world.lake) == world.counted()


def test_the_last_alert_of_a_unit_takes_its_row_along(world: World) -> None:
    push = Alert("a", "burglary", None, 6, START + timedelta(days=6))
    world.push(push)
    build_marts(world.lake, select=SELECT)
    assert built(world.lake) == world.counted()

    world.confirm(push, replace(push, id="b", type="intrusion"))
    build_marts(world.lake, select=SELECT)

    assert built(world.lake) == world.counted()
