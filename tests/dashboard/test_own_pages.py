"""Pages of a project: shown and reported like the shipped ones; a wrong one says what is wrong."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fleetlake.cli import app as commands
from fleetlake.dashboard.metric_panels import MetricPanel
from fleetlake.dashboard.open_snapshots import OpenSnapshots
from fleetlake.dashboard.page_checks import check_own_pages, faults_of
from fleetlake.dashboard.page_format import METRIC_KEYS, PANEL_KEYS, RESERVED_NAMES, RESERVED_SLUGS
from fleetlake.dashboard.page_shell import page_html
from fleetlake.dashboard.panels import DashboardPage, Panel, dashboard_pages
from fleetlake.dashboard.report import read_report
from fleetlake.dashboard.web_app import create_dashboard
from fleetlake.errors import SettingsError
from fleetlake.settings import Settings
from tests.dashboard.asking import ask, rows_of
from tests.dashboard.test_page_shell import Tags
from tests.dashboard.world import NOW, World

GOOD = """
title = "Reboots"
filters = ["router", "time"]
[panels.reboots]
title = "Alerts by type"
kind = "bars"
marts = ["alert_volume"]
sql = "select alert_type, sum(alerts) as alerts from alert_volume where true {filters} group by 1"
filters = { router = "router_id = $router", from = "alert_date >= $from::date" }
draw = { label = ["alert_type"], value = "alerts" }
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return the folder of a project's pages; the test stands in the project."""
    (tmp_path / "fleetlake.toml").touch()
    (tmp_path / "dashboard").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "dashboard"


def panel(sql="select * from trips", **keys):
    """Return a page's text with one panel, which is right but for what the keys say."""
    lines = {"title": "Rows", "marts": ["trips"], "sql": sql, **keys}
    written = "".join(f"{key} = {toml(value)}\n" for key, value in lines.items())
    return f'title = "Mine"\n[panels.mine]\n{written}'


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


def test_an_own_page_is_in_the_menu_and_the_report_and_answers_its_filters(project, app, world):
    (project / "reboots.toml").write_text(GOOD)

    menu = ask(app, "/now").text
    every = rows_of(ask(app, "/api/reboots/reboots"))
    some = rows_of(ask(app, "/api/reboots/reboots", {"router": 1_000_001}))
    report = read_report(world.published).html

    assert '<a href="/reboots">Reboots</a>' in menu
    assert ask(app, "/reboots").status_code == 200
    assert sorted((row["alert_type"], row["alerts"]) for row in every) == sorted(
        world.sql("select alert_type, sum(alerts)::int from alert_volume group by 1")
    )
    assert sum(row["alerts"] for row in some) < sum(row["alerts"] for row in every)
    assert "Alerts by type" in report
    assert check_own_pages(Settings(published=world.published)) == "1 page checked"


def test_a_panel_of_metrics_needs_no_sql_and_takes_the_filters_that_fit(project, app, world):
    (project / "mine.toml").write_text(
        'title = "Mine"\n[panels.mine]\ntitle = "Alerts"\nmetrics = ["alerts"]\n'
        'by = ["alert_type"]\n'
    )
    found = {row["alert_type"]: row["alerts"] for row in rows_of(ask(app, "/api/mine/mine"))}
    some = ask(app, "/api/mine/mine", {"router": 1_000_001, "carrier": "x", "from": "2026-11-18"})

    assert found == dict(
        world.sql("select alert_type, sum(alerts)::int from alert_volume group by all")
    )
    part, whole = (
        rows_of(ask(app, "/api/mine/mine", {"from": f"2026-11-18{time}"}))
        for time in ("T18:00:00Z", "")
    )

    assert some.json()["applied"] == ["router", "carrier", "from"]
    assert part == whole != []
    assert rows_of(some) == []
    assert check_own_pages(Settings(published=world.published)) == "1 page checked"


