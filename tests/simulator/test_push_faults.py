"""Pushes that go wrong, in another shape or many at once, and the list of what was pushed."""

import asyncio
import hashlib
import itertools
import json
from collections import Counter
from datetime import UTC, datetime

import pytest

from fleetsim.alert_types import ALERT_TYPES
from fleetsim.push import HttpSender
from fleetsim.push.sending import Cut, send_and_cut
from tests.simulator.sections import section
from tests.simulator.test_push import subscribe
from tests.support.service import Service, last_segment


def switch(service: Service, **faults):
    answer = service.ask("PUT", "/sim/faults", json=faults)
    assert answer.status_code == 200, answer.text


def pushed(service: Service):
    return service.truth("pushes")


def alerts_of(messages) -> list[str]:
    return [alert for message in messages for alert in message["alerts"]]


@section("Simulator: pushes")
def test_every_pushed_message_is_listed_with_its_alert_destination_and_answer(fresh: Service):
    key, _ = subscribe(fresh)

    fresh.advance(days=1)

    messages = pushed(fresh)
    bodies = [body for _, body, _ in fresh.receiver.received]
    assert [m["body_sha256"] for m in messages] == [hashlib.sha256(b).hexdigest() for b in bodies]
    assert alerts_of(messages) == [json.loads(body)["created_at_timeuuid"] for body in bodies]
    assert {m["destination_config_id"] for m in messages} == {key}
    assert {(m["attempts"], m["answered_2xx"]) for m in messages} == {(1, 1)}
    counts = {"messages": len(bodies), "answered_2xx": len(bodies), "waiting": 0}
    assert fresh.state()["pushes"] == counts


@section("Simulator: pushes")
def test_refused_messages_are_listed_without_an_answer_and_wait(fresh: Service):
    subscribe(fresh)
    fresh.receiver.error = "HTTP 403"

    fresh.advance(hours=12)

    messages = pushed(fresh)
    assert {m["answered_2xx"] for m in messages} == {0}
    assert sum(m["attempts"] for m in messages) == len(fresh.receiver.received)
    assert fresh.state()["pushes"]["waiting"] == len(messages) > 1


@section("Simulator: pushes")
def test_duplicated_messages_arrive_twice_with_the_same_body(fresh: Service):
    subscribe(fresh)
    switch(fresh, push_duplicate=1)

    fresh.advance(days=1)

    arrived = Counter(body for _, body, _ in fresh.receiver.received)
    assert set(arrived.values()) == {2}
    assert len(arrived) == len(pushed(fresh))


@section("Simulator: pushes")
@pytest.mark.parametrize("fault", ["push_reset", "push_timeout", "push_truncate"])
def test_a_cut_delivery_counts_as_failed_and_is_retried_until_it_is_answered(fresh: Service, fault):
    subscribe(fresh)
    switch(fresh, **{fault: 0.3})

    fresh.advance(days=2)
    switch(fresh, **{fault: 0})
    fresh.advance(days=2)

    messages, arrived = pushed(fresh), Counter(body for _, body, _ in fresh.receiver.received)
    answered = {m["body_sha256"] for m in messages if m["answered_2xx"]}
    assert len(answered) == len(messages) > 10
    assert max(m["attempts"] for m in messages) > 1
    assert {hashlib.sha256(body).hexdigest() for body in arrived} == answered
    is_stored_twice = fault != "push_truncate"  # in the others, the receiver has the whole body
    assert (max(arrived.values()) > 1) == is_stored_twice


@section("Simulator: pushes")
def test_a_delivery_that_succeeds_after_failures_starts_the_waits_anew(fresh: Service):
    key, _ = subscribe(fresh, types=ALERT_TYPES)
    fresh.receiver.error = "HTTP 500"
    fresh.advance(hours=20)
    queued, answers = fresh.state()["pushes"]["waiting"], itertools.cycle([None, None, "HTTP 500"])

    async def send(_url, _body, _headers):
        return next(answers)

    fresh.app.state.simulation.pusher.send = send
    fresh.advance(days=2)

    assert queued > 30  # and every third one fails: more than nine failures suspend it
    assert fresh.page(f"alert_push_destinations/{key}/")["suspended"] is False
    assert fresh.state()["pushes"]["waiting"] < 10


@section("Simulator: pushes")
@pytest.mark.parametrize("faults", [{"push_reorder": True}, {"push_concurrency": 16}])
def test_shuffled_or_concurrent_messages_all_arrive_once(make_service, faults):
    ordered, other = make_service(), make_service()
    switch(other, **faults)
    for service in (ordered, other):
        subscribe(service)
        service.advance(days=2)

    plain, mixed = ([body for _, body, _ in s.receiver.received] for s in (ordered, other))
    assert sorted(mixed) == sorted(plain)
    assert (mixed != plain) == ("push_reorder" in faults)


@section("Simulator: pushes")
def test_concurrent_deliveries_share_the_time_that_the_receiver_takes(fresh: Service):
    subscribe(fresh)
    switch(fresh, push_concurrency=4)
    running, most = 0, 0

    async def send(_url, _body, _headers):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    fresh.app.state.simulation.pusher.send = send
    fresh.advance(days=1)

    assert most == 4


