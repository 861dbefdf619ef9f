"""Load the streams of one account concurrently.

    plan -> walks (windows, pages) -> Arrow -> commit

A stream with a fan-out waits for the endpoint that lists its ids. One thread owns the lake and
commits while the next pages are being read. A stream that fails does not affect the others.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from graphlib import TopologicalSorter
from uuid import uuid4

from fleetlake.care.integrity.checksums import add_checksums
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import (
    ClockRefused,
    CredentialsRefused,
    EndpointUnavailable,
    FleetlakeError,
    ServiceError,
    StreamBusy,
    StreamFailed,
    UsageError,
)
from fleetlake.lake.clock_repair import ClockRepair, note_clock, repair_clock_claims
from fleetlake.lake.connection import Lake
from fleetlake.lake.locks import stream_lock
from fleetlake.lake.retention_rules import kept_from, set_rules
from fleetlake.lake.run_log import Calls, record_calls, record_capabilities
from fleetlake.lake.run_state import RunState
from fleetlake.lake.watermarks import (
    begin_reads,
    extend_start,
    forget_interval,
    never_read,
    newest_event,
)
from fleetlake.loading.load_plan import BulkList
from fleetlake.loading.outcome import Outcome, StreamRead
from fleetlake.loading.run import LakeThread, Run, Scope, Watcher, service_now
from fleetlake.loading.stream_loads import list_shrank, load_events, load_snapshot
from fleetlake.planning.intervals import Interval
from fleetlake.service.client import Client
from fleetlake.service.clock import Clock, skew_in_words

logger = logging.getLogger(__name__)

MAX_CAUSE_CHARACTERS = 300


@dataclass(frozen=True)
class StreamEnd:
    """The end of a stream, successful or not: its outcome, and what other streams need from it."""

    outcome: Outcome
    read: StreamRead


async def load_streams(
    endpoints: Sequence[Endpoint],
    client: Client,
    state: RunState,
    *,
    walks: int,
    watcher: Watcher | None = None,
    scope: Scope | None = None,
) -> list[Outcome]:
    """Load the new records of the endpoints' streams, within the scope.

    A stream that fails does not stop the others; its outcome holds the error. Raises:
    CredentialsRefused at once, and any error of the first call to the service.
    """
    scope = scope or Scope()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="lake") as thread:
        run_id = str(uuid4())
        in_lake = LakeThread(state, thread, client.clock, run_id=run_id)
        now = await _trusted_now(client, in_lake)
        prepare = partial(_prepare, clock=client.clock, endpoints=endpoints, scope=scope, now=now)
        newest, lateness = await in_lake.know(prepare)
        in_lake.note_service_time(newest)
        run = Run(
            client=client,
            lake=in_lake,
            watcher=watcher or Watcher(),
            walks=walks,
            profile=state.profile,
            run_id=run_id,
            scope=scope,
            lateness=lateness,
        )
        started_at = datetime.now(UTC)
        try:
            outcomes = await _load_concurrently(run, endpoints)
        except BaseException:
            await in_lake.commit_proofs()
            raise
        record = partial(
            _record_run, state=state, run=run, outcomes=outcomes, started_at=started_at
        )
        await in_lake.commit_proofs(also=record)
        for refusal in (o.error for o in outcomes if isinstance(o.error, ClockRefused)):
            await in_lake.know(partial(note_clock, refusal=refusal.what))
        return outcomes


async def _trusted_now(client: Client, in_lake: LakeThread) -> datetime:
    """Return the service's clock, UTC. Raises: ClockRefused, once the lake has an event of it."""
    try:
        return await service_now(client)
    except ClockRefused as refusal:
        await in_lake.know(partial(note_clock, refusal=refusal.what))
        raise