def test_a_wrong_file_of_metrics_stops_own_panels_of_metrics_only(project, app):
    folder = project.parent / "sql" / "metrics"
    folder.mkdir(parents=True)
    (folder / "mine.yml").write_text("metrics: 3")
    (project / "mine.toml").write_text(panel("select * from {metrics}", metrics=["alerts"]))

    assert ask(app, "/mine").status_code == 200
    assert ask(app, "/api/compare/groups").status_code == 200
    refused = ask(app, "/api/mine/mine")
    assert refused.status_code == 400
    assert "mine.yml cannot be read" in refused.json()["what"]


def test_an_own_page_that_was_changed_is_read_again(project, app):
    (project / "mine.toml").write_text(panel("select 1 as one"))
    first = rows_of(ask(app, "/api/mine/mine"))
    (project / "mine.toml").write_text(panel("select 2 as another"))

    assert (first, rows_of(ask(app, "/api/mine/mine"))) == ([{"one": 1}], [{"another": 2}])


WRONG = {
    "an unknown key": (panel(colour="red"), "panel 'mine', key 'colour'", "There are title"),
    "a misspelt key": (panel(lmit=3), "key 'lmit'", "Did you mean limit?"),
    "a value of another type": (panel(marts="trips"), "key 'marts'", "not a list of texts"),
    "a kind that is a list": (panel(kind=["table"]), "key 'kind'", "not a text"),
    "a limit that is too large": (panel(limit=10**30), "key 'limit'", "Choose 1 to 20,000"),
    "an unknown kind": (panel(kind="pie"), "key 'kind': There is no kind 'pie'", "series"),
    "a kind of one shipped page": (panel(kind="map"), "key 'kind'", "There is no kind 'map'"),
    "an unknown filter": (
        panel("select * from trips where true {filters}", filters={"ruter": "true"}),
        "key 'filters': There is no filter 'ruter'",
        "Did you mean router?",
    ),
    "a filter without effect": (panel(filters={"router": "true"}), "key 'sql'", "where true"),
    "a wrong condition": (
        panel("select * from trips where true {filters}", filters={"router": "ruter = $router"}),
        "key 'filters.router'",
        'column "ruter" not found',
    ),
    "an unknown mart": (panel(marts=["tripps"]), "key 'marts'", "Did you mean trips?"),
    "a mart that is not named": (panel(marts=[]), "key 'marts'", "Add 'trips'"),
    "an unknown table": (panel("select * from tripps"), "key 'sql'", "tripps does not exist"),
    "an unknown column": (panel("select nothing from trips"), "key 'sql'", '"nothing" not found'),
    "a syntax error": (panel("selec 1"), "key 'sql'", "Parser Error"),
    "a limit of its own": (panel("select * from trips limit 3"), "key 'sql'", "Leave out LIMIT"),
    "two statements": (panel("select 1; drop view trips"), "key 'sql'", "not one query"),
    "a statement that changes something": (
        panel("drop view trips"),
        "key 'sql'",
        "Write one SELECT",
    ),
    "a file of the machine": (
        panel("select * from read_csv('/etc/hostname')"),
        "key 'sql'",
        "Cannot access file",
    ),
    "an unknown origin": (
        panel(of={"trip_id": "trips.nothing"}),
        "key 'of.trip_id'",
        "no column trips.nothing",
    ),
    "a chart that lacks a column": (panel(kind="bars"), "key 'draw.label'", "'bars' needs it"),
    "a chart of a column that is not there": (
        panel(kind="bars", draw={"label": ["trip_id"], "value": "nothing"}),
        "key 'draw.value'",
        "no column 'nothing'",
    ),
    "an unknown filter of the page": (
        GOOD.replace('"router", "time"', '"acount"'),
        "key 'filters'",
        "Did you mean account?",
    ),
    "an unknown key of the page": ("colour = 1\n" + GOOD, "key 'colour'", "There is no key"),
    "an unknown metric": (
        'title = "x"\n[panels.x]\ntitle = "x"\nmetrics = ["alert"]\n',
        "panel 'x', key 'sql'",
        "Did you mean alerts?",
    ),
    "metrics side by side by a dimension": (
        """
        title = "x"
        [panels.x]
        title = "x"
        metrics = ["alerts", "failovers"]
        by = ["router"]
        is_compared = true
        """,
        "panel 'x', key 'sql'",
        "shows one metric",
    ),
    "no panel": ('title = "Empty"', "key 'panels'", "missing"),
    "a panel that is no table": ('title = "x"\n[panels]\na = 1', "panel 'a'", "[panels.a]"),
    "a panel's name": (panel().replace("mine]", "content]"), "panel 'content'", "Rename"),
    "text that is not TOML": ("title = ", "cannot be read", "Correct the file"),
    "bytes that are not text": (b"\xff\xfe", "cannot be read", "utf-8"),
}


