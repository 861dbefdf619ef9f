"""Failovers read from alerts alone are those that a network engineer reads from them."""

import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from tests.marts.timelines import DAY_ONE, NOW, TIMELINES, Line, instant

pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("marts")]

STATES = {"lost": "disconnected", "up": "connected"}
SELECT = "+failover_now +wan_availability_daily +attention"
WITH_DAYS = [name for name, timeline in TIMELINES.items() if timeline.day]


def rows_of(router: int, line: Line) -> tuple[str, dict[str, Any]]:
    """Return the raw table of a line, and its row."""
    subject, *words = line.words
    if subject == "record":
        lost, taken = words[0].split(">")
        return "failovers", {
            "uuid": f"{router} {line.at}",
            "router_id": router,
            "started_at": line.at,
            "ended_at": instant(words[2]),
            "updated_at": instant(words[2]),
            "previous_wan_interface": lost,
            "current_wan_interface": taken,
        }
    alert: dict[str, Any] = {
        "router_id": router,
        "created_at_timeuuid": f"{router} {line.at} {' '.join(line.words)}",
        "created_at": line.at,
        "detected_at": line.at,
    }
    if subject == "failover":
        return "alerts", alert | {"type": "failover_event"}
    if not words:
        return "alerts", alert | {
            "type": "connection_state",
            "friendly_info": f"The device is {subject}.",
        }
    family = "ethernet" if subject.removeprefix("unnamed-").startswith("wan") else "modem"
    state = STATES.get(words[0], words[0])
    named = {} if subject.startswith("unnamed") else {"uid": subject}
    return "alerts", alert | {"type": f"{family}_wan_{state}", "info": {"info": named}}


@pytest.fixture(scope="module")
def lake(empty_lake, tmp_path_factory, add) -> Path:
    """Build the marts of all timelines at once; each is of its own router, in any order."""
    lake = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("timelines") / "lake"))
    rows = [
        rows_of(router, line)
        for router, timeline in enumerate(TIMELINES.values())
        for line in timeline.lines()
    ]
    anchors = [{"created_at_timeuuid": f"{at}", "created_at": at} for at in (DAY_ONE, NOW)]
    rows += [("alerts", anchor) for anchor in anchors]
    random.Random(1).shuffle(rows)
    for table in ("alerts", "failovers"):
        add(lake, table, *(row for name, row in rows if name == table))
    routers = [
        {
            "id": router,
            "name": name,
            "device_type": "router",
            "created_at": DAY_ONE,
            "state": "online",
        }
        for router, name in enumerate(TIMELINES)
    ]
    add(lake, "routers", *routers)
    with open_lake(lake) as opened:
        opened.execute(
            "insert into meta.reads by name select 'default' as account_profile, ? as read_until",
            [NOW],
        )
    build_marts(lake, select=SELECT)
    return lake


def read(lake: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(lake, read_only=True) as opened:
        return opened.rows(sql)


def written(at: datetime) -> str:
    """Return an instant as the timelines write it."""
    at = at.astimezone(UTC)
    day = (at - DAY_ONE) // timedelta(days=1) + 1
    return f"{at:%H:%M:%S}" if day == 3 else f"{day} {at:%H:%M:%S}"


@pytest.fixture(scope="module")
def found(lake) -> dict[str, tuple[str, ...]]:
    """Return the failovers of each timeline, as the timelines write them."""
    found: dict[str, list[str]] = {name: [] for name in TIMELINES}
    for name, started, ended, is_open, is_known, lost, taken in read(
        lake,
        "select router_name, started_at, ended_at, is_open, is_end_known, from_interface,"
        " to_interface from marts.failover_episodes order by started_at",
    ):
        assert is_open == (ended is None)
        end = "now" if is_open else written(ended) + ("" if is_known else "?")
        found[name].append(f"{written(started)} - {end} {lost or '?'}>{taken or '?'}")
    return {name: tuple(texts) for name, texts in found.items()}


@pytest.mark.parametrize("name", TIMELINES)
def test_failovers_are_those_that_an_engineer_reads_from_the_alerts(found, name):
    assert found[name] == TIMELINES[name].failovers


@pytest.mark.parametrize("name", WITH_DAYS)
def test_the_seconds_of_a_day_are_divided_among_what_the_router_was_on(lake, name):
    [row] = read(
        lake,
        "select primary_s, backup_s, offline_s, unknown_s from marts.wan_availability_daily"
        f" where router_name = '{name}' and wan_date = date '2026-06-03'",
    )

    assert row == TIMELINES[name].day


def test_the_seconds_of_every_day_add_up(lake):
    off = read(
        lake,
        "select * from marts.wan_availability_daily where observed_s <> 86400"
        " or primary_s + backup_s + offline_s + unknown_s <> observed_s"
        " or known_s <> observed_s - unknown_s",
    )

    assert off == []


def test_attention_says_since_when_it_is_unknown_whether_a_router_is_on_a_backup(lake):
    messages = dict(
        read(lake, "select router_name, message from marts.attention where reason = 'on_backup'")
    )

    assert set(messages) == {"not over", "the return is missing, and nothing follows"}
    assert messages["not over"].startswith("On a backup for 13 hours")
    assert messages["the return is missing, and nothing follows"].startswith(
        "Last known on a backup 2 days ago, unknown since then: A instead of wan"
    )
