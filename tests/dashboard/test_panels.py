"""Every panel of every page: its rows, its filters, and where its numbers come from."""

import io
import re
from importlib.resources import files

import duckdb
import polars as pl
import pytest
import yaml

from fleetlake.dashboard import column_sources, page_format
from fleetlake.dashboard.column_sources import (
    SNAPSHOT_TABLES,
    column_types,
    kind_of,
    label_of,
    origin_of,
)
from fleetlake.dashboard.open_snapshots import OpenSnapshots
from fleetlake.dashboard.page_checks import faults_of
from fleetlake.dashboard.panels import BY_DEVICE, dashboard_pages
from fleetlake.dashboard.parameters import PARAMETERS
from fleetlake.marts.catalogue import marts
from fleetlake.marts.sql_project import project_folder
from tests.dashboard.asking import NEEDED, ask, rows_of
from tests.dashboard.world import NOW, ROUTERS, account_of, group_of

PANELS = [panel for page in dashboard_pages().values() for panel in page.panels.values()]
NOBODY = {
    "account": 9,
    "group": 9,
    "router": 9,
    **dict.fromkeys(("carrier", "type"), "nobody"),
    **dict.fromkeys(("state", "product", "firmware", "behind", "risk", "licence"), "none"),
    "search": "no such name",
    "from": "2030-01-01",
    "to": "2001-01-01",
}
FILTERED = [
    (panel, name)
    for panel in PANELS
    for name in sorted(NOBODY.keys() - {*panel.beside})
    if name in panel.filters
    or (
        (panel.metrics and name in panel.metrics.narrowing)
        and not (panel.metrics.is_compared and name in ("from", "to"))
    )
]
MEANING = {"account": account_of, "group": group_of, "router": int}


def named(value):
    return value.path if hasattr(value, "path") else str(value)


def needed(panel):
    return {name: NEEDED[name] for name in panel.needs}


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_a_panel_answers_and_says_of_each_column_where_it_comes_from(app, panel):
    answer = ask(app, panel.path, {**needed(panel), "last": "all"})

    assert answer.status_code == 200, answer.text
    document = answer.json()
    for column in document["columns"]:
        mart, _, name = column["origin"].split(",")[0].partition(".")
        assert mart in panel.of_table(NEEDED["table"]).marts, column
        assert panel.metrics or name in column_types(mart), column
        assert column["meaning"], column


def test_the_check_of_own_pages_finds_nothing_wrong_with_the_shipped_pages(world):
    snapshots = OpenSnapshots(world.published)

    with snapshots.lease() as snapshot:
        faults = {page.slug: [*faults_of(page, snapshot)] for page in dashboard_pages().values()}
    snapshots.close()

    assert {slug: found for slug, found in faults.items() if found} == {}


def test_a_panel_is_of_a_kind_that_the_pages_or_the_report_draw():
    static = files("fleetlake.dashboard") / "static"
    drawn = {}
    for script in ("main", "report"):
        text = (static / f"{script}.js").read_text("utf-8")
        kinds = text.partition("const DRAWN = {")[2].partition("};")[0]
        drawn[script] = {*re.findall(r"^  (\w+): ", kinds, re.MULTILINE)}

    assert {*page_format.KINDS} <= drawn["main"] & drawn["report"]
    for panel in PANELS:
        assert panel.is_for_report or panel.kind in drawn["main"], panel.path
        assert panel.needs or not panel.is_in_report or panel.kind in drawn["report"], panel.path


def test_a_column_that_nothing_declares_has_no_origin():
    own = [panel for panel in PANELS if not panel.metrics]

    assert {origin_of(panel, "no such column") for panel in own} == {("", "")}


