"""What the simulator refuses and keeps at its edges: options, clock times, filters, its memory."""

from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest

from fleetsim.blocks import Block, BlockCache
from fleetsim.command import _read_time as read_time
from fleetsim.options import SimulatorOptions
from fleetsim.refusals import Refusal
from fleetsim.simulation import Meter
from fleetsim.timeuuids import parse


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"routers": 0}, "routers must be 1 or more"),
        ({"days": 0}, "days above 0 and up to 3660"),
        ({"days": 3660.5}, "days above 0 and up to 3660"),
        ({"now": datetime(1989, 1, 1, tzinfo=UTC)}, "in the years 1990 to 9899"),
        ({"now": datetime(9900, 1, 1, tzinfo=UTC)}, "in the years 1990 to 9899"),
        ({"scenario": "none"}, "scenario must be one of"),
    ],
    ids=str,
)
def test_options_that_no_fleet_can_have_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        SimulatorOptions(**wrong)


def test_a_time_without_a_zone_is_in_utc():
    noon = datetime(2026, 6, 15, 12, tzinfo=UTC)

    assert read_time("2026-06-15T12:00:00") == read_time("2026-06-15T14:00:00+02:00") == noon


def test_a_uuid_that_holds_no_time_is_refused():
    with pytest.raises(ValueError, match="is not a time-based uuid"):
        parse(str(UUID(int=0, version=4)))


def test_the_days_used_longest_ago_are_forgotten_beyond_a_number_of_rows():
    cache, made = BlockCache(rows_kept=20), []

    def get(key: str, rows: int = 10) -> None:
        cache.get(key, lambda: made.append(key) or Block({"time": np.zeros(rows)}))

    for key in ("a", "b", "a", "c", "a", "b"):
        get(key)
    assert made == ["a", "b", "c", "b"]

    get("larger than all", 99)
    get("larger than all", 99)
    assert made[4:] == ["larger than all"]


def test_a_call_counts_for_sixty_seconds_and_every_second_refusal_says_when_to_come_back():
    meter = Meter(limit_per_minute=2)
    for second in (0.0, 10.5):
        meter.admit(second)

    waits = []
    for second in (20.0, 59.5, 59.9):
        with pytest.raises(Refusal) as refused:
            meter.admit(second)
        waits.append(refused.value.headers.get("Retry-After"))
    meter.admit(60.0)
    with pytest.raises(Refusal):
        meter.admit(70.0)
    meter.admit(70.5)

    assert waits == ["41", None, "1"]
