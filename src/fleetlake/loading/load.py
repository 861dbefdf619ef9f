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

from fleetlake.concurrency import all_of
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import (
    CredentialsRefused,
    EndpointUnavailable,
    FleetlakeError,
    ServiceError,
    StreamBusy,
    StreamFailed,
    UsageError,
)
from fleetlake.lake.commit import commit_proofs
from fleetlake.lake.connection import Lake
from fleetlake.lake.evolution.promotions import with_promoted
from fleetlake.lake.future import TakenBack, take_back_future
from fleetlake.lake.lateness import measured_lateness
from fleetlake.lake.loads import Committed, ShrinkRule
from fleetlake.lake.locks import stream_lock
from fleetlake.lake.watermarks import (
    begin_reads,
    forget_interval,
    never_read,
    newest_event,
    want_since,
    watermark,
)
from fleetlake.loading.run import Outcome, Run, Watcher
from fleetlake.loading.streams import load_events, load_snapshot
from fleetlake.loading.writer import Writer
from fleetlake.planning.coverage import unsettled
from fleetlake.planning.intervals import Interval
from fleetlake.planning.shards import WHOLE, Shard
from fleetlake.service.client import Client
from fleetlake.service.clock import skew_in_words

logger = logging.getLogger(__name__)

LONGEST_CAUSE = 300


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
    A stream that fails does not stop the others, whatever the error; its outcome holds it.
    Raises: CredentialsRefused at once, and whatever ends the first contact with the service.
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
            await run.in_lake(partial(commit_proofs, lake, run.proofs()))
            raise
        record = partial(_record_run, run, outcomes, started_at)
        await run.in_lake(partial(commit_proofs, lake, run.proofs(), also=record))
        return outcomes


def _prepare(run: Run, endpoints: Sequence[Endpoint], now: datetime) -> None:
    """Learn how late records were, and note which streams are read for the first time.

    Raises: UsageError where nothing is wanted but what is still to come.
    """
    if run.since is not None and run.since > now:
        raise UsageError(
            f"--since {run.since:%Y-%m-%d %H:%M} UTC lies in the future: the service's clock says "
            f"{now:%Y-%m-%d %H:%M}.",
            remedy="Give an earlier time.",
        )
    clock = run.client.clock
    # By the later of two clocks: a slow one must not take back what is true.
    latest, is_checked = clock.latest(), clock.is_checked
    taken = take_back_future(run.lake, run.profile, endpoints, now=latest, is_checked=is_checked)
    _tell_of_clocks(run, taken)
    clock.show(newest_event(run.lake, run.profile, until=now))
    if run.only is not None:
        for endpoint in endpoints:
            _forget(run, endpoint, run.only, now)
    shard = str(run.shard)
    with run.lake.single_snapshot():
        run.lateness.update(measured_lateness(run.lake, run.profile, now=now))
        new = never_read(run.lake, run.profile, endpoints, shard)
    since = run.since if run.only is None else None
    begin_reads(run.lake, run.profile, new, shard, now=now, since=since)
    if since is not None:
        want_since(run.lake, run.profile, endpoints, since)


def _forget(run: Run, endpoint: Endpoint, chosen: Interval, now: datetime) -> None:
    """Take a chosen range as unread, as far as the service still holds it.

    What it no longer holds stays as it was read at the time. Raises: StreamBusy.
    """
    start = max(chosen.start, now - endpoint.retention) if endpoint.retention else chosen.start
    if start < chosen.end:
        with stream_lock(run.lake.path, endpoint.name):
            forget_interval(run.lake, run.profile, endpoint, Interval(start, chosen.end))


