"""A simulated service in this process, and the settings that point to it.

Expected values never come from our own code: `truth` comes from the simulator.
"""

import asyncio
import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import Lake
from fleetlake.loading.ingest import ingest
from fleetlake.loading.outcome import Outcome
from fleetlake.settings import Settings
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
_SERIES = (
    *("alerts", "historical_locations", "net_device_signal_samples", "net_device_usage_samples"),
    *("router_alerts", "router_logs", "router_state_samples", "router_stream_usage_samples"),
)
EVENT_TIMES = {**dict.fromkeys(_SERIES, "created_at"), "activity_logs": "action_timestamp"}
"""The times of records that a load reads in order of time, as columns of the lake."""
KEYS = {
    "portal_api_id": "portal-id",
    "portal_api_key": "portal-key",
    "mgr_api_id": "admin-id",
    "mgr_api_key": "admin-key",
    "v3_token": "simulator-token",
}


AT_EACH_LOAD = {e.name: 0 for e in ENDPOINTS.values() if e.is_divisible}
"""Freshness of lists that are read device by device: each load asks each device."""


@dataclass
class Sim:
    """A simulated service in this process, its clock frozen."""

    app: Any
    folder: Path

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the response to one request."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                return await client.request(method, path, **request)

        response = asyncio.run(send())
        response.raise_for_status()
        return response

    def truth(self, resource: str, until: datetime | None = None) -> list[dict[str, Any]]:
        """Return every record that ever existed, as the simulator generated it."""
        parameters = {"until": until.isoformat()} if until else {}
        lines = self.ask("GET", f"/sim/truth/{resource}", params=parameters).text.splitlines()
        return [json.loads(line, strict=False) for line in lines]

    def advance(self, seconds: float) -> None:
        """Move the service's clock."""
        self.ask("POST", "/sim/clock", json={"advance_seconds": seconds})

    def faults(self, **rates: Any) -> None:
        """Make responses fail at these rates."""
        self.ask("PUT", "/sim/faults", json=rates)

    def calls(self, resource: str) -> int:
        """Return how many calls the service has counted for a resource."""
        return self.ask("GET", "/sim/state").json()["calls"].get(resource, 0)

    @property
    def transport(self) -> httpx.ASGITransport:
        """Return a transport for clients of this service."""
        return httpx.ASGITransport(app=self.app)

    def settings(self, **changes: Any) -> Settings:
        """Return settings that read this service into this test's lake."""
        values = {
            "base_url": "http://localhost/api/v2/",
            "v3_base_url": "http://localhost/api/v3",
            "lake": self.folder / "lake",
            "published": self.folder / "published",
            "reports": self.folder / "reports",
            "state": self.folder / "state",
            "push_journal": self.folder / "push-journal",
            "calls_per_minute": 0,
            "freshness": AT_EACH_LOAD,
            "clock": "service",  # the simulated clock stands still
            **KEYS,
            **changes,
        }
        return Settings(**values)

    def ingest(self, *names: str, **options: Any) -> list[Outcome]:
        """Load the endpoints, or all, into this test's lake."""
        transport = options.pop("transport", self.transport)
        return ingest(self.settings(), list(names), transport=transport, **options)


def new_sim(folder: Path, **options: Any) -> Sim:
    """Return a simulated service at its start, with an empty lake in the folder."""
    chosen = {"routers": 6, "days": 3, "now": NOW, "speed": 0, **options}
    return Sim(create_app(SimulatorOptions(**chosen)), folder)


def loaded_sim(folder: Path, empty_lake: Path, *names: str, **options: Any) -> Sim:
    """Return a service of which some or all endpoints were loaded, for a module's tests to copy."""
    sim = new_sim(folder, **options)
    shutil.copytree(empty_lake, folder / "lake")
    outcomes = sim.ingest(*names)
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return sim


def copied(loaded: Sim, folder: Path, **options: Any) -> Sim:
    """Return a service at its start, with a copy of the lake of a service with the same options."""
    shutil.copytree(loaded.folder / "lake", folder / "lake")
    return new_sim(folder, **options)


def delete_last_minute(lake: Lake, now: datetime) -> None:
    """Delete the events of the last minute from the raw tables, for a comparison of two lakes.

    A load may leave out its last minute, and how much of it depends on the machine's pace.
    """
    for name, at in EVENT_TIMES.items():
        lake.execute(f"delete from raw.{name} where {at} >= ?", [now - MINUTE])
