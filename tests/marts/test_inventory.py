"""Modems, ports and SIM cards, compared with what the simulator says about them."""

from datetime import datetime
from itertools import pairwise

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from tests.support.sim import Sim, new_sim

pytestmark = pytest.mark.xdist_group("marts")

POLL_HOURS, POLLS = 36, 8
LOADED = ("accounts", "groups", "net_devices", "routers")


@pytest.fixture(scope="module")
def polled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sim, list[datetime]]:
    """Return a fleet whose modems moved for days, with its marts, and when it was polled."""
    sim = new_sim(tmp_path_factory.mktemp("inventory"), routers=30, days=0.01, seed=2)
    polls = []
    for _ in range(POLLS):
        sim.advance(POLL_HOURS * 3600)
        polls.append(datetime.fromisoformat(sim.ask("GET", "/sim/state").json()["now"]))
        outcomes = sim.ingest(*LOADED)
        assert [one.error for one in outcomes if one.error] == []
    build_marts(sim.settings().lake, select="+interface_inventory +sim_changes")
    return sim, polls


def rows(sim: Sim, sql: str) -> list[tuple]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def last_id(url: str | None) -> int | None:
    return int(url.rstrip("/").rpartition("/")[2]) if url else None


def test_each_interface_has_the_router_the_card_and_the_firmware_that_the_service_lists(polled):
    sim, _ = polled
    now = sim.ask("GET", "/sim/state").json()["now"]
    served = {
        int(one["id"]): (
            *(last_id(one["router"]), one["uid"], one["imei"], one["iccid"], one["mdn"]),
            *(one["apn"], one["modem_fw"], one["carrier"], one["carrier_id"]),
        )
        for one in sim.truth("net_devices", datetime.fromisoformat(now))
    }

    found = rows(
        sim,
        "select net_device_id, router_id, interface, imei, iccid, mdn, apn, modem_firmware,"
        " carrier, carrier_code from marts.interface_inventory where is_listed",
    )

    assert {key: tuple(values) for key, *values in found} == served


def test_each_interface_names_the_router_account_and_group_that_it_is_in(polled):
    sim, _ = polled
    accounts, groups = (
        {last_id(one["resource_url"]): one["name"] for one in sim.truth(name)}
        for name in ("accounts", "groups")
    )
    served = {
        int(one["id"]): (
            one["name"],
            accounts[last_id(one["account"])],
            groups.get(last_id(one["group"])),
        )
        for one in sim.truth("routers")
    }

    found = rows(
        sim,
        "select distinct router_id, router_name, account_name, group_name"
        " from marts.interface_inventory where is_listed and router_id is not null",
    )

    assert {key: tuple(values) for key, *values in found} == served


def test_each_swapped_or_moved_card_is_found_once_at_the_poll_after_it(polled):
    sim, polls = polled
    at: dict[int, dict[datetime, tuple]] = {}
    for span in sim.truth("interface_spans"):
        end = datetime.fromisoformat(span["ended_at"]) if span["ended_at"] else None
        for poll in polls:
            if datetime.fromisoformat(span["started_at"]) <= poll and (end is None or poll < end):
                placed = (span["router_id"], span["iccid"])
                at.setdefault(span["net_device_id"], {})[poll] = placed
    happened = {
        (modem, after_poll, *before, *after)
        for modem, seen in at.items()
        for (_, before), (after_poll, after) in pairwise(sorted(seen.items()))
        if before != after
    }
    # A router that is registered again has new modems, with the cards of the old ones.
    for modem, seen in at.items():
        first, (router, iccid) = min(seen.items())
        earlier = [
            (poll, router_then)
            for other, placed in at.items()
            for poll, (router_then, card) in placed.items()
            if other != modem and card == iccid and poll < first
        ]
        if earlier:
            happened.add((modem, first, max(earlier)[1], None, router, iccid))

    found = rows(
        sim,
        "select net_device_id, changed_at, from_router_id, from_iccid, router_id, iccid"
        " from marts.sim_changes",
    )
    by_poll = {(m, min(polls, key=lambda p: abs(p - t)), *more) for m, t, *more in found}

    assert len(happened) > 10
    assert len(found) == len(by_poll)
    assert by_poll == happened
    assert set(rows(sim, "select distinct sim_change from marts.sim_changes")) == {
        ("SIM card swapped",),
        ("SIM card moved",),
        ("modem moved",),
    }


def test_a_list_with_history_counts_each_record_once_in_current(polled):
    sim, _ = polled

    for name in ("net_devices", "routers", "groups", "accounts"):
        served = {int(one["id"]) for one in sim.truth(name)}
        assert sorted(id_ for (id_,) in rows(sim, f"select id from current.{name}")) == sorted(
            served
        ), name
    [(versions,)] = rows(sim, "select count(*) from raw.net_devices")
    assert versions > len(sim.truth("net_devices"))
