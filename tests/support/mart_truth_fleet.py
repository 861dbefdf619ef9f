"""A simulated fleet that changes while it is ingested, and a comparison of marts with its truth."""

# ruff: noqa: T201 - it is run for what it prints

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl

from fleetlake.lake import Lake
from fleetlake.loading.ingest import ingest, raise_worst
from fleetlake.settings import Settings
from fleetsim.app import create_app
from fleetsim.options import SimulatorOptions

KEYS = {
    "portal_api_id": "portal-id",
    "portal_api_key": "portal-key",
    "mgr_api_id": "admin-id",
    "mgr_api_key": "admin-key",
}
BORN = datetime(2026, 5, 1, tzinfo=UTC)
HISTORY = timedelta(days=0.01)
"""The age of a fleet at the first poll; no record is older."""
POLL = timedelta(hours=6)
FIX_INTERVAL_S = 61.0
"""A moving vehicle takes a fix every minute, up to a second late."""
BEFORE_REMOVAL = timedelta(seconds=2)
POLLED = ["accounts", "batteries", "groups", "net_devices", "routers"]


class Fleet:
    """A simulated service in this process, its clock moved by hand."""

    def __init__(self, options: SimulatorOptions, lake: Path) -> None:
        self.options, self.lake = options, lake
        self.transport = httpx.ASGITransport(app=create_app(options))
        self.settings = Settings(
            base_url="http://localhost/api/v2/",
            lake=lake,
            calls_per_minute=0,
            clock="service",
            **KEYS,
        )

    def ask(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the response to one request."""

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(
                transport=self.transport, base_url="http://localhost", timeout=None
            ) as client:
                return await client.request(method, path, **request)

        return asyncio.run(send())

    def live(self, days: int, poll: timedelta = POLL) -> None:
        """Let the days pass while polling the batteries; then ingest everything.

        Unregistering a router deletes its data, so everything is also read just before that.
        """
        polls = [BORN + poll * (n + 1) for n in range(int(timedelta(days=days) / poll))]
        leaving = [at - BEFORE_REMOVAL for at in self._registrations_until(polls[-1])]
        for number, moment in enumerate(sorted({*polls, *leaving})):
            print(f"\r  poll {number + 1}", end="", file=sys.stderr, flush=True)
            self.advance_to(moment)
            names = [] if moment in leaving else POLLED
            raise_worst(ingest(self.settings, names, transport=self.transport))
        print("\n  everything else", file=sys.stderr)
        raise_worst(ingest(self.settings, [], transport=self.transport))

    def _registrations_until(self, end: datetime) -> list[datetime]:
        """Return when routers will be re-registered, from an identical fleet that runs ahead."""
        scout = Fleet(self.options, self.lake)
        scout.advance_to(end)
        return [at for (at,) in scout.truth("registrations").select("registered_at").rows()]

    def advance_to(self, moment: datetime) -> None:
        """Move the service's clock ahead to an instant."""
        seconds = (moment - self.now()).total_seconds()
        self.ask("POST", "/sim/clock", json={"advance_seconds": seconds})

    def truth(self, name: str, **parameters: str) -> pl.DataFrame:
        """Return what really happened."""
        answer = self.ask("GET", f"/sim/truth/{name}", params=parameters)
        lines = answer.text.splitlines()
        frame = pl.DataFrame([json.loads(line) for line in lines], infer_schema_length=None)
        times = [c for c in frame.columns if c.endswith("_at") and frame.schema[c] == pl.String]
        return frame.with_columns(pl.col(times).str.to_datetime(time_unit="us", time_zone="UTC"))

    def now(self) -> datetime:
        """Return the service's clock."""
        return datetime.fromisoformat(self.ask("GET", "/sim/state").json()["now"])


def born(*, routers: int, seed: int, lake: Path, **more: bool) -> Fleet:
    """Return a fleet at the start of its history."""
    history_days = HISTORY / timedelta(days=1)
    options = SimulatorOptions(
        routers=routers,
        days=history_days,
        seed=seed,
        now=BORN,
        speed=0,
        **more,
    )
    return Fleet(options, lake)


def compare(
    lake: Lake, truth: pl.DataFrame, sql: str, until: datetime, offline: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return the join of truth and mart, up to an instant."""
    spells = truth if offline is None else offline
    with lake.view("truth", truth.to_arrow()), lake.view("offline", spells.to_arrow()):
        return lake.execute(sql, [until] if "?" in sql else None).pl()


def is_matched(name: str, pairs: pl.DataFrame, at_most_s: float) -> bool:
    """Print matched, missed and invented rows with the errors; return whether all are correct."""
    missed = pairs.filter(pl.col("episode_id").is_null()).height
    invented = pairs.filter(pl.col("router_id").is_null()).height
    real = pairs.drop_nulls("router_id")
    twice = real.height - real.select("router_id", "started_at").unique().height
    print(
        f"{name}: {pairs.height - missed - invented:,} matched, {missed} missed, "
        f"{invented} invented, {twice} matched twice"
    )
    off = {e: pairs[e].drop_nulls() for e in pairs.columns if e.endswith("_error")}
    for error, values in off.items():
        if len(values):
            print(
                f"  {error.removesuffix('_error')} off by: median {values.median():.3f}, "
                f"99% below {values.quantile(0.99):.3f}, worst {values.max():.3f}"
            )
    worst_s = max((v.max() for e, v in off.items() if "_s_" in e and len(v)), default=0.0)
    return missed == invented == twice == 0 and worst_s <= at_most_s
