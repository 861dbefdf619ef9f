"""Bytes to values: two readers that must agree, and odd records that do not affect others.

Records are generated from each endpoint's columns, so a new endpoint is tested automatically.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetlake.decoding.arrow import EXTRA, Instants, read_page
from fleetlake.decoding.records import Decoded, OddRecord, reader_of, strict_json
from fleetlake.decoding.timeuuid import smallest_at
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Column, Kind
from fleetlake.endpoints.model import Endpoint
from fleetlake.errors import PageUnreadable
from tests.support.cases import REQUESTED, every_endpoint, every_sort

MOMENT = datetime(2026, 6, 6, 12, 59, 11, 462000, tzinfo=UTC)
SHARDS = ("https://www.svc.example", "https://us0.svc.example")
SPELLINGS = ("%Y-%m-%dT%H:%M:%S.%f+00:00", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%S+00:00")


@pytest.fixture(autouse=True)
def nothing_learned() -> None:
    """Forget the unknown members that readers have learned in other tests."""
    reader_of.cache_clear()


def made_up(column: Column, number: int) -> tuple[Any, Any]:
    """Return what the service may send in a column, and what it means."""
    moment = MOMENT + timedelta(seconds=number)
    spelling = SPELLINGS[number % 3]
    host = SHARDS[number % 2]
    return {
        Kind.ID: (str(1000 + number), 1000 + number),
        Kind.RELATION: (f"{host}/api/v2/things/{2000 + number}/", 2000 + number),
        Kind.INTEGER: (-number, -number),
        Kind.REAL: (number + 0.5, number + 0.5),
        Kind.FLAG: (number % 2 == 0, number % 2 == 0),
        Kind.TEXT: (f"text é {number}", f"text é {number}"),
        Kind.TIME: (
            moment.strftime(spelling),
            moment if "%f" in spelling else moment.replace(microsecond=0),
        ),
        Kind.TIMEUUID: (smallest_at(moment), smallest_at(moment)),
        Kind.JSON: ({"a": [number, None]}, {"a": [number, None]}),
        Kind.IDS: ([{"type": "b", "id": f"s{number}"}, {"id": "r"}], ["r", f"s{number}"]),
    }[column.kind]


def put(record: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for parent in path[:-1]:
        record = record.setdefault(parent, {})
    record[path[-1]] = value


def a_record(endpoint: Endpoint, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a record as sent, and the row it should become."""
    sent: dict[str, Any] = {}
    row: dict[str, Any] = {}
    for column in endpoint.columns:
        value, meant = made_up(column, number)
        put(sent, column.path, value)
        row[column.name] = meant
    return sent, row | {EXTRA: None}


def a_page(endpoint: Endpoint, records: list[Any], **spaces: Any) -> bytes:
    """Return a last page in the format of the endpoint's API version."""
    is_v2 = endpoint.path.endswith("/")
    rest = {"meta": {"limit": 500, "next": None, "offset": 0}} if is_v2 else {"links": {}}
    return json.dumps({"data": records, **rest}, ensure_ascii=False, **spaces).encode()


def read_rows(endpoint: Endpoint, body: bytes) -> list[dict[str, Any]]:
    """Return the page's rows, JSON columns as values."""
    rows = read_page(endpoint, body).rows.to_pylist()
    for row in rows:
        for name in [*(c.name for c in endpoint.columns if c.sql_type == "JSON"), EXTRA]:
            row[name] = json.loads(row[name]) if row[name] is not None else None
    return rows


def by_column(decoded: Decoded) -> tuple[Any, ...]:
    """Return a reader's result, with times as instants and JSON as values, for comparison."""
    values = {name: list(map(comparable, column)) for name, column in decoded.values.items()}
    return values, decoded.count, decoded.limit, decoded.next, decoded.extra, decoded.rejects


def comparable(value: Any) -> Any:
    """Return a value in a canonical form, so that different spellings are equal."""
    if not isinstance(value, str):
        return (type(value), value)
    for read in (datetime.fromisoformat, json.loads):
        try:
            return read(value)
        except ValueError:
            continue
    return value


@every_endpoint
def test_every_column_of_a_record_is_read(endpoint):
    sent, rows = zip(*(a_record(endpoint, number) for number in range(6)), strict=True)

    assert read_rows(endpoint, a_page(endpoint, list(sent))) == list(rows)


