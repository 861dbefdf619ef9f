import asyncio
import hashlib
import hmac
import json
from datetime import timedelta

import pytest

from fleetsim.push import HttpSender, sign
from tests.simulator.sections import section
from tests.support.asgi import Request, ask
from tests.support.service import NOW, Service, instant, keys, last_segment

URL = "http://receiver.test/hook"


def subscribe(service: Service, url=URL, schedule=None, types=("failover_event",), account=10157):
    """Create a destination and a rule that names it; return their ids."""
    body = {"name": url, "endpoint": {"url": url}, "authentication": {"secret": "s3cret"}}
    made = service.write("POST", "alert_push_destinations/", body)
    key = made.json()["destination_config_id"]
    rule = {
        "schedule": schedule,
        "filter_criteria": {"alert_type__in": list(types)},
        "http_destinations": [key],
        "associated_accounts": [account],
    }
    made = service.write("POST", "alert_rules/", rule)
    return key, made.json()["alert_config_id"]


def read(service: Service, key: str):
    return service.page(f"alert_push_destinations/{key}/")


@section("Events: Push alert notifications")
def test_alerts_are_pushed_as_they_are_generated(fresh: Service):
    subscribe(fresh)

    fresh.advance(days=1)

    served = fresh.truth("alerts")
    new = [a for a in served if a["type"] == "failover_event" and instant(a["created_at"]) >= NOW]
    pushed = fresh.receiver.bodies
    assert [body["created_at_timeuuid"] for body in pushed] == [
        a["created_at_timeuuid"] for a in new
    ]
    assert len(pushed) > 5


@section("Events: Push alert notifications")
def test_router_and_account_are_integers_in_push_bodies(fresh: Service):
    subscribe(fresh, types=("failover_event", "mgr_login_failure"))

    fresh.advance(days=1)

    alerts = {a["created_at_timeuuid"]: a for a in fresh.truth("alerts")}
    for body in fresh.receiver.bodies:
        alert = alerts[body["created_at_timeuuid"]]
        for name in ("router", "account"):
            wanted = None if alert[name] is None else int(last_segment(alert[name]))
            assert body[name] == wanted
    assert {type(body["account"]) for body in fresh.receiver.bodies} == {int, type(None)}


@section("Authentication: Signing of pushed messages")
def test_body_is_signed_with_the_destinations_secret(fresh: Service):
    subscribe(fresh)

    fresh.advance(days=1)

    for _, body, headers in fresh.receiver.received:
        wanted = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
        assert headers["X-PORTAL-Signature"] == wanted


@section("Authentication: Signing of pushed messages")
def test_empty_body_is_signed_as_a_single_space():
    assert sign(b"", "k") == hmac.new(b"k", b" ", hashlib.sha256).hexdigest()


