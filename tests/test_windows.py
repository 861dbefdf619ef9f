"""Dividing a stream into windows: nothing is omitted, and nothing unread is proven."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.endpoints import ENDPOINTS
from fleetlake.planning.intervals import BEGINNING, Interval, coalesce
from fleetlake.reading.windows import (
    TOGETHER,
    Frontier,
    Span,
    after_page,
    is_worth_sharing,
    spans_of,
)

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
NEWEST_FIRST, OLDEST_FIRST = ENDPOINTS["alerts"], ENDPOINTS["net_device_usage_samples"]
UNORDERED = ENDPOINTS["failovers"]
FORGETFUL = ENDPOINTS["activity_logs"]
ONE_ID = ENDPOINTS["historical_locations"]
RANGE = Interval(NOON - 100 * SECOND, NOON)


def at(seconds: int) -> datetime:
    return NOON - timedelta(seconds=seconds)


def test_newest_first_proves_everything_after_the_last_record():
    progress = after_page(NEWEST_FIRST, RANGE, at(40), at_end=False)

    assert progress.proven == Interval(at(40) + MICROSECOND, NOON)
    assert progress.rest == Interval(RANGE.start, at(40) + MICROSECOND)


def test_oldest_first_proves_everything_before_the_last_record():
    progress = after_page(OLDEST_FIRST, RANGE, at(40), at_end=False)

    assert progress.proven == Interval(RANGE.start, at(40))
    assert progress.rest == Interval(at(40), RANGE.end)


@pytest.mark.parametrize("endpoint", [NEWEST_FIRST, OLDEST_FIRST], ids=lambda e: e.name)
def test_the_microsecond_of_the_last_record_is_not_proven_because_others_may_share_it(endpoint):
    progress = after_page(endpoint, RANGE, at(40), at_end=False)

    assert progress.rest.start <= at(40) < progress.rest.end
    assert not progress.proven.start <= at(40) < progress.proven.end


@pytest.mark.parametrize("last", [None, NOON - 40 * SECOND])
@pytest.mark.parametrize("endpoint", [NEWEST_FIRST, OLDEST_FIRST, UNORDERED], ids=lambda e: e.name)
def test_the_end_of_a_walk_proves_its_whole_range(endpoint, last):
    progress = after_page(endpoint, RANGE, last, at_end=True)

    assert progress.proven == RANGE
    assert progress.rest.is_empty


def test_a_walk_without_a_guaranteed_order_proves_nothing_before_its_end():
    assert after_page(UNORDERED, RANGE, at(40), at_end=False).proven is None


@pytest.mark.parametrize("endpoint", [NEWEST_FIRST, OLDEST_FIRST], ids=lambda e: e.name)
def test_a_page_without_a_readable_record_proves_nothing(endpoint):
    progress = after_page(endpoint, RANGE, None, at_end=False)

    assert (progress.proven, progress.rest) == (None, RANGE)


@pytest.mark.parametrize("endpoint", [NEWEST_FIRST, OLDEST_FIRST], ids=lambda e: e.name)
@pytest.mark.parametrize("seconds", [-500, -1, 0, 40, 100, 101, 5000])
def test_a_record_outside_the_range_proves_nothing_outside_it(endpoint, seconds):
    progress = after_page(endpoint, RANGE, at(seconds), at_end=False)

    assert coalesce([progress.proven, progress.rest]) == [RANGE]


def test_records_that_expire_first_are_requested_first():
    span = Span((), Interval(NOON - timedelta(days=20), NOON))
    newest, oldest = Frontier(NEWEST_FIRST, span), Frontier(FORGETFUL, span)
    for frontier in (newest, oldest):
        probe = frontier.take()
        frontier.returned(probe, probe.interval, 500, timedelta(minutes=1))

    assert newest.take().interval.end == NOON
    assert oldest.take().interval.start == span.interval.start


def test_a_single_request_measures_the_density_of_a_span():
    frontier = Frontier(NEWEST_FIRST, Span((), Interval(BEGINNING, NOON)))

    probe = frontier.take()

    assert probe.interval == Interval(BEGINNING, NOON)
    assert probe.most_pages == 1
    assert frontier.take() is None


@pytest.mark.parametrize(("walks", "pages"), [(1, 16), (9, 11), (30, 9)])
def test_a_window_is_a_share_of_what_is_left_between_nine_and_sixteen_pages(walks, pages):
    hour = timedelta(hours=1)  # which holds one page
    whole = Interval(NOON - 100 * hour, NOON)
    frontier = Frontier(NEWEST_FIRST, Span((), whole), walks=walks)
    first = frontier.take()
    frontier.returned(first, Interval(whole.start, NOON - hour), 500, hour)

    assert frontier.take().interval == Interval(NOON - (1 + pages) * hour, NOON - hour)


def test_the_first_probe_for_the_beginning_reaches_sixteen_times_as_far_as_records_were_found():
    frontier = Frontier(NEWEST_FIRST, Span((), Interval(BEGINNING, NOON)))
    first = frontier.take()
    hour = timedelta(hours=1)
    frontier.returned(first, Interval(BEGINNING, NOON - hour), 500, hour)

    assert frontier.take().interval == Interval(BEGINNING, NOON - 16 * hour)


@pytest.mark.parametrize(
    ("rest", "is_worth"),
    [(1000 * SECOND, True), (990 * SECOND, False), (2 * MICROSECOND, False), (MICROSECOND, False)],
)
def test_a_remainder_of_a_few_pages_is_not_split(rest, is_worth):
    # A page so far took 100 seconds.
    assert (
        is_worth_sharing(NEWEST_FIRST, Interval(NOON - rest, NOON), 500, 100 * SECOND) is is_worth
    )


def test_one_microsecond_cannot_be_split_however_many_records_it_has():
    rest = Interval(NOON - MICROSECOND, NOON)

    assert not is_worth_sharing(NEWEST_FIRST, rest, 50_000, MICROSECOND)


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.booleans()), max_size=200),
    st.sampled_from([NEWEST_FIRST, FORGETFUL]),
    st.sampled_from([BEGINNING, NOON - timedelta(days=3), NOON - timedelta(microseconds=5)]),
)
def test_windows_cover_the_span_and_read_no_record_twice(answers, row, start):
    whole = Interval(start, NOON)
    frontier = Frontier(row, Span((), whole))
    read: list[Interval] = []
    empty: list[Interval] = []
    answer = iter(answers)
    for _ in range(2000):
        window = frontier.take()
        if window is None:
            break
        count, is_too_full = next(answer, (0, False))
        length = window.interval.end - window.interval.start
        if is_too_full and length >= 2 * MICROSECOND:
            middle = window.interval.end - max(length / 2, MICROSECOND)
            read.append(Interval(middle, window.interval.end))
            rest = Interval(window.interval.start, middle)
            frontier.returned(window, rest, count + 1, window.interval.end - middle)
        else:
            (read if count else empty).append(window.interval)
            frontier.finished(window, count)

    assert frontier.take() is None
    assert coalesce([*read, *empty]) == [whole]
    total = sum(((i.end - i.start) for i in read), timedelta(0))
    assert total == sum(((i.end - i.start) for i in coalesce(read)), timedelta(0))


def test_a_stream_without_a_fan_out_has_one_span_per_range():
    ranges = [Interval(at(100), at(90)), Interval(at(50), at(10))]

    spans = spans_of(NEWEST_FIRST, [(None, interval) for interval in ranges])

    assert spans == [Span((), interval) for interval in ranges]


def test_no_wanted_range_gives_no_span():
    assert spans_of(NEWEST_FIRST, []) == []
    assert spans_of(OLDEST_FIRST, []) == []


@given(
    st.lists(
        st.tuples(st.integers(1, 500), st.integers(0, 100_000), st.integers(0, 1000)), max_size=300
    ),
    st.sampled_from([OLDEST_FIRST, ONE_ID]),
)
def test_spans_request_each_id_for_its_range_and_not_too_many_ids_per_call(wanted, row):
    ranges = [(number, Interval(at(back + length), at(back))) for number, back, length in wanted]

    spans = spans_of(row, ranges)

    asked = defaultdict(list)
    for span in spans:
        assert 1 <= len(span.partitions) <= row.fan_out.ids_per_call
        for partition in span.partitions:
            asked[partition].append(span.interval)
    for partition, interval in ranges:
        assert any(
            one.start <= interval.start and interval.end <= one.end for one in asked[partition]
        )


def test_a_lagging_id_does_not_cause_others_to_be_read_again():
    fresh = Interval(NOON - timedelta(minutes=10), NOON)
    behind = Interval(NOON - timedelta(minutes=10) - 2 * TOGETHER, NOON)

    spans = spans_of(OLDEST_FIRST, [(1, fresh), (2, behind), (3, fresh)])

    assert spans == [Span((2,), behind), Span((1, 3), fresh)]


def test_all_ids_of_a_first_load_share_as_few_spans_as_possible():
    whole = Interval(BEGINNING, NOON)

    spans = spans_of(OLDEST_FIRST, [(number, whole) for number in range(250)])

    assert [len(span.partitions) for span in spans] == [100, 100, 50]
