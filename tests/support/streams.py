"""A healthy stream and a lost range of it, for tests of status messages; proofs of loads."""

from datetime import UTC, datetime, timedelta

from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake.gaps import Gap
from fleetlake.lake.loads import Proof, StreamProof
from fleetlake.monitoring.streams import StreamStatus
from fleetlake.planning.intervals import BEGINNING

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
GOOD = StreamStatus(
    account_profile="default",
    endpoint="activity_logs",
    rows=1_200,
    watermark_at=NOW,
    loaded_at=NOW - timedelta(minutes=10),
    complete_from=BEGINNING,
    complete_until=NOW,
    holes=0,
    quarantined=0,
    drifted=0,
    retention=None,
    unavailable=None,
)
GAP = Gap(
    account_profile="default",
    endpoint="activity_logs",
    partition="",
    start_at=NOW - timedelta(hours=2),
    end_at=NOW,
    reason="forgotten by the service",
    recorded_at=NOW,
    acknowledged_at=None,
)


def read_until(endpoint: str, newest: datetime, *, profile: str = "default") -> StreamProof:
    """Return what a load without new rows proves whose newest record has this time."""
    return StreamProof(ENDPOINTS[endpoint], profile, Proof(newest=newest))
