"""How long the lake keeps rows, by raw table, and the removal of older ones.

`meta.retention` holds the rules that are in force and the start of the first UTC day that is kept.
Nothing older is requested, written or reported as missing. Watermarks and proven ranges stay, so
nothing is read back.

A table of events keeps a row for some days after its event. A history keeps a version for some days
after it ended; the current version of each record always stays. Other tables hold one current row
per record, which has no age, so they cannot have a rule.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from fleetlake.endpoints import ENDPOINTS, PUSHED, endpoint_named
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import LakeError, SettingsError, UsageError
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.lake.connection import Lake, has_meta
from fleetlake.lake.locks import commit_lock
from fleetlake.service.clock import machine_now
from fleetlake.settings import ClockTrust
from fleetlake.text.quoting import quoted

FARTHEST_AHEAD = timedelta(days=7)
"""A machine whose clock is further ahead of the newest load deletes nothing by it."""


def require_rules(days: Mapping[str, int]) -> None:
    """Raise SettingsError for a rule of a table that does not exist or has no age."""
    for name in days:
        try:
            endpoint = endpoint_named(name)
        except UsageError as error:
            raise SettingsError(f"[retention]: {error.what}", remedy=error.remedy) from None
        if endpoint.event_time is None and endpoint.mode is not Mode.HISTORY:
            raise SettingsError(
                f"[retention]: {name} holds the current state of each record, which has no age.",
                remedy="Remove the rule. Name tables of events, or lists that are kept as history.",
            )


def retention_now(lake: Lake, trust: ClockTrust, *, is_trusted: bool = False) -> datetime:
    """Return the time from which days are counted, in UTC.

    It is this machine's, or the newest watermark if only the service's clock is trusted.

    Raises: LakeError if this machine's clock is far ahead of the newest load: a wrong clock must
    not delete everything. `is_trusted` omits this check.
    """
    newest = lake.instant("select max(watermark_at) from meta.watermarks")
    now = machine_now()
    if newest is None or (trust is ClockTrust.CHECKED and is_trusted):
        return now
    if trust is ClockTrust.SERVICE:
        return newest
    if now - newest > FARTHEST_AHEAD:
        raise LakeError(
            f"This machine's clock, {now:%Y-%m-%d %H:%M} UTC, is far ahead of the newest record, "
            f"{newest:%Y-%m-%d %H:%M}, so nothing was deleted by [retention].",
            remedy="Run `fleetlake ingest`, which compares the clock with the service's. If the "
            "lake is no longer loaded, run `fleetlake maintain --trust-clock`.",
        )
    return now


def prepare_retention(
    lake: Lake, days: Mapping[str, int], *, trust: ClockTrust, is_trusted: bool = False
) -> None:
    """Put the rules of the settings into force before maintenance. Raises: as both parts."""
    require_rules(days)
    if days:
        set_rules(lake, days, now=retention_now(lake, trust, is_trusted=is_trusted))


def set_rules(lake: Lake, days: Mapping[str, int], *, now: datetime) -> None:
    """Put the rules into force; those of other tables stay. Raises: SettingsError.

    Rows that are older from now on stay until `delete_older` runs.
    """
    require_rules(days)
    found = lake.rows("select endpoint, days, kept_from from meta.retention")
    known = {name: (count, start) for name, count, start in found}
    wanted = {endpoint_named(name).name: (n, _kept_from(now, n)) for name, n in days.items()}
    changed = {name: rule for name, rule in wanted.items() if known.get(name) != rule}
    if not changed:
        return
    with commit_lock(lake.path), lake.transaction():
        for name, (count, start) in changed.items():
            lake.execute("delete from meta.retention where endpoint = ?", [name])
            lake.execute("insert into meta.retention values (?, ?, ?)", [name, count, start])


def drop_other_rules(lake: Lake, days: Mapping[str, int]) -> None:
    """Remove the rules of tables that the settings no longer name."""
    kept = [endpoint_named(name).name for name in days]
    unnamed = "endpoint not in (select unnest(?::varchar[]))"
    if lake.rows(f"select 1 from meta.retention where {unnamed} limit 1", [kept]):
        with lake.transaction():
            lake.execute(f"delete from meta.retention where {unnamed}", [kept])


def kept_from(lake: Lake) -> dict[str, datetime]:
    """Return by endpoint the first instant that its rule keeps; lakes of older releases have none.

    For a history, that is the first end of a version that is kept. Pushed records without a rule
    of their own have that of the table with the same events: otherwise they would outlive it.
    """
    if not has_meta(lake, "retention"):
        return {}
    rules = dict(lake.rows("select endpoint, kept_from from meta.retention"))
    if (polled := str(PUSHED.confirmed_by)) in rules:
        rules.setdefault(PUSHED.name, rules[polled])
    return rules


def events_kept_from(lake: Lake, endpoint: Endpoint) -> datetime | None:
    """Return the first event time of a stream that its rule keeps; None without a rule."""
    return None if endpoint.event_time is None else kept_from(lake).get(endpoint.name)


def delete_older(lake: Lake) -> dict[str, int]:
    """Delete what the rules no longer keep; return the deleted rows of each table that had some.

    Quarantined records and examples of new members of these tables go by the day they arrived.
    The caller holds the locks of all streams and of the catalog.
    """
    from fleetlake.lake.confirmation import drop_dangling  # noqa: PLC0415 - those who only read need it not

    deleted: dict[str, int] = {}
    for name, start in sorted(kept_from(lake).items()):
        if name not in ENDPOINTS:  # of another release
            continue
        with lake.transaction():
            event_time = ENDPOINTS[name].event_time
            age = "valid_to" if event_time is None else quoted(event_time)
            rows = lake.number(f"delete from raw.{quoted(name)} where {age} < ?", [start])
            rows += _delete_records(lake, name, start)
            if name == PUSHED.name:
                drop_dangling(lake)
            if rows:
                deleted[name] = rows
                record_event(
                    lake,
                    EventKind.RETENTION,
                    f"Rows of {name} before {start:%Y-%m-%d} were deleted.",
                    endpoint=name,
                    rows=rows,
                    details={"kept_from": start},
                )
    return deleted


def _delete_records(lake: Lake, name: str, start: datetime) -> int:
    records = lake.number(
        "delete from meta.quarantine where endpoint = ? and quarantined_at < ?", [name, start]
    )
    lake.execute(
        "update meta.schema_drift set example = null "
        "where endpoint = ? and first_seen_at < ? and example is not null",
        [name, start],
    )
    return records


def _kept_from(now: datetime, days: int) -> datetime:
    """Return the start of the first UTC day that is kept, so that a day is deleted at once.

    >>> str(_kept_from(datetime(2026, 4, 1, 13, tzinfo=UTC), 31))
    '2026-03-01 00:00:00+00:00'
    """
    try:
        start = now.astimezone(UTC) - timedelta(days=days)
    except OverflowError:
        raise SettingsError(
            f"[retention]: {days:,} days are more than a calendar has.",
            remedy="Remove the rule to keep all rows.",
        ) from None
    return start.replace(hour=0, minute=0, second=0, microsecond=0)
