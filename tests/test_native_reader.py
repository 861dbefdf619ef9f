"""The compiled reader gives the same table as the Python readers, or refuses the page.

`make test-fast` builds it and runs these tests. `make test-fast-sanitized` runs them with checks of
every memory access: what it reads may be hostile.
"""

import gc
import json
import random
import resource
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.decoding import native
from fleetlake.decoding.arrow import Page, read_page, schema_of
from fleetlake.decoding.native import NativePage, native_reader_state, use_native_reader
from fleetlake.decoding.records import reader_of
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Api, Endpoint, Mode
from fleetlake.errors import PageUnreadable
from fleetlake.lake import open_lake
from fleetlake.loading.ingest import ingest
from tests.every import REQUESTED, every
from tests.test_learned_members import VALUES, nested_in, page
from tests.test_records import NO_PAGES, a_page, a_record, odd_values, put

pytestmark = pytest.mark.native

ALERTS, LOGS, LOCATIONS = (
    ENDPOINTS[name] for name in ("alerts", "activity_logs", "historical_locations")
)
READABLE = {
    name: endpoint
    for name, endpoint in REQUESTED.items()
    if endpoint.mode is Mode.APPEND or all(c.kind is not Kind.JSON for c in endpoint.columns)
}
LEARNED = {"new": 1, "50%": {"a": 2}, "é": "x"}