@every_endpoint
def test_the_lenient_reader_gives_the_same_as_the_fast_reader(endpoint):
    body = a_page(endpoint, [a_record(endpoint, number)[0] for number in range(6)])
    reader = reader_of(endpoint)

    assert by_column(reader.lenient(body)) == by_column(reader.fast(body))


@every_endpoint
def test_nulls_are_read_as_nulls_except_in_keys(endpoint):
    sent, row = a_record(endpoint, 1)
    for column in endpoint.columns:
        if column.name not in endpoint.required:
            put(sent, column.path, None)
            row[column.name] = None

    assert read_rows(endpoint, a_page(endpoint, [sent])) == [row]


@every_endpoint
def test_missing_members_are_nulls(endpoint):
    sent: dict[str, Any] = {}
    for column in endpoint.columns:
        if column.name in endpoint.required:
            put(sent, column.path, made_up(column, 1)[0])

    [row] = read_rows(endpoint, a_page(endpoint, [sent]))

    assert {name for name, value in row.items() if value is not None} == endpoint.required


@every_endpoint
def test_a_null_member_is_a_null_in_its_column_and_never_the_text_null(endpoint):
    sent, _ = a_record(endpoint, 1)
    optional = [c for c in endpoint.columns if c.name not in endpoint.required]
    for column in optional:
        put(sent, column.path, None)

    rows = read_page(endpoint, a_page(endpoint, [sent])).rows

    assert [c.name for c in optional if rows.column(c.name).null_count != 1] == []


@every_endpoint
def test_an_unknown_member_goes_to_extra_and_affects_nothing_else(endpoint):
    (plain, plain_row), (odd, odd_row) = a_record(endpoint, 1), a_record(endpoint, 2)
    odd["a_new_member"] = {"since": [2027]}

    rows = read_rows(endpoint, a_page(endpoint, [plain, odd]))

    assert rows == [plain_row, odd_row | {EXTRA: {"a_new_member": {"since": [2027]}}}]


@every_endpoint
def test_a_value_of_another_type_goes_to_extra_and_its_record_is_kept(endpoint):
    for column in endpoint.columns:
        if column.name in endpoint.required or column.kind in {Kind.TEXT, Kind.JSON, Kind.TIMEUUID}:
            continue
        sent, row = a_record(endpoint, 1)
        put(sent, column.path, [["of another type"]])
        aside: dict[str, Any] = {}
        put(aside, column.path, [["of another type"]])

        assert read_rows(endpoint, a_page(endpoint, [sent])) == [
            row | {column.name: None, EXTRA: aside}
        ]


@every_endpoint
def test_a_record_without_its_key_or_time_is_a_misfit_and_the_others_are_kept(endpoint):
    for name in endpoint.required:
        good, row = a_record(endpoint, 1)
        for broken in ("missing", "null"):
            bad, _ = a_record(endpoint, 2)
            *parents, last = endpoint.column(name).path
            inner = bad
            for parent in parents:
                inner = inner[parent]
            inner.pop(last) if broken == "missing" else inner.update({last: None})

            page = read_page(endpoint, a_page(endpoint, [bad, good]))

            assert page.count == 2
            assert page.rows.num_rows == 1
            [reject] = page.rejects
            assert name in reject.reason
            assert json.loads(reject.raw) == bad
            assert read_rows(endpoint, a_page(endpoint, [bad, good])) == [row]


@pytest.mark.parametrize(
    "odd", [lambda t: t + "0", lambda t: t[:-1], lambda t: f"{t[:14]}4{t[15:]}", lambda _: ""]
)
def test_a_key_that_should_contain_its_time_and_does_not_is_a_misfit(odd):
    endpoint = ENDPOINTS["alerts"]
    (bad, _), (good, row) = a_record(endpoint, 2), a_record(endpoint, 1)
    bad["created_at_timeuuid"] = odd(bad["created_at_timeuuid"])

    page = read_page(endpoint, a_page(endpoint, [bad, good]))

    [reject] = page.rejects
    assert json.loads(reject.raw) == bad
    assert read_rows(endpoint, a_page(endpoint, [bad, good])) == [row]


