"""Quarantined records: list, retry or acknowledge them."""

import logging
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from fleetlake.decoding.arrow import Page, read_page, stamp
from fleetlake.decoding.pushed import read_pushes, received_bytes
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import PageUnreadable, StreamBusy
from fleetlake.lake import Lake
from fleetlake.lake.commit import commit_load
from fleetlake.lake.evolution.promotions import with_promoted
from fleetlake.lake.loads import Attempt, Batch, Proof, RowParts
from fleetlake.lake.locks import commit_lock, stream_lock
from fleetlake.lake.run_state import RunState
from fleetlake.text.quoting import quoted

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """A quarantined record as first received, with the reason and the time of its quarantine.

    `last_seen_at` and `times_seen` are about the loads that received it.
    """

    account_profile: str
    endpoint: str
    partition: str
    reason: str
    raw: str
    quarantined_at: datetime
    last_seen_at: datetime
    times_seen: int


def quarantined(lake: Lake, endpoint: str | None = None) -> list[Quarantined]:
    """Return the records in quarantine, oldest first; of one endpoint, or of all."""
    found = lake.named_rows(
        "select account_profile, endpoint, coalesce(partition, '') as partition, reason, raw, "
        "quarantined_at, coalesce(last_seen_at, quarantined_at) as last_seen_at, "
        "coalesce(times_seen, 1) as times_seen from meta.quarantine "
        "where resolved_at is null and (? is null or endpoint = ?) "
        "order by quarantined_at, endpoint, raw",
        [endpoint, endpoint],
    )
    return [Quarantined(**row) for row in found]


def retry_quarantined(lake: Lake, endpoint: str | None = None) -> tuple[int, int]:
    """Decode quarantined records again; return how many became rows and how many remain.

    If another process is loading or retrying a stream, its records remain and a warning is logged.
    """
    kept = 0
    for name in sorted({record.endpoint for record in quarantined(lake, endpoint)}):
        try:
            with stream_lock(lake.path, name):
                # Read under the lock: otherwise another retry could store the same records.
                kept += sum([_retry(lake, record) for record in quarantined(lake, name)])
        except StreamBusy as busy:
            logger.warning("%s", busy.what)
    return kept, len(quarantined(lake, endpoint))


def acknowledge_quarantined(lake: Lake, endpoint: str | None = None) -> int:
    """Mark quarantined records as resolved without removing them; return how many."""
    with commit_lock(lake.path), lake.transaction():
        return lake.number(
            "update meta.quarantine set resolved_at = now() "
            "where resolved_at is null and (? is null or endpoint = ?)",
            [endpoint, endpoint],
        )


def _retry(lake: Lake, record: Quarantined) -> bool:
    """Store a record if it can be decoded now, then resolve it, in two commits.

    If the process stops between the two, the next retry finds the row and only resolves the record.
    """
    [endpoint] = with_promoted(lake, [ENDPOINTS[record.endpoint]])
    if not endpoint.is_requested:
        return _retry_push(lake, endpoint, record)
    try:
        page = read_page(endpoint, _as_answer(endpoint.api, record.raw))
    except PageUnreadable:
        return False  # a record too large to be stored whole
    if page.rejects:
        return False
    if record.partition:
        page = stamp(endpoint, page, int(record.partition))
    if not _is_superseded(lake, endpoint, page, record.quarantined_at):
        _store(lake, endpoint, record, pa.Table.from_batches([page.rows]))
    _resolve(lake, record)
    return True


def _retry_push(lake: Lake, endpoint: Endpoint, record: Quarantined) -> bool:
    """Store the alerts of a dead letter if it can be read now, as if it had just arrived."""
    message = (received_bytes(record.raw), record.quarantined_at)
    pushes = read_pushes(endpoint, [message])
    if pushes.rejects:
        return False
    _store(lake, endpoint, record, pushes.rows)
    _resolve(lake, record)
    return True


def _store(lake: Lake, endpoint: Endpoint, record: Quarantined, rows: pa.Table) -> None:
    batch = Batch(
        endpoint=endpoint,
        profile=record.account_profile,
        rows=RowParts.of(rows),
        seen_at=record.quarantined_at,
    )
    commit_load(RunState(lake), batch, Proof(newest=batch.newest), Attempt("quarantine"))


def _resolve(lake: Lake, record: Quarantined) -> None:
    with commit_lock(lake.path), lake.transaction():
        lake.execute(
            "update meta.quarantine set resolved_at = now() "
            "where endpoint = ? and raw = ? and partition is not distinct from ?",
            [record.endpoint, record.raw, record.partition],
        )


def _is_superseded(lake: Lake, endpoint: Endpoint, page: Page, seen_at: datetime) -> bool:
    """Return whether the lake holds newer content of a record than the quarantined one.

    Older content must not become current again. An event never changes, so it has none.
    """
    if endpoint.mode is Mode.APPEND:
        return False
    # A record that has since been deleted has no newer row, only an end time.
    changed_at = "greatest(_loaded_at, valid_from, valid_to)"
    newest = changed_at if endpoint.mode is Mode.HISTORY else "_loaded_at"
    same = " and ".join(f"{quoted(name)} = ?" for name in endpoint.key)
    found = lake.rows(
        f"select 1 from raw.{quoted(endpoint.name)} where {same} and {newest} >= ? limit 1",
        [*(page.value(name, 0) for name in endpoint.key), seen_at],
    )
    return bool(found)


def _as_answer(api: str, raw: str) -> bytes:
    """Return the body of a list response with this one record."""
    rest = '"meta":{"limit":1,"next":null}' if api == "v2" else '"links":{}'
    return f'{{"data":[{raw}],{rest}}}'.encode()
