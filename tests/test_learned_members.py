"""A member that the service adds is kept in `_extra`, and costs one slow page, not every page."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.decoding.records import Decoded, OddRecord, PageReader
from fleetlake.decoding.structs import MAX_LEARNED
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from tests.support.cases import REQUESTED, every_endpoint
from tests.test_records import a_page, a_record, by_column, put

LOGS, ALERTS, GROUPS = (ENDPOINTS[name] for name in ("activity_logs", "alerts", "groups"))


def page(endpoint: Endpoint, *unknown: dict[str, Any], **spaces: Any) -> bytes:
    """Return a page with a record for each set of unknown members, as they nest."""
    records = []
    for number, members in enumerate(unknown):
        record = a_record(endpoint, number)[0]
        for name, value in members.items():
            put(record, tuple(name.split("/")), value)
        records.append(record)
    return a_page(endpoint, records, **spaces)


def after(body: bytes, endpoint: Endpoint) -> PageReader:
    """Return a reader that has read one page."""
    reader = PageReader(endpoint)
    reader.lenient(body)
    return reader


def as_values(decoded: Decoded) -> Any:
    """Return a reader's result with `_extra` as values: their order may differ."""
    *rest, extra, rejects = by_column(decoded)
    return *rest, {row: json.loads(text) for row, text in extra.items()}, rejects


@every_endpoint
def test_a_member_of_one_page_is_read_fast_on_the_next(endpoint):
    first, second = (page(endpoint, {"new": {"n": n}, "more": n}) for n in (1, 2))

    with pytest.raises((OddRecord, ValueError)):
        PageReader(endpoint).fast(first)

    found = after(first, endpoint).fast(second)
    assert json.loads(found.extra[0]) == {"new": {"n": 2}, "more": 2}


def nested_in(endpoint: Endpoint) -> Iterator[str]:
    """Yield names of objects whose members are columns, such as `action` of an activity log."""
    yield from dict.fromkeys(c.path[0] for c in endpoint.columns if len(c.path) > 1)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(st.data())
def test_fast_and_lenient_readers_agree_on_unknown_members(data):
    endpoint = data.draw(st.sampled_from(list(REQUESTED.values())))
    places = ["", *(f"{name}/" for name in nested_in(endpoint))]
    names = [f"{place}{name}" for place in places for name in ("new", "50%", "a.b", "é")]
    members = st.dictionaries(st.sampled_from(names), VALUES)
    sent = data.draw(st.lists(members, min_size=1, max_size=3))
    reader = after(page(endpoint, dict.fromkeys(names, 1)), endpoint)
    body = page(endpoint, *sent)

    try:
        fast = reader.fast(body)
    except (ValueError, OddRecord):
        assert any(odd in body.decode() for odd in ("\\u0000", "e+"))  # NUL, or a huge number
        return

    assert as_values(fast) == as_values(PageReader(endpoint).lenient(body))


@pytest.mark.parametrize(
    "sent", [{}, {"new": None}, {"more": 1}, {"action/new": None}, {"new": ""}]
)
def test_a_missing_member_stays_missing_and_a_null_stays_null(sent):
    reader = after(page(LOGS, {"new": 1, "more": 1, "action/new": 1}), LOGS)

    found = reader.fast(page(LOGS, sent))

    wanted: dict[str, Any] = {}
    for name, value in sent.items():
        put(wanted, tuple(name.split("/")), value)
    assert [json.loads(text) for text in found.extra.values()] == ([wanted] if wanted else [])


def test_content_that_is_compared_has_one_spelling():
    assert GROUPS.mode is not Mode.APPEND
    body = page(GROUPS, {"new": {"a": 1.50, "b": [1, 2]}}, separators=(", ", " : "))
    reader = after(body, GROUPS)

    assert reader.fast(body).extra == reader.lenient(body).extra


def test_a_value_that_did_not_fit_its_column_is_not_learned():
    odd, good = (page(ALERTS, {"detected_at": value}) for value in (["odd"], "2026-01-01T00:00Z"))
    reader = after(odd, ALERTS)

    assert reader.lenient(good).values["detected_at"] != [None]
    with pytest.raises((OddRecord, ValueError)):
        reader.fast(odd)
    assert not reader.fast(a_page(ALERTS, [a_record(ALERTS, 1)[0]])).extra


def test_a_column_whose_parent_is_no_object_is_not_learned():
    reader = after(page(LOGS, {"action": "odd"}), LOGS)

    assert not reader.fast(a_page(LOGS, [a_record(LOGS, 1)[0]])).extra


@pytest.mark.parametrize(("count", "is_fast"), [(MAX_LEARNED, True), (MAX_LEARNED + 1, False)])
def test_only_so_many_members_are_learned(count, is_fast):
    body = page(ALERTS, {f"new{n}": n for n in range(count)})
    reader = after(body, ALERTS)

    assert len(json.loads(reader.lenient(body).extra[0])) == count
    if is_fast:
        assert reader.fast(body).extra == reader.lenient(body).extra
    else:
        with pytest.raises((OddRecord, ValueError)):
            reader.fast(body)


@pytest.mark.parametrize("value", ["1e999", "-1.5E+400", "9" * 400, '{"a": [1, 2e308999]}'])
def test_a_number_too_large_for_a_double_becomes_text_as_everywhere(value):
    body = page(ALERTS, {"new": "VALUE"}).replace(b'"VALUE"', value.encode())
    reader = after(page(ALERTS, {"new": 1}), ALERTS)

    with pytest.raises((OddRecord, ValueError)):
        reader.fast(body)


def test_an_object_with_too_many_members_is_judged_by_the_lenient_reader():
    body = page(ALERTS, {"new": {f"m{n}": n for n in range(1_001)}})
    reader = after(page(ALERTS, {"new": 1}), ALERTS)

    with pytest.raises(OddRecord):
        reader.fast(body)
    assert reader.lenient(body).rejects


def test_a_deep_value_is_judged_by_the_lenient_reader():
    body = page(ALERTS, {"new": 0}).replace(b'"new": 0', b'"new": ' + b"[" * 300 + b"]" * 300)
    reader = after(page(ALERTS, {"new": 1}), ALERTS)

    with pytest.raises(OddRecord):
        reader.fast(body)


@pytest.mark.parametrize("name", ['say "hi"', "back\\slash", "new\nline", "x" * 300])
def test_a_member_that_is_not_learned_is_kept_all_the_same(name):
    body = page(ALERTS, {name: 1})
    reader = after(body, ALERTS)

    with pytest.raises((OddRecord, ValueError)):
        reader.fast(body)
    assert json.loads(reader.lenient(body).extra[0]) == {name: 1}