# What a mutation puts into a page.
TOKENS = [
    *[b"null", b"true", b"false", b"0", b"-0", b"01", b"1.0", b"1e3", b"1e400", b"9" * 16],
    *[b"9" * 400, b"-", b"0.1e-400", b"1.", b'""', b'"', b"\\", b"\\\\", b"\\u0000", b"\\ud83d"],
    *[
        b"\\ud83d\\ude80",
        b"\\ude80",
        b"\\u00e9",
        b"\\x",
        b"\\/",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
    ],
    *[
        b"{}",
        b"[]",
        b" ",
        b"\n",
        b"\x00",
        b"\x01",
        b"\x7f",
        b"\xff",
        b"\xc3",
        b"\xc3\xa9",
        b"\xc0\x80",
    ],
    *[b"\xed\xa0\x80", b"\xf0\x9f\x9a\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"[" * 150],
    *[b'{"a":' * 120, b'"id":1,', b'"type":"x",', b'"new":null,', b'"account":"/1/",', b"Infinity"],
    *[b'"x":' + b"[" * 90 + b"]" * 90 + b",", b'"new":"1e999",', b'"new":[1E+999],', b"NaN", b"+1"],
]


@pytest.fixture(autouse=True)
def native_reader() -> Iterator[None]:
    """Use the compiled reader, with nothing learned, and no more after the test."""
    reader_of.cache_clear()
    use_native_reader(True)
    yield
    use_native_reader(False)


def native_page(endpoint: Endpoint, body: bytes) -> NativePage | None:
    return reader_of(endpoint).native(body, schema_of(endpoint))


def python_page(endpoint: Endpoint, body: bytes) -> Page | None:
    """Return the page as the Python readers read it, or None if they find no page."""
    use_native_reader(False)
    try:
        return read_page(endpoint, body)
    except PageUnreadable:
        return None
    finally:
        use_native_reader(True)


def is_read_alike(endpoint: Endpoint, body: bytes) -> bool:
    """Return whether the compiled reader takes a page; require that it then reads it alike."""
    found, wanted = native_page(endpoint, body), python_page(endpoint, body)
    if found is None:
        return False
    assert wanted is not None
    assert wanted.rejects == ()
    found.rows.validate(full=True)
    assert found.rows.to_pylist() == wanted.rows.to_pylist()
    assert found.rows.equals(wanted.rows, check_metadata=True)
    assert (found.count, found.limit, found.next) == (wanted.count, wanted.limit, wanted.next)
    return True


def records(endpoint: Endpoint, count: int = 3) -> list[dict[str, Any]]:
    return [a_record(endpoint, number)[0] for number in range(count)]


def learn(endpoint: Endpoint, *names: str) -> None:
    """Let the readers of an endpoint learn members, as a page with them does."""
    read_page(endpoint, page(endpoint, dict.fromkeys(names or LEARNED, 1)))


@every("endpoint", READABLE.values(), ids=READABLE)
def test_a_plain_page_is_taken_and_read_alike(endpoint):
    for count in (0, 1, 9):
        assert is_read_alike(endpoint, a_page(endpoint, records(endpoint, count)))
    assert is_read_alike(endpoint, a_page(endpoint, records(endpoint), indent=3))


@every("endpoint", READABLE.values(), ids=READABLE)
def test_nulls_and_missing_members_are_taken_except_in_keys(endpoint):
    for column in endpoint.columns:
        null, missing = records(endpoint, 2)
        put(null, column.path, None)
        inner = missing
        for name in column.path[:-1]:
            inner = inner[name]
        del inner[column.path[-1]]

        for record in (null, missing):
            is_taken = is_read_alike(endpoint, a_page(endpoint, [record, *records(endpoint)]))
            assert is_taken == (column.name not in endpoint.required)


@every("endpoint", [e for e in READABLE.values() if e.mode is Mode.APPEND])
def test_learned_members_are_taken_as_received(endpoint):
    learn(endpoint)
    sent = [LEARNED, {}, {"new": None}, {"50%": {"b": [1.50]}, "new": ""}]

    assert is_read_alike(endpoint, page(endpoint, *sent))
    assert is_read_alike(endpoint, page(endpoint, *sent, indent=1, separators=(" ,", " : ")))
    assert not is_read_alike(endpoint, page(endpoint, {"another": 1}))


def test_learned_members_inside_known_objects_are_taken_in_their_places():
    learn(LOGS, "new", "action/new", "actor/a", "action/more")

    for sent in ({"action/new": 1}, {"new": 1, "actor/a": 2}, {"action/more": None, "new": 3}):
        assert is_read_alike(LOGS, page(LOGS, sent, {}))


def test_content_that_is_compared_is_left_to_the_python_readers():
    for endpoint in REQUESTED.values():
        if endpoint.name not in READABLE:
            assert native_page(endpoint, a_page(endpoint, records(endpoint))) is None
    groups = next(e for e in READABLE.values() if e.mode is not Mode.APPEND)
    learn(groups)
    assert native_page(groups, page(groups, LEARNED)) is None


@every(
    "spelled, meant",
    [
        (r"\"\\\/\b\f\n\r\t", '"\\/\b\f\n\r\t'),
        (r"\u00e9\u20AC\ud83d\ude80\u007f", "é€🚀\x7f"),
        ("é€🚀\u2028 12345678", "é€🚀\u2028 12345678"),
        ("", ""),
        ("null", "null"),
    ],
)
def test_texts_mean_what_json_says(spelled, meant):
    body = a_page(ALERTS, [{**records(ALERTS)[0], "type": "a@b"}])

    for before in ("", "x" * 7, "x" * 8):
        found = native_page(ALERTS, body.replace(b"a@b", (before + spelled).encode()))
        assert found is not None
        assert found.rows.column("type").to_pylist() == [before + meant]


@every(
    "spelled",
    [
        rb"\ud800",
        rb"\ud800\u0041",
        rb"\udc00",
        rb"\udc00\udc00",
        rb"\u12g4",
        rb"\u12",
        rb"\x",
        b"\x1f",
        b"\xff",
        b"\xc3",
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
    ],
)
def test_a_text_that_is_not_plain_is_refused_wherever_it_is(spelled):
    learn(ALERTS, "new")
    for place in ("type", "info", "new"):
        body = a_page(ALERTS, [{**records(ALERTS)[0], place: "a@b"}])
        assert native_page(ALERTS, body)
        assert native_page(ALERTS, body.replace(b"a@b", spelled)) is None


@every(
    "value",
    [
        *[
            "[1 2]",
            "[1",
            "[1,]",
            "[,1]",
            "[1}",
            '{"a" 1}',
            '{"a":1 "b":2}',
            '{"a":1,}',
            "{,}",
            "{a:1}",
        ],
        *[
            '{"a"}',
            "{1:1}",
            "tru",
            "True",
            "nulls",
            "'a'",
            "01",
            "1.",
            "-",
            "1 2",
            "",
            '"a',
            '"\\"',
        ],
    ],
)
def test_a_value_that_is_kept_as_received_must_be_json(value):
    learn(ALERTS, "new")
    for name in ("info", "new"):
        body = a_page(ALERTS, [{**records(ALERTS)[0], name: "VALUE"}])

        assert native_page(ALERTS, body.replace(b'"VALUE"', b'[1,{"a":null}]'))
        assert native_page(ALERTS, body.replace(b'"VALUE"', value.encode())) is None


@every(
    "time",
    [
        "2024-02-29T23:59:59Z",
        "2026-06-06T12:59:11.1+05:30",
        "0002-01-01T00:00:00.123456-23:59",
        "9998-12-31T23:59:59.999999-23:59",
        "1969-12-31T23:59:59.999999Z",
        "2000-03-01T00:00:00Z",
    ],
)
def test_a_time_is_taken_and_means_the_same_instant(time):
    record = {**records(ALERTS)[0], "created_at": time}

    assert is_read_alike(ALERTS, a_page(ALERTS, [record]))


@every(
    "time",
    [
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-06-31T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "0001-01-01T00:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00.1234567Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+0530",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00z",
        "2026-01-01T00:00:00Z ",
        "9999-12-31T23:59:59Z",
        "2026-01-01T00:00:00+05:3",
        "2026-01-01T00:00:00.5",
        "2026-01-01",
        "",
        "٢026-01-01T00:00:00Z",
    ],
)
def test_any_other_time_is_left_to_the_python_readers(time):
    record = {**records(ALERTS)[0], "detected_at": time}

    assert not is_read_alike(ALERTS, a_page(ALERTS, [record]))


@every(
    "odd",
    [
        lambda text: f"{text}0",
        lambda text: text[:-1],
        lambda text: f"{text[:14]}4{text[15:]}",  # another version
        lambda text: f"{text[:19]}c{text[20:]}",  # another variant
        lambda text: f"{text[:-1]}G",
        lambda text: f"{text[:8]}0{text[9:]}",
        lambda text: f"A{text[1:]}",
        lambda _: "",
    ],
)
def test_any_other_text_than_a_version_1_uuid_is_left_to_the_python_readers(odd):
    record = records(ALERTS)[0]
    record["created_at_timeuuid"] = odd(record["created_at_timeuuid"])

    assert native_page(ALERTS, a_page(ALERTS, [record])) is None


@every("number", [0, 7, -3, 999_999_999_999_999, "12", "0"])
def test_a_whole_number_of_up_to_15_digits_is_taken(number):
    endpoint = ENDPOINTS["failovers"]
    column = next(c for c in endpoint.columns if c.kind is Kind.ID)
    record = records(endpoint)[0]
    put(record, column.path, number)

    assert is_read_alike(endpoint, a_page(endpoint, [record]))


@every(
    "number",
    [
        "0",
        "-0",
        "-0.0",
        "1.5",
        "1e3",
        "1E-3",
        "-12.25e+2",
        "0.1",
        "5e-324",
        "1.7976931348623157e308",
        "2.2250738585072011e-308",
        "9007199254740993",
        "0.30000000000000004",
        "123456789012345678",
    ],
)
def test_a_real_number_is_taken_and_means_the_same_double(number):
    column = next(c for c in LOCATIONS.columns if c.kind is Kind.REAL)
    record = records(LOCATIONS)[0]
    put(record, column.path, "NUMBER")

    assert is_read_alike(
        LOCATIONS, a_page(LOCATIONS, [record]).replace(b'"NUMBER"', number.encode())
    )


@every("number", ["01", "1.", ".5", "+1", "1e", "0x1", "1e400", "1e-400", "NaN", "0." + "1" * 40])
def test_any_other_number_is_left_to_the_python_readers(number):
    column = next(c for c in LOCATIONS.columns if c.kind is Kind.REAL)
    record = records(LOCATIONS)[0]
    put(record, column.path, "NUMBER")
    body = a_page(LOCATIONS, [record]).replace(b'"NUMBER"', number.encode())

    assert not is_read_alike(LOCATIONS, body)


@every("value", ["1e999", "-1.5E+400", "9" * 400, '{"a": [1, 2e308999]}', "[" * 300 + "]" * 300])
def test_a_learned_value_beyond_bounds_is_left_to_the_python_readers(value):
    learn(ALERTS, "new")
    body = page(ALERTS, {"new": "VALUE"}).replace(b'"VALUE"', value.encode())

    assert not is_read_alike(ALERTS, body)


def test_a_learned_object_with_too_many_members_is_left_to_the_python_readers():
    learn(ALERTS, "new")

    assert is_read_alike(ALERTS, page(ALERTS, {"new": {f"m{n}": n for n in range(900)}}))
    assert not is_read_alike(ALERTS, page(ALERTS, {"new": {f"m{n}": n for n in range(1_001)}}))


@pytest.mark.parametrize("name", ["type", "data", "meta", "limit", "next"])
def test_a_page_with_a_member_twice_is_left_to_the_python_readers(name):
    body = a_page(ALERTS, records(ALERTS), separators=(",", ":"))
    start = body.index(f'"{name}":'.encode())
    rest = body[start:]
    twice = {"data": b'"data":[],', "meta": b'"meta":{"limit":1,"next":null},'}
    extra = twice.get(name, f'"{name}":{"1" if name == "limit" else "null"},'.encode())

    assert native_page(ALERTS, body)
    assert not is_read_alike(ALERTS, body[:start] + extra + rest)


@every("endpoint", [ALERTS, LOGS, LOCATIONS])
@every("body", NO_PAGES.values(), ids=NO_PAGES)
def test_what_is_no_page_is_refused(endpoint, body):
    assert native_page(endpoint, body) is None


@every("endpoint", [ALERTS, LOGS, *(e for e in READABLE.values() if e.api is Api.V3)][:4])
def test_a_truncated_page_is_refused_wherever_it_ends(endpoint):
    body = a_page(endpoint, records(endpoint, 2))

    assert [end for end in range(len(body)) if native_page(endpoint, body[:end])] == []


@given(st.data())
def test_both_agree_on_odd_values(data):
    endpoint = data.draw(st.sampled_from(list(READABLE.values())))
    sent = records(endpoint, 2)
    for record in sent:
        for column in data.draw(st.lists(st.sampled_from(endpoint.columns), max_size=2)):
            put(record, column.path, data.draw(odd_values | st.text(max_size=9)))

    is_read_alike(endpoint, a_page(endpoint, sent))


@given(st.data())
def test_both_agree_on_learned_members(data):
    endpoint = data.draw(st.sampled_from([ALERTS, LOGS, LOCATIONS]))
    places = ["", *(f"{name}/" for name in nested_in(endpoint))]
    names = [f"{place}{name}" for place in places for name in ("new", "50%", "a.b", "é")]
    reader_of.cache_clear()
    learn(endpoint, *names)
    members = st.dictionaries(st.sampled_from(names), VALUES)

    is_read_alike(endpoint, page(endpoint, *data.draw(st.lists(members, min_size=1, max_size=3))))


@pytest.mark.parametrize("seed", range(6))
def test_both_agree_on_pages_with_mutations(seed):
    chance = random.Random(seed)
    taken = 0
    for number in range(1_500):
        endpoint = chance.choice([ALERTS, LOGS, LOCATIONS, *READABLE.values()])
        if number % 50 == 0:
            reader_of.cache_clear()
        if endpoint.mode is Mode.APPEND:
            learn(endpoint)
            body = page(endpoint, LEARNED, {}, {"new": None})
        else:
            body = a_page(endpoint, records(endpoint, 2))

        taken += is_read_alike(endpoint, mutated(body, chance))

    assert 100 < taken < 1_400  # the mutations neither spare all pages nor spoil them all


def mutated(body: bytes, chance: random.Random) -> bytes:
    """Return a page with one to three random changes, some of which leave it valid."""
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at, end = sorted(chance.randrange(len(body) + 1) for _ in range(2))
        end = min(end, at + chance.choice([1, 8, 200]))
        token = chance.choice(TOKENS)
        beside = chance.choice([n for n, byte in enumerate(body) if byte in b":,[{"] or [0]) + 1
        letters = [n for n, byte in enumerate(body) if chr(byte).isalnum()]
        letter = chance.choice(letters or [0])
        body = chance.choice(
            [
                body[:at] + token + body[end:],
                body[:beside] + token + body[beside:],
                body[:beside] + chance.choice([b" ", b"\n\t", b"\r"]) + body[beside:],
                body[:at] + body[end:],
                body[:end] + body[at:],
                body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :],
                body[:letter] + bytes([chance.choice(b"0123456789abcdefxT")]) + body[letter + 1 :],
                body[:letter] + token + body[letter:],
            ]
        )
    return body


def test_a_column_outlives_its_page():
    column = read_page(ALERTS, a_page(ALERTS, records(ALERTS))).rows.column("type")
    gc.collect()
    read_page(ALERTS, a_page(ALERTS, [{**records(ALERTS)[0], "type": "another"}]))

    assert column.to_pylist() == ["text é 0", "text é 1", "text é 2"]


def test_pages_that_are_dropped_or_refused_leave_no_memory_behind():
    body = a_page(ALERTS, records(ALERTS, 400))
    spoilt = body[:-1]
    peaks = []
    for _ in range(3):
        for _ in range(400):
            native_page(ALERTS, body)
            native_page(ALERTS, spoilt)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    assert peaks[2] - peaks[0] < len(body) * 100 / 1024  # of 400 pages


def test_a_load_with_the_compiled_reader_stores_what_one_without_it_stores(make_sim):
    sim = make_sim(routers=3, days=1)
    loaded = (ALERTS, LOGS, LOCATIONS)
    stored = {}

    for is_native in (False, True):
        native.compiled_reader.cache_clear()
        settings = sim.settings(native_reader=is_native, lake=sim.folder / f"lake-{is_native}")
        outcomes = ingest(settings, [e.name for e in loaded], transport=sim.transport)
        assert [outcome.error for outcome in outcomes if outcome.error] == []
        assert (native.compiled_reader.cache_info().currsize > 0) == is_native
        with open_lake(settings.lake, read_only=True) as lake:
            stored[is_native] = {
                e.name: sorted(map(repr, lake.rows(f"select {names_of(e)} from raw.{e.name}")))
                for e in loaded
            }

    assert stored[True] == stored[False]
    assert len(stored[True][ALERTS.name]) == len(sim.truth(ALERTS.name)) > 0


def names_of(endpoint: Endpoint) -> str:
    return ", ".join(f'"{column.name}"' for column in endpoint.columns)


def test_it_is_not_used_unless_it_is_wanted_and_belongs_to_this_release(monkeypatch):
    body = a_page(ALERTS, records(ALERTS))
    assert native_reader_state(wanted=True) == native.installed_version()
    assert "FLEETLAKE_NATIVE_READER" in str(native_reader_state(wanted=False))

    use_native_reader(False)
    assert native_page(ALERTS, body) is None

    use_native_reader(True)
    native.compiled_reader.cache_clear()
    monkeypatch.setattr(native, "installed_version", lambda: "0.0.1")
    found, state = native_page(ALERTS, body), native_reader_state(wanted=True)
    native.compiled_reader.cache_clear()  # the next test reads with it
    assert found is None
    assert "another release" in str(state)


def test_a_page_is_json_whatever_is_around_it():
    body = a_page(ALERTS, records(ALERTS))
    around = json.dumps({"other": [1, {"a": "é"}], **json.loads(body)}).encode()

    assert is_read_alike(ALERTS, b" \r\n\t" + around + b"\n ")
    assert native_page(ALERTS, b"\xef\xbb\xbf" + body) is None