@pytest.mark.parametrize("case", WRONG)
def test_doctor_names_file_panel_and_key_of_what_is_wrong_and_what_to_do(project, world, case):
    text, where, what = WRONG[case]
    (project / "mine.toml").write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(SettingsError) as caught:
        check_own_pages(Settings(published=world.published))

    assert str(project / "mine.toml") in caught.value.what
    assert where in caught.value.what
    assert what in caught.value.what


def test_the_command_doctor_lists_the_check_of_own_pages_and_only_where_there_are_some(
    project, monkeypatch, world
):
    monkeypatch.setenv("FLEETLAKE_PUBLISHED", str(world.published))
    without = CliRunner().invoke(commands, ["doctor", "--format", "json"]).output
    (project / "mine.toml").write_text(panel(kind="pie"))

    found = json.loads(CliRunner().invoke(commands, ["doctor", "--format", "json"]).output)

    assert "dashboard pages" not in without
    assert (found[-1]["check"], found[-1]["is_ok"]) == ("dashboard pages", False)
    assert "mine.toml: panel 'mine', key 'kind'" in found[-1]["found"]


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_page_stops_neither_the_dashboard_nor_the_report(project, app, case):
    text, _, _ = WRONG[case]
    (project / "mine.toml").write_bytes(text if isinstance(text, bytes) else text.encode())

    page = dashboard_pages()["mine"]
    answers = [ask(app, one.path, {"router": 1_000_001}) for one in page.panels.values()]

    assert ask(app, "/mine").status_code == ask(app, "/api/now/offline").status_code == 200
    assert {answer.status_code for answer in answers} <= {200, 400, 404}
    assert all(answer.json()["what"] for answer in answers if answer.status_code != 200)


def test_a_wrong_panel_says_so_and_the_others_of_its_page_are_shown(project, app, world):
    (project / "mine.toml").write_text(
        GOOD + '[panels.pie]\ntitle = "Pie"\nsql = "select 1 as one"\nmarts = []\nkind = "pie"\n'
    )

    report = read_report(world.published).html
    [good, wrong] = dashboard_pages()["mine"].panels.values()

    assert rows_of(ask(app, good.path))
    answer = ask(app, wrong.path)
    assert (answer.status_code, "There is no kind 'pie'" in answer.json()["what"]) == (400, True)
    assert "There is no kind" in report
    assert "Alerts by type" in report


@pytest.mark.parametrize("name", ["now", "data", "api", "login", "metrics", "Ä", "a b", "..x"])
def test_a_file_cannot_take_the_name_of_a_shipped_page_or_address(project, app, world, name):
    (project / f"{name}.toml").write_text(GOOD)
    shipped = [one for one in dashboard_pages().values() if not one.file]

    with pytest.raises(SettingsError, match="Rename the file"):
        check_own_pages(Settings(published=world.published))

    assert name not in {page.slug for page in dashboard_pages().values() if page.file}
    assert "Now" in [page.title for page in shipped]
    answer = ask(app, "/api/own-1/fault")
    assert answer.status_code == 400
    assert answer.json()["remedy"].startswith("Rename the file")


def test_the_reserved_names_are_those_of_the_addresses_and_of_the_page(app):
    routes = {route.path.strip("/").partition("/")[0] for route in app.routes}
    shell = Tags(page_html(DashboardPage(slug="x", title="X", panels={}, filters=("time",)), {}))
    named = {name for tag in shell.found for name in shell.named(tag, "id") if "-" not in name}

    assert {name for name in routes if name.isalpha()} <= RESERVED_SLUGS
    assert named <= RESERVED_NAMES | {"routers"}
    assert {*PANEL_KEYS, "metrics"} == {*Panel.__dataclass_fields__} - {"page", "name", "fault"}
    assert {*METRIC_KEYS, "is_own"} == {*MetricPanel.__dataclass_fields__}


