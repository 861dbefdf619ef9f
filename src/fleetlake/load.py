"""The story of a load: what is still to be read, read it, keep it.

    plan (intervals) -> walks (windows, pages) -> Arrow (normalise) -> commit (lake)

Streams load side by side; one that is fanned out waits for the endpoint that lists its ids.
One thread owns the lake and commits while the next pages are on their way.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import pyarrow as pa

from fleetlake.client import Client
from fleetlake.endpoint import Endpoint
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import (
    CredentialsRefused,
    EndpointUnavailable,
    FleetlakeError,
    ServiceError,
    StreamBusy,
)
from fleetlake.intervals import Interval
from fleetlake.lake.catalog import Lake
from fleetlake.lake.commit import commit_proofs
from fleetlake.lake.lateness import measured_lateness
from fleetlake.lake.loads import Committed, ShrinkRule
from fleetlake.lake.locks import stream_lock
from fleetlake.lake.watermarks import begin_reads, never_read, want_since, watermark
from fleetlake.plan import unsettled
from fleetlake.run import Outcome, Run, Watcher
from fleetlake.shard import WHOLE, Shard
from fleetlake.streams import load_events, load_snapshot
from fleetlake.tasks import all_of
from fleetlake.writer import Writer

logger = logging.getLogger(__name__)


async def load_streams(
    endpoints: Sequence[Endpoint],
    client: Client,
    lake: Lake,
    *,
    walks: int,
    watcher: Watcher | None = None,
    profile: str,
    since: datetime | None = None,
    only: Interval | None = None,
    shard: Shard = WHOLE,
    shrink_pct: int = ShrinkRule.limit_pct,
    accept_shrunk: Collection[str] = (),
) -> list[Outcome]:
    """Load the endpoints' streams, all that is new since their last load.

    `only` bounds the event time, for a chosen past range; `shard` the ids of divisible streams.
    A list that lost more than `shrink_pct` percent closes nothing, unless in `accept_shrunk`.
    A stream that fails does not stop the others; its outcome holds the error. Raises:
    CredentialsRefused at once, and whatever ends the first contact with the service.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="lake") as thread:
        run = Run(
            client=client,
            lake=lake,
            thread=thread,
            watcher=watcher or Watcher(),
            walks=walks,
            profile=profile,
            since=since,
            run_id=str(uuid4()),
            only=only,
            shard=shard,
            shrink_pct=shrink_pct,
            accept_shrunk=accept_shrunk,
        )
        await run.in_lake(partial(_prepare, run, endpoints, await run.now()))
        started_at = datetime.now(UTC)
        loop = asyncio.get_running_loop()
        run.ended.update({endpoint.name: loop.create_future() for endpoint in endpoints})
        try:
            outcomes = await all_of(_load_in_turn(run, endpoint) for endpoint in endpoints)
        except BaseException:
            await run.in_lake(partial(commit_proofs, lake, run.quiet))
            raise
        record = partial(_record_run, run, outcomes, started_at)
        await run.in_lake(partial(commit_proofs, lake, run.quiet, also=record))
        return outcomes


def _prepare(run: Run, endpoints: Sequence[Endpoint], now: datetime) -> None:
    """Learn how late records were, and note which streams are read for the first time."""
    shard = str(run.shard)
    with run.lake.one_look():
        run.lateness.update(measured_lateness(run.lake, run.profile, now=now))
        new = never_read(run.lake, run.profile, endpoints, shard)
    since = run.since if run.only is None else None
    begin_reads(run.lake, run.profile, new, shard, now=now, since=since)
    if since is not None:
        want_since(run.lake, run.profile, endpoints, since)


async def _load_in_turn(run: Run, endpoint: Endpoint) -> Outcome:
    """Load a stream after those that its fan-out needs; let those that wait for it go on."""
    try:
        lost = await _lost_source(run, endpoint)
        if lost is None:
            outcome = await _load_stream(run, endpoint)
        else:
            outcome = Outcome(endpoint.name, 0, 0, 0, 0, 0.0, lost, run.profile)
        run.watcher.on_end(outcome)
        run.ended[endpoint.name].set_result(outcome)
        return outcome
    finally:
        run.ended[endpoint.name].cancel()


