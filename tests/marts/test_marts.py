"""A build: from raw rows to marts in the lake, and what a failed model or test leaves there."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
import yaml

from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import BuildFailed, UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.marts import build_marts, dbt_process
from fleetlake.marts.build import write_docs
from fleetlake.marts.catalogue import marts
from fleetlake.marts.dbt_process import run_dbt
from fleetlake.marts.session import (
    MEMORY_VARIABLE,
    SNAPSHOT_VARIABLE,
    TIME_VARIABLE,
    limit_memory,
)
from fleetlake.marts.sql_project import project_folder
from fleetlake.publishing.publish import publish
from fleetlake.settings import BUILD_MEMORY
from tests.support.waiting import wait_for
from tools.reference import SOURCES, mart_table, sources_yaml

pytestmark = pytest.mark.xdist_group("marts")  # they share a build, which takes seconds

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
FAILOVER = {
    "uuid": "f1",
    "router_id": 1,
    "previous_wan_interface": "ethernet-wan",
    "current_wan_interface": "mdm-1",
    "started_at": NOON,
    "ended_at": NOON.replace(minute=5),
}

LOGIN = {"action_id": "a1", "action_type_name": "login", "action_timestamp": NOON}
FEW = "+security_events"
"""A mart over one table, the fastest to build, for tests that can use any mart."""

NOT_STAGED = {
    "resource_url",  # an address built from the id, with varying host
    "links_self",  # the same in v3
    "overlay_network_binding_id",  # deprecated, according to the contract
    "is_upgrade_available",  # inaccurate since 2023-12-31, according to the contract
    "mn_ha_ss",  # state of a secret
    "authentication_secret",  # always a star
    "external_rules",  # null in every response
    "net_device_id",  # on net_device_metrics the same as its id
}


def rows(lake: Path, sql: str) -> list[tuple[object, ...]]:
    with open_lake(lake, read_only=True) as opened:
        return opened.rows(sql)


@pytest.fixture(scope="module")
def empty_marts(empty_lake, tmp_path_factory):
    """Build some marts of a lake without a row; return it and the result."""
    lake = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("empty") / "lake"))
    return lake, build_marts(lake, select="trips security_events")


def test_an_empty_lake_builds_marts_with_no_rows(empty_marts):
    lake, result = empty_marts

    made = {m.name: m.rows for m in result.models if m.schema == "marts"}
    assert made == dict.fromkeys(("location_track_points", "trips", "security_events"), 0)
    assert rows(lake, "select count(*) from marts.trips") == [(0,)]


@pytest.mark.release
def test_an_empty_lake_builds_every_mart_with_no_rows(lake_path):
    result = build_marts(lake_path)

    made = {m.name: m.rows for m in result.models if m.schema == "marts"}
    assert made == dict.fromkeys((m["name"] for m in marts()), 0)
    assert rows(lake_path, "select count(*) from marts.failover_episodes") == [(0,)]


def test_an_empty_table_has_statistics_for_the_query_planner(empty_marts):
    """Without them, DuckLake queries its catalog once per column to plan a query."""
    lake, _ = empty_marts

    with closing(sqlite3.connect(lake / CATALOG)) as catalog:
        without = catalog.execute(
            "select table_name from ducklake_table where end_snapshot is null and table_id not in"
            " (select table_id from ducklake_table_column_stats)"
        ).fetchall()

    assert without == []


def test_when_dbt_cannot_start_the_error_says_why_and_names_its_log(tmp_path):
    with pytest.raises(BuildFailed, match=r"FLEETLAKE_BUILD_FILE.*dbt\.log"):
        run_dbt(["build"], work=tmp_path, environment={})


def of_build(folder, lake, snapshot):
    return {
        "FLEETLAKE_BUILD_FILE": str(folder / "build.duckdb"),
        "FLEETLAKE_LAKE": str(lake),
        SNAPSHOT_VARIABLE: str(snapshot),
        TIME_VARIABLE: "2026-06-01 00:00:00Z",
        MEMORY_VARIABLE: BUILD_MEMORY,
    }


def test_a_dbt_process_that_ends_before_its_models_fails_the_build(tmp_path, built):
    environment = of_build(tmp_path, built[0], snapshot=1_000_000)  # which it does not have

    with pytest.raises(BuildFailed, match="1000000"):
        run_dbt(["build"], work=tmp_path, environment=environment)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Let dbt run a project of one mart, which is fast to parse; return its folder."""
    folder = tmp_path / "sql"
    without_models = shutil.ignore_patterns("models")
    shutil.copytree(project_folder(), folder, ignore=without_models)
    (folder / "models").mkdir()
    (folder / "models" / "trips.sql").write_text("select 1 as trip_id")
    monkeypatch.setattr(dbt_process, "project_folder", lambda: folder)
    return folder