KINDS = {
    "instant": ["detected_at", "valid_from", "valid_to", "complete_until"],
    "month": ["month_date"],
    "day": ["call_date", "day"],
    "money": ["cost", "data_cost"],
    "percent": ["proven_pct"],
    "bytes": ["total_bytes"],
    "hours": ["gap_hours"],
    "duration": ["lost_s"],
    "speed": ["top_speed_kmh"],
    "distance": ["distance_km"],
    "temperature": ["highest_temperature_c"],
    "dbm": ["rsrp_dbm"],
    "db": ["sinr_db"],
    "metres": ["accuracy_m"],
    "milliamps": ["current_ma"],
    "millivolts": ["voltage_mv"],
    "degrees": ["latitude_deg"],
    "yes_no": ["is_online", "has_battery", "is_working_hours"],
    "id": ["router_id"],
    "number": ["episodes"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_is_shown_by_the_unit_in_its_name(kind):
    assert {kind_of(name, "double") for name in KINDS[kind]} == {kind}


def test_a_heading_has_no_unit_and_is_a_usual_word_where_the_name_is_not():
    names = [
        "router_name",
        "mean_sinr_db",
        "mac_address",
        "ipv4_address",
        "valid_from",
        "call_date",
    ]

    headings = ["Device", "Signal to noise", "MAC address", "IPv4 address", "Valid from", "Day"]
    assert [label_of(name) for name in names] == headings


def test_a_heading_of_its_own_belongs_to_a_column_that_a_panel_or_a_mart_has():
    columns = {column["name"] for mart in marts() for column in mart.get("columns", ())}
    queried = {word for panel in PANELS for word in re.findall(r"\w+", panel.sql)}

    own = column_sources._LABELS.keys()  # noqa: SLF001 - the words of all pages
    assert own - columns - queried == set()


@pytest.mark.parametrize(("panel", "name"), FILTERED, ids=named)
def test_a_filter_that_nothing_matches_leaves_nothing(app, panel, name):
    given = {"last": "all", **needed(panel), name: NOBODY[name]}

    rows = rows_of(ask(app, panel.path, given))

    counts = [value for row in rows for value in row.values()]
    if panel.kind == "trends":
        counts = [row[figure] for row in rows for figure in panel.draw["values"]]
    if panel.kind == "changes":
        counts = [row[period] or 0 for row in rows for period in ("value", "earlier")]
    assert not rows or (panel.kind in {"cards", "trends", "changes"} and set(counts) == {0})


@pytest.mark.parametrize(
    ("panel", "name"), [(p, n) for p, n in FILTERED if n in MEANING and not p.needs], ids=named
)
def test_a_filter_on_devices_keeps_exactly_the_rows_of_those_devices(app, panel, name):
    every = rows_of(ask(app, panel.path, {"last": "all"}))
    if not every or "router_id" not in every[0]:
        return
    [device, *_] = [row["router_id"] for row in every if row["router_id"] in ROUTERS]
    value = MEANING[name](device)

    kept = rows_of(ask(app, panel.path, {"last": "all", name: value}))

    def matches(row):
        if row["router_id"] is None:
            return False
        is_known = row["router_id"] in ROUTERS or panel.filters.get(name) != BY_DEVICE
        return is_known and MEANING[name](row["router_id"]) == value

    assert len(every) < panel.limit
    ids = sorted(row["router_id"] for row in kept)
    assert ids == sorted(row["router_id"] for row in every if matches(row))
    assert ids


@pytest.mark.parametrize("panel", [panel for panel in PANELS if panel.needs], ids=named)
def test_a_panel_that_needs_a_choice_says_so(app, panel):
    answer = ask(app, panel.path, {"last": "all"})

    assert answer.status_code == 400
    assert answer.json()["what"].startswith("Choose a ")


@pytest.mark.parametrize("panel", PANELS, ids=named)
def test_the_exports_of_a_panel_have_the_same_rows_as_the_page(app, panel):
    given = {**needed(panel), "last": "all"}

    shown = rows_of(ask(app, panel.path, given))
    packed = ask(app, f"{panel.path}.parquet", given)
    written = ask(app, f"{panel.path}.csv", given)

    types = [one.headers["content-type"] for one in (packed, written)]
    assert types == ["application/vnd.apache.parquet", "text/csv; charset=utf-8"]
    for one, form in ((packed, "parquet"), (written, "csv")):
        assert re.fullmatch(
            rf'attachment; filename="[\w.-]+\.{form}"', one.headers["content-disposition"]
        )
        assert one.headers["cache-control"] == "no-store"
    parquet = pl.read_parquet(io.BytesIO(packed.content))
    csv = pl.read_csv(io.BytesIO(written.content), infer_schema=False)
    assert parquet.height == csv.height >= len(shown)
    assert parquet.columns == csv.columns
    assert not shown or parquet.columns == list(shown[0])
    of = "trips" if "table" in panel.needs else panel.name
    assert f"{panel.page}-{of}-" in packed.headers["content-disposition"]


def test_the_range_of_a_filter_is_the_one_of_the_address(app):
    told = ask(app, "/api/map/coverage", {"account": 10, "last": "30d"}).json()

    assert told["ignored"] == ["account", "from"]
    assert told["as_of"] == int(NOW.timestamp() - 300) * 1000


@pytest.mark.parametrize("name", ["acount", "Router", "fro"])
def test_a_misspelt_filter_is_refused_with_the_filters_that_there_are(app, name):
    answer = ask(app, "/api/failover/cost", {name: 10, "last": "30d"})

    assert answer.status_code == 400
    told = answer.json()
    assert repr(name) in told["what"]
    assert {"last", *PARAMETERS} <= {*re.split(r"\W+", told["remedy"])}


def test_the_lineage_names_the_marts_that_the_pages_show():
    written = yaml.safe_load((project_folder() / "models" / "exposures.yml").read_text())
    [exposed] = [one for one in written["exposures"] if one["name"] == "dashboard"]

    shown = {mart for panel in PANELS for mart in panel.marts} - {*SNAPSHOT_TABLES}
    assert exposed["depends_on"] == [f"ref('{mart}')" for mart in sorted(shown)]


FACETS = {
    "state": "connection_state",
    "behind": "if(is_behind_on_firmware, 'yes', 'no')",
    "product": "product_name",
    "firmware": "firmware_version",
    "carrier": "carrier",
    "account": "account_id",
    "group": "group_id",
}


@pytest.mark.parametrize("given", [{}, {"state": "online", "account": 10}, {"behind": "yes"}])
def test_a_facet_counts_the_devices_that_its_choice_would_leave(app, world, given):
    facets = rows_of(ask(app, "/api/devices/facets", given))

    for name, column in FACETS.items():
        others = [f"{FACETS[one]} = '{value}'" for one, value in given.items() if one != name]
        wanted = world.sql(
            f"select {column}::varchar, count(*) from device_inventory"
            f" where {' and '.join(others or ['true'])} and {column} is not null group by 1"
        )
        found = {row["value"]: row["devices"] for row in facets if row["facet"] == name}
        assert {value: count for value, count in found.items() if count} == dict(wanted), name


def test_a_choice_of_any_facet_leaves_as_many_devices_as_the_facet_says(app):
    for facet in rows_of(ask(app, "/api/devices/facets")):
        rows = rows_of(ask(app, "/api/devices/list", {facet["facet"]: facet["value"]}))

        assert len(rows) == facet["devices"] == rows[0]["devices"], facet


def test_groups_of_one_name_are_offered_with_their_ids():
    groups = next(panel for panel in PANELS if panel.path == "/api/filters/groups")
    devices = "(values (1, 'Vans', 10), (2, 'Vans', 10), (2, 'Vans', 10), (3, 'Sites', 10))"
    inventory = f"(select * from {devices} as listed (group_id, group_name, account_id))"
    sql = groups.sql.replace("{filters}", "").replace("device_inventory", inventory)

    assert duckdb.sql(sql).fetchall() == [(3, "Sites"), (1, "Vans · 1"), (2, "Vans · 2")]


FIGURE = re.compile(r"\b(?:sum|avg|mean|median|count|quantile\w*)\s*\(")
OWN_FIGURES = {
    "/api/data/callers": "calls are described by the snapshot, which is not a mart",
    "/api/data/calls": "calls are described by the snapshot, which is not a mart",
    "/api/data/summary": "calls are described by the snapshot, which is not a mart",
    "/api/devices/facets": "each choice is counted with all other choices",
    "/api/devices/list": "how many devices the list has",
    "/api/failover/availability": "the order of the routers, by time not shown",
    "/api/failover/flapping": "of the last week whatever time is chosen, by flap group",
    "/api/failover/timeline": "the order of the lanes, of episodes that reach into the time",
    "/api/filters/groups": "whether a name of a group is unique",
    "/api/map/drives": "which fixes of a track are left out",
}
"""Panels whose SQL computes something that is not a metric, each with the reason."""


def test_a_figure_is_a_metric_and_not_computed_by_a_panel():
    models = [
        model
        for file in (project_folder() / "metrics").glob("*.yml")
        for model in yaml.safe_load(file.read_text("utf-8")).get("semantic_models", ())
    ]
    measures = {one.get("expr", one["name"]) for model in models for one in model["measures"]}
    extreme = re.compile(rf"\b(?:min|max)\s*\((?:\w+\.)?(?:{'|'.join(map(re.escape, measures))})\)")

    found = {panel.path for panel in PANELS for one in (FIGURE, extreme) if one.search(panel.sql)}

    assert found == OWN_FIGURES.keys()