def _prepare(
    state: RunState, *, clock: Clock, endpoints: Sequence[Endpoint], scope: Scope, now: datetime
) -> tuple[datetime | None, Mapping[str, timedelta]]:
    """Record which streams are read for the first time.

    Return the newest event time of the account, and each endpoint's lateness so far.

    Raises: UsageError if `since` lies in the future.
    """
    if scope.since is not None and scope.since > now:
        raise UsageError(
            f"--since {scope.since:%Y-%m-%d %H:%M} UTC lies in the future: the service's clock "
            f"says {now:%Y-%m-%d %H:%M}.",
            remedy="Give an earlier time.",
        )
    # Compare with the later of the two clocks: a slow clock must not undo correct claims.
    lake, profile, latest = state.lake, state.profile, clock.latest()
    repairs = repair_clock_claims(state, endpoints, now=latest, is_checked=clock.is_checked)
    _warn_of_clocks(clock, repairs)
    note_clock(state, refusal=None)
    if scope.retention:
        set_rules(lake, scope.retention, now=now)
    if scope.only is not None:
        for endpoint in endpoints:
            _forget(lake, profile, endpoint, scope.only, now)
    shard = str(scope.shard)
    with state.single_snapshot():
        newest = newest_event(state.marks, until=now)
        lateness = state.lateness(now=now)
        new = never_read(state.reads, endpoints, shard)
    since = scope.since if scope.only is None else None
    begin_reads(lake, profile, new, shard, now=now, since=since)
    if since is not None:
        extend_start(lake, profile, endpoints, since)
    return newest, lateness


def _forget(lake: Lake, profile: str, endpoint: Endpoint, chosen: Interval, now: datetime) -> None:
    """Mark a chosen range as unread, as far back as the service and the lake keep records.

    Older parts stay as they are, because they cannot be read again. Raises: StreamBusy.
    """
    start = max(chosen.start, now - endpoint.retention) if endpoint.retention else chosen.start
    start = max(start, kept_from(lake).get(endpoint.name, start))
    if start < chosen.end:
        with stream_lock(lake.path, endpoint.name):
            forget_interval(lake, profile, endpoint, Interval(start, chosen.end))


def _warn_of_clocks(clock: Clock, repairs: Sequence[ClockRepair]) -> None:
    """Log that clocks differ, and which claims of a wrong clock were corrected in the lake."""
    if clock.is_doubtful:
        logger.warning(
            "The clocks differ: %s. Records are loaded up to the earlier one; correct the other.",
            skew_in_words(clock.skew),
        )
    if repairs:
        claimed = max(one.claimed_until for one in repairs)
        again = [one.sure_until for one in repairs if one.sure_until]
        logger.warning(
            "An earlier load used a clock that was fast, up to %s: %s. %s",
            f"{claimed:%Y-%m-%d %H:%M} UTC",
            ", ".join(one.endpoint for one in repairs),
            f"Ranges marked complete from {min(again):%Y-%m-%d %H:%M} UTC on are read again."
            if again
            else "Their times were corrected.",
        )


async def _load_concurrently(run: Run, endpoints: Sequence[Endpoint]) -> list[Outcome]:
    """Load all streams, each once the streams it needs have ended; return their outcomes."""
    streams = {endpoint.name: endpoint for endpoint in endpoints}
    order = TopologicalSorter(
        {name: _needed_by(endpoint) & streams.keys() for name, endpoint in streams.items()}
    )
    order.prepare()
    ends: dict[str, StreamEnd] = {}
    running: dict[asyncio.Task[StreamEnd], str] = {}
    try:
        while order.is_active():
            for name in order.get_ready():
                running[asyncio.create_task(_load_stream(run, streams[name], ends))] = name
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                end = ends[running[task]] = task.result()
                run.watcher.on_end(end.outcome)
                order.done(running.pop(task))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return [ends[name].outcome for name in streams]


def _needed_by(endpoint: Endpoint) -> set[str]:
    """Return the lists that a fan-out needs: its ids, and perhaps which of them have changed."""
    fan_out = endpoint.fan_out
    if fan_out is None:
        return set()
    return {fan_out.source, *([fan_out.moved.endpoint] if fan_out.moved else [])}