def test_before_a_snapshot_doctor_checks_the_files_and_says_what_it_did_not_check(
    project, tmp_path
):
    (project / "mine.toml").write_text(panel("select nothing from nowhere", marts=["nowhere"]))

    assert "not the SQL" in check_own_pages(Settings(published=tmp_path / "published"))


def test_the_page_that_init_writes_is_right(tmp_path, monkeypatch, world):
    assert CliRunner().invoke(commands, ["init", str(tmp_path)]).exit_code == 0
    monkeypatch.chdir(tmp_path)

    assert check_own_pages(Settings(published=world.published)) == "1 page checked"
    snapshots = OpenSnapshots(world.published)
    with snapshots.lease() as snapshot:
        assert [*faults_of(dashboard_pages()["failovers_by_day"], snapshot)] == []
    snapshots.close()


TABLE = "/api/tables/rows"


def test_every_published_table_can_be_browsed_and_exported_also_one_of_an_own_mart(tmp_path):
    world = World(tmp_path)
    folder = world.publish()
    description = json.loads((folder / "snapshot.json").read_text())
    own = pa.table({"kept_at": [NOW], "parts": [["a", "b"]], "raw": [b"\xff"], "note": ["=1"]})
    (folder / "mine").mkdir()
    pq.write_table(own, folder / "mine" / "data.parquet")
    columns = [{"name": name, "type": "VARCHAR"} for name in own.column_names]
    entry = {"rows": 1, "columns": columns, "partitioned_by": None}
    description["tables"]["mine"] = entry
    (folder / "snapshot.json").write_text(json.dumps(description))
    app = create_dashboard(world.published)

    tables = {row["table_name"]: row for row in rows_of(ask(app, "/api/tables/tables"))}
    shown = {name: rows_of(ask(app, TABLE, {"table": name})) for name in tables}
    csv = ask(app, f"{TABLE}.csv", {"table": "mine"}).text

    assert {*tables} == {*description["tables"]}
    assert {name: len(rows) for name, rows in shown.items()} == {
        name: row["rows"] for name, row in tables.items()
    }
    assert tables["trips"]["about"].startswith("Each trip")
    [row] = shown["mine"]
    assert (row["parts"], row["note"]) == (["a", "b"], "=1")
    assert csv.splitlines()[1].endswith("\"['a', 'b']\",\"b'\\xff'\",\"'=1\"")
    assert ask(app, f"{TABLE}.parquet", {"table": "mine"}).status_code == 200


def test_rows_of_a_table_are_found_in_all_columns_and_sorted_over_all_rows(app):
    given = {"table": "failover_episodes", "sort": "-duration_s"}

    longest = [row["duration_s"] for row in rows_of(ask(app, TABLE, given))]
    found = rows_of(ask(app, TABLE, {"table": "device_inventory", "search": "DENVER-00001"}))

    assert longest == sorted(longest, reverse=True)
    assert {row["router_id"] for row in found} == {1_000_001}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, 400),
        ({"table": "nowhere"}, 404),
        ({"table": "duckdb_settings()"}, 400),
        ({"table": "trips; drop view trips"}, 400),
        ({"table": 'trips" where false --'}, 400),
        ({"table": "trips", "sort": "nothing"}, 400),
        ({"table": "trips", "sort": "1; drop view trips"}, 400),
        ({"table": "duckdb_tables"}, 404),
        ({"table": "sqlite_master"}, 404),
        ({"table": "/etc/hostname"}, 400),
    ],
)
@pytest.mark.parametrize("form", ["", ".csv", ".parquet"])
def test_a_name_from_outside_is_a_table_or_a_column_of_the_snapshot_or_refused(
    app, given, code, form
):
    answer = ask(app, TABLE + form, given)

    assert answer.status_code == code
    assert answer.json()["what"]
    assert ask(app, TABLE, {"table": "trips"}).status_code == 200
