"""Loads made by tests: a batch, and what it proves."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from fleetlake.endpoints.model import Endpoint
from fleetlake.lake import Lake
from fleetlake.lake.commit import commit_load
from fleetlake.lake.loads import Attempt, Batch, Committed, Proof, RowParts, Whole
from fleetlake.lake.run_state import RunState

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Load:
    batch: Batch
    proof: Proof
    attempt: Attempt
    whole: Whole | None


def load_of_rows(
    endpoint: Endpoint,
    rows: pa.Table | RowParts,
    *,
    whole: Whole | None = None,
    run_id: str = "run",
    proven: Any = None,
    **changes: Any,
) -> Load:
    """Return a load; `changes` are members of its batch."""
    values = {"profile": "default", "seen_at": NOON, **changes}
    held = rows if isinstance(rows, RowParts) else RowParts.of(rows)
    batch = Batch(endpoint=endpoint, rows=held, **values)
    proof = Proof(proven=proven or {}, newest=batch.newest)
    return Load(batch, proof, Attempt(run_id), whole)


def commit(lake: Lake, load: Load, **options: Any) -> Committed:
    state = options.pop("state", None) or RunState(lake, load.batch.profile)
    return commit_load(state, load.batch, load.proof, load.attempt, whole=load.whole, **options)