async def _load_stream(run: Run, endpoint: Endpoint, ends: Mapping[str, StreamEnd]) -> StreamEnd:
    """Load a stream; `ends` holds those that it needs, if this run loads them."""
    started, read = time.monotonic(), StreamRead()
    error: FleetlakeError | None = None
    fan_out = endpoint.fan_out
    try:
        if fan_out and (source := ends.get(fan_out.source)):
            await _require_ids(run, endpoint, source.outcome)
        moved = ends.get(fan_out.moved.endpoint) if fan_out and fan_out.moved else None
        read = await _read_stream(run, endpoint, moved)
        committed = run.lake.totals[endpoint.name]
        if committed.unconfirmed:
            error = list_shrank(endpoint, run.profile, committed)
    except FleetlakeError as failure:
        if isinstance(failure, CredentialsRefused) and endpoint.service is None:
            raise  # no other list of ours can be read either
        logger.debug("%s failed", endpoint.name, exc_info=True)
        error = failure
    except Exception as failure:  # a bug in one stream must not stop the others
        logger.debug("%s failed", endpoint.name, exc_info=True)
        error = _unexpected(run, endpoint, failure)
    committed = run.lake.totals[endpoint.name]
    outcome = Outcome(
        endpoint=endpoint.name,
        added=committed.added,
        changed=committed.changed,
        quarantined=committed.quarantined,
        calls=run.client.calls[endpoint.counted_as],
        seconds=time.monotonic() - started,
        error=error,
        profile=run.profile,
        skipped=read.skipped,
        lost=read.lost,
    )
    return StreamEnd(outcome, read)


async def _read_stream(run: Run, endpoint: Endpoint, moved: StreamEnd | None) -> StreamRead:
    """Read and commit a stream while holding its lock. Raises: StreamBusy.

    `moved` is the end of the bulk list that says which of a fan-out's ids changed.
    """
    with stream_lock(run.lake.path, endpoint.name, run.scope.shard):
        # Under the lock: otherwise another process could promote a member to a column.
        promoted = await run.lake.know(lambda state: state.widened(endpoint))
        now = await service_now(run.client)
        if endpoint.is_snapshot:
            return await load_snapshot(run, promoted, now=now)
        bulk = None
        if moved:
            bulk = BulkList(is_loaded=moved.outcome.error is None, ids=moved.read.listed)
        return await load_events(run, promoted, now=now, bulk=bulk)


async def _require_ids(run: Run, endpoint: Endpoint, source: Outcome) -> None:
    """Require that the ids were loaded at least once.

    Raises: ServiceError if they never were; StreamBusy if another process is loading them for the
    first time.
    """
    if source.error is None:
        return
    listing = ENDPOINTS[source.endpoint]
    if await run.lake.know(lambda state: state.newest_watermark(listing)) is not None:
        return
    if isinstance(source.error, StreamBusy):
        raise StreamBusy(f"{endpoint.name} waits for ids that another process is loading.")
    raise ServiceError(f"{endpoint.name} was not loaded because {source.endpoint} failed.")


def _unexpected(run: Run, endpoint: Endpoint, failure: Exception) -> StreamFailed:
    """Return the error for an unexpected failure: its cause on one line, without secrets."""
    text = " ".join(f"{type(failure).__name__}: {failure}".split())
    cause = run.client.without_keys(text)
    if len(cause) > MAX_CAUSE_CHARACTERS:
        cause = f"{cause[: MAX_CAUSE_CHARACTERS - 1]}…"
    return StreamFailed(
        f"{endpoint.name} stopped at an unexpected error: {cause.rstrip('.')}.",
        remedy="Committed data is kept, and the next load continues from there. Please report the "
        "error with the output of `fleetlake --debug ingest`.",
    )


def _record_run(
    lake: Lake, *, state: RunState, run: Run, outcomes: Sequence[Outcome], started_at: datetime
) -> None:
    """Record the calls of a run, what this account may not read, and checksums of new files.

    Writes in the open transaction.
    """
    counted = {o.endpoint: ENDPOINTS[o.endpoint].counted_as for o in outcomes}
    client = run.client
    calls = {
        name: Calls(client.calls[key], client.refusals[key], client.retries[key])
        for name, key in counted.items()
    }
    record_calls(lake, calls, run_id=run.run_id, profile=run.profile, started_at=started_at)
    refusals = {
        outcome.endpoint: outcome.error.what
        if isinstance(outcome.error, EndpointUnavailable)
        else None
        for outcome in outcomes
    }
    record_capabilities(state, refusals)
    add_checksums(lake)
