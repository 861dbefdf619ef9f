"""Metrics are defined once, compiled to SQL, and say what their marts hold."""

from datetime import date

import pytest
from typer.testing import CliRunner

import fleetlake
from fleetlake.cli import app
from fleetlake.cli.init import write_project
from fleetlake.dashboard.column_sources import label_of
from fleetlake.dashboard.metric_panels import MetricPanel
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake import open_lake
from fleetlake.marts.catalogue import marts
from fleetlake.marts.sql_project import project_digest, project_folder
from fleetlake.semantic_layer import MetricQuery, compile_metrics, metrics
from fleetlake.semantic_layer.compiled import dimensions
from fleetlake.text.quoting import quoted

OWN = """
semantic_models:
  - name: tyres
    model: ref('tyres')
    defaults: {agg_time_dimension: seen_date}
    primary_entity: tyre
    entities: [{name: router, type: foreign, expr: router_id}]
    dimensions: [{name: seen_date, type: time, type_params: {time_granularity: day}}]
    measures: [{name: flat_tyres, agg: sum}]
metrics:
  - {name: flat_tyres, label: Flat tyres, type: simple, type_params: {measure: flat_tyres}}
"""


MONTHLY = {"metrics": ("alerts", "lines_over_cap")}


@pytest.fixture(scope="module")
def built(module_lake):
    """Return a lake with every mart, empty but for what three devices did in three days."""
    with open_lake(module_lake) as lake:
        for mart in marts():
            columns = (f"{quoted(c['name'])} {c['data_type']}" for c in mart["columns"])
            lake.execute(f"create table marts.{quoted(mart['name'])} ({', '.join(columns)})")
        lake.execute(
            "insert into marts.device_inventory by name select * from (values"
            " (1, 'north', 'Red', 10), (2, 'north', 'Blue', 10), (3, null, 'Blue', 20))"
            " as t(router_id, group_name, carrier, account_id);"
            "insert into marts.wan_availability_daily by name select router_id, wan_date,"
            " primary_s, 0 as backup_s, known_s from (values"
            " (1, date '2026-11-01', 50, 100), (2, date '2026-11-01', 300, 300),"
            " (3, date '2026-11-02', 0, 0), (1, date '2026-11-03', 10, 10))"
            " as t(router_id, wan_date, primary_s, known_s);"
            "insert into marts.alert_volume by name select * from (values"
            " ('reboot', 1, 10, date '2026-11-01', 3), ('reboot', 3, 20, date '2026-11-03', 4))"
            " as t(alert_type, router_id, account_id, alert_date, alerts);"
            "insert into marts.signal_daily by name select * from (values"
            " (date '2026-11-01', 96, -80.0, 10, 12.0, 30, 0),"
            " (date '2026-11-02', 96, -100.0, 30, 8.0, 10, 30),"
            " (date '2026-11-03', 96, null, 0, null, 0, 0)) as t(signal_date, samples,"
            " mean_rsrp_dbm, rsrp_samples, mean_sinr_db, sinr_samples, weak_samples);"
            "insert into marts.pipeline_freshness by name"
            " select timestamptz '2026-11-03 10:00:00Z' as newest_event_at"
        )
    return module_lake


@pytest.fixture
def lake(built):
    with fleetlake.open(built) as opened:
        yield opened


def tables(found):
    return found.proof.tables


def rows(lake, *names, **asked):
    return lake.metric(*names, **asked).pl().rows()


def test_every_metric_can_be_read_by_all_of_its_dimensions(lake):
    for name, metric in metrics().items():
        every = dimensions([name])
        found = lake.metric(name, by=every, grain=None if metric.is_now else "month")

        assert [*found.columns] == [*([] if metric.is_now else ["month"]), *every, name]

    assert len(metrics()) > 60


def test_a_share_is_that_of_the_sums_and_not_a_mean_of_shares(lake):
    assert rows(lake, "availability_pct") == [(pytest.approx(100 * 360 / 410),)]
    assert rows(lake, "availability_pct", by="group") == [
        ("north", pytest.approx(100 * 360 / 410)),
        (None, None),
    ]


def test_a_mean_over_days_weighs_each_by_its_samples_that_have_the_value(lake):
    found = rows(lake, "mean_rsrp_dbm", "mean_sinr_db", "weak_signal_pct", "rsrp_samples")

    assert found == [(-95.0, 11.0, 75.0, 40)]


