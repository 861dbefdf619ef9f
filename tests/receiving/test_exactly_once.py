"""Whatever order pushes, repeated pushes, polls and kills come in, an alert shows once."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fleetlake.lake import Lake, open_lake
from fleetlake.receiving import drain
from fleetlake.receiving.drain import drain_all
from tests.support.alert_messages import (
    NOON,
    an_alert,
    live,
    poll,
    push,
    relayed,
    staged,
    with_id,
    without_id,
)

ALERTS = [
    an_alert(1, seconds=0.0),
    an_alert(2, seconds=0.6),  # look-alikes, each within a second of the next
    an_alert(3, seconds=1.2),
    an_alert(4, seconds=1.2, router=8),
    an_alert(5, seconds=1.2, info={"uid": "mdm-2"}),
    an_alert(6, seconds=1.2, router=None),
    an_alert(7, seconds=90.0),
]
IDS = [alert["created_at_timeuuid"] for alert in ALERTS]
SHAPES = {"with ids": with_id, "without ids": without_id, "of a relay": relayed, "live": live}
LATER = NOON + timedelta(minutes=10)
"""When pushes arrive: after each alert was created."""

numbers = st.sets(st.integers(0, len(ALERTS) - 1), min_size=1)
steps = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "summary", "poll", "poll"]),
        numbers,
        st.sampled_from([None, None, "before the commit", "after the commit"]),
    ),
    max_size=5,
)
MANY = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # a smaller example is not worth minutes
)
FEW = settings(MANY, max_examples=4)


JOURNALS = count()
"""Number of the next journal: each example has its own."""

OpenLake = Callable[[], AbstractContextManager[Lake]]


class Killed(BaseException):
    """The process ended here."""


class Killing:
    """Ends the process around its next commit."""

    def __init__(self, patch: pytest.MonkeyPatch, point: str) -> None:
        real = Lake.execute

        def execute(lake: Lake, sql: str, parameters: object = None) -> Any:
            if sql == "commit":
                patch.undo()
                if point == "after the commit":
                    real(lake, sql, parameters)
                raise Killed
            return real(lake, sql, parameters)

        patch.setattr(Lake, "execute", execute)


class World:
    """A lake, a journal, and which alerts were pushed and polled."""

    def __init__(self, path: Path, folder: Path, shape: str, open_: OpenLake) -> None:
        self.path, self.folder, self.shape, self.open = path, folder, SHAPES[shape], open_
        self.pushed: set[int] = set()
        self.polled: set[int] = set()

    def do(self, what: str, chosen: set[int], kill: str | None) -> None:
        """Do one step; if the process is killed in it, do the same in a new one."""
        if what != "poll":
            bodies = [self.shape(ALERTS[number]) for number in sorted(chosen, reverse=True)]
            push(self.folder, *([bodies] if what == "summary" else bodies), at=LATER)
        with pytest.MonkeyPatch.context() as patch:
            if kill:
                Killing(patch, kill)
            try:
                self._write(what, chosen)
            except Killed:
                patch.undo()
                self._write(what, chosen)
        if what == "poll":
            self.polled |= chosen
        else:
            self.pushed |= chosen

    def _write(self, what: str, chosen: set[int]) -> None:
        if what != "poll":
            drain_all(self.path, self.folder)
            return
        with self.open() as lake:
            poll(lake, [ALERTS[number] for number in sorted(chosen, reverse=True)])

    def shown(self) -> Counter[str]:
        with self.open() as lake:
            assert (
                lake.rows(
                    "select alert_id from meta.confirmations where alert_id is not null "
                    "group by all having count(*) > 1 "
                    "union all "
                    "select push_id from meta.confirmations group by all having count(*) > 1"
                )
                == []
            )
            return Counter(alert_id for (alert_id,) in staged(lake, "alert_id"))


MakeWorld = Callable[[str], World]


def run(make_world: MakeWorld, taken: list[tuple[str, set[int], str | None]], shape: str) -> None:
    world = make_world(shape)
    for what, chosen, kill in taken:
        world.do(what, chosen, kill)
        shown = world.shown()
        polled = {IDS[number] for number in world.polled}
        everything = world.polled | world.pushed
        assert {alert_id: shown[alert_id] for alert_id in polled} == dict.fromkeys(polled, 1)
        if shape == "with ids":
            assert shown == Counter(IDS[number] for number in everything)
        else:  # until all are polled, a push may belong to either of two look-alikes
            bodies = [world.shape(ALERTS[number]) for number in world.pushed]
            # Bodies without a time are the same if the same happened twice.
            distinct = sum(body not in bodies[:n] for n, body in enumerate(bodies))
            least = max(len(world.polled), distinct)
            assert least <= shown.total() <= len(everything)
    world.do("poll", set(range(len(ALERTS))), None)

    assert world.shown() == Counter(IDS)


@pytest.fixture
def open_again(lake_path: Path) -> OpenLake:
    """Return a function that opens this test's lake anew, as each process does."""
    return lambda: open_lake(lake_path)


@pytest.fixture
def keep_open(lake_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenLake]:
    """Return a function that returns the same open lake each time: opening one takes longest."""
    with open_lake(lake_path) as lake:
        monkeypatch.setattr(drain, "open_lake", lambda *_, **__: nullcontext(lake))
        yield lambda: nullcontext(lake)


def worlds(open_: OpenLake, path: Path, folder: Path) -> MakeWorld:
    """Return a function that empties a lake and begins a new journal."""

    def make(shape: str) -> World:
        with open_() as lake, lake.transaction():
            for table in ("raw.alerts", "raw.pushed_alerts", "meta.confirmations", "meta.loads"):
                lake.execute(f"delete from {table}")
            lake.execute("delete from meta.journal_positions")
        return World(path, folder / f"journal{next(JOURNALS)}", shape, open_)

    return make


@FEW
@given(steps, st.sampled_from([*SHAPES]))
def test_each_alert_shows_once_in_any_order_of_pushes_polls_and_kills(
    keep_open, lake_path, tmp_path, taken, shape
):
    run(worlds(keep_open, lake_path, tmp_path), taken, shape)


@pytest.mark.release
@MANY
@given(steps, st.sampled_from([*SHAPES]))
def test_each_alert_shows_once_in_many_orders_of_pushes_polls_and_kills(
    open_again, lake_path, tmp_path, taken, shape
):
    run(worlds(open_again, lake_path, tmp_path), taken, shape)
