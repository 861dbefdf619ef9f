"""How complete each stream is by day, as a published snapshot says it."""

from datetime import UTC, datetime, timedelta

import pytest

from fleetlake.lake import open_lake
from fleetlake.publishing.publish import calls_by_day, completeness

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def lake(lake_path):
    with open_lake(lake_path) as opened:
        yield opened


def test_days_and_calls_of_the_last_35_days_are_described(lake):
    lake.execute(
        "insert into meta.intervals by name select 'default' as account_profile, 'alerts' as "
        "endpoint, '' as partition, ? as start_at, ? as end_at",
        [NOON - 60 * DAY, NOON],
    )
    for days in (0, 0, 34, 36):
        lake.execute(
            "insert into meta.calls by name select 'default' as account_profile, 'alerts' as "
            "endpoint, ? as started_at, 3 as calls, 1 as refusals, 2 as retries",
            [NOON - days * DAY],
        )

    described = [row["complete_date"] for row in completeness(lake)]
    calls = [tuple(row.values()) for row in calls_by_day(lake)]

    assert (len(described), described[0], described[-1]) == (35, "2026-05-12", "2026-06-15")
    assert calls == [
        ("default", "alerts", "2026-05-12", 3, 1, 2),
        ("default", "alerts", "2026-06-15", 6, 2, 4),
    ]
