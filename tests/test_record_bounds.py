"""A record beyond its bounds goes to quarantine, and the rest of its page is kept."""

import json
import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.decoding import bounds
from fleetlake.decoding.arrow import Page, read_page
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import PageUnreadable
from fleetlake.lake import open_lake
from fleetlake.loading.quarantine import quarantined, retry_quarantined
from tests.support.loads import commit, load_of_rows
from tests.support.sim import NOW

ACCOUNTS = ENDPOINTS["accounts"]
ALERTS = ENDPOINTS["alerts"]
UUID = "5f8a1a2e-0000-11f1-8000-000000000001"


def a_page(*records: str, rest: str = '"meta": {"limit": 500, "next": null}') -> bytes:
    return f'{{"data": [{", ".join(records)}], {rest}}}'.encode()


def deep(levels: int) -> str:
    return '{"a":[' * (levels // 2) + "]}" * (levels // 2)


BEYOND = {
    "20,000 members": json.dumps({"id": "2"} | {f"m{n}": n for n in range(20_000)}),
    "20,000 members in one": json.dumps({"id": "2", "m": {f"m{n}": n for n in range(20_000)}}),
    "nested 300 deep": f'{{"id": "2", "m": {deep(300)}}}',
    "nested 2,000 deep": f'{{"id": "2", "m": {deep(2_000)}, "text": "}}]\\"]"}}',
    "nested 100,000 deep": f'{{"id": "2", "m": {deep(100_000)}}}',
    "of 5 MB": json.dumps({"id": "2", "name": "x" * 5_000_000}),
    "with a number without end": f'{{"id": "2", "m": {"9" * 5_000}, "n": 1e400}}',
}


@pytest.mark.parametrize("record", BEYOND.values(), ids=BEYOND)
@pytest.mark.parametrize("odd", ["", "\x01"], ids=["strict", "with control characters"])
def test_a_record_beyond_the_bounds_is_a_misfit_and_the_others_are_kept(record, odd):
    others = [f'{{"id": "1", "name": "a{odd}"}}', '{"id": "3"}']

    page = read_page(ACCOUNTS, a_page(others[0], record, others[1]))

    assert page.rows.column("id").to_pylist()[:1] == [1]
    assert page.rows.column("id").to_pylist()[-1:] == [3]
    assert page.count == page.rows.num_rows + len(page.rejects) == 3
    for reject in page.rejects:
        assert reject.raw[:9] == record[:9]
        assert len(reject.reason) < 400
        assert len(reject.raw) < 1_000_200


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("20,000 members", "20,000 members without a column"),
        ("nested 300 deep", "nested deeper than 200 levels"),
        ("nested 2,000 deep", "nested deeper than 200 levels"),
        ("of 5 MB", "bytes; a record has at most 4,000,000"),
    ],
)
def test_a_misfit_says_which_bound_it_exceeds(name, reason):
    [reject] = read_page(ACCOUNTS, a_page('{"id": "1"}', BEYOND[name])).rejects

    assert reason in reject.reason


def test_a_small_misfit_is_kept_as_received_and_a_large_one_with_its_digest():
    small, large = BEYOND["nested 2,000 deep"], BEYOND["of 5 MB"]

    kept = [reject.raw for reject in read_page(ACCOUNTS, a_page(small, large)).rejects]

    assert kept[0] == small
    assert kept[1].startswith(large[:1_000_000])
    assert f"{len(large):,} characters in all, SHA-256 " in kept[1]


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def steps_over_brackets(body: bytes) -> None:
    for _ in re.finditer(rb"[\[\]]", body):
        pass


def a_record_of_lists(text: str, count: int) -> str:
    return f'{{"id": "2", "t": "{text}", "m": [{",".join(["[]"] * count)}]}}'


def test_very_many_lists_in_a_record_take_no_python_step_each():
    body = a_page('{"id": "1"}', a_record_of_lists("x", 1_400_000))

    seconds = cpu_seconds(lambda: read_page(ACCOUNTS, body))

    assert seconds < 6 * cpu_seconds(lambda: steps_over_brackets(body))


def test_a_bracket_in_a_text_beside_many_lists_takes_no_python_step_each():
    record = a_record_of_lists("[", 400_000).encode()

    seconds = cpu_seconds(lambda: bounds.is_deep(record))

    assert seconds < 3 * cpu_seconds(lambda: steps_over_brackets(record))


JSON = st.recursive(
    st.none() | st.integers() | st.text('[]{},"\\:data \n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{},"\\data'), inner),
    max_leaves=30,
)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, inner), default=0) if isinstance(value, (dict, list)) else 0