@every_sort
@pytest.mark.parametrize("record", [None, 1, "text", [], True])
def test_a_record_that_is_not_an_object_is_a_misfit(endpoint, record):
    page = read_page(endpoint, a_page(endpoint, [record, a_record(endpoint, 1)[0]]))

    assert [json.loads(reject.raw) for reject in page.rejects] == [record]
    assert (page.rows.num_rows, page.count) == (1, 2)


@every_sort
@pytest.mark.parametrize("control", ["\x01", "\n", "\t", "\x1f"])
def test_raw_control_characters_in_any_text_are_kept(endpoint, control):
    text = next((c for c in endpoint.columns if c.kind is Kind.TEXT), None)
    sent, row = a_record(endpoint, 1)
    if text is None:
        sent["unknown"] = "a@b"
        row[EXTRA] = {"unknown": f"a{control}b"}
    else:
        put(sent, text.path, "a@b")
        row[text.name] = f"a{control}b"

    body = a_page(endpoint, [sent]).replace(b"a@b", f"a{control}b".encode())

    assert read_rows(endpoint, body) == [row]


@every_sort
@pytest.mark.parametrize("spelled", [b"a\x00b", rb"a\u0000b"])
def test_a_text_with_a_nul_goes_to_extra_and_a_key_with_a_nul_to_quarantine(endpoint, spelled):
    for column in endpoint.columns:
        if column.kind is not Kind.TEXT:
            continue
        sent, row = a_record(endpoint, 1)
        put(sent, column.path, "a@b")
        aside: dict[str, Any] = {}
        put(aside, column.path, "a\0b")
        body = a_page(endpoint, [sent]).replace(b"a@b", spelled)

        if column.name in endpoint.required:
            [reject] = read_page(endpoint, body).rejects
            assert reject.reason == f"{column.name}: a text with a NUL character"
        else:
            assert read_rows(endpoint, body) == [row | {column.name: None, EXTRA: aside}]


def test_raw_control_characters_within_json_become_valid_json():
    endpoint = ENDPOINTS["alerts"]
    sent, row = a_record(endpoint, 1)
    sent["info"] = {"certificate": "a@b"}

    rows = read_rows(endpoint, a_page(endpoint, [sent]).replace(b"a@b", b"a\x01\nb"))

    assert rows == [row | {"info": {"certificate": "a\x01\nb"}}]


def test_invalid_bytes_take_no_python_call_each():
    calls = 0

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = strict_json(b'["' + b"\xff\xc3" * 50_000 + b'"]')
    finally:
        sys.setprofile(None)

    assert json.loads(found) == [r"\xff\xc3" * 50_000]
    assert calls < 1_000


def test_half_a_surrogate_pair_loses_one_character_not_the_record():
    endpoint = ENDPOINTS["alerts"]
    sent, row = a_record(endpoint, 1)
    sent["friendly_info"] = "a@b"

    rows = read_rows(endpoint, a_page(endpoint, [sent]).replace(b"a@b", b"a\\ud800b"))

    assert rows == [row | {"friendly_info": "a?b"}]


def test_compared_json_has_the_same_spelling_from_both_readers():
    endpoint = ENDPOINTS["groups"]
    sent, _ = a_record(endpoint, 1)
    loose = a_page(endpoint, [sent], indent=3)
    sent["unknown"] = 1

    [quick] = read_page(endpoint, loose).rows["configuration"].to_pylist()
    [patient] = read_page(endpoint, a_page(endpoint, [sent])).rows["configuration"].to_pylist()

    assert quick == patient


def test_failovers_ids_are_read_as_numbers_and_as_text():
    endpoint = ENDPOINTS["failovers"]
    sent, row = a_record(endpoint, 1)
    sent["router_id"] = row["router_id"]

    assert read_rows(endpoint, a_page(endpoint, [sent])) == [row]


def test_an_expanded_relation_still_gives_its_id():
    endpoint = ENDPOINTS["routers"]
    sent, row = a_record(endpoint, 1)
    sent["group"] = {"id": str(row["group_id"]), "name": "expanded"}

    assert read_rows(endpoint, a_page(endpoint, [sent])) == [row]


