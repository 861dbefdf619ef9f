"""Single values: what is repaired, what is null, what is refused with a reason."""

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.decoding.values import json_text, read_value, relation_id
from fleetlake.endpoints.columns import Kind

READABLE = [
    (Kind.ID, "371193", 371193),
    (Kind.ID, 371193, 371193),
    (Kind.ID, 371193.0, 371193),
    (Kind.ID, " 5 ", 5),
    (Kind.ID, "9223372036854775807", 2**63 - 1),
    (Kind.ID, "9007199254740993", 9007199254740993),
    (Kind.INTEGER, "-12", -12),
    (Kind.INTEGER, "12.0", 12),
    (Kind.REAL, "-97.5", -97.5),
    (Kind.REAL, 5, 5.0),
    (Kind.FLAG, True, True),
    (Kind.FLAG, "False", False),
    (Kind.FLAG, 1, True),
    (Kind.TEXT, "a", "a"),
    (Kind.TEXT, "", ""),
    (Kind.TEXT, 7, "7"),
    (Kind.TEXT, {"a": 1}, '{"a":1}'),
    (Kind.JSON, "a", '"a"'),
    (Kind.JSON, [1, None], "[1,null]"),
    (Kind.IDS, {"type": "radios", "id": "r1"}, '["r1"]'),
    (Kind.IDS, [{"id": "b"}, {"id": "a"}, {"id": "b"}], '["a","b"]'),
    (Kind.IDS, ["b", 7], '["7","b"]'),
    (Kind.IDS, [], "[]"),
    (Kind.IDS, None, None),
    (Kind.RELATION, "https://us0.example/api/v2/accounts/157/", 157),
    (Kind.RELATION, "https://www.example/api/v2/accounts/157", 157),
    (Kind.RELATION, "157", 157),
    (Kind.RELATION, 157, 157),
    (Kind.RELATION, {"id": "157", "name": "expanded"}, 157),
    (Kind.RELATION, {"id": "https://h/api/v2/accounts/157/"}, 157),
]

UNREADABLE = [
    (Kind.ID, ""),
    (Kind.ID, "abc"),
    (Kind.ID, "1_000"),
    (Kind.ID, True),
    (Kind.ID, "1.5"),
    (Kind.ID, [1]),
    (Kind.ID, 2**63),
    (Kind.ID, str(-(2**63) - 1)),
    (Kind.ID, "inf"),
    (Kind.REAL, "nan"),
    (Kind.REAL, "-inf"),
    (Kind.REAL, float("nan")),
    (Kind.REAL, False),
    (Kind.REAL, "1_0.5"),
    (Kind.REAL, {}),
    (Kind.FLAG, "yes"),
    (Kind.FLAG, 2),
    (Kind.TIME, 1767225600),
    (Kind.TIME, "yesterday"),
    (Kind.TIME, "2026-02-30T00:00:00Z"),
    (Kind.RELATION, {}),
    (Kind.RELATION, "https://h/api/v2/accounts/"),
    (Kind.RELATION, True),
]


@pytest.mark.parametrize(("kind", "sent", "stored"), READABLE)
def test_a_value_is_read_in_each_of_its_formats(kind, sent, stored):
    value = read_value(kind, sent)

    assert value == stored
    assert type(value) is type(stored)


@pytest.mark.parametrize(("kind", "sent"), UNREADABLE)
def test_a_value_of_the_wrong_kind_is_refused_with_a_reason(kind, sent):
    with pytest.raises(ValueError, match=r"\w"):
        read_value(kind, sent)


@pytest.mark.parametrize("kind", Kind)
def test_null_is_null_in_every_kind(kind):
    assert read_value(kind, None) is None


@pytest.mark.parametrize(
    "spelling",
    [
        "2026-06-06T12:59:11.000000+00:00",
        "2026-06-06T12:59:11+00:00",
        "2026-06-06T12:59:11Z",
        "2026-06-06T12:59:11.000000Z",
        "2026-06-06T12:59:11",
        "2026-06-06T14:59:11+02:00",
        "2026-06-06 12:59:11Z",
    ],
)
def test_every_format_of_an_instant_gives_the_same_instant(spelling):
    assert read_value(Kind.TIME, spelling) == "2026-06-06T12:59:11+00:00"


@given(
    st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001 - the zone is added below
    st.integers(-14 * 60, 14 * 60),
)
def test_a_time_in_any_zone_keeps_its_instant_to_the_microsecond(naive, offset):
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=offset)))

    stored = datetime.fromisoformat(read_value(Kind.TIME, moment.isoformat()))

    assert stored == moment
    assert stored.utcoffset() == timedelta(0)


@pytest.mark.parametrize("offset", ["+00:60", "-00:60", "+0099", "-23:75", "+00:60:00"])
def test_a_time_whose_offset_has_more_than_59_minutes_is_refused(offset):
    with pytest.raises(ValueError, match="more than 59 minutes"):
        read_value(Kind.TIME, f"2026-06-06T12:59:11{offset}")


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_id_is_the_same_whether_sent_as_text_as_number_or_in_a_url(number):
    url = f"https://us0.example/api/v2/routers/{number}/"

    assert read_value(Kind.ID, str(number)) == read_value(Kind.ID, number) == number
    assert relation_id(url) == relation_id({"id": str(number)}) == number


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text('aé\n\x01"\\', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=8,
)


@given(json_values)
def test_json_is_kept_as_it_was(value):
    assert json.loads(json_text(value)) == value
