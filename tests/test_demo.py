"""The live part of the demo: what the simulated service pushes, and what comes of it."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from fleetlake.demo import (
    LIVE_PART,
    DemoFleet,
    demo_fleet,
    demo_settings,
    note_pushed,
    running_simulator,
)
from fleetlake.demo.pushes import DemoReceiver, push_live, starting_receiver
from fleetlake.lake import open_lake
from fleetlake.settings import Settings

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
FLEET = DemoFleet(routers=1, days=1, seed=1, born_at=(NOW - LIVE_PART).isoformat())


def settings(lake: Path) -> Settings:
    """Return settings of a user who has pushes of a real service in the same project."""
    return Settings(lake=lake, push_journal=lake.parent / "own", push_sources="192.0.2.0/24")


def test_a_demo_pushes_what_happened_since_the_last_one_and_at_most_three_hours(tmp_path):
    (tmp_path / "lake").mkdir()
    first = FLEET.live_from(NOW)
    note_pushed(tmp_path / "lake", FLEET, NOW)
    again = demo_fleet(tmp_path / "lake", routers=9, days=9, seed=9)

    assert first == NOW - LIVE_PART
    assert again.live_from(NOW + timedelta(minutes=3)) == NOW
    assert again.live_from(NOW + timedelta(days=3)) == NOW + timedelta(days=3) - LIVE_PART


def test_the_fleet_of_an_earlier_release_is_pushed_from_when_it_was_born(tmp_path):
    (tmp_path / "lake").mkdir()
    born = {"routers": 1, "days": 1, "seed": 1, "born_at": NOW.isoformat()}
    (tmp_path / "lake" / "demo.json").write_text(json.dumps(born))

    fleet = demo_fleet(tmp_path / "lake", routers=9, days=9, seed=9)

    assert fleet.live_from(NOW + timedelta(minutes=3)) == NOW


def test_a_demo_whose_receiver_cannot_listen_says_so_and_goes_on(tmp_path):
    (tmp_path / "lake").mkdir()
    ends = "import sys; sys.exit('Error: Cannot listen on 127.0.0.1, port 0: none is free.')"
    with subprocess.Popen(
        [sys.executable, "-c", ends], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        receiver = DemoReceiver(process, settings(tmp_path / "lake"))
        said = push_live(receiver, FLEET, settings(tmp_path / "lake"), "http://127.0.0.1:9", NOW)

    assert said == "pushes are left out: Cannot listen on 127.0.0.1, port 0: none is free."


@pytest.mark.proof
def test_every_alert_that_is_pushed_is_in_the_lake_and_the_users_own_journal_is_not_touched(
    tmp_path,
):
    fleet = demo_fleet(tmp_path / "lake", routers=20, days=1, seed=1)
    own = settings(tmp_path / "lake")
    with starting_receiver(own) as receiver, running_simulator(fleet) as url:
        service = demo_settings(own, url)
        said = push_live(receiver, fleet, service, url, datetime.now(UTC))
        pushes = httpx.get(f"{url}/sim/truth/pushes").text.splitlines()
        destinations = httpx.get(f"{url}/sim/truth/alert_push_destinations").text.splitlines()

    served = sorted(alert for line in pushes for alert in json.loads(line)["alerts"])
    with open_lake(tmp_path / "lake", read_only=True) as lake:
        rows = lake.rows("select push_id from raw.pushed_alerts order by all")
    assert [push_id for (push_id,) in rows] == served
    assert re.fullmatch(
        rf"pushed: {len(served)} alerts? in the lake, \d+\.\d s after the service sent .*", said
    )
    assert len(destinations) == 1, "what was set up is removed"
    assert not own.push_journal.exists()
