"""What is still to be read: everything that is not final, and nothing that is too recent."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleetlake.planning.coverage import (
    LOOKBACK,
    SETTLE,
    before,
    still_to_read,
    unsettled,
)
from fleetlake.planning.intervals import BEGINNING, Interval, coalesce

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


def test_a_since_that_is_not_settled_yet_requests_nothing():
    assert still_to_read([], now=NOW, since=NOW - SETTLE) == []


def test_time_is_final_after_a_settle_time_and_a_lookback():
    assert unsettled(NOW, None).start == NOW - SETTLE - LOOKBACK


def test_a_record_that_may_still_change_is_read_again_with_all_later_ones():
    proven = [Interval(BEGINNING, NOW - DAY)]

    wanted = still_to_read(proven, now=NOW, again_from=NOW - 3 * DAY)

    assert wanted == [Interval(NOW - 3 * DAY, NOW - SETTLE)]


def test_a_change_newer_than_the_proven_range_leaves_no_hole():
    proven = [Interval(BEGINNING, NOW - DAY)]

    wanted = still_to_read(proven, now=NOW, again_from=NOW - SETTLE)

    assert wanted == [Interval(NOW - DAY, NOW - SETTLE)]


def test_a_clock_set_back_requests_nothing_beyond_it():
    proven = [Interval(BEGINNING, NOW + DAY)]

    assert still_to_read(proven, now=NOW) == []


@given(st.lists(past_ranges, max_size=5), st.integers(1, 400), st.none() | st.integers(1, 400))
def test_every_settled_instant_that_is_not_final_is_requested(proven, ago, changing_ago):
    moment = NOW - timedelta(minutes=ago)
    changing = None if changing_ago is None else NOW - timedelta(minutes=changing_ago)

    wanted = still_to_read(proven, now=NOW, again_from=changing)

    is_final = covers(proven, moment) and (changing is None or moment < changing)
    assert covers(wanted, moment) == (not is_final and moment < NOW - SETTLE)


@given(st.lists(past_ranges, max_size=5))
def test_requested_ranges_are_oldest_first_and_disjoint(proven):
    wanted = still_to_read(proven, now=NOW)

    assert wanted == coalesce(wanted)


@given(st.lists(past_ranges, max_size=5))
def test_after_a_complete_read_only_what_is_not_final_is_requested_again(proven):
    read = still_to_read(proven, now=NOW)
    final = before(unsettled(NOW, None).start, [*proven, *read])

    again = still_to_read(final, now=NOW)

    assert again == [Interval(unsettled(NOW, None).start, NOW - SETTLE)]


@given(st.lists(past_ranges, max_size=5), st.integers(0, 300))
def test_before_cuts_ranges_at_an_instant(ranges, ago):
    instant = NOW - timedelta(minutes=ago)

    cut = before(instant, ranges)

    for minute in range(301):
        moment = NOW - timedelta(minutes=minute)
        assert covers(cut, moment) == (covers(ranges, moment) and moment < instant)


def test_the_old_edge_stays_open_for_late_records_if_a_later_run_is_killed():
    earlier = NOW - 2 * DAY
    first = before(unsettled(earlier, None).start, [Interval(BEGINNING, earlier - SETTLE)])
    newest_of_second = before(unsettled(NOW, None).start, [minutes_ago(60, 1)])

    wanted = still_to_read([*first, *newest_of_second], now=NOW + timedelta(minutes=5))

    assert covers(wanted, earlier - SETTLE - LOOKBACK)
