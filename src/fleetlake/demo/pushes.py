"""Pushed alerts in the demo and `fleetlake prefect up`: a simulated service pushes to a receiver.

The receiver is the one that users start, in a process of its own. The destination and the rule are
set up by the code of `fleetlake alerts setup`.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from fleetlake.alerting.account_settings import account_settings
from fleetlake.alerting.chosen_types import TYPE_GROUPS, chosen_types
from fleetlake.alerting.kept_secrets import KeptSecrets
from fleetlake.alerting.push_setup import PushSetup, Wanted
from fleetlake.demo import MOVE_SECONDS, READY, DemoFleet, move_clock, note_pushed
from fleetlake.endpoints import PUSHED
from fleetlake.errors import FleetlakeError
from fleetlake.lake import Lake, open_lake
from fleetlake.machine.child_environment import plain_environment
from fleetlake.settings import Settings
from fleetlake.text.wording import counted, duration_in_words

RECEIVER = (sys.executable, "-P", "-m", "fleetlake", "receive", "--port", "0", "--no-access-log")

LOOK_SECONDS = 0.05
ARRIVAL_SECONDS = 15.0
"""How long the demo waits for pushed alerts to be in the lake."""


@dataclass(frozen=True, kw_only=True)
class LivePart:
    """What was pushed in a part of simulated time, and came into the lake.

    `median_seconds` is from when the service sent alerts to when they were seen in the lake. It
    is not `received_at` less `created_at`, because hours of simulated time pass in a moment.
    """

    length: timedelta
    raised: int
    arrived: int
    median_seconds: float | None

    def __str__(self) -> str:
        """Return it in words.

        >>> LIVE = timedelta(hours=3)
        >>> print(LivePart(length=LIVE, raised=12, arrived=12, median_seconds=0.41))
        pushed: 12 alerts in the lake, 0.4 s after the service sent them (median)
        """
        if not self.raised:
            return f"pushed: nothing, as no alert was raised in {duration_in_words(self.length)}"
        if self.arrived < self.raised:
            return f"pushed: {self.arrived} of {self.raised} alerts in the lake; the load reads all"
        them = "them (median)" if self.raised > 1 else "it"
        return (
            f"pushed: {counted(self.raised, 'alert')} in the lake, "
            f"{self.median_seconds:.1f} s after the service sent {them}"
        )


def receiver_environment(settings: Settings) -> dict[str, str]:
    """Return the variables by which a receiver has these settings, whatever the project's are."""
    return {
        "FLEETLAKE_LAKE": str(settings.lake),
        "FLEETLAKE_PROFILE": settings.profile,
        "FLEETLAKE_PUSH_JOURNAL": str(settings.push_journal),
        "FLEETLAKE_PUSH_SECRETS": "",
        "FLEETLAKE_PUSH_SECRETS_FILE": str(settings.push_secrets_file),
        "FLEETLAKE_PUSH_SOURCES": "",
        "FLEETLAKE_VENDOR_WORDS": "",
    }


async def have_pushed(settings: Settings, receiver: str, *, has_test: bool = True) -> None:
    """Let the service push all types of alerts that have a name here to a receiver's address.

    `settings` have the service's address and keys, and the file in which the receiver finds the
    secret. Raises: FleetlakeError.
    """
    wanted = Wanted(
        url=f"{receiver}/push", name="fleetlake", types=chosen_types(TYPE_GROUPS), has_test=has_test
    )
    async with account_settings(settings) as account:
        await PushSetup(account, KeptSecrets(settings.push_secrets_file), wanted).run()


@contextmanager
def starting_receiver(settings: Settings) -> Iterator["DemoReceiver"]:
    """Start a receiver for a lake in a folder, with a journal and a secret that do not stay.

    It does not wait until the receiver is ready, so that the service can start meanwhile.
    """
    with tempfile.TemporaryDirectory(prefix="fleetlake-demo-") as folder:
        own = settings.model_copy(
            update={
                "lake": Path(str(settings.lake)).absolute(),
                "push_journal": Path(folder) / "push-journal",
                "push_secrets_file": Path(folder) / "push-secrets",
            }
        )
        with subprocess.Popen(  # noqa: S603 - our own command
            RECEIVER,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=plain_environment() | receiver_environment(own),
        ) as process:
            try:
                yield DemoReceiver(process, own)
            finally:
                process.terminate()


@dataclass(frozen=True)
class DemoReceiver:
    """A receiver that starts, and the settings that it has."""

    process: "subprocess.Popen[str]"
    settings: Settings

    def address(self) -> str:
        """Return its address once it accepts connections. Raises: FleetlakeError if it ended."""
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line.startswith(READY):
            said = self.process.stderr.read() if self.process.stderr else ""
            raise FleetlakeError(said.strip().removeprefix("Error: ") or "It ended at once.")
        return line.removeprefix(READY).strip()

    def live_part(self, service: Settings, url: str, until: datetime) -> tuple[int, list[float]]:
        """Have pushed what happens at the service until a time, and watch it arrive in the lake.

        `service` has the service's address and keys, `url` is its control plane. Its clock jumps,
        so all is sent at once. Returns how many messages were pushed, and for each
        that arrived after how many seconds. Afterwards the service pushes nothing any more.

        Raises: FleetlakeError, httpx.HTTPError, OSError.
        """
        address = self.address()
        own = service.model_copy(update={"push_secrets_file": self.settings.push_secrets_file})
        with open_lake(self.settings.lake) as lake:
            # Without a test message: it would be committed, and delay the next commit by 2 s.
            asyncio.run(have_pushed(own, address, has_test=False))
            since, raised_at = datetime.now(UTC), time.monotonic()
            move_clock(url, until)
            state = httpx.get(f"{url}/sim/state", timeout=MOVE_SECONDS).json()
            count = state["pushes"]["messages"]
            waits = list(_arrivals(lake, count, since=since, raised_at=raised_at))
        asyncio.run(_tear_down(service, address))
        return count, waits


def push_live(
    receiver: DemoReceiver, fleet: DemoFleet, service: Settings, url: str, until: datetime
) -> str:
    """Have pushed what happens at the service until a time; return in words what came of it.

    The demo goes on without pushes if they do not work on this machine.
    """
    began = fleet.live_from(until)
    try:
        note_pushed(Path(str(service.lake)), fleet, until)
        raised, waits = receiver.live_part(service, url, until)
    except (FleetlakeError, OSError, httpx.HTTPError) as error:
        return f"pushes are left out: {error}"
    median = statistics.median(waits) if waits else None
    return str(
        LivePart(length=until - began, raised=raised, arrived=len(waits), median_seconds=median)
    )


def _arrivals(lake: Lake, count: int, *, since: datetime, raised_at: float) -> Iterator[float]:
    """Yield after how many seconds each of so many pushed alerts was seen in the lake."""
    seen = 0
    while seen < count and time.monotonic() - raised_at < ARRIVAL_SECONDS:
        [(now,)] = lake.rows(
            f"select count(*) from raw.{PUSHED.name} where received_at >= ?", [since]
        )
        yield from [time.monotonic() - raised_at] * (now - seen)
        seen = now
        time.sleep(LOOK_SECONDS)


async def _tear_down(service: Settings, address: str) -> None:
    """Remove the destination of a receiver that is about to end, and its rule."""
    async with account_settings(service) as account:
        found = [one for one in await account.destinations() if one.url.startswith(address)]
        for destination in found:
            for rule in await account.rules():
                if destination.destination_id in rule.destination_ids:
                    await account.remove_rule(rule.rule_id)
            await account.remove_destination(destination.destination_id)
