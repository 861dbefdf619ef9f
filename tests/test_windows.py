"""Dividing a stream into windows: nothing is omitted, and nothing unread is proven."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint
from fleetlake.planning.intervals import BEGINNING, Interval, coalesce
from fleetlake.reading.windows import TOGETHER, Frontier, Span, Window, after_page, spans_of

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
NEWEST_FIRST, OLDEST_FIRST = ENDPOINTS["alerts"], ENDPOINTS["net_device_usage_samples"]
UNORDERED = ENDPOINTS["failovers"]
FORGETFUL = ENDPOINTS["activity_logs"]
ONE_ID = ENDPOINTS["historical_locations"]
RANGE = Interval(NOON - 100 * SECOND, NOON)
HOUR = timedelta(hours=1)
PAGE = 500


def at(seconds: int) -> datetime:
    return NOON - timedelta(seconds=seconds)


def test_newest_first_proves_everything_after_the_last_record():
    proven, rest = after_page(NEWEST_FIRST, RANGE, at(40), at_end=False)

    assert proven == Interval(at(40) + MICROSECOND, NOON)
    assert rest == Interval(RANGE.start, at(40) + MICROSECOND)


def test_oldest_first_proves_everything_before_the_last_record():
    proven, rest = after_page(OLDEST_FIRST, RANGE, at(40), at_end=False)

    assert proven == Interval(RANGE.start, at(40))
    assert rest == Interval(at(40), RANGE.end)


@pytest.mark.parametrize("last", [None, NOON - 40 * SECOND])
@pytest.mark.parametrize("endpoint", [NEWEST_FIRST, OLDEST_FIRST, UNORDERED], ids=lambda e: e.name)
def test_the_end_of_a_walk_proves_its_whole_range(endpoint, last):
    proven, rest = after_page(endpoint, RANGE, last, at_end=True)

    assert proven == RANGE
    assert rest.is_empty


def test_a_walk_without_a_guaranteed_order_proves_nothing_before_its_end():
    proven, _ = after_page(UNORDERED, RANGE, at(40), at_end=False)

    assert proven is None


@pytest.mark.parametrize("endpoint", [NEWEST_FIRST, OLDEST_FIRST], ids=lambda e: e.name)
def test_a_page_without_a_readable_record_proves_nothing(endpoint):
    proven, rest = after_page(endpoint, RANGE, None, at_end=False)

    assert (proven, rest) == (None, RANGE)


@pytest.mark.parametrize("endpoint", [NEWEST_FIRST, OLDEST_FIRST], ids=lambda e: e.name)
@pytest.mark.parametrize("seconds", [-500, -1, 0, 40, 100, 101, 5000])
def test_a_record_outside_the_range_proves_nothing_outside_it(endpoint, seconds):
    proven, rest = after_page(endpoint, RANGE, at(seconds), at_end=False)

    assert coalesce([proven, rest]) == [RANGE]


def back(hours: float) -> datetime:
    return NOON - hours * HOUR


def read_a_page(frontier: Frontier, window: Window, time: timedelta = HOUR) -> None:
    """Return a window to the frontier after a full page that covers the newest `time` of it."""
    rest = Interval(window.interval.start, window.interval.end - time)
    frontier.returned(window, rest, PAGE, time)


def take_all(frontier: Frontier) -> list[Window]:
    return list(iter(frontier.take, None))


def after_first_page(start: datetime, *, walks: int = 1, row: Endpoint = NEWEST_FIRST) -> Frontier:
    """Return the frontier of a span up to noon whose newest page covers one hour."""
    frontier = Frontier(row, Span((), Interval(start, NOON)), walks=walks)
    read_a_page(frontier, frontier.take())
    return frontier


def windows(taken: list[Window]) -> list[Interval]:
    """Return the intervals that are not probes."""
    return [window.interval for window in taken if window.most_pages > 1]


@pytest.mark.parametrize("row", [NEWEST_FIRST, FORGETFUL], ids=lambda e: e.name)
def test_records_that_expire_first_are_requested_first(row):
    frontier = after_first_page(back(480), walks=9, row=row)
    probes = take_all(frontier)
    for probe in probes:
        read_a_page(frontier, probe)

    taken = windows(take_all(frontier))

    assert probes[0].interval.start == back(480)
    oldest, newest = min(taken), max(taken)
    assert taken[0] == (oldest if row is FORGETFUL else newest)


def test_a_single_request_measures_the_density_of_a_span():
    frontier = Frontier(NEWEST_FIRST, Span((), Interval(BEGINNING, NOON)))

    probe = frontier.take()

    assert probe.interval == Interval(BEGINNING, NOON)
    assert probe.most_pages == 1
    assert frontier.take() is None


def test_probes_reach_sixteen_times_as_far_as_records_were_found_and_sixteen_times_that():
    frontier = after_first_page(BEGINNING)

    probes = take_all(frontier)

    assert [probe.most_pages for probe in probes] == [1, 1, 1]
    assert [probe.interval for probe in probes] == [
        Interval(BEGINNING, back(256)),
        Interval(back(256), back(16)),
        Interval(back(16), back(1)),
    ]


def test_probes_reach_back_from_the_records_even_if_the_newest_is_old():
    frontier = Frontier(NEWEST_FIRST, Span((), Interval(BEGINNING, NOON)))
    frontier.returned(frontier.take(), Interval(BEGINNING, back(1001)), PAGE, HOUR)

    oldest, middle, _ = take_all(frontier)

    assert (oldest.interval.end, middle.interval.end) == (back(1256), back(1016))


def test_no_more_than_three_probes_run_while_the_stream_may_begin_between_them():
    frontier = after_first_page(BEGINNING, walks=32)
    oldest, middle, newest = take_all(frontier)
    frontier.finished(oldest, 0)
    read_a_page(frontier, newest)
    read_a_page(frontier, middle)

    probes = [window for window in take_all(frontier) if window.most_pages == 1]

    assert len(probes) == 3
    assert coalesce(probe.interval for probe in probes) == [Interval(back(256), back(17))]


@pytest.mark.parametrize(("walks", "probes"), [(5, 2), (32, 3)])
def test_fewer_probes_run_while_every_walk_has_something_to_read(walks, probes):
    frontier = after_first_page(BEGINNING, walks=walks)
    oldest, middle, newest = take_all(frontier)
    frontier.finished(oldest, 0)
    read_a_page(frontier, newest)
    read_a_page(frontier, middle)
    for probe in [frontier.take() for _ in range(3)]:
        read_a_page(frontier, probe)  # 171 pages are certain now

    assert [window.most_pages for window in take_all(frontier)].count(1) == probes


def test_what_is_newer_than_a_found_record_is_read_before_the_other_probes_return():
    frontier = after_first_page(BEGINNING, walks=32)
    _, middle, newest = take_all(frontier)
    read_a_page(frontier, newest)

    before = take_all(frontier)
    read_a_page(frontier, middle)

    assert before == []
    assert coalesce(windows(take_all(frontier))) == [Interval(back(16), back(2))]


def test_a_stream_that_begins_between_probes_is_read_to_its_beginning_and_no_further():
    frontier = after_first_page(BEGINNING)
    oldest, middle, newest = take_all(frontier)
    frontier.finished(oldest, 0)
    frontier.finished(middle, 0)
    frontier.finished(newest, 100)

    assert frontier.take() is None


def test_a_stream_whose_beginning_was_found_is_not_explored_further():
    frontier = after_first_page(BEGINNING)
    oldest, middle, newest = take_all(frontier)
    frontier.finished(oldest, 100)
    read_a_page(frontier, middle)
    read_a_page(frontier, newest)

    taken = take_all(frontier)

    assert len(windows(taken)) == len(taken)


def test_a_range_with_a_known_start_is_explored_in_as_many_places_as_there_are_walks():
    probes = take_all(after_first_page(back(801), walks=20))

    assert [probe.most_pages for probe in probes] == [1] * 20
    assert coalesce(probe.interval for probe in probes) == [Interval(back(801), back(1))]


def test_a_stream_that_is_read_oldest_first_is_explored_although_its_beginning_is_known():
    frontier = Frontier(OLDEST_FIRST, Span((1,), Interval(BEGINNING, NOON)), walks=20)
    frontier.returned(frontier.take(), Interval(back(800), NOON), PAGE, HOUR)

    probes = take_all(frontier)

    assert [probe.most_pages for probe in probes] == [1] * 20
    assert coalesce(probe.interval for probe in probes) == [Interval(back(800), NOON)]


def test_a_short_range_is_not_explored():
    [window] = take_all(after_first_page(back(32), walks=20))

    assert window.interval == Interval(back(32), back(1))
    assert window.most_pages > 1


def test_windows_shrink_from_sixteen_pages_to_nine_as_less_is_left():
    frontier = after_first_page(back(1000), walks=3)
    for probe in take_all(frontier):
        read_a_page(frontier, probe)

    taken = windows(take_all(frontier))

    pages = [(window.end - window.start) / HOUR for window in taken]
    assert pages[0] == max(pages[:-1]) == 16
    assert min(pages[:-1]) == 9


def test_a_window_is_cut_for_the_lower_density_on_its_two_sides():
    frontier = after_first_page(back(100))
    oldest, middle, newest = take_all(frontier)
    read_a_page(frontier, newest)
    read_a_page(frontier, middle, 10 * HOUR)
    read_a_page(frontier, oldest)

    window = windows(take_all(frontier))[0]

    assert window == Interval(newest.interval.start, newest.interval.end - HOUR)  # 32 hours


def shared(pages: float) -> list[Interval]:
    """Return the parts of a window with so many pages left, after a page of 100 seconds."""
    frontier = Frontier(NEWEST_FIRST, Span((), RANGE))
    frontier.take()
    rest = Interval(at(100) - pages * 100 * SECOND, at(100))
    is_shared = frontier.share(Window(Interval(rest.start, NOON), most_pages=32), rest, PAGE)
    parts = [window.interval for window in take_all(frontier)]
    assert bool(parts) is is_shared
    assert coalesce(parts) == ([rest] if parts else [])
    return sorted(parts)


@pytest.mark.parametrize(("pages", "is_worth"), [(9, True), (8.9, False)])
def test_a_rest_of_a_few_pages_is_not_shared(pages, is_worth):
    assert bool(shared(pages)) is is_worth


def test_half_of_a_rest_goes_to_an_idle_walk():
    older, newer = shared(20)

    assert older.end - older.start == newer.end - newer.start


def test_in_a_burst_the_walk_keeps_as_much_as_a_window_holds_and_not_half_of_the_time():
    _, newer = shared(1000)

    assert newer.end - newer.start == 32 * 100 * SECOND


def test_a_rest_of_a_few_pages_is_not_shared_in_a_burst_of_several_records_a_microsecond():
    frontier = Frontier(NEWEST_FIRST, Span((), RANGE))
    window = Window(Interval(NOON - 800 * MICROSECOND, NOON), most_pages=32)
    rest = Interval(window.interval.start, NOON - 100 * MICROSECOND)  # seven pages

    assert not frontier.share(window, rest, PAGE)


@pytest.mark.parametrize("row", [NEWEST_FIRST, FORGETFUL], ids=lambda e: e.name)
def test_of_a_shared_rest_what_expires_first_is_read_first(row):
    frontier = Frontier(row, Span((), RANGE))
    frontier.take()
    rest = Interval(at(2000), at(100))
    assert frontier.share(Window(Interval(rest.start, NOON), most_pages=32), rest, PAGE)

    first, last = windows(take_all(frontier))

    assert (first < last) is (row is FORGETFUL)


@pytest.mark.parametrize(("is_empty", "probes"), [(False, 20), (True, 2)])
def test_a_range_is_explored_by_few_probes_once_one_has_found_nothing(is_empty, probes):
    frontier = after_first_page(back(8001), walks=20)
    oldest, *others = take_all(frontier)
    for probe in others:
        read_a_page(frontier, probe)
    if is_empty:
        frontier.finished(oldest, 0)
    else:
        read_a_page(frontier, oldest)

    again = [window for window in take_all(frontier) if window.most_pages == 1]

    assert len(again) == probes


def test_one_microsecond_cannot_be_split_however_many_records_it_has():
    frontier = Frontier(NEWEST_FIRST, Span((), RANGE))
    window = Window(Interval(NOON - 2 * MICROSECOND, NOON), most_pages=32)
    rest = Interval(window.interval.start, NOON - MICROSECOND)

    assert not frontier.share(window, rest, 50_000)


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
