"""A service with live shapes gives the marts of one without, and both are what happened.

Each is loaded twice, two hours apart: URLs have other hosts, and interfaces were up for longer.
"""

from collections import Counter
from datetime import timedelta

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts
from tests.support.sim import NOW, Sim, delete_last_minute, new_sim

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
        with open_lake(made[name].settings().lake) as lake:
            delete_last_minute(lake, NOW + timedelta(hours=2))
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
