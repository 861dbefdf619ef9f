"""Records stay unique and correct, whatever responses, clocks or account rights do."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import httpx
import pytest

from fleetlake.decoding.arrow import read_page
from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import open_lake
from fleetlake.lake.gaps import gaps
from fleetlake.loading.ingest import backfill, ingest
from fleetlake.loading.quarantine import retry_quarantined
from fleetlake.monitoring.streams import stream_statuses
from fleetlake.planning.intervals import Interval
from fleetlake.service.bodies import BodyRefused, unpacked
from tests.support.sim import NOW, Sim
from tests.test_load import assert_complete

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


class Edited(httpx.AsyncBaseTransport):
    """The simulated service, with the records of a list edited in transit."""

    def __init__(self, sim: Sim, **edits: Callable[[list[dict[str, Any]]], Any]) -> None:
        self._inner, self._edits = sim.transport, edits

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        edit = self._edits.get(request.url.path.strip("/").split("/")[-1])
        if edit is None or request.url.params.get("limit") == "1":
            return response
        answer = json.loads(await response.aread())
        answer["data"] = edit(answer["data"])
        return httpx.Response(200, json=answer, headers={"date": response.headers["date"]})


def rows(sim: Sim, sql: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql, parameters)


def whole(outcomes: list[Any]) -> None:
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)


def page(**members: Any) -> bytes:
    record = {
        "created_at": "2026-06-15T11:00:00+00:00",
        "created_at_timeuuid": "d0c3c000-e6a4-11f0-8080-808080808080",
        "router": None,
        "type": "login_success",
    }
    meta = {"limit": 500, "next": None, "previous": None, "offset": 0}
    return json.dumps({"data": [record, record | members], "meta": meta}).encode()


def test_a_gap_ends_at_the_first_record_that_the_service_still_serves(make_sim):
    sim = make_sim(routers=60, days=3)
    whole(sim.ingest("activity_logs"))
    [(unproven,)] = rows(
        sim,
        "select count(*) from raw.activity_logs "
        "where action_timestamp >= (select max(end_at) from meta.intervals)",
    )
    sim.advance(45 * DAY.total_seconds())

    whole(sim.ingest("activity_logs"))

    with open_lake(sim.settings().lake, read_only=True) as lake:
        [gap] = gaps(lake)
    assert unproven > 0  # what the first load leaves to the second does not show what was lost
    assert abs(gap.end_at - (NOW + 15 * DAY)) < timedelta(minutes=1)


@pytest.mark.release
def test_empty_responses_do_not_prove_what_an_account_may_not_see(make_sim):
    sim = make_sim(routers=10, days=2)
    names = ("routers", "router_state_samples")
    whole(sim.ingest(*names))
    hidden = {id_ for (id_,) in rows(sim, "select id from raw.routers order by id limit 8")}

    def without(member: str) -> Callable[[list[dict[str, Any]]], Any]:
        return lambda records: [
            r for r in records if int(str(r[member]).strip("/").split("/")[-1]) not in hidden
        ]

    blind = Edited(sim, routers=without("id"), router_state_samples=without("router"))
    for _ in range(4):
        sim.advance(6 * 3600)
        sim.ingest(*names, transport=blind)
    sim.advance(3600)
    whole(sim.ingest(*names))

    served = {r["created_at_timeuuid"] for r in sim.truth("router_state_samples", until=NOW + DAY)}
    held = {key for (key,) in rows(sim, "select created_at_timeuuid from raw.router_state_samples")}
    assert served - held == set()


@pytest.mark.proof
def test_a_machine_with_a_slow_clock_does_not_rewrite_history(sim: Sim, monkeypatch):
    def load_at(service: timedelta, machine: timedelta) -> None:
        now = datetime.fromisoformat(sim.ask("GET", "/sim/state").json()["now"])
        sim.advance((NOW + service - now).total_seconds())
        at = (NOW + machine).astimezone(UTC)
        monkeypatch.setattr("fleetlake.service.clock.machine_now", lambda: at)
        name = f"at {service}"
        edit = {"groups": lambda records: [{**r, "name": name} for r in records]}
        ingest(sim.settings(clock="checked"), ["groups"], transport=Edited(sim, **edit))

    for hours in (0, 1, 2):
        load_at(hours * HOUR, hours * HOUR)
    before = rows(sim, "select id, valid_from, valid_to from raw.groups where valid_to is not null")
    load_at(3 * HOUR, 3 * HOUR - timedelta(minutes=130))

    found = rows(
        sim,
        "select id, valid_from, valid_to from raw.groups "
        "order by id, valid_from, valid_to nulls last",
    )
    assert set(before) <= set(found)
    assert all(end is None or start <= end for _, start, end in found)
    chain = [(a, b) for a, b in pairwise(found) if a[0] == b[0]]
    assert chain
    assert all(ended == began for (_, _, ended), (_, began, _) in chain)


@pytest.mark.parametrize(
    "odd",
    [
        {"created_at_timeuuid": "gggggggg-e6a4-11f0-8080-808080808080"},
        {"created_at": "9999-12-31T23:59:59-05:00"},
        {"created_at": "0001-01-01T00:00:00+05:00"},
        {"created_at": "0000-01-01T00:00:00Z"},
    ],
)
def test_one_impossible_value_quarantines_its_record_and_not_the_stream(odd: dict[str, str]):
    found = read_page(ENDPOINTS["alerts"], page(**odd))

    assert (found.rows.num_rows, len(found.rejects)) == (1, 1)
    assert found.rows.column("created_at").to_pylist()


def test_an_invalid_utf_8_byte_affects_nothing_but_itself():
    body = page(friendly_info="caf?").replace(b"caf?", b"caf\xe9")

    found = read_page(ENDPOINTS["alerts"], body)

    assert found.rows.column("friendly_info").to_pylist() == [None, r"caf\xe9"]


def test_a_body_of_endless_gzip_members_is_refused():
    with pytest.raises(BodyRefused, match="gzip members"):
        unpacked(gzip.compress(b" ") * 200, "gzip", most=1_000_000)


def test_a_record_whose_time_is_later_sent_in_whole_seconds_is_not_duplicated(sim: Sim):
    def in_seconds(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**r, "created_at": r["created_at"][:19] + "+00:00"} for r in records]

    whole(sim.ingest("alerts"))
    past = Interval(NOW - 2 * DAY, NOW - HOUR)
    edited = Edited(sim, alerts=in_seconds)
    whole(backfill(sim.settings(), "alerts", past, transport=edited))

    [(held, distinct)] = rows(
        sim, "select count(*), count(distinct created_at_timeuuid) from raw.alerts"
    )
    assert held == distinct


@pytest.mark.proof
def test_a_retried_quarantined_record_does_not_overwrite_newer_content(sim: Sim):
    def broken(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**records[0], "name": "old", "resource_url": "x" * 5_000_000}, *records[1:]]

    whole(sim.ingest("groups"))
    sim.advance(60)
    sim.ingest("groups", transport=Edited(sim, groups=broken))
    with open_lake(sim.settings().lake) as lake:
        lake.execute(
            'update meta.quarantine set raw = json_merge_patch(?::json, \'{"name": "old"}\')',
            [json.dumps(sim.truth("groups")[0])],
        )
    sim.advance(60)
    whole(
        sim.ingest(
            "groups", transport=Edited(sim, groups=lambda rs: [{**r, "name": "new"} for r in rs])
        )
    )

    with open_lake(sim.settings().lake) as lake:
        retry_quarantined(lake)

    assert rows(sim, "select distinct name from raw.groups where valid_to is null") == [("new",)]


def test_a_record_dated_in_the_future_is_kept_and_not_taken_for_a_wrong_clock(sim: Sim, caplog):
    def dated(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**records[0], "created_at": "2099-01-01T00:00:00+00:00"}, *records[1:]]

    whole(sim.ingest("alerts", transport=Edited(sim, alerts=dated)))
    whole(sim.ingest("alerts"))

    assert rows(sim, "select count(*) from raw.alerts where created_at > '2098-01-01'") == [(1,)]
    [(newest,)] = rows(sim, "select max(watermark_at) from meta.watermarks")
    assert newest <= NOW + HOUR
    assert "clock that was fast" not in caplog.text


@pytest.mark.proof
def test_an_empty_first_response_does_not_prove_that_a_stream_has_no_records(make_sim):
    sim = make_sim(routers=30, days=5)
    silent = Edited(sim, alerts=lambda _: [])
    names = ["alerts", "failovers", "activity_logs"]  # the other records show the current time
    whole(ingest(sim.settings(), names, transport=silent))
    sim.advance(HOUR.total_seconds())

    whole(sim.ingest(*names))

    assert_complete(sim, ENDPOINTS["alerts"], NOW + HOUR)


@pytest.mark.proof
def test_a_stream_that_stays_empty_costs_one_call_per_load_and_loses_nothing(make_sim):
    sim = make_sim(routers=5, days=2, rules=False)
    whole(sim.ingest("alerts", "activity_logs"))
    before = sim.calls("alerts")
    sim.advance(HOUR.total_seconds())

    whole(sim.ingest("alerts", "activity_logs"))

    assert sim.calls("alerts") - before == 1
    with open_lake(sim.settings().lake, read_only=True) as lake:
        found = {s.endpoint: s for s in stream_statuses(lake, now=NOW + HOUR, calls_per_minute=450)}
    assert (found["alerts"].holes, found["alerts"].retention) == (0, None)
