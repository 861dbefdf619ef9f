"""Marts move with a push, and stay as they are when a poll confirms it."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts.build import build_marts
from fleetlake.receiving.drain import drain_all
from tests.support.alert_messages import push, with_id, without_id
from tests.support.sim import NOW, Sim

pytestmark = pytest.mark.release  # builds all marts several times

MARTS = "+failover_now +alert_volume"
UNTIL = timedelta(hours=4, minutes=40)
"""In the middle of a failover of this fleet, some time after the last load."""


CONTENT = "columns(c -> c <> 'built_at')"


def mart(sim: Sim, name: str, columns: str = CONTENT) -> list[tuple[Any, ...]]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(f"select {columns} from marts.{name} order by all")


def alerts_by_type(sim: Sim) -> Counter[str]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        sql = "select alert_type, sum(alerts)::bigint from marts.alert_volume group by all"
        return Counter(dict(lake.rows(sql)))


@pytest.mark.parametrize(
    ("shape", "columns"),
    [
        (with_id, CONTENT),
        (without_id, "router_id, from_interface, to_interface, started_at"),
    ],
)
def test_the_marts_move_with_a_push_and_do_not_change_when_the_poll_confirms_it(
    make_sim: Callable[..., Sim], shape: Callable[[dict[str, Any]], dict[str, Any]], columns: str
) -> None:
    """A push without a time of creation gets it from the poll, which so moves the present."""
    sim = make_sim(routers=12, days=2)
    sim.ingest()
    build_marts(sim.settings().lake, select=MARTS)
    before = mart(sim, "failover_now", columns), alerts_by_type(sim)
    sim.advance(UNTIL.total_seconds())
    raised = sim.truth("alerts", NOW + UNTIL - timedelta(minutes=2))
    known = [alert for alert in raised if datetime.fromisoformat(alert["created_at"]) < NOW]
    new = [alert for alert in raised if alert not in known]

    for alert in new:
        created = datetime.fromisoformat(alert["created_at"])
        push(sim.settings().push_journal, shape(alert), at=created + timedelta(seconds=2))
    assert drain_all(sim.settings().lake, sim.settings().push_journal).alerts == len(new)
    build_marts(sim.settings().lake, select=MARTS)
    pushed = mart(sim, "failover_now", columns), alerts_by_type(sim)
    volume = mart(sim, "alert_volume")

    assert pushed[1] == Counter(alert["type"] for alert in raised)
    assert pushed[1] != before[1]
    assert len(pushed[0]) > len(before[0])

    [outcome] = sim.ingest("alerts")
    assert outcome.error is None
    with open_lake(sim.settings().lake) as lake:
        # The poll may have read newer alerts than those that were pushed here.
        lake.execute(
            "delete from raw.alerts where created_at > ?", [NOW + UNTIL - timedelta(minutes=2)]
        )
        assert lake.rows("select count(*) from meta.confirmations") == [(len(new),)]
    build_marts(sim.settings().lake, select=MARTS)

    assert mart(sim, "alert_volume") == volume
    assert mart(sim, "failover_now", columns) == pushed[0]