NO_PAGES = {
    "nothing": b"",
    "html": b"<html><body>502 Bad Gateway</body></html>",
    "text": b"internal error shard-router-3",
    "null": b"null",
    "a list": b"[]",
    "empty object": b"{}",
    "an error": b'{"errors": [], "exception": {"type": "error", "message": "forbidden"}}',
    "no data": b'{"meta": {"limit": 500, "next": null}}',
    "null data": b'{"data": null, "meta": {"limit": 500, "next": null}}',
    "data of another kind": b'{"data": {"id": "1"}, "meta": {"limit": 500, "next": null}}',
    "no meta": b'{"data": []}',
    "null meta": b'{"data": [], "meta": null}',
    "no limit": b'{"data": [], "meta": {"next": null}}',
    "no next": b'{"data": [], "meta": {"limit": 500}}',
    "next of another kind": b'{"data": [], "meta": {"limit": 500, "next": 7}}',
    "two answers": b'{"data": [], "meta": {"limit": 500, "next": null}}{"data": []}',
    "more behind": b'{"data": [], "meta": {"limit": 500, "next": null}} oops',
    "not utf-8": b"\xff\xfe{}",
}


@every_sort
@pytest.mark.parametrize("body", NO_PAGES.values(), ids=NO_PAGES)
def test_a_response_that_is_not_a_page_is_never_read_as_an_empty_page(endpoint, body):
    with pytest.raises(PageUnreadable) as failure:
        read_page(endpoint, body)

    assert endpoint.path in failure.value.what