@pytest.mark.proof
def test_one_test_of_a_mart_names_each_broken_rule_with_its_rows(tmp_path, built, project):
    (project / "models" / "trips.sql").write_text(
        "select * from (values (1, 5, 1), (2, 5, 2), (2, 6, 3), (3, -1, 4), (4, 86401, 5),"
        " (5, null, 6), (6, 7, null)) as t (trip_id, idle_s, legs)"
    )
    arguments = {"columns": ["trip_id"], "rules": ["legs <> 1 or 'a' = ''"], "seconds": ["idle_s"]}
    test = {"one_row_per": {"name": "trips_is_sound", "arguments": arguments}}
    models = [{"name": "trips", "data_tests": [test]}]
    (project / "models" / "m.yml").write_text(yaml.safe_dump({"version": 2, "models": models}))
    environment = of_build(tmp_path, built[0], built[1].snapshot_id)

    [test] = run_dbt(["build"], work=tmp_path, environment=environment).tests

    with duckdb.connect(tmp_path / "build.duckdb") as connection:
        found = connection.execute(f"select broken, trip_id, legs from ({test.sql}) order by legs")
        assert found.fetchall() == [
            ("legs <> 1 or 'a' = ''", 1, 1),
            ("one row per trip_id", 2, 2),
            ("one row per trip_id", 2, 3),
            ("coalesce(idle_s, 0) between 0 and 86400", 3, 4),
            ("coalesce(idle_s, 0) between 0 and 86400", 4, 5),
        ]
    assert (test.name, test.status, test.failures) == ("trips_is_sound", "fail", 5)


@pytest.mark.release
def test_a_data_test_in_a_separate_file_counts(tmp_path, built, project):
    (project / "tests").mkdir()
    (project / "tests" / "nothing_is_good.sql").write_text(
        "-- depends_on: {{ ref('trips') }}\nselect 1 as bad"
    )
    environment = of_build(tmp_path, built[0], built[1].snapshot_id)

    run = run_dbt(["test", "--select", "nothing_is_good"], work=tmp_path, environment=environment)

    [test] = run.tests
    assert (test.name, test.model, test.status, test.failures) == (
        "nothing_is_good",
        "trips",
        "fail",
        1,
    )


@pytest.mark.parametrize("is_built", [False, True])
def test_a_selection_that_matches_no_model_is_an_error_with_the_nearest_name(
    lake_path, built, is_built
):
    lake = built[0] if is_built else lake_path

    with pytest.raises(UsageError, match=r"'trip' or 'nosuch'.*Did you mean trips\?"):
        build_marts(lake, select="trip nosuch stg_accounts")


END = '{"line": "end", "is_run": true, "is_good": false, "memory_bytes": 0}'
ENDS = {
    "killed in a line": (
        "import os; os.write(1, b'cut'); os.kill(os.getpid(), 9)",
        r"ended by SIGKILL.*FLEETLAKE_BUILD_MEMORY",
    ),
    "ended by a signal": ("import os; os.abort()", "ended by SIGABRT"),
    "before the last line": ("", "failed: it gave no message"),
    "with a traceback": ("1 / 0", "ZeroDivisionError"),
    "badly after good results": (
        f"print({END!r})",
        "dbt failed: it gave no message",
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_dbt_process_that_fails_without_results_is_a_failed_build_with_its_last_messages(
    tmp_path, monkeypatch, end
):
    code, message = ENDS[end]
    monkeypatch.setattr(dbt_process, "_program", lambda _: [sys.executable, "-c", code])

    with pytest.raises(BuildFailed, match=message):
        run_dbt(["build"], work=tmp_path, environment={})


@pytest.mark.release
def test_a_hook_that_fails_after_good_models_fails_the_build(tmp_path, built, project):
    with (project / "dbt_project.yml").open("a") as settings:
        settings.write('on-run-end: "select no_such_column"\n')
    environment = of_build(tmp_path, built[0], built[1].snapshot_id)

    with pytest.raises(BuildFailed, match="no_such_column"):
        run_dbt(["seed"], work=tmp_path, environment=environment)


def test_a_failed_unit_test_is_a_result_and_the_run_is_not_good(tmp_path, monkeypatch):
    code = f"""
print('{{"line": "unit_test", "name": "r", "status": "fail", "message": "1 row differs"}}')
print({END!r})
"""
    monkeypatch.setattr(dbt_process, "_program", lambda _: [sys.executable, "-c", code])

    run = run_dbt(["test"], work=tmp_path, environment={})

    assert [rule.message for rule in run.unit_tests] == ["1 row differs"]
    assert not run.is_good


def test_help_given_as_a_selection_fails_the_build(built):
    with pytest.raises(BuildFailed):
        build_marts(built[0], select="stg_accounts --help")


def test_an_error_of_dbt_appears_once_and_without_colours(built):
    with pytest.raises(BuildFailed) as failed:
        build_marts(built[0], select="bogus:thing")

    assert str(failed.value).count("bogus") == 1
    assert "\x1b" not in str(failed.value) + (built[0] / "dbt/logs/dbt.log").read_text()


def test_rows_with_only_the_required_members_break_no_mart(built):
    _, result, _ = built

    assert result.warnings == ()
    assert {m.name for m in result.models if m.rows} >= {
        *("failover_episodes", "location_track_points", "data_usage_daily", "signal_daily"),
        *("alert_volume", "change_log", "device_inventory", "device_history"),
    }


def test_a_build_reports_each_model_and_test_as_it_ends(built):
    _, result, steps = built

    assert [s.index for s in steps if s.kind == "model"] == sorted(
        s.index for s in steps if s.kind == "model"
    )
    assert {s.name for s in steps if s.kind == "model"} == {
        m.name for m in result.models if m.kind != "seed"
    }
    assert {s.name for s in steps if s.kind == "test"} == {t.name for t in result.tests}


def test_staging_views_of_the_lake_can_be_queried(built):
    lake, _, _ = built

    assert rows(lake, "select failover_id from staging.stg_failovers") == [("1",)]


@pytest.fixture(scope="module")
def few(empty_lake, tmp_path_factory, add):
    """Build one mart twice over one row; return the lake and the results."""
    lake = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("few") / "lake"))
    add(lake, "activity_logs", LOGIN)
    return lake, [build_marts(lake, select=FEW) for _ in range(2)]


