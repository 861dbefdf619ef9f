"""An hour's build repeats without dbt what dbt did the hour before, and leaves the same marts."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleetlake.errors import BuildFailed
from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts, sources_of
from fleetlake.marts.dbt_process import DbtProcess, steps_file
from fleetlake.marts.plan import last_built, work_folder
from fleetlake.marts.recorded import Statements, Step, read_steps, repeat, write_steps
from fleetlake.marts.sql_project import project_digest, project_folder, varies
from tests.marts.test_increments import fixes, signal, usage

pytestmark = pytest.mark.xdist_group("marts")  # they share what makes a run of dbt cheap

START = datetime(2026, 6, 1, 6, tzinfo=UTC)


def load(add, lake, day):
    """Add a day's rows to the tables of incremental marts and of others; some of the day before."""
    at = START + timedelta(days=day)
    add(lake, "historical_locations", *fixes(1, day), *fixes(2, day - 1))
    add(lake, "net_device_usage_samples", usage(5, day, 1), usage(6, day - 1, 2))
    add(lake, "net_device_signal_samples", signal(5, day, 1), signal(6, day - 1, 2))
    alert = {"created_at_timeuuid": f"t{day}", "router_id": 1, "created_at": at}
    add(lake, "alerts", alert | {"type": "connection_state", "friendly_info": "1 is offline."})
    failover = {"uuid": f"f{day}", "router_id": 1, "data_usage": -5, "updated_at": at}
    add(lake, "failovers", failover | {"started_at": at, "ended_at": at + timedelta(minutes=5)})
    add(lake, "activity_logs", login(f"a{day}", at))


def login(action, at=START):
    return {"action_id": action, "action_type_name": "login", "action_timestamp": at}


def content(lake):
    """Return rows and a checksum of every mart, without `built_at`."""
    sql = (
        "select count(*), sum(hash(t)::hugeint)"
        " from (select columns(c -> c <> 'built_at') from marts.{}) as t"
    )
    with open_lake(lake, read_only=True) as opened:
        return {mart["name"]: opened.rows(sql.format(mart["name"])) for mart in marts()}


def said(result):
    """Return what a build says of its models and data tests."""
    models = {(m.name, m.schema, m.kind, m.rows, m.is_written) for m in result.models}
    return models, {(t.name, t.model, t.status, t.failures, t.rows != ()) for t in result.tests}


@pytest.fixture(scope="module")
def recorded(built, tmp_path_factory, add):
    """Return a lake whose last build recorded what dbt did."""
    lake = Path(shutil.copytree(built[0], tmp_path_factory.mktemp("recorded") / "lake"))
    load(add, lake, 0)
    build_marts(lake)
    return lake


@pytest.fixture(scope="module")
def hour(recorded, tmp_path_factory, add):
    """Build an hour without dbt, and with it in a copy of the lake; return lakes and results."""
    load(add, recorded, 1)
    twin = Path(shutil.copytree(recorded, tmp_path_factory.mktemp("twin") / "lake"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DbtProcess, "run", None)
        results = [build_marts(recorded)]
    return (recorded, twin), [*results, build_marts(twin)]


@pytest.mark.proof
def test_a_model_rests_on_the_source_tables_that_dbt_finds(recorded):
    file = steps_file(work_folder(recorded))
    steps = read_steps(file, project_digest(project_folder()))
    found = {step.name: set(step.sources) for step in steps if step.kind != "test"}

    assert len(found) > len([*marts()])
    assert {name: sources_of(name) for name in found} == found


@pytest.mark.proof
def test_an_hour_built_without_dbt_equals_one_built_with_it_and_a_full_build(hour):
    (lake, twin), results = hour
    contents = [content(one) for one in (lake, twin)]
    build_marts(twin, is_full=True)

    assert said(results[0]) == said(results[1])
    assert contents == [content(twin)] * 2
    assert {t.status for t in results[0].tests} == {"pass", "warn"}


@pytest.mark.proof
def test_a_statement_that_fails_without_dbt_is_built_by_dbt(hour, add):
    lake = hour[0][0]
    add(lake, "activity_logs", login("new"))
    file = steps_file(work_folder(lake))
    file.write_text(file.read_text().replace("security_events__dbt_tmp", 'no\\".\\"such'))

    built = {model.name for model in build_marts(lake).models}

    assert built == {"change_log", "security_events"}
    assert "security_events__dbt_tmp" in file.read_text()  # as dbt sent it
    with open_lake(lake, read_only=True) as opened:
        assert opened.rows("select 1 from marts.security_events where event_id like '%new'")


@pytest.mark.proof
def test_a_data_test_that_fails_without_dbt_is_reported_by_dbt_and_keeps_the_marts(hour, add):
    lake = hour[0][0]
    before = content(lake)
    add(lake, "activity_logs", login("twice"), login("twice"))  # the lake never writes this

    with pytest.raises(BuildFailed, match="twice"):
        build_marts(lake)

    assert content(lake) == before


@pytest.mark.proof
def test_what_others_may_have_written_or_another_project_did_is_not_repeated(recorded):
    work = work_folder(recorded)
    file, built_of = steps_file(work), last_built(work)

    def count(project):
        return sum(bool(step.statements) for step in read_steps(file, project))

    assert file.stat().st_mode & 0o777 == 0o600
    assert count(built_of.project) > 60
    assert count("another") == 0
    file.chmod(0o620)
    assert count(built_of.project) == 0
    file.chmod(0o600)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("select {{ run_query('select 1') }} as a", True),
        ("select '{{ env_var('HOME') }}' as a", True),
        ("select * from {{ ref('trips') }}", False),
    ],
)
def test_an_own_model_that_may_give_other_statements_each_time_is_known(
    tmp_path, monkeypatch, model, expected
):
    (tmp_path / "sql" / "models").mkdir(parents=True)
    (tmp_path / "sql" / "models" / "own.sql").write_text(model)
    monkeypatch.setattr("fleetlake.marts.sql_project.found_project", lambda: tmp_path)

    assert varies() is expected


def test_a_statement_that_begins_with_a_query_and_writes_is_sent_again():
    sql = "with x as (select 1) insert into t from x"
    sent = Statements()
    sent.add(f'/* {{"app": "dbt", "node_id": "model.a"}} */ {sql};')

    assert sent.of("model.a", "table") == (sql,)


def test_what_dbt_must_do_itself_is_not_taken_from_an_earlier_build(tmp_path):
    file = tmp_path / "steps.json"
    step = Step(node="model.a", name="a", kind="table", sources=("raw.alerts",), statements=("x",))

    write_steps(file, "project", [step])
    write_steps(file, "project", [replace(step, statements=())])
    assert [one.statements for one in read_steps(file, "project")] == [("x",)]

    write_steps(file, "project", [replace(step, statements=(), is_repeatable=False)])
    assert [one.statements for one in read_steps(file, "project")] == [()]
    assert repeat(None, read_steps(file, "project"), frozenset({"raw.alerts"}), print) is None
