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


def prove(lake, endpoint, *ranges, partition=""):
    for start, end in ranges:
        lake.execute(
            "insert into meta.intervals by name select 'default' as account_profile, ? as "
            "endpoint, ? as partition, ? as start_at, ? as end_at",
            [endpoint, partition, start, end],
        )


def test_each_day_is_proven_in_part_with_a_hole_or_with_a_loss(lake):
    prove(lake, "alerts", (NOON - 3 * DAY, NOON - DAY), (NOON - DAY / 2, NOON))
    prove(lake, "failovers", (NOON - 2 * DAY, NOON - DAY), partition="1")
    prove(lake, "failovers", (NOON - DAY, NOON), partition="2")
    lake.execute(
        "insert into meta.gaps values ('default', 'failovers', '1', ?, ?, 'expired', ?, null)",
        [NOON - DAY, NOON - DAY + timedelta(minutes=1), NOON],
    )

    found = [tuple(row.values())[1:] for row in completeness(lake)]

    assert found == [
        ("alerts", "2026-06-12", "in part", 50.0, 0.0, 0.0),
        ("alerts", "2026-06-13", "proven", 100.0, 0.0, 0.0),
        ("alerts", "2026-06-14", "hole", 50.0, 43200.0, 0.0),
        ("alerts", "2026-06-15", "in part", 50.0, 0.0, 0.0),
        ("failovers", "2026-06-13", "in part", 50.0, 0.0, 0.0),
        ("failovers", "2026-06-14", "lost", 50.0, 0.0, 60.0),
        ("failovers", "2026-06-15", "in part", 50.0, 0.0, 0.0),
    ]


def test_days_and_calls_of_the_last_35_days_are_described(lake):
    prove(lake, "alerts", (NOON - 60 * DAY, NOON))
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
