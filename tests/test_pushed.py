"""Pushed messages of any shape: an alert is a row, and nothing is lost."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetlake.decoding import pushed
from fleetlake.decoding.bounds import MAX_DEPTH, MAX_MEMBERS
from fleetlake.decoding.pushed import WITHOUT_ID, Pushes, read_pushes, received_bytes
from fleetlake.decoding.timeuuid import embedded_time
from fleetlake.endpoints import PUSHED

NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)
UUID = "4ebcbd8c-68b3-11f1-b7fc-5ea248e1a669"


def read(*bodies: Any) -> Pushes:
    texts = [b if isinstance(b, bytes) else msgspec.json.encode(b) for b in bodies]
    return read_pushes(PUSHED, [(text, NOON) for text in texts])


def rows(*bodies: Any) -> list[dict[str, Any]]:
    found = read(*bodies)
    assert found.rejects == ()
    return found.rows.to_pylist()


ALERT = {"type": "reboot", "router": 7, "detected_at": "2026-06-15T11:59:58+00:00"}


@pytest.mark.parametrize(
    "body",
    [
        ALERT,
        [ALERT],
        {"alerts": [ALERT]},
        b"\xef\xbb\xbf \n" + json.dumps(ALERT).encode() + b"\n",
    ],
)
def test_an_alert_alone_or_in_a_list_is_the_same_row(body):
    [row] = rows(body)

    assert row == rows(ALERT)[0]
    assert (row["type"], row["router_id"], row["account_id"]) == ("reboot", 7, None)


def test_what_is_beside_the_list_is_kept_with_each_alert_and_does_not_identify_it():
    alerts = [ALERT, {"type": "other"}]
    first = {"objects": alerts, "meta": {"rule": 5}, "count": 2}

    found = rows(first, {"data": [ALERT], "count": 1}, ALERT)

    assert [json.loads(row.pop("_extra")) for row in found] == [
        {"_message": {"meta": {"rule": 5}, "count": 2}}
    ] * 2
    alone = rows(*alerts)
    assert [row.pop("_extra") for row in alone] == [None, None]
    assert found == alone


def test_an_alert_that_has_a_list_itself_is_still_one_alert():
    [row] = rows(ALERT | {"data": [{"type": "inner"}]})

    assert (row["type"], json.loads(row["_extra"])) == ("reboot", {"data": [{"type": "inner"}]})


def test_what_is_beside_a_long_list_and_long_itself_is_left_out(monkeypatch):
    monkeypatch.setattr(pushed, "MAX_CONTEXT_BYTES", 100)

    found = rows({"alerts": [{"type": f"t{n}"} for n in range(5)], "note": "x" * 20})

    assert [row["_extra"] for row in found] == [None] * 5


def test_a_bad_alert_beside_other_members_is_a_dead_letter_that_can_be_read_again():
    found = read({"alerts": [{"router": 7}, 5, {}], "count": 3})

    letters = [received_bytes(reject.raw) for reject in found.rejects]
    assert [json.loads(letter) for letter in letters] == [
        {"router": 7, "_message": {"count": 3}},
        5,
        {"_message": {"count": 3}},
    ]


@pytest.mark.parametrize(
    "router",
    [
        *[7, "7", 7.0, "https://h/api/v2/routers/7/", "/routers/7", {"id": 7}, {"id": "7"}],
        *[{"id": "7", "name": "Bus 12"}, {"resource_url": "https://h/api/v2/routers/7/"}],
    ],
)
def test_a_device_is_given_as_a_number_an_address_or_an_object(router):
    [row] = rows(ALERT | {"router": router, "account": None})

    assert row["router_id"] == 7


SECONDS = 1781524798
"""`detected_at` of the alert above, in seconds since 1970."""


@pytest.mark.parametrize(
    "relayed",
    [
        {"alert_type": "reboot", "router": 7, "detected_at": ALERT["detected_at"]},
        {"type": "reboot", "alert_type": "reboot", "device_id": 7, "detected_at": SECONDS},
        {"alert_type": "reboot", "device_id": "7", "detected_at": f"{SECONDS}"},
        {"type": "reboot", "router": {}, "device_id": 7, "detected_at": SECONDS * 1000},
        {"alert_type": "reboot", "router_details": {"id": "7"}, "detected_at": SECONDS * 1.0},
        {"type": "reboot", "router": 7, "device_id": "00:30:44:1", "detected_at": SECONDS},
        {"type": "reboot", "router": 7, "router_details": {"name": "Bus"}, "detected_at": SECONDS},
    ],
)
def test_an_alert_of_a_relay_is_the_same_row_and_keeps_what_the_relay_sent(relayed):
    [row] = rows(relayed)
    [wanted] = rows(ALERT)

    others = {n: v for n, v in relayed.items() if n not in {"type", "router", "detected_at"}}
    assert json.loads(row["_extra"] or "{}") == others
    assert {**row, "push_id": 0, "_extra": 0} == {**wanted, "push_id": 0, "_extra": 0}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"alert_type": "other"}, "type and alert_type differ"),
        ({"device_id": 8}, "different devices"),
        ({"router_details": {"id": 8}}, "different devices"),
        ({"router": {}, "device_id": 8, "router_details": {"id": 9}}, "different devices"),
        ({"router": {}, "device_id": "00:30:44:1"}, "without its number"),
        ({"router": None, "router_details": {"name": "Bus"}}, "without its number"),
    ],
)
def test_an_alert_that_contradicts_itself_is_a_dead_letter(members, reason):
    found = read({**ALERT, **members})

    [reject] = found.rejects
    assert reason in reject.reason
    assert json.loads(reject.raw) == {**ALERT, **members}


@pytest.mark.parametrize("number", [7, -SECONDS, 10**15, "12:30", True, SECONDS / 10**6])
def test_a_number_that_is_not_clearly_a_time_is_kept_and_is_not_one(number):
    [row] = rows({**ALERT, "detected_at": number})

    assert row["detected_at"] is None
    assert json.loads(row["_extra"]) == {"detected_at": number}


def test_a_direct_push_is_not_about_the_device_that_it_leaves_empty():
    [row] = rows({"type": "account_locked", "info": {}, "router": {}, "account": {"id": "3"}})

    assert (row["router_id"], row["account_id"], row["_extra"]) == (None, 3, None)


def test_an_alert_is_known_by_its_uuid_whatever_its_case_and_spelling():
    first, second = ALERT | {"created_at_timeuuid": UUID}, {"created_at_timeuuid": UUID.upper()}

    [row] = rows(first, [second | {"type": "reboot"}])

    assert row["push_id"] == UUID


@pytest.mark.parametrize("spelling", ["{%s}", "urn:uuid:%s"])
def test_a_uuid_in_another_spelling_names_the_same_alert(spelling):
    [row] = rows(ALERT | {"created_at_timeuuid": spelling % UUID})

    assert row["push_id"] == UUID


def test_a_message_that_fails_in_an_unforeseen_way_is_a_dead_letter_alone(monkeypatch):
    def failing(timeuuid: str) -> datetime:
        raise OverflowError(f"too much: {timeuuid}")

    monkeypatch.setattr(pushed, "embedded_time", failing)
    worst = ALERT | {"created_at_timeuuid": UUID}

    found = read(ALERT, worst, b"{")

    assert [row["type"] for row in found.rows.to_pylist()] == ["reboot"]
    assert sorted(reject.raw for reject in found.rejects) == [
        "{",
        msgspec.json.encode(worst).decode(),
    ]
    assert f"too much: {UUID}" in {reject.reason for reject in found.rejects}


def test_without_a_uuid_an_alert_is_known_by_its_content_in_any_order_of_members():
    info = {"info": {"a": 1, "b": [2]}}
    again = dict(reversed((ALERT | {"info": {"b": [2], "a": 1}}).items()))

    found = rows(ALERT | info, again, ALERT | {"info": {"a": 1, "b": [3]}})

    assert len(found) == 2
    assert all(row["push_id"].startswith(WITHOUT_ID) for row in found)


@pytest.mark.parametrize(
    "odd",
    [
        *["", "x", 5, "f47ac10b-58cc-4372-a567-0e02b2c3d479"],
        *["4ebcbd8c-68b3-11f1-07fc-5ea248e1a669", "4ebcbd8c--8b3-11f1-b7fc-5ea248e1a669"],
    ],
)
def test_an_odd_uuid_is_kept_and_does_not_identify_the_alert(odd):
    [row] = rows(ALERT | {"created_at_timeuuid": odd})

    assert row["push_id"].startswith(WITHOUT_ID)
    assert json.loads(row["_extra"]) == {"created_at_timeuuid": odd}


CREATED, DETECTED = "2026-06-15T11:00:00+00:00", "2026-06-15T10:00:00+00:00"


@pytest.mark.parametrize(
    ("members", "time"),
    [
        ({"created_at": CREATED, "detected_at": DETECTED}, datetime.fromisoformat(CREATED)),
        ({"created_at_timeuuid": UUID, "detected_at": DETECTED}, embedded_time(UUID)),
        ({"detected_at": DETECTED}, datetime.fromisoformat(DETECTED)),
        ({}, NOON),
        ({"created_at": "yesterday", "detected_at": None}, NOON),
    ],
)
def test_an_alert_has_the_time_that_it_says_or_that_of_its_arrival(members, time):
    [row] = rows({"type": "reboot"} | members)

    assert (row["alerted_at"], row["received_at"]) == (time, NOON)


def test_an_alert_of_a_device_that_has_lost_its_clock_was_raised_when_it_arrived():
    [row] = rows(ALERT | {"detected_at": "1970-01-01T00:00:07Z"})

    assert row["alerted_at"] == NOON
    assert row["detected_at"] == datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)


def test_members_without_a_column_are_kept_even_if_they_are_named_like_ours():
    ours = {"push_id": "x", "received_at": "y", "alerted_at": 3, "severity": {"level": 2}}

    [row] = rows(ALERT | ours)

    assert json.loads(row["_extra"]) == ours
    assert row["received_at"] == NOON


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the message is empty"),
        (b"garbage", ""),
        (b'{"type": "reboot"', ""),
        (b"5", "neither an alert nor a list of alerts"),
        (b"null", "neither an alert nor a list of alerts"),
        (b'{"router": 7}', "type: missing"),
        (b'{"alerts": 5}', "type: missing"),
        (b'{"alerts": [], "data": []}', "type: missing"),
        (b"\xff\xfe\x00", ""),
        (b"[" * 5000 + b"]" * 5000, "nested"),
        (b'{"type": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested"),
    ],
)
def test_what_is_no_alert_is_a_dead_letter_with_its_bytes(body, reason):
    found = read(body)

    [reject] = found.rejects
    assert found.rows.num_rows == 0
    assert reason in reject.reason
    assert len(reject.reason) < 400
    assert received_bytes(reject.raw) in {body, body[1:-1]}  # of a list, the alert alone
    assert "\0" not in reject.raw


@pytest.mark.parametrize(
    "body", [b"escaped:", b"escaped:\\x41", b"escaped:\\xzz \\", b"escaped:\xff\\"]
)
def test_a_dead_letter_that_looks_like_an_escaped_one_keeps_its_bytes(body):
    [reject] = read(body).rejects

    assert received_bytes(reject.raw) == body


@pytest.mark.parametrize("cut", ["\\", "\\x", "\\x4"])
def test_a_dead_letter_cut_in_the_middle_of_an_escape_can_be_read(cut):
    assert received_bytes(f"escaped:\\x41{cut} (cut here") == f"A{cut} (cut here".encode()


def test_one_bad_alert_of_a_list_leaves_the_others_alone():
    deep = b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)
    wide = {"type": "wide"} | {f"m{n}": 1 for n in range(MAX_MEMBERS + 1)}
    good = json.dumps(ALERT).encode()
    body = b"[" + b",".join([good, deep, b"5", json.dumps(wide).encode(), b'{"no": 1}']) + b"]"

    found = read(body, ALERT | {"router": 8})

    assert [row["router_id"] for row in found.rows.to_pylist()] == [7, 8]
    assert len(found.rejects) == 4


def test_a_message_that_is_almost_json_is_read_like_a_page():
    [row] = rows(b'{"type": "reboot", "friendly_info": "caf\xe9 \x01 line\nline", "router": 7}')

    assert row["friendly_info"] == "caf\\xe9 \x01 line\nline"


def test_an_empty_list_and_a_test_message_leave_nothing():
    found = read([], {"type": "test", "friendly_info": "Test."}, {"alerts": []})

    assert (found.rows.num_rows, found.rejects, found.tests) == (0, (), 1)


def test_each_alert_has_the_arrival_of_its_own_message_and_the_first_one_counts():
    text = msgspec.json.encode(ALERT)
    other = msgspec.json.encode({"type": "other"})
    later = NOON + timedelta(hours=1)

    found = read_pushes(PUSHED, [(text, NOON), (b"junk", NOON), (other, later), (text, later)])

    assert found.rows["received_at"].to_pylist() == [NOON, later]


@given(st.binary(max_size=60))
def test_the_bytes_of_a_dead_letter_are_never_lost(body):
    found = read(body)

    letters = [received_bytes(reject.raw) for reject in found.rejects]
    assert all(b"\0" not in reject.raw.encode() for reject in found.rejects)
    assert found.rows.num_rows or letters in ([body], [body.strip()]) or body.strip()[:1] == b"["


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def content(alert: object) -> bytes:
    """Return what is the same for repeats of an alert without a UUID."""
    return msgspec.json.encode(msgspec.json.decode(json.dumps(alert)), order="sorted")


@given(
    st.lists(
        st.dictionaries(st.sampled_from([c.path[0] for c in PUSHED.columns]), json_values),
        unique_by=content,
    )
)
def test_every_alert_of_a_list_is_a_row_a_dead_letter_or_a_test(alerts):
    found = read(json.dumps(alerts).encode())

    assert found.rows.num_rows + len(found.rejects) + found.tests == len(alerts)
