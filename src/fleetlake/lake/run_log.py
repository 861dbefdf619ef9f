"""Recording the calls of a run, the endpoints that an account may not read, and builds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fleetlake.lake.connection import Lake, has_meta

if TYPE_CHECKING:  # it imports what loads, which those who read need not
    from fleetlake.lake.run_state import RunState


@dataclass(frozen=True)
class Calls:
    """The requests for one endpoint: all of them, those refused for the limit, those repeated.

    `spared` ones were not made, because pushes bring the records.
    """

    made: int
    refused: int = 0
    retried: int = 0
    spared: int = 0


def record_calls(
    lake: Lake, calls: Mapping[str, Calls], *, run_id: str, profile: str, started_at: datetime
) -> None:
    """Record the calls per endpoint, in the open transaction."""
    import pyarrow as pa  # noqa: PLC0415 - those who only read need it not

    members = {
        "run_id": [run_id] * len(calls),
        "account_profile": [profile] * len(calls),
        "endpoint": list(calls.keys()),
        "calls": [one.made for one in calls.values()],
        "refusals": [one.refused for one in calls.values()],
        "retries": [one.retried for one in calls.values()],
        "spared": [one.spared for one in calls.values()],
        "started_at": [started_at] * len(calls),
    }
    with lake.view("calls_made", pa.table(members)):
        lake.execute(
            "insert into meta.calls by name select *, now() as finished_at from calls_made"
        )


def record_capabilities(state: "RunState", refusals: Mapping[str, str | None]) -> None:
    """Record which endpoints an account may read: the reason for a refusal, or None if it may.

    Writes only changes, in the open transaction.
    """
    lake, profile, known = state.lake, state.profile, state.capabilities
    for endpoint, reason in refusals.items():
        is_available = reason is None
        if known.get(endpoint, True) == is_available:
            continue
        lake.execute(
            "delete from meta.capabilities where account_profile = ? and endpoint = ?",
            [profile, endpoint],
        )
        lake.execute(
            "insert into meta.capabilities (account_profile, endpoint, is_available, reason, "
            "checked_at) values (?, ?, ?, ?, now())",
            [profile, endpoint, is_available, reason],
        )


def record_build(
    lake: Lake,
    *,
    seconds: float,
    is_good: bool,
    is_full: bool,
    models: int,
    tests: Mapping[str, int],
) -> None:
    """Record a build, in the open transaction. `tests` counts its data tests by dbt's status."""
    failed = tests.get("fail", 0) + tests.get("error", 0)
    lake.execute(
        "insert into meta.builds (built_at, seconds, is_good, is_full, models, failed_tests, "
        "warned_tests) values (now(), ?, ?, ?, ?, ?, ?)",
        [seconds, is_good, is_full, models, failed, tests.get("warn", 0)],
    )


@dataclass(frozen=True)
class StaleMart:
    """A mart that keeps its last good rows because builds fail since `since_at` (UTC)."""

    mart: str
    since_at: datetime


def record_stale_marts(lake: Lake, *, fresh: Collection[str], stale: Collection[str]) -> None:
    """Record which marts of a build changed and which did not, in the open transaction."""
    known = {one.mart for one in stale_marts(lake)}
    for mart in sorted(known & {*fresh}):
        lake.execute("delete from meta.stale_marts where mart = ?", [mart])
    for mart in sorted({*stale} - known):
        lake.execute("insert into meta.stale_marts (mart, since_at) values (?, now())", [mart])


def stale_marts(lake: Lake) -> list[StaleMart]:
    """Return the marts whose last build failed, by name; none if an older release made the lake."""
    if not has_meta(lake, "stale_marts"):
        return []
    found = lake.named_rows("select mart, since_at from meta.stale_marts order by mart")
    return [StaleMart(**row) for row in found]