def test_days_are_utc_days_from_the_first_to_before_the_last(lake):
    november = [date(2026, 11, day) for day in (1, 3)]

    assert rows(lake, "alerts", grain="day") == [(november[0], 3), (november[1], 4)]
    assert rows(lake, "alerts", grain="day", since="2026-11-02") == [(november[1], 4)]
    assert rows(lake, "alerts", grain="day", until="2026-11-03") == [(november[0], 3)]
    assert rows(lake, "alerts", grain="day", since="3d") == [(november[0], 3), (november[1], 4)]
    assert rows(lake, "alerts", grain="day", since="2d") == [(november[1], 4)]


def test_what_is_known_by_month_is_asked_for_by_month(lake):
    assert rows(lake, "lines_over_cap", grain="month", since="2026-11-01") == []
    narrowing = MetricPanel(metrics=("lines_over_cap",)).narrowing
    assert narrowing == {"account", "group", "router", "carrier"}


def test_sql_reads_a_metric_as_a_table_with_its_dimensions_and_range(lake):
    found = lake.sql(
        "with x as (from metrics.alerts(by := 'carrier, group', grain => 'day', until := "
        "'2026-11-03')) select x.*, a.availability_pct, 'é metrics.nonsense(' as text"
        " from x join METRICS.availability_pct(by := 'carrier') as a using (carrier) -- metrics.y("
    )

    assert found.pl().rows() == [
        (date(2026, 11, 1), "Red", "north", 3, pytest.approx(100 * 60 / 110), "é metrics.nonsense(")
    ]
    assert found.proof.tables == tables(lake.metric("alerts", "availability_pct", by="carrier"))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("nonsense()", "There is no metric 'nonsense'"),
        ("alerts(by := 'colour')", "There is no dimension 'colour'"),
        ("alerts(by := carrier)", "metrics.alerts has arguments that cannot be read"),
        ("alerts(by := 'carrier' or 1)", "metrics.alerts has arguments that cannot be read"),
        ("alerts(only := 'x')", "metrics.alerts has arguments that cannot be read"),
        ("alerts(since := '1'' or ''1''=''1')", "cannot be read"),
        ("alerts(since := '30d')", "'30d' is not a day"),
        ("alerts(", "syntax error"),
    ],
)
def test_a_wrong_call_of_a_metric_in_sql_is_said_in_words(lake, call, what):
    with pytest.raises(UsageError) as problem:
        lake.sql(f"from metrics.{call}")

    assert what in str(problem.value)


def test_metrics_of_two_marts_stand_in_one_row_also_where_a_dimension_is_null(lake):
    assert rows(lake, "alerts", "availability_pct", by="group") == [
        ("north", 3, pytest.approx(100 * 360 / 410)),
        (None, 4, None),
    ]


def test_only_what_has_a_value_counts_and_a_value_is_never_sql(lake):
    assert rows(lake, "alerts", only={"carrier": "Blue"}) == [(4,)]
    assert rows(lake, "alerts", only={"router": 1, "account_id": "10"}) == [(3,)]
    assert rows(lake, "alerts", "alerts", only={"carrier": 12}) == [(0,)]
    assert rows(lake, "alerts", only={"group": None}) == [(4,)]
    for hostile in ("x' or '1'='1", "{{ 7 * 6 }}", "{% raw %}", "$since"):
        assert rows(lake, "alerts", only={"carrier": hostile}) == [(0,)]


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"metrics": ("alert",)}, "There is no metric 'alert'. Did you mean alerts?"),
        ({"metrics": ("alerts",), "by": ("colour",)}, "There is no dimension 'colour'"),
        ({"metrics": ("alerts",), "by": ("alert_type; drop",)}, "There is no dimension"),
        ({"metrics": ("alerts",), "grain": "fortnight"}, "There is no grain 'fortnight'"),
        ({"metrics": ("devices",), "grain": "day"}, "so it takes no time range"),
        ({"metrics": ()}, "Name a metric"),
        ({"metrics": ("alerts",), "only": {"carrier": ["Red"]}}, "carrier must be one value"),
        (MONTHLY | {"since": date(2026, 11, 21)}, "lines_over_cap is known by month only"),
        (MONTHLY | {"until": date(2026, 11, 21)}, "lines_over_cap is known by month only"),
        (MONTHLY | {"grain": "week"}, "lines_over_cap is known by month only"),
    ],
)
def test_what_cannot_be_asked_is_said_in_words(asked, what):
    with pytest.raises(UsageError, match=None) as problem:
        compile_metrics(MetricQuery(**asked))

    assert what in str(problem.value)


