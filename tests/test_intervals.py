"""The algebra of half-open ranges, compared with plain sets of instants."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.planning.intervals import BEGINNING, Interval, coalesce, subtract

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LAST_MINUTE = 40


def minute(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def interval(start: int, end: int) -> Interval:
    return Interval(minute(start), minute(end))


def minutes_of(*intervals: Interval) -> set[int]:
    """Return the minutes in the ranges: start included, end not."""
    return {
        number
        for number in range(LAST_MINUTE + 1)
        if any(i.start <= minute(number) < i.end for i in intervals)
    }


bounds = st.tuples(st.integers(0, LAST_MINUTE), st.integers(0, LAST_MINUTE)).map(sorted)
ranges = bounds.map(lambda pair: interval(*pair))


def is_normal(intervals: list[Interval]) -> bool:
    """Return whether ranges are sorted, disjoint, not touching and not empty."""
    apart = all(a.end < b.start for a, b in pairwise(intervals))
    return apart and not any(i.is_empty for i in intervals)


@given(st.lists(ranges, max_size=8))
def test_coalescing_covers_the_same_instants_with_the_fewest_ranges(several):
    joined = coalesce(several)

    assert minutes_of(*joined) == minutes_of(*several)
    assert is_normal(joined)


@given(st.lists(ranges, max_size=8))
def test_coalescing_twice_changes_nothing(several):
    assert coalesce(coalesce(several)) == coalesce(several)


@given(ranges, st.lists(ranges, max_size=8))
def test_the_rest_is_the_wanted_ranges_minus_the_proven_ones(wanted, proven):
    holes = subtract(wanted, proven)

    assert minutes_of(*holes) == minutes_of(wanted) - minutes_of(*proven)
    assert is_normal(holes)


@given(ranges, st.lists(ranges, max_size=8))
def test_nothing_is_left_once_the_holes_are_proven(wanted, proven):
    holes = subtract(wanted, proven)

    assert subtract(wanted, [*proven, *holes]) == []


def test_touching_ranges_are_one():
    assert coalesce([interval(5, 9), interval(0, 5)]) == [interval(0, 9)]


def test_a_range_cannot_run_backwards():
    with pytest.raises(ValueError, match="before it starts"):
        interval(3, 2)


@pytest.mark.parametrize("pair", [(True, False), (False, True), (False, False)])
def test_an_instant_without_a_zone_is_refused(pair):
    start, end = (minute(0) if zoned else minute(0).replace(tzinfo=None) for zoned in pair)

    with pytest.raises(ValueError, match="zone"):
        Interval(start, end)


def test_only_a_range_from_the_beginning_is_open():
    assert Interval(BEGINNING, NOON).is_open
    assert not interval(0, 1).is_open