@section("Simulator: pushes")
def test_a_destination_that_fails_during_concurrent_deliveries_gets_everything_later(
    fresh: Service,
):
    key, _ = subscribe(fresh)
    switch(fresh, push_concurrency=8)
    fresh.receiver.error = "HTTP 503"
    fresh.advance(hours=12)
    raised = [a["type"] for a in fresh.truth("alerts") if a["type"].startswith("http_")]
    fresh.receiver.error = None
    fresh.receiver.received.clear()

    fresh.write("PATCH", f"alert_push_destinations/{key}/", {"suspended": False})
    fresh.advance(seconds=60)

    arrived = {json.loads(body)["created_at_timeuuid"] for _, body, _ in fresh.receiver.received}
    assert raised == ["http_push_failure"]
    assert arrived >= set(alerts_of(pushed(fresh)))
    assert {m["answered_2xx"] for m in pushed(fresh)} == {1}


@section("Simulator: pushes")
def test_bodies_can_be_those_of_a_relay(fresh: Service):
    subscribe(fresh, types=("failover_event", "mgr_login_failure"))
    switch(fresh, push_body="relay")

    fresh.advance(days=1)

    served = {a["created_at_timeuuid"]: a for a in fresh.truth("alerts")}
    bodies = fresh.receiver.bodies
    assert bodies
    for body, key in zip(bodies, alerts_of(pushed(fresh)), strict=True):
        alert = served[key]
        assert body["alert_type"] == alert["type"]
        if alert["router"]:
            assert str(body["device_id"]) == last_segment(alert["router"])
        else:
            assert (body["router"], body["account"]["id"]) == ({}, last_segment(alert["account"]))
        detected = datetime.fromisoformat(alert["detected_at"])
        assert datetime.fromtimestamp(body["detected_at"], UTC) == detected
        assert body.keys().isdisjoint({"type", "created_at_timeuuid"})


@section("Simulator: pushes")
def test_bodies_of_live_shapes_have_neither_an_id_nor_a_text_nor_a_time(fresh: Service):
    subscribe(fresh, types=("failover_event", "mgr_login_failure"))
    switch(fresh, scenario="live-shapes")

    fresh.advance(days=1)

    served = {a["created_at_timeuuid"]: a for a in fresh.truth("alerts")}
    bodies = fresh.receiver.bodies
    assert {body["type"] for body in bodies} == {"failover_event", "mgr_login_failure"}
    for body, key in zip(bodies, alerts_of(pushed(fresh)), strict=True):
        alert = served[key]
        assert body.keys() == {"type", "info", "router", "account"}
        assert body["type"] == alert["type"]
        assert body["info"].items() <= (alert["info"] or {}).items()
        for name in ("router", "account"):
            assert body[name].get("id") == (alert[name] and last_segment(alert[name]))
    switch(fresh, scenario=None)
    assert fresh.state()["push_faults"]["push_body"] == "ids"


@section("Simulator: pushes")
def test_bodies_can_have_objects_for_relations_and_no_id(fresh: Service):
    subscribe(fresh, types=("failover_event", "mgr_login_failure"))
    switch(fresh, push_body="objects")

    fresh.advance(days=1)

    served = {a["created_at_timeuuid"]: a for a in fresh.truth("alerts")}
    messages = pushed(fresh)
    bodies = fresh.receiver.bodies
    assert bodies
    for body, alert in zip(bodies, alerts_of(messages), strict=True):
        for name in ("router", "account"):
            url = served[alert][name]
            wanted = None if url is None else int(last_segment(url))
            assert (body[name] and body[name]["id"]) == wanted
        assert "created_at_timeuuid" not in body
        assert body["created_at"] == served[alert]["created_at"]


@section("Simulator: pushes")
@pytest.mark.parametrize(
    "wanted",
    [
        {"push_reset": 2},
        {"push_nonsense": 1},
        {"push_body": "xml"},
        {"push_concurrency": 0},
        {"push_concurrency": True},
        {"push_reorder": 1},
    ],
)
def test_an_unknown_push_fault_is_refused_and_changes_nothing(fresh: Service, wanted):
    before = fresh.state()

    answer = fresh.ask("PUT", "/sim/faults", json={"status_500": 0.5, "push_reset": 0.5, **wanted})

    assert answer.status_code in (400, 409)
    after = fresh.state()
    assert (after["faults"], after["push_faults"]) == (before["faults"], before["push_faults"])


class Receiver:
    """An HTTP receiver that answers 200 and notes connections and bytes."""

    def __init__(self) -> None:
        self.connections = 0
        self.bodies: list[bytes] = []
        self.arrived = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.bodies.append(await reader.readexactly(length))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except asyncio.IncompleteReadError as incomplete:
            if incomplete.partial:
                self.bodies.append(b"partial " + incomplete.partial)
        except ConnectionError:
            pass
        finally:
            self.arrived.set()
            writer.close()


@section("Simulator: pushes")
def test_pushes_of_one_step_share_a_connection():
    receiver, sender = Receiver(), HttpSender()

    async def push():
        async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            async with sender.kept_alive():
                return [await sender(url, b"{}", {}) for _ in range(5)]

    assert asyncio.run(push()) == [None] * 5
    assert (receiver.connections, receiver.bodies) == (1, [b"{}"] * 5)


@section("Simulator: pushes")
@pytest.mark.parametrize(
    ("cut", "arrives"), [(Cut.TIMEOUT, [b"0123456789"]), (Cut.TRUNCATE, [b"partial 01234"])]
)
def test_a_cut_connection_delivers_the_whole_body_or_half_of_it(cut, arrives):
    receiver = Receiver()

    async def push():
        async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/push"
            error = await send_and_cut(url, b"0123456789", {"X": "y"}, cut)
            await asyncio.wait_for(receiver.arrived.wait(), 120)
            return error

    assert asyncio.run(push()).startswith(("ReadTimeout: ", "WriteError: "))
    assert receiver.bodies == arrives