@pytest.mark.proof
def test_an_unchanged_mart_is_not_written_again(few):
    _, results = few

    written = [{m.is_written for m in r.models if m.schema == "marts"} for r in results]
    assert written == [{True}, {False}]


LAST_BUILD = (
    "select last(is_good order by built_at), last(warned_tests order by built_at), "
    "last(seconds order by built_at) > 0 from meta.builds having last(failed_tests order by "
    "built_at)"
)


def test_a_failed_build_names_the_bad_rows_and_leaves_the_mart_as_it_was(few, tmp_path, add):
    lake = Path(shutil.copytree(few[0], tmp_path / "lake"))
    add(lake, "activity_logs", LOGIN)  # twice in raw, which the lake itself never writes

    with pytest.raises(BuildFailed, match="event_id="):
        build_marts(lake, select=FEW)

    assert rows(lake, "select count(*) from marts.security_events") == [(1,)]
    assert rows(lake, f"{LAST_BUILD} = 1") == [(False, 0, True)]


STALE = "select mart from meta.stale_marts order by mart"
SIGNAL = {"net_device_id": 1, "created_at_timeuuid": "1", "created_at": NOON, "rsrp": -90.0}


@pytest.mark.proof
def test_a_failed_mart_keeps_its_rows_and_is_marked_as_stale_and_the_others_change(
    few, tmp_path, add
):
    lake, select = Path(shutil.copytree(few[0], tmp_path / "lake")), f"{FEW} +signal_daily"
    add(lake, "activity_logs", LOGIN)  # twice in raw, which the lake itself never writes
    add(lake, "net_device_signal_samples", SIGNAL)

    with pytest.raises(BuildFailed, match="last good rows: security_events") as failed:
        build_marts(lake, select=select)
    publish(lake, tmp_path / "published")

    assert failed.value.is_partial
    assert rows(lake, "select count(*) from marts.security_events") == [(1,)]
    assert rows(lake, "select count(*) from marts.signal_daily") == [(1,)]
    assert rows(lake, STALE) == [("security_events",)]
    described = json.loads((tmp_path / "published" / "snapshot.json").read_text())
    assert [one["mart"] for one in described["stale_marts"]] == ["security_events"]

    with open_lake(lake) as opened:
        opened.execute("delete from raw.activity_logs")
    build_marts(lake, select=select)

    assert rows(lake, STALE) == []
    assert rows(lake, "select count(*) from marts.security_events") == [(0,)]


def test_stale_models_are_those_that_failed_and_all_that_depend_on_them(tmp_path, built, project):
    models = {
        "broken": "{{ config(materialized='table') }} select error('a bad value') as n",
        "below": "select * from {{ ref('broken') }}",
        "doubted": "select 1 as n",
        "view_of_doubted": "{{ config(materialized='view') }} select * from {{ ref('doubted') }}",
        "last": "select * from {{ ref('view_of_doubted') }}",
    }
    for name, sql in models.items():
        (project / "models" / f"{name}.sql").write_text(sql)
    (project / "tests").mkdir()
    (project / "tests" / "bad.sql").write_text("select n from {{ ref('doubted') }}")
    environment = of_build(tmp_path, built[0], built[1].snapshot_id)

    run = run_dbt(["build"], work=tmp_path, environment=environment)

    assert run.stale == {*models}
    assert {node.name for node in run.nodes} - run.stale >= {"trips"}


