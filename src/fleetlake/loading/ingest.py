"""Ingest as one function call: settings in, outcomes out. The CLI and the flows call this."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx

from fleetlake.endpoints import (
    endpoint_named,
    endpoints_named,
    requested_endpoints,
    require_requested,
)
from fleetlake.endpoints.model import Api, Endpoint, Mode
from fleetlake.endpoints.relations import freshness_of
from fleetlake.errors import (
    EndpointUnavailable,
    Interrupted,
    LakeError,
    ServiceError,
    SettingsError,
    StreamBusy,
    StreamFailed,
    UsageError,
)
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.current import listed_groups
from fleetlake.lake.evolution.promote import replace_superseded
from fleetlake.lake.retention_rules import require_rules
from fleetlake.lake.run_state import RunState
from fleetlake.lake_address import DEMO_MARK
from fleetlake.loading.load import load_streams
from fleetlake.loading.outcome import Outcome
from fleetlake.loading.run import Scope, Watcher
from fleetlake.loading.when_due import spare_polls
from fleetlake.planning.intervals import Interval
from fleetlake.planning.shards import WHOLE, Shard
from fleetlake.service.client import Client
from fleetlake.service.clock import machine_now
from fleetlake.settings import Settings
from fleetlake.text.wording import did_you_mean

logger = logging.getLogger(__name__)

_STOPS = (signal.SIGINT, signal.SIGTERM)


def ingest(
    settings: Settings,
    names: Sequence[str],
    *,
    watcher: Watcher | None = None,
    since: datetime | None = None,
    shard: Shard = WHOLE,
    accept_shrunk: Sequence[str] = (),
    when_due: bool = False,
    transport: httpx.AsyncBaseTransport | None = None,
) -> list[Outcome]:
    """Load the named endpoints, or all of them, and return the outcome of each stream.

    If an endpoint takes its ids from a list that was never loaded, that list is loaded too.
    Accounts are read one after the other. The first shard also loads the endpoints that cannot be
    divided. The lists in `accept_shrunk` may have lost any number of records. With `when_due`, for
    scheduled loads, a list is left out while pushes bring its records; it never waits for an hour.

    Raises: UsageError, SettingsError, LakeError, or ServiceError if no stream could start;
    Interrupted on Ctrl-C or SIGTERM, after the current commit has ended.
    """
    watcher = watcher or Watcher()
    accounts = settings.accounts()
    require_lists(accept_shrunk, names)
    require_rules(settings.retention)
    readable = {account.profile: endpoints_to_read(account, names) for account in accounts}
    for account in accounts[1:]:  # another service has no accounts of ours
        ours = [e for e in readable[account.profile] if e.service is None]
        readable[account.profile] = ours
    _require_service(accounts)
    refuse_demo_lake(settings)
    scope = Scope(
        since=since,
        shard=shard,
        shrink_pct=settings.shrink_pct,
        accept_shrunk=accept_shrunk,
        retention=settings.retention,
        freshness=freshness_of(settings.freshness),
        group_freshness={
            name.lower(): timedelta(hours=hours) for name, hours in settings.group_freshness.items()
        },
    )
    with open_lake(settings.lake, threads=1) as lake:
        _warn_of_unknown_groups(lake, scope.group_freshness)

        def load_account(account: Settings) -> list[Outcome]:
            state = RunState(lake, account.profile)
            _replace_promoted(state)
            named = [e for e in readable[account.profile] if e.is_divisible or shard.number == 1]
            spared = (
                spare_polls(lake, account.profile, named, now=machine_now()) if when_due else []
            )
            for outcome in spared:
                watcher.on_end(outcome)
            named = [e for e in named if e.name not in {outcome.endpoint for outcome in spared}]
            if spared and not named:
                return spared
            work = partial(
                load_streams,
                _with_sources(state, named),
                state=state,
                walks=settings.concurrency,
                watcher=watcher,
                scope=scope,
            )
            return spared + asyncio.run(_ingest(account, transport, work, watcher))

        return _load_accounts(accounts, load_account)


def backfill(
    settings: Settings,
    name: str,
    interval: Interval,
    *,
    watcher: Watcher | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> list[Outcome]:
    """Read a past range of one endpoint again and store what was missing or has changed.

    The range is marked as unread first, so the next ingest finishes a stopped backfill. It uses a
    quarter of the usual walks, to leave calls for scheduled loads. Raises: UsageError for an
    endpoint without event times, and the errors of `ingest`.
    """
    endpoint = endpoint_with_past(name)
    accounts = settings.accounts()
    require_rules(settings.retention)
    _require_service(accounts)
    refuse_demo_lake(settings)
    with open_lake(settings.lake, threads=1) as lake:

        def load_account(account: Settings) -> list[Outcome]:
            state = RunState(lake, account.profile)
            _replace_promoted(state)
            work = partial(
                load_streams,
                [endpoint],
                state=state,
                walks=max(1, settings.concurrency // 4),
                watcher=watcher,
                scope=Scope(since=interval.start, only=interval, retention=settings.retention),
            )
            return asyncio.run(_ingest(account, transport, work, watcher or Watcher()))

        return _load_accounts(accounts, load_account)


def endpoint_with_past(name: str) -> Endpoint:
    """Return an endpoint that has event times. Raises: UsageError for any other name."""
    endpoint = endpoint_named(name)
    require_requested([endpoint])
    if endpoint.is_snapshot:
        raise UsageError(
            f"{name} is read whole each time, so it has no past range to read again.",
            remedy=f"Run `fleetlake ingest {name}`; backfill takes endpoints with event times.",
        )
    return endpoint


def require_lists(shrunk: Sequence[str], names: Sequence[str]) -> None:
    """Refuse endpoints that are not kept as history, or that will not be loaded.

    Raises: UsageError.
    """
    for endpoint in endpoints_named(shrunk):
        if endpoint.mode is not Mode.HISTORY:
            raise UsageError(
                f"{endpoint.name} loses no rows when the service lists fewer records.",
                remedy="Omit it: only a list that is kept as history can shrink.",
            )
        if names and endpoint not in endpoints_named(names):
            raise UsageError(
                f"{endpoint.name} is not among the endpoints to load.",
                remedy=f"Name it: `fleetlake ingest {endpoint.name} "
                f"--accept-shrunk {endpoint.name}`.",
            )


def raise_worst(
    outcomes: Sequence[Outcome], *, named: Collection[str] = (), may_skip: bool = True
) -> None:
    """Raise the error of the first failed stream, if any; unexpected errors come first.

    A stream that another process loads has not failed if it `may_skip` this turn. Nor has one that
    the account may not read, unless it is one of the endpoints that the user `named`.
    """
    failed = [
        outcome.error
        for outcome in outcomes
        if outcome.error and not (may_skip and isinstance(outcome.error, StreamBusy))
        if outcome.endpoint in named or not isinstance(outcome.error, EndpointUnavailable)
    ]
    for error in sorted(failed, key=lambda error: not isinstance(error, StreamFailed)):
        raise error


def _load_accounts(
    accounts: Sequence[Settings], load: Callable[[Settings], list[Outcome]]
) -> list[Outcome]:
    """Load all accounts and return their outcomes; an account that fails does not stop others.

    Raises: the first ServiceError of an account, after all accounts were read.
    """
    outcomes: list[Outcome] = []
    failed: ServiceError | None = None
    for account in accounts:
        try:
            outcomes += load(account)
        except ServiceError as error:
            if len(accounts) > 1:
                logger.warning("profile %s: %s", account.profile, error)
            failed = failed or error
    if failed:
        raise failed
    return outcomes


async def _ingest(
    settings: Settings,
    transport: httpx.AsyncBaseTransport | None,
    load: Callable[[Client], Coroutine[Any, Any, list[Outcome]]],
    watcher: Watcher,
) -> list[Outcome]:
    async with Client(settings, transport=transport) as client:
        work = asyncio.ensure_future(load(client))
        _stop_on_signal(work, watcher)
        try:
            return await work
        except asyncio.CancelledError:
            raise Interrupted(
                "The ingest was stopped.",
                remedy="Everything committed is kept; run it again to continue from there.",
            ) from None


def _stop_on_signal(work: asyncio.Future[list[Outcome]], watcher: Watcher) -> None:
    """Let Ctrl-C and SIGTERM stop the work cleanly; a second signal ends the process at once.

    Only the main thread receives signals, so this does nothing in any other thread.
    """
    loop = asyncio.get_running_loop()

    def stop() -> None:
        for number in _STOPS:
            loop.add_signal_handler(number, os._exit, Interrupted.exit_code)
        watcher.on_stop()
        work.cancel()

    try:
        for number in _STOPS:
            loop.add_signal_handler(number, stop)
    except (RuntimeError, ValueError):
        return


def _replace_promoted(state: RunState) -> None:
    """Replace promoted columns that this release has itself; most lakes have none."""
    with state.single_snapshot():
        has_promoted = bool(state.promotions)
    if has_promoted:
        replace_superseded(state.lake)


def _warn_of_unknown_groups(lake: Lake, chosen: Collection[str]) -> None:
    """Log which groups of the setting `group_freshness` the last list of groups did not have."""
    known = listed_groups(lake) if chosen else frozenset()
    if known and (unknown := sorted(set(chosen) - known)):
        logger.warning(
            "No group is named %s: its group_freshness has no effect. %sThe groups are in "
            "raw.groups.",
            unknown[0],
            did_you_mean(unknown[0], known),
        )


def _require_service(accounts: Sequence[Settings]) -> None:
    """Refuse settings without a service or keys before a lake is created. Raises: SettingsError."""
    for account in accounts:
        account.service_root()
        account.keys()


def refuse_demo_lake(settings: Settings) -> None:
    """Raise LakeError if a real fleet would get into the demo's lake."""
    if (settings.lake / DEMO_MARK).exists() and not settings.is_on_this_machine():
        raise LakeError(
            f"The lake in {settings.lake.resolve()} holds the demo's simulated fleet.",
            remedy="Set FLEETLAKE_LAKE to another folder, or remove that one.",
        )


def endpoints_to_read(settings: Settings, names: Sequence[str]) -> list[Endpoint]:
    """Return the named endpoints, or all endpoints of the API versions that the settings allow.

    Raises: UsageError for an unknown or a pushed one; SettingsError for one of v3 without v3
    settings.
    """
    reads_v3 = settings.v3_root() is not None
    if not names:
        return [e for e in requested_endpoints() if e.api is Api.V2 or reads_v3]
    named = endpoints_named(names)
    require_requested(named)
    if not reads_v3 and any(endpoint.api is Api.V3 for endpoint in named):
        raise SettingsError(
            "FLEETLAKE_V3_BASE_URL and FLEETLAKE_V3_TOKEN are not set, so v3 cannot be read.",
            remedy="Set both, or omit the v3 endpoints.",
        )
    return named


def _with_sources(state: RunState, named: Sequence[Endpoint]) -> list[Endpoint]:
    with state.single_snapshot():
        loaded = state.marks.keys()
    wanted = {endpoint.name for endpoint in named}
    wanted |= {e.fan_out.source for e in named if e.fan_out and e.fan_out.source not in loaded}
    return endpoints_named(wanted)
