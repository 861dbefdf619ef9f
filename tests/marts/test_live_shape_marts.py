"""A service with live shapes gives the marts of one without, and both are what happened.

Each is loaded twice, two hours apart: URLs have other hosts, and interfaces were up for longer.
"""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts
from tests.support.sim import NOW, Sim, new_sim

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("marts")]

NOT_COMPARED = {
    # When each lake was loaded, to the microsecond.
    "device_history": {"valid_from"},
    "interface_inventory": {"first_seen_at", "last_seen_at"},
    "sim_changes": {"changed_at"},
    # The same, and the placeholder that only live lists have: it is rejected, so the first load of
    # its list counts.
    "pipeline_freshness": {
        *("newest_event_at", "proven_until", "all_proven_until", "last_loaded_at"),
        *("loads", "quarantined"),
    },
}
"""Columns that cannot be equal. None of the marts has a URL."""

EMPTY = {"sim_changes", "battery_discharges", "failover_now", "place_visits", "location_gaps"}
"""Nothing of this sort happens to this fleet."""

LAST_DAY = f"{NOW:%Y-%m-%d}"
FIX_INTERVAL = timedelta(seconds=61)
STILL_OPEN = timedelta(minutes=5)
"""A trip is open until its vehicle has stood for this long."""


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sim]:
    """Return the same fleet with live shapes and without, its marts built."""
    made = {}
    for name, options in {"live": {"scenario": "live-shapes"}, "plain": {}}.items():
        made[name] = new_sim(tmp_path_factory.mktemp(name), routers=8, seed=3, **options)
        for hours in (0, 2):
            made[name].advance(hours * 3600)
            outcomes = made[name].ingest()
            assert [outcome.error for outcome in outcomes if outcome.error] == []
        build_marts(made[name].settings().lake)
    return made


def rows(sim: Sim, sql: str) -> list[tuple]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def test_live_shapes_change_no_row_of_any_mart(fleets):
    different, empty = [], set()
    for mart in marts():
        name = mart["name"]
        left_out = NOT_COMPARED.get(name, set()) | {"built_at"}
        listed = ", ".join(f"'{column}'" for column in sorted(left_out))
        sql = f"select columns(c -> c not in ({listed})) from marts.{name}"
        live, plain = (Counter(rows(fleets[kind], sql)) for kind in ("live", "plain"))
        different += [name] if live != plain else []
        empty |= set() if live else {name}

    assert different == []
    assert empty <= EMPTY


def test_only_the_list_with_the_placeholder_was_committed_more_often_or_has_rejected_records(
    fleets,
):
    sql = "select endpoint, loads, quarantined from marts.pipeline_freshness"

    live, plain = ({row[0]: row[1:] for row in rows(fleets[kind], sql)} for kind in fleets)

    assert {name for name in live if live[name] != plain[name]} == {"configuration_managers"}


def test_usage_of_each_interface_is_what_the_service_counted(fleets):
    counted = {}
    for record in fleets["live"].truth("net_device_usage_samples"):
        if record["created_at"] < LAST_DAY:
            device = int(record["net_device"].split("/")[-2])
            sums = counted.setdefault(device, Counter())
            sums.update({"in": record["bytes_in"], "out": record["bytes_out"], "samples": 1})

    found = rows(
        fleets["live"],
        "select net_device_id, sum(in_bytes)::bigint, sum(out_bytes)::bigint, sum(samples)::bigint "
        f"from marts.data_usage_daily where usage_date < '{LAST_DAY}' group by 1",
    )

    assert len(found) > 10
    assert {device: sums for device, *sums in found} == {
        device: [sums["in"], sums["out"], sums["samples"]] for device, sums in counted.items()
    }


def test_failovers_are_those_that_happened(fleets):
    happened = fleets["live"].truth("failovers")

    found = rows(
        fleets["live"],
        "select router_id, started_at, ended_at, backup_bytes from marts.failover_episodes",
    )

    assert len(found) > 3
    assert sorted(found) == sorted(
        (
            record["router_id"],
            at(record["started_at"]),
            at(record["ended_at"]),
            record["data_usage"],
        )
        for record in happened
    )


def test_trips_are_those_that_happened(fleets):
    now = NOW + timedelta(hours=2)
    happened = [
        (trip["router_id"], at(trip["started_at"]), at(trip["ended_at"]))
        for trip in fleets["live"].truth("trips")
        if trip["ended_at"] and at(trip["ended_at"]) < now - STILL_OPEN
    ]

    found = rows(
        fleets["live"],
        "select router_id, started_at, ended_at from marts.trips where not is_open",
    )

    assert len(found) > 20
    left = [
        trip
        for trip in happened
        if not any(
            trip[0] == router
            and all(abs(a - b) < FIX_INTERVAL for a, b in zip(trip[1:], ends, strict=True))
            for router, *ends in found
        )
    ]
    assert (left, len(happened)) == ([], len(found))


def at(text):
    return datetime.fromisoformat(text) if text else None