@given(JSON, st.integers(1, 40))
def test_depth_is_measured_for_any_text_and_any_chunk_boundary(value, part_bytes):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bounds, "PART_BYTES", part_bytes)

        assert bounds.deepest(json.dumps(value).encode()) == depth_of(value)


@given(st.lists(JSON), st.integers(1, 40))
def test_only_deep_records_are_quarantined_at_any_chunk_boundary(records, part_bytes):
    body = json.dumps({"other": records, "data": records, "meta": {"data": records}})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bounds, "PART_BYTES", part_bytes)
        patched.setattr(bounds, "MAX_DEPTH", 2)
        left, aside = bounds.set_deep_aside(body.encode())

    texts = {json.loads(stand_in): json.loads(record) for stand_in, record in aside.items()}
    assert list(texts.values()) == [record for record in records if depth_of(record) > 2]
    page = json.loads(left)
    places = [n for n, record in enumerate(records) if depth_of(record) > 2]
    for place, stand_in in zip(places, texts, strict=True):
        page["data"][place] = texts[stand_in]
    assert page == json.loads(body)


def an_alert(info: str) -> str:
    at = "2026-06-06T12:59:11Z"
    return f'{{"created_at_timeuuid": "{UUID}", "created_at": "{at}", "info": {info}}}'


@pytest.mark.parametrize("odd", ["", ', {"x": 1}'], ids=["alone", "beside an odd record"])
@pytest.mark.parametrize(("levels", "rows"), [(198, 1), (200, 0), (400, 0)])
def test_json_columns_may_be_as_deep_as_records_for_both_readers(levels, rows, odd):
    body = a_page(an_alert(deep(levels)) + odd)

    assert read_page(ALERTS, body).rows.num_rows == rows


def test_brackets_inside_texts_do_not_count_as_depth():
    info = json.dumps({"text": "[{" * 500})

    assert read_page(ALERTS, a_page(an_alert(info))).rows.num_rows == 1


@pytest.mark.parametrize("record", ["{}", "1", '{"id":"1"}'])
def test_a_page_of_too_many_small_records_is_refused_before_it_uses_memory(record):
    body = a_page(",".join([record] * 1_000_000))
    tracemalloc.start()

    with pytest.raises(PageUnreadable, match="records"):
        read_page(ACCOUNTS, body)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * len(body)


def test_up_to_ten_times_the_requested_number_of_records_are_read():
    assert read_page(ACCOUNTS, a_page(*['{"id": "1"}'] * 5_000)).count == 5_000
    with pytest.raises(PageUnreadable, match="5,001 records"):
        read_page(ACCOUNTS, a_page(*['{"id": "1"}'] * 5_001))


@pytest.mark.parametrize(
    "link", ["https://svc.example/?a=" + "x" * 1_000_000, "https://[/"], ids=["long", "broken"]
)
@pytest.mark.parametrize("record", ['{"id": "1"}', '{"id": "1", "m": 1}'], ids=["usual", "odd"])
def test_a_link_that_cannot_be_requested_makes_a_page_unreadable(record, link):
    rest = f'"meta": {{"limit": 500, "next": "{link}"}}'

    with pytest.raises(PageUnreadable):
        read_page(ACCOUNTS, a_page(record, rest=rest))


def test_a_byte_order_mark_before_a_page_is_ignored():
    page = read_page(ACCOUNTS, b"\xef\xbb\xbf" + a_page('{"id": "1"}'))

    assert page.rows.column("id").to_pylist() == [1]


def committed(lake: Any, page: Page) -> None:
    rows = pa.Table.from_batches([page.rows])
    commit(lake, load_of_rows(ACCOUNTS, rows, seen_at=NOW, rejects=page.rejects))


def test_a_truncated_record_stays_in_quarantine_and_can_be_retried_safely(lake_path):
    with open_lake(lake_path) as lake:
        committed(lake, read_page(ACCOUNTS, a_page('{"id": "1"}', BEYOND["of 5 MB"])))

        assert retry_quarantined(lake) == (0, 1)
        assert [record.endpoint for record in quarantined(lake)] == ["accounts"]


def test_new_members_of_a_wide_record_are_recorded_without_a_copy_of_it_each(lake_path):
    record = {"id": "1"} | {f"m{n}": "x" * 1_000 for n in range(900)}
    page = read_page(ACCOUNTS, a_page(json.dumps(record)))

    with open_lake(lake_path) as lake:
        lake.execute("set memory_limit = '300MB'")
        committed(lake, page)

        assert lake.rows("select count(*) from meta.schema_drift") == [(900,)]
