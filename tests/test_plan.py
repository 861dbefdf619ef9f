"""What is still to be read: never less than what is not proven, never what is too fresh."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleetlake.intervals import BEGINNING, Interval, coalesce
from fleetlake.plan import LOOKBACK, SETTLE, still_to_read

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def minutes_ago(start: int, end: int) -> Interval:
    return Interval(NOW - timedelta(minutes=start), NOW - timedelta(minutes=end))


past_ranges = (
    st.tuples(st.integers(1, 300), st.integers(1, 300))
    .map(lambda pair: sorted(pair, reverse=True))
    .map(lambda pair: minutes_ago(*pair))
)


def covers(ranges: list[Interval], moment: datetime) -> bool:
    return any(i.start <= moment < i.end for i in ranges)


def test_a_stream_never_read_is_read_from_its_beginning_until_records_have_settled():
    assert still_to_read([], now=NOW) == [Interval(BEGINNING, NOW - SETTLE)]


def test_since_bounds_how_far_back_a_first_read_goes():
    assert still_to_read([], now=NOW, since=NOW - DAY) == [Interval(NOW - DAY, NOW - SETTLE)]


def test_a_since_that_is_not_settled_yet_asks_for_nothing():
    assert still_to_read([], now=NOW, since=NOW - SETTLE) == []


def test_the_lookback_before_the_newest_proven_instant_is_read_again():
    proven = [Interval(BEGINNING, NOW - DAY)]

    assert still_to_read(proven, now=NOW) == [Interval(NOW - DAY - LOOKBACK, NOW - SETTLE)]


def test_a_record_that_may_still_change_is_read_again_with_all_after_it():
    proven = [Interval(BEGINNING, NOW - DAY)]

    wanted = still_to_read(proven, now=NOW, changing_since=NOW - 3 * DAY)

    assert wanted == [Interval(NOW - 3 * DAY, NOW - SETTLE)]


def test_a_change_younger_than_the_lookback_does_not_shorten_it():
    proven = [Interval(BEGINNING, NOW - DAY)]

    wanted = still_to_read(proven, now=NOW, changing_since=NOW - SETTLE)

    assert wanted == [Interval(NOW - DAY - LOOKBACK, NOW - SETTLE)]


def test_a_clock_set_back_asks_for_nothing_beyond_it():
    proven = [Interval(BEGINNING, NOW + DAY)]

    assert still_to_read(proven, now=NOW) == []


@given(st.lists(past_ranges, max_size=5), st.integers(1, 400))
def test_every_settled_instant_that_is_not_proven_is_asked_for(proven, ago):
    moment = NOW - timedelta(minutes=ago)

    wanted = still_to_read(proven, now=NOW)

    assert covers(wanted, moment) or covers(proven, moment) or moment >= NOW - SETTLE


@given(st.lists(past_ranges, max_size=5))
def test_what_is_asked_for_is_oldest_first_apart_and_settled(proven):
    wanted = still_to_read(proven, now=NOW)

    assert wanted == coalesce(wanted)
    assert wanted[-1].end == NOW - SETTLE


@given(st.lists(past_ranges, max_size=5))
def test_after_reading_what_was_asked_for_only_the_lookback_is_asked_for_again(proven):
    wanted = still_to_read(proven, now=NOW)

    again = still_to_read(coalesce([*proven, *wanted]), now=NOW)

    assert again == [Interval(NOW - SETTLE - LOOKBACK, NOW - SETTLE)]