def _tell_of_clocks(run: Run, taken: Sequence[TakenBack]) -> None:
    """Log that clocks differ, and what the lake claimed because one of them was wrong before."""
    clock = run.client.clock
    if clock.is_doubtful:
        logger.warning(
            "The clocks differ: %s. Records are loaded up to the earlier one; correct the other.",
            skew_in_words(clock.skew),
        )
    if taken:
        claimed = max(one.claimed_until for one in taken)
        again = [one.sure_until for one in taken if one.sure_until]
        logger.warning(
            "An earlier load went by a clock that ran ahead, up to %s: %s. %s",
            f"{claimed:%Y-%m-%d %H:%M} UTC",
            ", ".join(one.endpoint for one in taken),
            f"What was called complete from {min(again):%Y-%m-%d %H:%M} UTC on is read again."
            if again
            else "Their times were corrected.",
        )


async def _load_in_turn(run: Run, endpoint: Endpoint) -> Outcome:
    """Load a stream after those that its fan-out needs; let those that wait for it go on."""
    try:
        outcome = await _load_stream(run, endpoint)
        run.watcher.on_end(outcome)
        run.ended[endpoint.name].set_result(outcome)
        return outcome
    finally:
        run.ended[endpoint.name].cancel()


async def _await_source(run: Run, endpoint: Endpoint) -> None:
    """Wait for the lists that a fan-out needs.

    Raises: ServiceError where it has no ids; StreamBusy where another process is loading them
    for the first time.
    """
    if endpoint.fan_out is None:
        return
    source, moved = run.ended.get(endpoint.fan_out.source), endpoint.fan_out.moved
    if moved is not None and moved.endpoint in run.ended:
        await asyncio.wait([run.ended[moved.endpoint]])
    if source is None or not await _is_lost(run, await source):
        return
    if isinstance((await source).error, StreamBusy):
        raise StreamBusy(f"{endpoint.name} waits for ids that another process is loading.")
    raise ServiceError(f"{endpoint.name} was not asked: {endpoint.fan_out.source} failed.")


async def _is_lost(run: Run, source: Outcome) -> bool:
    """Return whether a stream failed that was never loaded before, so that no id is known."""
    if source.error is None:
        return False
    endpoint = ENDPOINTS[source.endpoint]
    return await run.in_lake(partial(watermark, run.lake, run.profile, endpoint)) is None


async def _load_stream(run: Run, endpoint: Endpoint) -> Outcome:
    started = time.monotonic()
    total: Committed = Committed(0, 0, 0)
    error: FleetlakeError | None = None
    try:
        await _await_source(run, endpoint)
        started = time.monotonic()
        with stream_lock(run.lake.path, endpoint.name, run.shard):
            # Only now: until the stream is held, a member of it may become a column.
            [endpoint] = await run.in_lake(partial(with_promoted, run.lake, [endpoint]))
            now = await run.now()
            writer = Writer(
                endpoint,
                run.commit,
                profile=run.profile,
                run_id=run.run_id,
                seen_at=await _seen_at(run, endpoint, now),
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
    except Exception as failure:  # a bug in one stream must not cost the others
        logger.debug("%s failed", endpoint.name, exc_info=True)
        error = _unforeseen(run, endpoint, failure)
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


async def _seen_at(run: Run, endpoint: Endpoint, now: datetime) -> datetime:
    """Return when a load sees its stream; of a list kept as history, never before the last load.

    Machines whose clocks differ may load it in turn, and a version cannot end before it begins.
    """
    if endpoint.mode is not Mode.HISTORY:
        return now
    last = await run.in_lake(partial(watermark, run.lake, run.profile, endpoint))
    return max(now, last) if last else now


def _unforeseen(run: Run, endpoint: Endpoint, failure: Exception) -> StreamFailed:
    """Return an error that says in one line what ended a stream, without what is secret."""
    said = run.client.without_keys(" ".join(f"{type(failure).__name__}: {failure}".split()))
    said = said if len(said) <= LONGEST_CAUSE else f"{said[: LONGEST_CAUSE - 1]}…"
    return StreamFailed(
        f"{endpoint.name} stopped at an error that should not happen: {said.rstrip('.')}.",
        remedy="What was committed is kept, and the next load goes on from there. Please report "
        "it, with what `fleetlake --debug ingest` prints.",
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