@every_endpoint
def test_a_page_truncated_anywhere_is_never_read_as_a_shorter_page(endpoint):
    body = a_page(endpoint, [a_record(endpoint, number)[0] for number in range(2)])

    for length in {*range(0, len(body), max(len(body) // 60, 1)), len(body) - 1}:
        with pytest.raises(PageUnreadable):
            read_page(endpoint, body[:length])


odd_values = st.sampled_from(
    [
        *[None, True, False, 0, 1, 7, -3, 1.0, 1.5, 10**18, 2**63, 10**30, "", "null", "true"],
        *["True", "1", "0", "7", "-3", "+7", " 7", "7 ", "1.0", "1.5", "1e3", "1_000", "٣", "0x10"],
        *["2026-01-01", "2026-01-01T00:00", "2026-01-01 00:00:00Z", "2026-06-06T12:59:11+0000"],
        *["2026-06-06T12:59:11.123456789Z", "2026-06-06T24:00:00Z", "2026-06-06T12:59:60Z"],
        *["2026-06-06T12:59:11.5+05:30", "2026-06-06T12Z", "20260606T125911Z", "junk"],
        *["https://h/api/v2/things/7/", "https://h/api/v2/things/7", "/things/7/", "things/x/"],
        *[[], {}, {"id": "7"}, {"id": None}, [1], {"a": 1.0}],
    ]
)


@given(st.data())
def test_both_readers_agree_on_every_page_that_the_fast_reader_accepts(data):
    endpoint = data.draw(st.sampled_from(list(REQUESTED.values())))
    records = [a_record(endpoint, number)[0] for number in range(2)]
    for record in records:
        for column in data.draw(st.lists(st.sampled_from(endpoint.columns), max_size=3)):
            put(record, column.path, data.draw(odd_values))
    body = a_page(endpoint, records)
    reader = reader_of(endpoint)

    try:
        quick = reader.fast(body)
    except (ValueError, OddRecord):
        return

    assert read_rows(endpoint, body) == read_patiently(endpoint, body)
    assert quick.count == len(records)


def read_patiently(endpoint: Endpoint, body: bytes) -> list[dict[str, Any]]:
    """Return the rows that the lenient reader alone gives for a page."""
    marked = json.loads(body)
    marked["data"].append("makes the quick reader give up")
    return read_rows(endpoint, json.dumps(marked).encode())


@given(st.data())
def test_no_record_disappears_whatever_its_members_contain(data):
    endpoint = data.draw(st.sampled_from(list(REQUESTED.values())))
    record = a_record(endpoint, 1)[0]
    for column in data.draw(st.lists(st.sampled_from(endpoint.columns), max_size=4)):
        put(record, column.path, data.draw(odd_values))

    page = read_page(endpoint, a_page(endpoint, [record]))

    assert page.rows.num_rows + len(page.rejects) == page.count == 1


ODD_NAMES = [
    *["", " ", ".", "a.b", "action.id", "__proto__", "constructor", "_extra", "_row", "type"],
    *["o'brien", 'say "hi"', "back\\slash", "$", "[*]", "a\x00b", "new\nline", "\u202e", "é", "🛰"],
    *["data", "links", "meta", "class", "select", "x" * 3000],
]


@pytest.mark.parametrize("name", ["users", "alerts", "failovers", "private_cellular_sims"])
def test_an_unknown_member_of_any_name_is_kept(name: str) -> None:
    endpoint = ENDPOINTS[name]
    sent, row = a_record(endpoint, 1)
    unknown = {odd: n for n, odd in enumerate(ODD_NAMES) if odd not in sent and odd != "type"}

    rows = read_rows(endpoint, a_page(endpoint, [sent | unknown]))

    assert rows == [row | {EXTRA: unknown}]


def test_a_member_with_dots_in_its_name_is_not_a_nested_member():
    endpoint = next(e for e in ENDPOINTS.values() if any(len(c.path) > 1 for c in e.columns))
    dotted = next(".".join(c.path) for c in endpoint.columns if len(c.path) > 1)
    sent, row = a_record(endpoint, 1)

    rows = read_rows(endpoint, a_page(endpoint, [sent | {dotted: "another"}]))

    assert rows == [row | {EXTRA: {dotted: "another"}}]


def test_names_with_half_a_surrogate_pair_stay_distinct():
    endpoint = ENDPOINTS["alerts"]
    sent, row = a_record(endpoint, 1)
    body = a_page(endpoint, [sent | {"new1": 1, "new2": 2}])

    rows = read_rows(endpoint, body.replace(b"new1", b"\\ud800").replace(b"new2", b"\\udfff"))

    assert rows == [row | {EXTRA: {"\\ud800": 1, "\\udfff": 2}}]


@pytest.mark.parametrize("unknown", [b"", b'"new":1,'], ids=["fast", "lenient"])
def test_both_readers_take_the_last_of_two_members_of_one_name(unknown: bytes) -> None:
    endpoint = ENDPOINTS["users"]
    sent, row = a_record(endpoint, 1)
    body = a_page(endpoint, [sent], separators=(",", ":"))

    [twice] = read_rows(endpoint, body.replace(b'[{"', b"[{" + unknown + b'"id":"7","', 1))

    assert twice["id"] == row["id"]


@pytest.mark.parametrize("odd", ["", ', "new": 1'], ids=["as declared", "with a new member"])
@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("9007199254740993", [9007199254740993]),
        ('"9007199254740993"', [9007199254740993]),
        ("9007199254740991.0", [9007199254740991]),
        ("9007199254740993.0", []),
        ('"9007199254740993.0"', []),
        ("-9.007199254740993e15", []),
    ],
)
def test_only_an_id_that_a_double_may_have_rounded_is_quarantined(sent, kept, odd):
    record = f'{{"id": {sent}{odd}}}'
    body = f'{{"data": [{record}], "meta": {{"limit": 500, "next": null}}}}'.encode()

    page = read_page(ENDPOINTS["accounts"], body)

    assert page.rows.column("id").to_pylist() == kept
    assert [reject.raw for reject in page.rejects] == [record] * (1 - len(kept))


MOMENTS = st.one_of(
    st.none(),
    st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    st.from_regex(
        r"[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.][0-9]{1,7})?"
        r"(Z|[+-][0-9]{2}:[0-9]{2})?",
        fullmatch=True,
    ),
    st.text(max_size=5),
)


@given(st.lists(MOMENTS, max_size=3))
@example(["2026-06-06T12:59:11-00:60"])
@example(["2026-06-06T12:59:11+23:99"])
@example(["0000-06-06T12:59:11Z"])
def test_the_first_times_of_a_process_are_read_as_all_later_ones(texts):
    first, later = Instants(by_python=len(texts)), Instants(by_python=0)

    assert instants_or_error(first, texts) == instants_or_error(later, texts)


def instants_or_error(instants: Instants, texts: list[str | None]) -> list[Any] | str:
    try:
        return instants.of(texts).cast("int64").to_pylist()
    except ValueError:
        return "no instants"
