"""The simulated fleet of the demo, and the service that has it.

The fleet continues between demos: its clock starts shortly before the first demo, and each demo
moves it to the present. A second demo finds the same fleet and loads only what happened since.
What happens in the last part of the move is pushed, too (`fleetlake.demo.pushes`).
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
from pydantic import SecretStr

from fleetlake.endpoints.relations import freshness_of
from fleetlake.errors import FleetlakeError, LakeError
from fleetlake.lake_address import DEMO_MARK
from fleetlake.machine.atomic_files import write_atomically
from fleetlake.machine.child_environment import plain_environment
from fleetlake.machine.io_faults import not_writable
from fleetlake.machine.ownership import require_own
from fleetlake.settings import ClockTrust, Settings
from fleetlake.text.tables_beside import text_beside

READY = "ready "

LIVE_PART = timedelta(hours=3)
"""Simulated time that passes during a demo. Forty routers raise 17 alerts in it, by the median."""

MOVE_SECONDS = 60.0
"""Timeout of moving the clock: everything that is due is pushed first."""


@dataclass(frozen=True, kw_only=True)
class DemoFleet:
    """The simulated fleet of a demo; its clock started at `born_at`, an ISO time.

    What happened before `pushed_until`, an ISO time too, was pushed by an earlier demo.
    """

    routers: int
    days: int
    seed: int
    born_at: str
    pushed_until: str | None = None

    def live_from(self, now: datetime) -> datetime:
        """Return from when on a demo at this time lets the service push what happens."""
        times = [now - LIVE_PART, datetime.fromisoformat(self.born_at)]
        if self.pushed_until:
            times.append(datetime.fromisoformat(self.pushed_until))
        return max(times)


def example_queries() -> Iterator[tuple[str, str]]:
    """Yield an operator's questions, each with the SQL that answers it."""
    for part in text_beside(__file__, "example_queries.sql").split("-- ")[1:]:
        question, _, sql = part.partition("\n")
        yield question, sql


def demo_fleet(lake: Path, *, routers: int, days: int, seed: int) -> DemoFleet:
    """Return the fleet in a demo's lake; create both if the lake does not exist.

    Raises: LakeError for a lake that was not created by a demo.
    """
    file = lake / DEMO_MARK
    require_own(lake, "lake", otherwise="set FLEETLAKE_LAKE to a folder of your own")
    if file.exists():
        return DemoFleet(**json.loads(file.read_text()))
    if (lake / "catalog.sqlite").exists():
        raise LakeError(
            f"The lake in {lake.resolve()} holds no demo; it was not changed.",
            remedy="Set FLEETLAKE_LAKE to another folder for the demo.",
        )
    born_at = (datetime.now(UTC) - LIVE_PART).isoformat()
    fleet = DemoFleet(routers=routers, days=days, seed=seed, born_at=born_at)
    try:
        lake.mkdir(parents=True, exist_ok=True)
        _remember(lake, fleet)
    except OSError as error:
        raise not_writable("lake", lake.resolve(), error, setting="FLEETLAKE_LAKE") from None
    return fleet


def note_pushed(lake: Path, fleet: DemoFleet, until: datetime) -> None:
    """Remember that what happened until a time need not be pushed by a later demo."""
    _remember(lake, replace(fleet, pushed_until=until.isoformat()))


def _remember(lake: Path, fleet: DemoFleet) -> None:
    write_atomically(lake / DEMO_MARK, json.dumps(asdict(fleet)))


def demo_settings(settings: Settings, url: str) -> Settings:
    """Return settings for the simulated service at `url`, without a call limit."""
    return settings.model_copy(
        update={
            "vendor_words": {},
            "header_names": None,
            "base_url": f"{url}/api/v2/",
            "v3_base_url": f"{url}/api/v3",
            "v3_token": SecretStr("simulator-token"),
            "portal_api_id": SecretStr("portal-id"),
            "portal_api_key": SecretStr("portal-key"),
            "mgr_api_id": SecretStr("admin-id"),
            "mgr_api_key": SecretStr("admin-key"),
            "calls_per_minute": 0,
            "clock": ClockTrust.SERVICE,
            "freshness": dict.fromkeys(freshness_of({}), 0),  # few devices: ask each at each load
        }
    )


@contextmanager
def running_simulator(fleet: DemoFleet) -> Iterator[str]:
    """Run the simulated service in a separate process; yield its address.

    Its clock is where the live part of this demo begins. Raises: FleetlakeError if it does not
    start.
    """
    options = {"--routers": fleet.routers, "--days": fleet.days, "--seed": fleet.seed}
    command = [sys.executable, "-P", "-m", "fleetsim", "--port", "0", "--now", fleet.born_at]
    command += [str(part) for option in options.items() for part in option]
    with subprocess.Popen(  # noqa: S603 - our own module
        command, stdout=subprocess.PIPE, text=True, env=plain_environment()
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith(READY):
                raise FleetlakeError(
                    "The simulated service did not start.",
                    remedy=f"Run it yourself to see why: {' '.join(command)}",
                )
            url = line.removeprefix(READY).strip()
            move_clock(url, fleet.live_from(datetime.now(UTC)))
            yield url
        finally:
            process.terminate()


def move_clock(url: str, until: datetime) -> None:
    """Advance the fleet's clock to a time; it never goes back."""
    state = httpx.get(f"{url}/sim/state", timeout=MOVE_SECONDS).json()
    now = datetime.fromisoformat(state["now"])
    seconds = (until - now).total_seconds()
    if seconds > 0:
        moved = httpx.post(
            f"{url}/sim/clock", json={"advance_seconds": seconds}, timeout=MOVE_SECONDS
        )
        moved.raise_for_status()
