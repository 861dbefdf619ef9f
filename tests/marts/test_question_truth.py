"""Answers of QUESTIONS.md compared with what happened in the simulated world, found without SQL.

Of a question that is cut off by `limit`, every row is compared. Where an answer is an estimate, or
the world's records leave it open, the expected row says how far the two may differ.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from fleetlake.analysis.metric_calls import with_metrics
from fleetlake.lake import Lake, open_lake
from tests.marts import question_answers as lists
from tests.marts import question_batteries as batteries
from tests.marts import question_links as links
from tests.marts import question_places as places
from tests.marts.question_world import Record, World, differences
from tests.marts.test_questions import QUESTIONS

pytestmark = [pytest.mark.release, pytest.mark.xdist_group("question truth")]

SQL = dict(QUESTIONS)
Rows = list[Record]

TRUTH: dict[str, Callable[[World], Rows]] = {
    # For the operations lead
    "What needs a person today?": batteries.attention,
    "Who is on a backup right now, and for how long?": links.on_backup,
    "Which routers were on a backup during working hours?": links.at_work,
    "Which routers fail over again and again?": links.failing_over,
    "How available was the primary WAN this month, site by site?": links.this_month,
    "What was each site's uptime, and how much of it did backups give?": links.uptime,
    "Which failovers have no reported end?": lambda _: [],  # the end of each is reported here
    "What did backups cost, by carrier?": links.backup_costs,
    "How long do vehicles stand at each of our places?": places.place_visits,
    "Which lines will exceed their cap this month?": batteries.lines_over_cap,
    "Where is every vehicle now?": places.where_now,
    "Which vehicles are on the road, and since when?": places.on_the_road,
    "Which devices have not been located for a day?": places.unlocated,
    # For the reliability engineer
    "Which batteries should be changed first, and why?": batteries.risks,
    "When will each battery be worn out, if the rate of the last days stays?": batteries.worn_dates,
    "Which batteries suffer from heat?": batteries.heat,
    "How long do batteries power their routers, and how low does the charge get?": (
        batteries.discharges
    ),
    "Are battery alerts correct?": batteries.battery_alerts,
    "What causes failovers?": links.causes,
    "How good is the signal of a backup while it is in use?": links.backup_signal,
    "Which devices were offline longest yesterday?": links.offline_yesterday,
    "Which firmware runs where, and who is behind?": lists.devices_behind,
    "Which alert types are mostly noise?": lists.noisy_alerts,
    # For the analyst
    "How far did each vehicle drive, day by day?": places.vehicle_days,
    "Which vehicles have not been used for a week?": places.unused_for_a_week,
    "Which vehicles drive outside working hours?": places.after_work,
    "Where do vehicles stop longest?": places.longest_stops,
    "Where is coverage weak, and with which carrier?": places.coverage,
    "Which modems have the worst signal?": links.signal_by_modem("rsrp_dbm", "weak_pct"),
    "How does the service rate each modem's link?": links.service_scores,
    "How much data moves each day, by carrier?": links.usage_by_carrier,
    "What does the fleet consist of?": lists.devices_online,
    "Which modem, SIM card and firmware does each router have?": lists.interfaces_where(
        *("imei", "router_name", "interface", "carrier", "imei", "iccid", "mdn", "apn"),
        "modem_firmware",
    ),
    "Which SIM cards were swapped or moved?": lists.moved_cards,
    "Which licences end within 90 days?": lists.licences_ending,
    "Which devices have no valid licence?": lists.unlicensed,
    "Who changed what this week?": lists.changes_this_week,
    "What happened to one device's record?": lists.versions,
    "Did anyone try to break in?": lists.security_events,
    "What do yesterday's alerts say, repeats left out?": lists.alerts_of_yesterday,
    "How old is the data, and is anything missing?": lists.newest_events,
    # Counts and sums
    "How many devices are online, and how many offline?": lists.devices_by("connection_state"),
    "How many devices does each account have?": lists.devices_by("account_name"),
    "How many devices does each group have?": lists.devices_by("group_name"),
    "How many devices of each product are there?": lists.devices_by("product_name"),
    "Which devices wait for a reboot?": lists.devices_where("is_reboot_required"),
    "Which devices have a firmware upgrade pending?": lists.devices_where("is_upgrade_pending"),
    "Which devices do not have their group's configuration?": lists.devices_where(
        "is_unsynched", "config_status"
    ),
    "How many batteries are there?": lambda world: [{"batteries": len(world.records("batteries"))}],
    "How many failovers were there, by month?": links.failovers_by("month_date"),
    "Which routers failed over, and how often?": links.failovers_by("router_id"),
    "How much data went over backups?": links.backup_bytes,
    "How much data did the fleet move in each month, and is the month complete?": links.months,
    "How much data did each modem move?": links.usage_by("net_device_id"),
    "Which twenty modems moved the most data?": links.largest_lines,
    "How much of the time was each modem connected, by carrier?": links.connected,
    "How strong is each modem's signal, 4G and 5G?": links.signal_by_modem(
        "rsrp_dbm", "rsrp_5g_dbm"
    ),
    "How many signal samples does each modem have?": links.signal_by_modem("samples", "samples_5g"),
    "Which was the weakest 5G signal of each modem?": links.weakest_5g,
    "How many fixes does each vehicle have?": places.fix_counts,
    "Which vehicles drove farthest in one trip?": places.every_trip,
    "How fast did each vehicle drive at most?": places.top_speeds,
    "How many alerts of each type were there?": lists.alerts_by_type,
    "How many changes did each person make?": lists.changes_by_person,
    "What did the availability of each device look like on complete days?": (
        links.device_availability
    ),
    "Which modems and ports does each router have?": lists.interfaces_where(
        "router_id", "router_id", "net_device_id"
    ),
    "What is the telephone number and SIM card of each modem?": lists.interfaces_where(
        "iccid", "net_device_id", "iccid", "mdn"
    ),
}

VIEWS: dict[str, Callable[[World, Rows], Rows]] = {
    "Are battery alerts correct?": lambda _, rows: batteries.of_alerts(rows),
}
"""What of an answer is compared, if not the answer itself."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return the simulated world at its end, loaded and built."""
    found = World(tmp_path_factory.mktemp("questions"))
    found.live()
    found.build()
    return found


@pytest.fixture(scope="module")
def lake(world: World) -> Iterator[Lake]:
    """Return the world's lake, open."""
    with open_lake(world.sim.settings().lake, read_only=True) as opened:
        yield opened


def asked(question: str, world: World) -> str:
    """Return a question's SQL as of the end of the simulated world, and without a limit."""
    sql = SQL[question].replace("current_date", f"date '{world.now:%Y-%m-%d}'")
    sql = sql.replace("now()", f"timestamptz '{world.now.isoformat()}'")
    return re.sub(r"\nlimit \d+", "", sql)


@pytest.mark.parametrize("question", TRUTH)
def test_the_answer_is_what_happened_in_the_simulated_world(world, lake, question):
    found = lake.execute(with_metrics(asked(question, world)))
    names = [column for column, *_ in found.description or ()]
    answer = [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    answer = VIEWS.get(question, lambda _, rows: rows)(world, answer)

    assert differences(answer, TRUTH[question](world)) == []


def test_every_question_is_compared():
    assert [*TRUTH] == [*SQL]