def test_bad_rows_of_the_service_are_reported_and_do_not_stop_the_build(lake_path, add):
    lake = lake_path
    add(lake, "failovers", FAILOVER | {"ended_at": NOON.replace(hour=1)})

    result = build_marts(lake, select="+failover_daily")

    assert [(w.model, w.failures) for w in result.warnings] == [("failover_episodes", 1)]
    assert rows(lake, "select ended_at, duration_s from marts.failover_episodes") == [
        (NOON.replace(hour=1), 0.0)
    ]
    assert rows(lake, "select episodes, longest_s from marts.failover_daily") == [(1, 0.0)]
    assert rows(lake, f"{LAST_BUILD} = 0") == [(True, 1, True)]


@pytest.mark.proof
@pytest.mark.parametrize(
    "ending", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.release)]
)
def test_a_build_stopped_in_the_middle_ends_its_child_and_the_next_one_is_good(
    lake_path, add, ending
):
    lake = lake_path
    add(lake, "activity_logs", LOGIN)
    code = (
        f"from pathlib import Path; from fleetlake.marts import build_marts;"
        f"build_marts(Path({str(lake)!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    while not (lake / "dbt" / "build.duckdb").exists():
        time.sleep(0.05)
    parent.send_signal(ending)

    assert parent.wait(120) != 0
    wait_until_ended(lake)
    assert build_marts(lake, select=FEW).is_full


def test_a_build_keeps_to_its_memory_limit_and_spills_to_its_own_folder(tmp_path):
    asked = "select current_setting('memory_limit'), current_setting('temp_directory')"
    with duckdb.connect() as connection:
        limit_memory(connection, "100MiB", tmp_path / "spill")

        assert connection.execute(asked).fetchall() == [("100.0 MiB", f"{tmp_path / 'spill'}")]


@pytest.mark.proof
def test_a_build_after_one_that_left_a_damaged_scratch_file_starts_from_scratch(few, tmp_path):
    lake = Path(shutil.copytree(few[0], tmp_path / "lake"))
    (lake / "dbt" / "build.duckdb").write_bytes(b"DUCK")

    result = build_marts(lake, select=FEW)

    assert result.is_full
    assert rows(lake, "select count(*) from marts.security_events") == [(1,)]


def wait_until_ended(lake: Path) -> None:
    """Wait for the end of every process that names the lake; fail if one remains."""
    find = ["pgrep", "-f", re.escape(os.fspath(lake))]
    wait_for(lambda: subprocess.run(find, stdout=subprocess.PIPE, check=False).stdout == b"", 120)


def test_the_sources_of_the_project_are_the_endpoint_table():
    assert SOURCES.read_text() == sources_yaml()


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=lambda e: e.name)
def test_a_staging_view_has_every_column_of_its_endpoint(endpoint):
    staging = project_folder() / "models" / "staging"
    texts = [p.read_text() for p in staging.glob("stg_*.sql")]
    (text,) = [t for t in texts if f"source('raw', '{endpoint.name}')" in t]
    words = set(re.findall(r"\w+", text))

    assert {c.name for c in endpoint.columns} - words <= NOT_STAGED


def test_every_model_says_its_grain_and_kind_in_two_lines():
    for path in (project_folder() / "models").rglob("*.sql"):
        grain, kind, *_ = path.read_text().splitlines()
        assert grain.startswith("-- Grain: "), path.name
        assert re.match(r"-- Kind: (view|table|incremental)\.", kind), path.name


def test_the_table_of_marts_has_a_line_for_each_mart():
    names = re.findall(r"^\| `(\w+)` \|", mart_table(), re.MULTILINE)

    found = (project_folder() / "models" / "marts").glob("*/*.sql")
    assert sorted(names) == sorted(p.stem for p in found if not p.stem.startswith("int_"))


def test_every_mart_is_exposed_as_published_and_every_column_is_explained():
    exposures = yaml.safe_load((project_folder() / "models" / "exposures.yml").read_text())
    [published] = [e for e in exposures["exposures"] if e["name"] == "published_snapshot"]
    exposed = published["depends_on"]
    explained = set(
        re.findall(r"{% docs (\w+) %}", (project_folder() / "models" / "columns.md").read_text())
    )
    for mart in marts():
        assert f"ref('{mart['name']}')" in exposed
        for column in mart["columns"]:
            (entry,) = re.findall(r'doc\("(\w+)"\)', column["description"])
            assert entry in explained


@pytest.mark.proof
def test_the_docs_site_of_a_lake_shows_the_lineage_of_its_marts(built):
    page = write_docs(built[0]).read_text(encoding="utf-8")

    parents = r'"model\.fleetlake\.trips": \[[^]]*"model\.fleetlake\.location_track_points"'
    assert re.search(parents, page)