@pytest.mark.parametrize("only", [{"group": "nort"}, {"group_name": "nort"}])
def test_a_group_that_no_device_has_is_an_error_and_no_0(lake, only):
    with pytest.raises(UsageError, match=r"No device has the group.* 'nort'") as problem:
        lake.metric("alerts", only=only)

    assert "Did you mean north?" in problem.value.remedy
    assert rows(lake, "alerts", only={"router": 1, "group": "north"}) == [(3,)]
    with pytest.raises(UsageError, match="No device has the router '9'"):
        lake.metric("alerts", only={"router": 9})


def test_a_mart_that_is_not_built_is_named(empty_lake):
    with fleetlake.open(empty_lake) as lake, pytest.raises(LakeError, match="alert_volume"):
        lake.metric("alerts")
    with (
        fleetlake.open(empty_lake) as lake,
        pytest.raises(LakeError, match="Run `fleetlake build`"),
    ):
        lake.metric("alerts", since="3d")


def test_days_are_counted_back_from_an_event_and_never_mean_all_time(lake_path):
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.pipeline_freshness (newest_event_at timestamptz)")

    with fleetlake.open(lake_path) as lake, pytest.raises(UsageError, match="no event"):
        lake.metric("alerts", since="3d")


def test_a_project_adds_metrics_over_its_own_marts_and_builds_nothing_again(tmp_path, monkeypatch):
    list(write_project(tmp_path / "fleet"))
    monkeypatch.chdir(tmp_path / "fleet")
    before = project_digest(project_folder())
    (tmp_path / "fleet/sql/metrics").mkdir()
    (tmp_path / "fleet/sql/metrics/tyres.yml").write_text(OWN)

    compiled = compile_metrics(MetricQuery(metrics=("flat_tyres", "alerts"), by=("group",)))

    assert {*compiled.marts} == {"tyres", "alert_volume", "device_inventory"}
    assert 'marts."tyres"' in compiled.sql
    assert project_digest(project_folder()) == before
    (tmp_path / "fleet/sql/metrics/tyres.yml").write_text("metrics: [{name: x}]")
    with pytest.raises(UsageError, match="metrics of the project are wrong"):
        compile_metrics(MetricQuery(metrics=("alerts",)))
    (tmp_path / "fleet/sql/metrics/tyres.yml").write_text("metrics: 3")
    with pytest.raises(UsageError, match=r"tyres\.yml cannot be read"):
        metrics()


SIMPLE = "{name: mine, label: Mine, type: simple, type_params: {measure: %s}}"
WRONG = {
    "a metric of a name of ours": OWN.replace("{name: flat_tyres, label", "{name: alerts, label"),
    "a model of a name of ours": OWN.replace("name: tyres", "name: trips"),
    "a measure that there is not": f"metrics: [{SIMPLE % 'nothing'}]",
    "an unknown way to add up": OWN.replace("agg: sum", "agg: summ"),
    "no time": OWN.replace("    defaults: {agg_time_dimension: seen_date}\n", ""),
    "a list where a table belongs": f"metrics: [{SIMPLE % 'alerts'}]".replace(
        "}}", "}, config: [1]}"
    ),
    "parts that need each other": "metrics: [{name: a, type_params: {metrics: [{name: b}]}},"
    " {name: b, type_params: {metrics: [{name: a}]}}]",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_wrong_file_of_a_project_is_named_and_is_no_traceback(text, tmp_path, monkeypatch):
    list(write_project(tmp_path / "fleet"))
    monkeypatch.chdir(tmp_path / "fleet")
    (tmp_path / "fleet/sql/metrics").mkdir()
    (tmp_path / "fleet/sql/metrics/mine.yml").write_text(text)

    with pytest.raises(UsageError, match="fleet/sql/metrics") as problem:
        compile_metrics(MetricQuery(metrics=("failovers",)))

    assert label_of("failovers") == "Failovers"
    assert ".." not in str(problem.value)


def test_the_command_prints_rows_and_sql(built, monkeypatch):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(built))

    def said(*words):
        result = CliRunner().invoke(app, ["metric", *words])
        assert result.exit_code == 0, result.output
        return result.output

    assert said("alerts", "--by", "carrier", "--format", "csv").splitlines() == [
        "carrier,alerts",
        "Blue,4",
        "Red,3",
    ]
    assert said("alerts", "--only", "group=north", "--format", "csv").splitlines()[1] == "3"
    assert '"is_complete":' in said("alerts", "--format", "csv", "--proof", "json")
    assert said("alerts", "--sql").startswith('select "alerts"::bigint')
    listed = said("--format", "csv")
    assert "availability_pct,%,Share of the known time" in listed
    assert "rsrp_samples_dbm" not in listed
