"""Two machines with a receiver, a journal and a drain each push into one shared lake."""

import os
import signal
from datetime import datetime
from pathlib import Path

from fleetlake.lake import open_lake
from fleetlake.lake_address import SharedLake
from fleetlake.receiving.journal_positions import read_positions
from fleetlake.receiving.journal_table import read_waiting
from tests.support.comparison import repeated_confirmations, wait_until_drained, word_of
from tests.support.processes import UNSETTLED, fleetlake, service
from tests.support.receivers import advance, deliver_all, receivers, subscribe

HOUR = 3600.0


def test_alerts_pushed_to_two_machines_are_in_their_shared_lake_once(
    tmp_path: Path, catalog: str, shared: SharedLake
) -> None:
    with open_lake(shared):  # creates it
        pass
    folders = [tmp_path / "journals-of-one", tmp_path / "journals-of-another"]
    place = {"lake": f"postgres:{catalog}", "lake_files": shared.files}
    with (
        service(routers=500, days=0.05, speed=0) as fleet,
        receivers(tmp_path, folders, fleet.url, **place) as made,
    ):
        subscribe(fleet, made)
        fleet.faults(push_concurrency=8, push_reorder=True, push_duplicate=0.1, push_reset=0.02)
        for number in (0, 1):
            advance(fleet, HOUR)
            drainer = made[number].drainer()
            assert drainer is not None
            os.kill(drainer, signal.SIGKILL)
            made[1 - number].kill()
            advance(fleet, HOUR)
        deliver_all(fleet)
        wait_until_drained(shared, folders)
        pushed = word_of(fleet).pushed(shared)
        advance(fleet, 600)
        wait_until_drained(shared, folders)
        polled = fleetlake("ingest", "alerts", env=made[0].env)
        settled = datetime.fromisoformat(fleet.state()["now"]) - UNSETTLED
        word = word_of(fleet)
        codes = [one.stop() for one in made]
    in_raw, shown = word.polled(shared, settled), word.shown(shared, settled)

    assert polled.returncode == 0, polled.stderr
    assert codes == [0, 0]
    assert pushed.alerts > 200  # how many depends on the time of day
    assert pushed.is_equal, pushed
    assert in_raw.is_equal, in_raw
    assert shown.is_equal, shown
    assert repeated_confirmations(shared) == 0
    waiting = [read_waiting(folder, {}) for folder in folders]
    with open_lake(shared, read_only=True) as lake:
        assert set(read_positions(lake)) == {one.journal_id for one in waiting}
    assert [one.messages for one in waiting] == [0, 0]
