"""Names of carriers and other columns that several marts share, compared with what was served."""

from collections import Counter, defaultdict
from datetime import date, timedelta
from itertools import combinations

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import mart_dates, mart_keys, marts
from tests.support.sim import NOW, Sim, new_sim

pytestmark = pytest.mark.xdist_group("marts")

APART = {
    "changes": "sentences: a mart of versions and one of activities write different ones",
    "description": "free text of an alert, or of a router",
    "serial_number": "of a battery, or of a router",
    "severity": "urgent, soon or watch of what needs a person; high to low of a security event",
    "source": "what a row comes from: each mart has sources of its own",
}
"""Columns whose values differ by mart on purpose, and why."""


WITHOUT_NAMES = {
    "location_track_points": "a router that is renamed would rewrite all its fixes, of years"
}
"""Marts without the router's name, and why: it is in `device_inventory`."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """Return a fleet that was loaded twice, two hours apart, with its marts built."""
    sim = new_sim(tmp_path_factory.mktemp("carriers"), routers=6, days=2, seed=3)
    sim.ingest()
    sim.advance(timedelta(hours=2).total_seconds())
    sim.ingest()
    build_marts(sim.settings().lake)
    return sim


def rows(sim: Sim, sql: str) -> list[tuple]:
    with open_lake(sim.settings().lake, read_only=True) as lake:
        return lake.rows(sql)


def test_each_fix_has_the_name_and_the_code_of_the_carrier_that_the_modem_had(fleet):
    names = {one["carrier_id"]: one["carrier"] for one in fleet.truth("net_devices")}
    served = {
        one["created_at_timeuuid"]: (names[one["carrier_id"]], one["carrier_id"])
        for one in fleet.truth("historical_locations")
    }

    found = rows(fleet, "select fix_id, carrier, carrier_code from marts.location_track_points")

    assert found
    assert {fix: told for fix, *told in found if tuple(told) != served[fix]} == {}


def test_a_code_that_gets_a_name_later_names_the_fixes_before_it_as_a_full_build_does(
    lake_path, add
):
    fix = {"router_id": 1, "created_at": NOW, "latitude": 40.0, "longitude": 10.0}
    fixes = [fix | {"created_at_timeuuid": code, "carrier_id": code} for code in ("99901", "99902")]
    modem = {"id": 1, "router_id": 1, "carrier": "Northcell", "carrier_id": "99901"}
    sql = "select carrier_code, carrier from marts.location_track_points order by 1"
    found = []
    for endpoint, loaded, is_full in (
        ("historical_locations", fixes, False),
        ("net_devices", [modem], False),
        ("net_devices", [], True),
    ):
        add(lake_path, endpoint, *loaded)
        build_marts(lake_path, select="+location_track_points", is_full=is_full)
        with open_lake(lake_path, read_only=True) as lake:
            found.append(lake.rows(sql))

    assert found[0] == [("99901", "network 99901"), ("99902", "network 99902")]
    assert found[1] == found[2] == [("99901", "Northcell"), ("99902", "network 99902")]


def test_every_column_of_carriers_in_every_mart_holds_names(fleet):
    names = {one["carrier"] for one in fleet.truth("net_devices")} - {None}
    others = Counter()
    for mart in marts():
        for column in mart["columns"]:
            if column["name"].endswith("carrier"):
                sql = f"select distinct {column['name']} from marts.{mart['name']}"
                others.update(
                    (mart["name"], value)
                    for (value,) in rows(fleet, sql)
                    if value not in {*names, None, "unknown"}
                )

    assert others == {}


def test_equal_column_names_of_two_marts_have_values_in_common(fleet):
    values: dict[str, dict[str, set]] = defaultdict(dict)
    with open_lake(fleet.settings().lake, read_only=True) as lake:
        for mart in marts():
            texts = [one["name"] for one in mart["columns"] if one["data_type"] == "varchar"]
            for name in {*texts} - APART.keys():
                sql = f"select distinct {name} from marts.{mart['name']} where {name} is not null"
                values[name][mart["name"]] = {value for (value,) in lake.rows(sql)}

    apart = [
        (name, first, second)
        for name, by_mart in values.items()
        for (first, ours), (second, theirs) in combinations(by_mart.items(), 2)
        if ours and theirs and not ours & theirs
    ]

    assert apart == []


def test_the_calendar_and_the_accounts_have_every_day_and_account_of_every_mart(fleet):
    columns = "day_date, week_date, month_date, quarter_date, columns('_number$|^i')"
    days = rows(fleet, f"select {columns} from marts.dates")
    missing = {}
    for mart in marts():
        named = {"account_id": "accounts", mart_dates().get(mart["name"]): "dates"}
        for column in mart["columns"]:
            if parent := named.get(column["name"]):
                sql = f"select count(*) from marts.{mart['name']} where {column['name']} not in"
                key = mart_keys()[parent][0]
                [(missing[mart["name"], parent],)] = rows(
                    fleet, f"{sql} (select {key} from marts.{parent})"
                )

    assert [d for d, *_ in sorted(days)] == [date(2025, 1, 1) + timedelta(n) for n in range(1095)]
    assert [tuple(one) for one in days if tuple(one) != as_python_knows(one[0])] == []
    assert len(missing) > 20
    assert {name: count for name, count in missing.items() if count} == {}
    assert {*rows(fleet, "select account_id, account_name from marts.accounts")} == {
        (int(one["resource_url"].rstrip("/").rpartition("/")[2]), one["name"])
        for one in fleet.truth("accounts")
    }


def as_python_knows(day: date) -> tuple:
    _, week, weekday = day.isocalendar()
    quarter = (day.month + 2) // 3
    starts = (day - timedelta(weekday - 1), day.replace(day=1), date(day.year, 3 * quarter - 2, 1))
    return (day, *starts, day.year, quarter, day.month, week, weekday, weekday > 5)


def test_a_mart_of_routers_names_the_router():
    unnamed = set()
    for mart in marts():
        names = {column["name"] for column in mart["columns"]}
        if "router_id" in names and "router_name" not in names:
            unnamed.add(mart["name"])

    assert unnamed == WITHOUT_NAMES.keys()


def test_equal_column_names_have_one_type_and_one_meaning():
    types: dict[str, set] = defaultdict(set)
    for mart in marts():
        for column in mart["columns"]:
            types[column["name"]].add(column["data_type"])

    assert {name: found for name, found in types.items() if len(found) > 1} == {}