@section("Events: Push alert notifications")
@pytest.mark.parametrize(("schedule", "period"), [("hourly", 3600), ("Daily", 86400)])
def test_scheduled_rule_sends_a_summary_at_the_end_of_each_period(fresh: Service, schedule, period):
    _, rule = subscribe(fresh, schedule=schedule)

    fresh.advance(days=2)

    ends = [
        {-(-instant(alert["created_at"]).timestamp() // period) for alert in summary}
        for summary in fresh.receiver.bodies
    ]
    last = instant(fresh.page(f"alert_rules/{rule}/")["last_summary_ts"])
    assert all(len(end) == 1 for end in ends)
    assert [min(end) for end in ends] == sorted({min(end) for end in ends})
    assert last.timestamp() == max(ends[-1]) * period


@section("States and transitions: Push destinations")
def test_failed_push_makes_the_destination_unreachable_and_is_retried(fresh: Service):
    key, _ = subscribe(fresh)
    fresh.receiver.error = "HTTP 500"
    fresh.advance(hours=12)
    failed = read(fresh, key)
    missed = {body["created_at_timeuuid"] for body in fresh.receiver.bodies}
    fresh.receiver.error = None
    fresh.receiver.received.clear()

    fresh.advance(days=1)

    arrived = [body["created_at_timeuuid"] for body in fresh.receiver.bodies]
    wanted = [
        a["created_at_timeuuid"] for a in fresh.truth("alerts") if a["type"] == "failover_event"
    ]
    wanted = [w for w in wanted if w in arrived]
    assert failed["last_error_text"] == "HTTP 500"
    assert NOW < instant(failed["last_error_at"]) <= NOW + timedelta(hours=12)
    assert missed <= set(arrived)
    assert sorted(arrived) == sorted(set(arrived))
    assert len(arrived) == len(wanted)
    assert read(fresh, key)["suspended"] is False


@section("States and transitions: Push destinations")
def test_destination_is_suspended_within_two_days_of_retries(fresh: Service):
    key, _ = subscribe(fresh)
    fresh.receiver.error = "ConnectError: refused"

    fresh.advance(days=3)

    attempts = len(fresh.receiver.received)
    record = read(fresh, key)
    first = min(a["created_at"] for a in fresh.truth("alerts") if a["type"] == "http_push_failure")
    assert record["suspended"] is True
    assert instant(record["last_error_at"]) - instant(first) <= timedelta(days=2)
    assert attempts == 9
    fresh.advance(days=1)
    assert len(fresh.receiver.received) == attempts


@section("States and transitions: Push destinations")
def test_suspended_destination_is_tried_again_once_patched(fresh: Service):
    key, _ = subscribe(fresh)
    fresh.receiver.error = "HTTP 500"
    fresh.advance(days=3)
    fresh.receiver.error = None
    fresh.receiver.received.clear()

    fresh.write("PATCH", f"alert_push_destinations/{key}/", {"suspended": False})
    fresh.advance(days=1)

    assert len(fresh.receiver.received) > 5
    assert read(fresh, key)["suspended"] is False


@section("States and transitions: Push destinations")
def test_disabled_destination_gets_nothing(fresh: Service):
    key, _ = subscribe(fresh)
    fresh.write("PATCH", f"alert_push_destinations/{key}/", {"enabled": False})

    fresh.advance(days=1)

    assert fresh.receiver.received == []


@section("Events: Push alert notifications")
def test_a_destination_does_not_receive_the_alerts_about_its_own_failures(fresh: Service):
    subscribe(fresh, types=("failover_event", "http_push_failure"))
    fresh.receiver.error = "HTTP 502"
    fresh.advance(days=1)
    fresh.receiver.error = None
    fresh.advance(days=1)

    raised = {a["type"] for a in fresh.truth("alerts")}
    assert "http_push_failure" in raised
    assert {body["type"] for body in fresh.receiver.bodies} == {"failover_event"}


@section("Events: Push alert notifications")
def test_alerts_of_other_accounts_are_not_pushed(fresh: Service):
    subscribe(fresh, account=10291)

    fresh.advance(days=2)

    south = {int(r["id"]) for r in fresh.records("routers/?account=10291&limit=500")}
    assert {body["router"] for body in fresh.receiver.bodies} <= south
    assert fresh.receiver.received


@section("Events: Push alert notifications")
@pytest.mark.parametrize("status", [200, 201, 403, 500, 302])
def test_any_response_but_a_2xx_is_a_push_failure(status):
    async def receive(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def push():
        async with await asyncio.start_server(receive, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await HttpSender()(f"http://127.0.0.1:{port}/", b"{}", {})

    assert asyncio.run(push()) == (None if status < 300 else f"HTTP {status}")


@section("States and transitions: Push destinations")
def test_unreachable_receiver_gives_an_error_text_and_no_exception():
    assert "Error" in asyncio.run(HttpSender()("http://127.0.0.1:1/", b"{}", {}))


def write_in_flight(service: Service, method: str, path: str, body: dict | None = None):
    """Return a coroutine that makes a write during a push, as another client would."""
    headers = tuple((name.lower().encode(), value.encode()) for name, value in keys().items())
    content = b"" if body is None else json.dumps(body).encode()
    return ask(service.app, Request(method, f"/api/v2/{path}".encode(), headers, content))


@section("States and transitions: Push destinations")
@pytest.mark.parametrize("error", [None, "HTTP 500"])
def test_destination_deleted_during_a_push_does_not_stop_others(fresh: Service, error):
    doomed, _ = subscribe(fresh, url="http://doomed.test/")
    subscribe(fresh, url="http://alive.test/")

    async def send(url, body, headers):
        fresh.receiver.received.append((url, body, headers))
        if "doomed" in url:
            await write_in_flight(fresh, "DELETE", f"alert_push_destinations/{doomed}/")
            return error
        return None

    fresh.app.state.simulation.pusher.send = send
    fresh.advance(days=1)
    fresh.advance(days=1)

    urls = [url for url, _, _ in fresh.receiver.received]
    new = [a for a in fresh.truth("alerts") if a["type"] == "failover_event"]
    wanted = [a for a in new if instant(a["created_at"]) >= NOW]
    assert urls.count("http://doomed.test/") == 1
    assert urls.count("http://alive.test/") == len(wanted)


@section("States and transitions: Push destinations")
def test_destination_with_an_unusable_address_does_not_stop_others(fresh: Service):
    broken, _ = subscribe(fresh, url="http://broken.test/")
    subscribe(fresh, url="http://alive.test/")

    async def send(url, body, headers):
        fresh.receiver.received.append((url, body, headers))
        if "broken" in url:
            raise UnicodeError("label cannot be decoded")

    fresh.app.state.simulation.pusher.send = send
    fresh.advance(days=1)

    assert [url for url, _, _ in fresh.receiver.received].count("http://alive.test/") > 5
    assert read(fresh, broken)["last_error_text"] == "UnicodeError: label cannot be decoded"


@section("States and transitions: Push destinations")
@pytest.mark.parametrize("in_flight", [False, True])
def test_unreachable_destination_receives_its_queue_when_resumed(fresh: Service, in_flight):
    key, _ = subscribe(fresh)
    path, resumed = f"alert_push_destinations/{key}/", {"suspended": False}
    fresh.receiver.error = "HTTP 500"
    fresh.advance(hours=12)
    missed = {body["created_at_timeuuid"] for body in fresh.receiver.bodies}
    fresh.receiver.error = None
    fresh.receiver.received.clear()

    async def send(url, body, headers):
        if in_flight:
            await write_in_flight(fresh, "PATCH", path, resumed)
        return await fresh.receiver.send(url, body, headers)

    fresh.app.state.simulation.pusher.send = send
    assert in_flight or fresh.write("PATCH", path, resumed).status_code == 202
    fresh.advance(days=1)

    arrived = [body["created_at_timeuuid"] for body in fresh.receiver.bodies]
    new = [a for a in fresh.truth("alerts") if a["type"] == "failover_event"]
    wanted = [a["created_at_timeuuid"] for a in new if instant(a["created_at"]) >= NOW]
    assert missed <= set(arrived)
    assert sorted(arrived) == sorted(wanted)


@section("States and transitions: Push destinations")
def test_resumed_destination_is_retried_at_once(fresh: Service):
    key, _ = subscribe(fresh)
    fresh.receiver.error = "HTTP 500"
    fresh.advance(hours=12)
    fresh.receiver.error = None
    fresh.receiver.received.clear()

    fresh.write("PATCH", f"alert_push_destinations/{key}/", {"suspended": False})
    fresh.advance(seconds=0)

    assert fresh.receiver.received


@section("Events: Push alert notifications")
def test_failure_alert_that_is_pushed_is_the_one_in_the_alert_log(fresh: Service):
    types = ("http_push_failure", "http_destination_suspended")
    subscribe(fresh, url="http://dead.test/")
    subscribe(fresh, url="http://alive.test/", types=types)
    subscribe(fresh, url="http://daily.test/", types=types, schedule="daily")

    async def send(url, body, headers):
        fresh.receiver.received.append((url, body, headers))
        return "HTTP 502" if "dead" in url else None

    fresh.app.state.simulation.pusher.send = send
    fresh.advance(days=3)
    fresh.advance(days=1)

    pushed = [json.loads(b) for url, b, _ in fresh.receiver.received if "alive" in url]
    summaries = [json.loads(b) for url, b, _ in fresh.receiver.received if "daily" in url]
    names = ("type", "created_at", "created_at_timeuuid", "detected_at", "friendly_info", "info")
    log = [{name: a[name] for name in names} for a in fresh.truth("alerts") if a["type"] in types]
    listed = fresh.records(f"alerts/?type__in={','.join(types)}")
    assert [{name: a[name] for name in names} for a in pushed] == log
    assert [{name: a[name] for name in names} for a in reversed(listed)] == log
    assert [a["created_at_timeuuid"] for summary in summaries for a in summary] == [
        a["created_at_timeuuid"] for a in log
    ]


@section("Events: Push alert notifications")
def test_alert_is_pushed_once_if_a_rule_names_a_destination_twice(fresh: Service):
    key, rule = subscribe(fresh)
    twice = {"http_destinations": [key, key]}
    assert fresh.write("PATCH", f"alert_rules/{rule}/", twice).status_code == 201

    fresh.advance(days=1)

    keys_of = [body["created_at_timeuuid"] for body in fresh.receiver.bodies]
    assert len(keys_of) == len(set(keys_of)) > 5


@section("Events: Push alert notifications")
@pytest.mark.parametrize("steps", [[96], [24] * 4, [1] * 96])
def test_pushes_do_not_depend_on_the_steps_of_the_clock(make_service, steps):
    whole, stepwise = make_service(), make_service()
    for service in (whole, stepwise):
        subscribe(service, url="http://a.test/", types=("failover_event", "mgr_login_failure"))
        subscribe(service, url="http://b.test/", schedule="hourly")

    whole.advance(hours=96)
    for hours in steps:
        stepwise.advance(hours=hours)

    assert stepwise.receiver.received == whole.receiver.received