async def _lost_source(run: Run, endpoint: Endpoint) -> FleetlakeError | None:
    """Wait for the lists that a fan-out needs; return why it has no ids, or None if it has.

    Where another process is loading the ids for the first time, it is busy, not failed.
    """
    if endpoint.fan_out is None:
        return None
    source, moved = run.ended.get(endpoint.fan_out.source), endpoint.fan_out.moved
    if moved is not None and moved.endpoint in run.ended:
        await asyncio.wait([run.ended[moved.endpoint]])
    if source is None or not await _is_lost(run, await source):
        return None
    if isinstance((await source).error, StreamBusy):
        return StreamBusy(f"{endpoint.name} waits for ids that another process is loading.")
    return ServiceError(f"{endpoint.name} was not asked: {endpoint.fan_out.source} failed.")


async def _is_lost(run: Run, source: Outcome) -> bool:
    """Return whether a stream failed that was never loaded before, so that no id is known."""
    if source.error is None:
        return False
    endpoint = ENDPOINTS[source.endpoint]
    return await run.in_lake(partial(watermark, run.lake, run.profile, endpoint)) is None


async def _load_stream(run: Run, endpoint: Endpoint) -> Outcome:
    started = time.monotonic()
    total, error = Committed(0, 0, 0), None
    try:
        with stream_lock(run.lake.path, endpoint.name, run.shard):
            now = await run.now()
            writer = Writer(
                endpoint,
                run.commit,
                profile=run.profile,
                run_id=run.run_id,
                seen_at=now,
                unsettled=unsettled(now, run.lateness.get(endpoint.name)),
                shrink=run.shrink_rule(endpoint.name),
            )
            load = load_snapshot if endpoint.is_snapshot else load_events
            try:
                await load(run, endpoint, writer)
            finally:
                total = writer.total
    except CredentialsRefused:
        raise
    except FleetlakeError as failure:
        logger.debug("%s failed", endpoint.name, exc_info=True)
        error = failure
    return Outcome(
        endpoint.name,
        total.added,
        total.changed,
        total.quarantined,
        run.client.calls[endpoint.path],
        time.monotonic() - started,
        error,
        run.profile,
        run.spared[endpoint.name],
        run.lost[endpoint.name],
    )


def _record_run(run: Run, outcomes: Sequence[Outcome], started_at: datetime) -> None:
    """Keep the calls that were made, and which endpoints this account may not read.

    Within the open transaction.
    """
    members = {
        "run_id": [run.run_id] * len(outcomes),
        "account_profile": [run.profile] * len(outcomes),
        "endpoint": [outcome.endpoint for outcome in outcomes],
        "calls": [outcome.calls for outcome in outcomes],
        "started_at": [started_at] * len(outcomes),
    }
    with run.lake.view("calls_made", pa.table(members)):
        run.lake.execute(
            "insert into meta.calls by name select *, now() as finished_at from calls_made"
        )
    _record_capabilities(run, outcomes)


def _record_capabilities(run: Run, outcomes: Sequence[Outcome]) -> None:
    known = dict(
        run.lake.rows(
            "select endpoint, is_available from meta.capabilities where account_profile = ?",
            [run.profile],
        )
    )
    for o in outcomes:
        is_available = not isinstance(o.error, EndpointUnavailable)
        if known.get(o.endpoint, True) == is_available:
            continue
        run.lake.execute(
            "delete from meta.capabilities where account_profile = ? and endpoint = ?",
            [run.profile, o.endpoint],
        )
        run.lake.execute(
            "insert into meta.capabilities (account_profile, endpoint, is_available, reason, "
            "checked_at) values (?, ?, ?, ?, now())",
            [run.profile, o.endpoint, is_available, o.error.what if o.error else None],
        )
