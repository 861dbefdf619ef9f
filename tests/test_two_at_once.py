"""Two concurrent ingests into one lake: one call limit, and every row once."""

import signal
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.processes import UNSETTLED, Service, environment, fleetlake, service, start
from tests.test_crash import compare

CALLS_PER_MINUTE = 40
WAIT_SECONDS = 300
HELD_SECONDS = 3


OF_INTERFACES = ("ingest", "net_device_usage_samples", "net_device_signal_samples", "alerts")
OF_ROUTERS = ("ingest", "historical_locations", "router_logs", "router_state_samples")


def calls(fleet: Service) -> int:
    """Return the number of calls that the service counted."""
    return sum(fleet.state()["calls"].values())


@pytest.mark.release
@pytest.mark.xdist_group("processes")
def test_two_ingests_at_once_share_the_call_limit_and_keep_each_row_once(tmp_path: Path) -> None:
    with service(routers=25, days=2) as fleet:
        free = environment(tmp_path, fleet.url)
        assert fleetlake("ingest", "routers", "net_devices", env=free).returncode == 0
        before = calls(fleet)
        limited = environment(tmp_path, fleet.url, calls_per_minute=CALLS_PER_MINUTE)
        both = [start(*names, env=limited) for names in (OF_INTERFACES, OF_ROUTERS)]
        began = time.monotonic()
        while calls(fleet) - before < CALLS_PER_MINUTE:
            assert time.monotonic() - began < WAIT_SECONDS
            time.sleep(0.1)
        time.sleep(HELD_SECONDS)  # long enough for a hundred more calls if they were not limited
        within_the_minute = calls(fleet) - before
        still_waiting = [process.poll() is None for process in both]
        for process in both:
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_SECONDS)

        now = datetime.fromisoformat(fleet.state()["now"])
        codes = [
            process.wait(WAIT_SECONDS)
            for process in [start("ingest", env=free), start("ingest", env=free)]
        ]
        settled = now - UNSETTLED
        rows, doubles, losses = compare(fleet, free, settled.isoformat())

    assert within_the_minute == CALLS_PER_MINUTE
    assert any(still_waiting)
    assert codes == [0, 0]
    assert rows > 1_000
    assert (doubles, losses) == (0, 0)
