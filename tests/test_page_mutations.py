"""Pages with random changes: the quick reader refuses one, or reads it as the lenient reader."""

import random

import pytest

from fleetlake.decoding.arrow import read_page
from fleetlake.decoding.records import OddRecord, PageReader, reader_of
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import PageUnreadable
from tests.support.cases import REQUESTED
from tests.test_learned_members import page
from tests.test_records import a_page, a_record, put, read_rows

ALERTS, LOGS, LOCATIONS = (
    ENDPOINTS[name] for name in ("alerts", "activity_logs", "historical_locations")
)
LEARNED = {"new": 1, "50%": {"a": 2}, "é": "x"}

# What a mutation puts into a page.
TOKENS = [
    *[b"null", b"true", b"false", b"0", b"-0", b"01", b"1.0", b"1e3", b"1e400", b"9" * 16, b"-"],
    *[b"9" * 400, b"0.1e-400", b"1.", b'""', b'"', b"\\", b"\\\\", b"\\u0000", b"\\ud83d", b"NaN"],
    *[b"\\ud83d\\ude80", b"\\ude80", b"\\u00e9", b"\\x", b"\\/", b"{", b"}", b"[", b"]", b","],
    *[b":", b"{}", b"[]", b" ", b"\n", b"\x00", b"\x01", b"\x7f", b"\xff", b"\xc3", b"\xc3\xa9"],
    *[b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f\x9a\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf"],
    *[b"[" * 150, b'{"a":' * 120, b'"id":1,', b'"type":"x",', b'"new":null,', b'"account":"/1/",'],
    *[b"Infinity", b'"x":' + b"[" * 90 + b"]" * 90 + b",", b'"new":"1e999",', b"+1"],
]


@pytest.fixture(autouse=True)
def nothing_learned() -> None:
    """Forget the unknown members that readers have learned in other tests."""
    reader_of.cache_clear()


def is_read_alike(endpoint: Endpoint, body: bytes) -> bool:
    """Return whether the quick reader takes a page; require that both then read it alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PageReader, "lenient", _refuse)
        try:
            quick, rows = read_page(endpoint, body), read_rows(endpoint, body)
        except (ValueError, OddRecord):
            return False
        patch.undo()
        patch.setattr(PageReader, "fast", _refuse)
        page = read_page(endpoint, body)
        assert page.rejects == ()
        assert (page.count, page.limit, page.next) == (quick.count, quick.limit, quick.next)
        assert read_rows(endpoint, body) == rows
    return True


def _refuse(*_: object) -> None:
    raise OddRecord


def learn(endpoint: Endpoint) -> None:
    """Let the quick reader of an endpoint learn members, as a page with them does."""
    read_page(endpoint, page(endpoint, LEARNED))


@pytest.mark.parametrize("seed", range(6))
def test_both_readers_agree_on_pages_with_mutations(seed):
    chance = random.Random(seed)
    taken = 0
    for number in range(350):
        endpoint = chance.choice([ALERTS, LOGS, LOCATIONS, *REQUESTED.values()])
        if number % 50 == 0:
            reader_of.cache_clear()
        if endpoint.mode is Mode.APPEND:
            learn(endpoint)
            body = page(endpoint, LEARNED, {}, {"new": None})
        else:
            body = a_page(endpoint, [a_record(endpoint, n)[0] for n in range(2)])

        taken += is_read_alike(endpoint, mutated(body, chance))

    assert 25 < taken < 325  # the mutations neither spare all pages nor spoil them all


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


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        (r"\"\\\/\b\f\n\r\t", '"\\/\b\f\n\r\t'),
        (r"\u00e9\u20AC\ud83d\ude80\u007f", "é€🚀\x7f"),
        ("é€🚀\u2028 12345678", "é€🚀\u2028 12345678"),
        ("", ""),
        ("null", "null"),
    ],
)
def test_texts_mean_what_json_says(spelled, meant):
    body = a_page(ALERTS, [{**a_record(ALERTS, 1)[0], "type": "a@b"}])
    body = body.replace(b"a@b", spelled.encode())

    assert is_read_alike(ALERTS, body)
    assert read_page(ALERTS, body).rows.column("type").to_pylist() == [meant]


@pytest.mark.parametrize(
    "number",
    [
        *["0", "-0", "-0.0", "1.5", "1e3", "1E-3", "-12.25e+2", "0.1", "5e-324"],
        *["1.7976931348623157e308", "2.2250738585072011e-308", "9007199254740993"],
        *["0.30000000000000004", "123456789012345678", "0." + "1" * 40],
    ],
)
def test_a_real_number_means_the_double_that_is_nearest(number):
    column = next(c for c in LOCATIONS.columns if c.kind is Kind.REAL)
    record = a_record(LOCATIONS, 1)[0]
    put(record, column.path, "NUMBER")
    body = a_page(LOCATIONS, [record]).replace(b'"NUMBER"', number.encode())

    assert is_read_alike(LOCATIONS, body)
    assert read_page(LOCATIONS, body).rows.column(column.name).to_pylist() == [float(number)]


@pytest.mark.parametrize("name", ["type", "data", "meta", "limit", "next"])
def test_a_page_with_a_member_twice_is_read_alike(name):
    body = a_page(ALERTS, [a_record(ALERTS, 1)[0]], separators=(",", ":"))
    start = body.index(f'"{name}":'.encode())
    twice = {"data": b'"data":[],', "meta": b'"meta":{"limit":1,"next":null},'}
    extra = twice.get(name, f'"{name}":{"1" if name == "limit" else "null"},'.encode())

    try:
        assert is_read_alike(ALERTS, body[:start] + extra + body[start:])
    except PageUnreadable:
        pytest.fail("the quick reader takes what the lenient reader finds unreadable")
