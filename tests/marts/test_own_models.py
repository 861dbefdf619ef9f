"""Models, tests, seeds and variables of the user's own project, beside ours."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.cli.init import write_project
from fleetlake.endpoints import forget_own
from fleetlake.errors import BuildFailed
from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.build import write_docs
from fleetlake.marts.catalogue import (
    mart_dates,
    mart_keys,
    mart_meanings,
    marts,
    sources_of,
    tracked_tables,
)
from fleetlake.marts.marks import drop_marts_without_model
from fleetlake.marts.sql_project import parse_yaml, project_digest, project_folder, ready_project
from fleetlake.publishing.publish import publish

pytestmark = pytest.mark.xdist_group("own")  # they share a build, which takes seconds

OURS = {"stg_routers", "failover_episodes", "carrier_plans"}

NOON, FAR = datetime(2026, 6, 1, 12, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
SITES = """
[sites]
about = "Sites, with 'quotes' and {{ braces }}."
fields = ["id"]
columns.order = { kind = "integer", meaning = "Order of the site." }
"""
WORN = "select {{ var('battery_worn_pct') }} as worn, {{ var('mine', 1) }} as mine"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new project; the test stands in it."""
    folder = tmp_path / "fleet"
    list(write_project(folder))
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, name: str, text: str) -> None:
    """Write a file of a project."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_own_sources_dbt_reads_our_project_where_it_is_installed(
    tmp_path, project, monkeypatch
):
    shutil.rmtree(project / "sql")

    assert ready_project(project_folder(), tmp_path / "work") == project_folder()
    monkeypatch.chdir(tmp_path)
    assert ready_project(project_folder(), tmp_path / "work") == project_folder()
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("name", sorted(OURS))
def test_an_own_model_with_a_name_of_ours_is_one_clear_error(tmp_path, project, name):
    write(project, f"sql/models/deep/{name}.sql", "select 1 as n")

    with pytest.raises(BuildFailed) as refused:
        ready_project(project_folder(), tmp_path)

    assert refused.value.what.endswith(f"of the same name as {project}/sql/models/deep/{name}.sql.")
    assert refused.value.remedy == "Rename your model."


def test_a_seed_that_lacks_columns_of_the_one_it_replaces_is_refused_by_their_names(
    tmp_path, project
):
    write(project, "sql/seeds/carrier_plans.csv", "carrier,price\n*,1\n")

    with pytest.raises(BuildFailed, match=r"lacks the columns price_per_gb, monthly_cap_gb\."):
        ready_project(project_folder(), tmp_path)


@pytest.mark.parametrize(
    ("table", "what", "remedy"),
    [
        ("[vars]\nbattery_wron_pct = 60", "no variable battery_wron_pct", "battery_worn_pct?"),
        ("[vars]\nbattery_worn_pct = '60'", "is not a number", "Enter a number."),
        ("[vars]\nbattery_worn_pct = true", "is not a number", "Enter a number."),
        ("vars = 1", "is not a table", "[vars]"),
    ],
)
def test_a_variable_that_has_no_effect_or_is_no_number_is_refused(
    tmp_path, project, table, what, remedy
):
    write(project, "fleetlake.toml", table)

    with pytest.raises(BuildFailed) as refused:
        ready_project(project_folder(), tmp_path)

    assert what in refused.value.what
    assert remedy in refused.value.remedy


def test_a_variable_of_an_own_model_may_be_set(tmp_path, project):
    write(project, "sql/models/worn.sql", WORN)
    write(project, "fleetlake.toml", "[vars]\nmine = 3")

    merged = ready_project(project_folder(), tmp_path)

    assert "  mine: 3\n" in (merged / "dbt_project.yml").read_text()


def test_a_project_that_is_put_together_again_is_not_written_again(tmp_path, project):
    def written() -> dict[Path, int]:
        folder = ready_project(project_folder(), tmp_path)
        files = (folder / "dbt_project.yml", folder / "sql", *(folder / "seeds").iterdir())
        return {path: path.lstat().st_mtime_ns for path in files}

    first = written()

    assert written() == first  # dbt would parse everything anew
    write(project, "sql/seeds/carrier_plans.csv", "carrier,price_per_gb,monthly_cap_gb\n*,1,1\n")
    assert {path.name for path in first.keys() - written()} == {"carrier_plans.csv"}


def test_described_lists_have_views_and_sources_unless_the_project_has_its_own(tmp_path, project):
    before = project_digest(project_folder())
    write(project, "endpoints/sites.toml", SITES)
    forget_own()

    staging = ready_project(project_folder(), tmp_path) / "described" / "staging"
    first = {file.name: file.stat().st_mtime_ns for file in staging.iterdir()}
    view, sources = (staging / "stg_sites.sql").read_text(), staging / "_described_sources.yml"
    ready_project(project_folder(), tmp_path)

    assert "{{ source('raw', 'sites') }}\nwhere valid_to is null" in view
    assert "{{ adapter.quote('order') }}" in view
    assert "(( braces ))" in sources.read_text()
    assert parse_yaml(sources.read_text())["sources"][0]["tables"][0]["name"] == "sites"
    assert {file.name: file.stat().st_mtime_ns for file in staging.iterdir()} == first
    assert sources_of("stg_sites") == {"raw.sites"}
    assert "raw.sites" in tracked_tables()
    assert project_digest(project_folder()) != before
    write(project, "sql/models/staging/stg_sites.sql", "select 1 as one")
    ready_project(project_folder(), tmp_path)
    assert {file.name for file in staging.iterdir()} == {"_described_sources.yml"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sql/models/worn.sql", WORN),
        ("sql/tests/worn.sql", "select 1 where false"),
        ("sql/seeds/carrier_plans.csv", "carrier\n"),
        ("sql/models/more.yml", "models: []"),
        ("sql/models/more.yaml", "models: []"),
        ("fleetlake.toml", "[vars]\nbattery_worn_pct = 61"),
    ],
)
def test_a_change_of_the_own_project_has_everything_built_anew(project, name, text):
    before = project_digest(project_folder())

    write(project, name, text)

    assert project_digest(project_folder()) != before


def test_own_marts_are_listed_with_their_keys_and_dates(project):
    own = project / "sql/models/_models.yml"
    own.write_text(own.read_text().replace("{grain: ", "{date: last_on, grain: "))

    assert mart_keys()["failovers_by_router"] == ("router_id",)
    assert mart_dates()["failovers_by_router"] == "last_on"
    [entry] = [mart for mart in marts() if mart["name"] == "failovers_by_router"]
    assert entry["config"]["meta"]["grain"] == "router that failed over"
    assert entry["description"].startswith("How often")


def test_marts_of_one_project_are_not_those_of_another(project, tmp_path, monkeypatch):
    assert (project / "sql/models/failovers_by_router.sql").exists()
    assert "failovers_by_router" in mart_keys()
    monkeypatch.chdir(tmp_path)
    assert "failovers_by_router" not in mart_keys()


@pytest.mark.parametrize("name", ["more.yml", "more.yaml"])
def test_a_yaml_file_that_cannot_be_read_is_named(project, name):
    write(project, f"sql/models/{name}", "models: [")

    with pytest.raises(BuildFailed, match=rf"sql/models/{name} is not valid YAML"):
        list(marts())


FAILING = [
    (
        "select sum(in_bytes * 8) as bits from {{ ref('stg_net_device_usage_samples') }}",
        "created_at_timeuuid = 'second': bytes_in=9223372036854775807",
    ),
    (
        "select cast(detected_at as timestamp_ns) as at from {{ source('raw', 'alerts') }}",
        "raw.alerts where created_at_timeuuid = 'far': detected_at=9999-12-31",
    ),
    (
        "select cast(description as int) as n from {{ ref('stg_alerts') }}",
        "friendly_info=the worst, detected_at=9999-12-31 00:00:00+00",
    ),
    ("select nothing from {{ ref('stg_alerts') }}", "It reads raw.alerts, raw.pushed_alerts"),
]
"""Models that fail, and what is said of the records that may be the cause."""


@pytest.mark.proof
def test_models_that_fail_name_the_records_that_may_be_the_cause(project, lake_path, add):
    usual = {"created_at": NOON, "period": 900.0, "net_device_id": 7}
    samples = [
        usual | {"created_at_timeuuid": name, "bytes_in": count}
        for name, count in (("first", 1000), ("second", 2**63 - 1), ("third", 2000))
    ]
    add(lake_path, "net_device_usage_samples", *samples)
    alert = {"created_at": NOON, "friendly_info": "the worst", "type": "reboot"}
    add(lake_path, "alerts", alert | {"created_at_timeuuid": "far", "detected_at": FAR})
    names = [f"worst_{number}" for number, _ in enumerate(FAILING)]
    for name, (sql, _) in zip(names, FAILING, strict=True):
        write(project, f"sql/models/{name}.sql", "{{ config(materialized='table') }} " + sql)

    with pytest.raises(BuildFailed) as failed:
        build_marts(lake_path, select=" ".join(f"+{name}" for name in names))

    for name, (_, named) in zip(names, FAILING, strict=True):
        said = str(failed.value).partition(f"{name}: ")[2].partition(f"{os.linesep}  worst_")[0]
        assert named in said, name
        if "=" in named:
            query = said.partition('query "')[2].partition('"')[0]
            with open_lake(lake_path, read_only=True) as lake:
                assert len(lake.rows(query)) == 1


def test_a_mart_whose_model_was_removed_leaves_the_lake_but_no_table_of_the_users_own(
    project, empty_lake, tmp_path, monkeypatch
):
    write(project, "sql/models/mine.sql", "select 1 as n")
    with open_lake(Path(shutil.copytree(empty_lake, tmp_path / "lake"))) as lake:
        lake.execute("attach ':memory:' as build; create schema build.marts")
        for name in ("mine", "trips", "by_hand"):
            lake.execute(f"create table marts.{name} as select 1 as n")
        for name in ("mine", "trips", "gone_before"):
            lake.execute(f"create table build.marts.{name} as select 1 as n")
        built = drop_marts_without_model(lake.connection)
        (project / "sql/models/mine.sql").unlink()
        monkeypatch.chdir(tmp_path)
        elsewhere = drop_marts_without_model(lake.connection)
        monkeypatch.chdir(project)

        removed = drop_marts_without_model(lake.connection)

        left = lake.rows(
            "select table_name, comment is not null as is_marked from duckdb_tables() "
            "where database_name = 'lake' and schema_name = 'marts' order by 1"
        )
    assert (built, elsewhere, removed) == ((), (), ("mine",))
    assert left == [("by_hand", False), ("trips", True)]


def test_a_mart_that_a_release_no_longer_has_leaves_the_lake(empty_lake, tmp_path, monkeypatch):
    package = tmp_path / "sql"
    write(package, "models/marts/usage/old_mart.sql", "select 1 as n")
    monkeypatch.setattr("fleetlake.marts.marks.project_folder", lambda: package)
    monkeypatch.chdir(tmp_path)
    with open_lake(Path(shutil.copytree(empty_lake, tmp_path / "lake"))) as lake:
        lake.execute("attach ':memory:' as build; create schema build.marts")
        for database in ("lake", "build"):
            lake.execute(f"create table {database}.marts.old_mart as select 1 as n")
        drop_marts_without_model(lake.connection)
        (package / "models/marts/usage/old_mart.sql").unlink()

        assert drop_marts_without_model(lake.connection) == ("old_mart",)


def test_a_mart_and_its_columns_are_described_in_the_lake_and_only_once(empty_lake, tmp_path):
    with open_lake(Path(shutil.copytree(empty_lake, tmp_path / "lake"))) as lake:
        lake.execute("attach ':memory:' as build; create schema build.marts")
        for database in ("lake", "build"):
            lake.execute(f"create table {database}.marts.trips as select 1 as trip_id, 2 as other")
        drop_marts_without_model(lake.connection)
        snapshots = "select max(snapshot_id) from lake.snapshots()"
        before = lake.rows(snapshots)

        drop_marts_without_model(lake.connection)

        about, meanings = mart_meanings()["trips"]
        of_trips = "where database_name = 'lake' and table_name = 'trips'"
        assert lake.rows(f"select comment from duckdb_tables() {of_trips}") == [
            (f"{about}\nbuilt by fleetlake",)
        ]
        assert lake.rows(f"select comment from duckdb_columns() {of_trips}") == [
            (meanings["trip_id"],),
            (None,),
        ]
        assert lake.rows(snapshots) == before


@pytest.fixture(scope="module")
def own_build(
    make_lake: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Path]]:
    """Build a new project with a lake below it; return both. The tests stand in the project."""
    folder = tmp_path_factory.mktemp("own") / "fleet"
    list(write_project(folder))
    write(folder, "sql/models/worn.sql", WORN)
    write(folder, "sql/models/staging/stg_mine.sql", "select * from {{ ref('stg_routers') }}")
    write(folder, "sql/models/marts/plans.sql", "select * from {{ ref('carrier_plans') }}")
    plans = "carrier,price_per_gb,monthly_cap_gb\n*,77,5\n"
    write(folder, "sql/seeds/carrier_plans.csv", plans)
    counted = "{{ config(materialized='incremental') }} select 7 as n"
    write(folder, "sql/models/counted.sql", counted)
    write(folder, "sql/seeds/depots.csv", "depot\nnorth\n")
    write(folder, "sql/models/depot_names.sql", "select depot from {{ ref('depots') }}")
    write(folder, "fleetlake.toml", "[vars]\nbattery_worn_pct = 61.5\nmine = 2\n")
    write(folder, "endpoints/sites.toml", SITES)
    write(folder, "sql/models/sites.sql", "select count(*) as n from {{ ref('stg_sites') }}")
    lake = make_lake(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        forget_own()
        with open_lake(lake) as opened:
            opened.execute(
                'insert into raw.sites (id, "order", valid_to) values (1, 2, null), (2, 3, now())'
            )
        build_marts(lake)
        yield folder, lake


@pytest.mark.release
def test_own_models_are_built_beside_ours(own_build):
    _, path = own_build

    with open_lake(path, read_only=True) as lake:
        own = lake.rows("select count(*), sum(episodes) from marts.failovers_by_router")
        ours = lake.rows("select count(distinct router_id), count(*) from marts.failover_episodes")
        staged = lake.rows("select count(*) from staging.stg_mine")
        routers = lake.rows("select count(*) from staging.stg_routers")
        depots = lake.rows("select depot from marts.depot_names")
        counted = lake.rows("select n from marts.counted")
        sites = lake.rows("select n from marts.sites")

    assert own == ours
    assert ours[0][1] > 0
    assert staged == routers
    assert depots == [("north",)]
    assert counted == [(7,)]
    assert sites == [(1,)]


@pytest.mark.release
def test_variables_and_seeds_of_the_project_replace_ours(own_build):
    _, path = own_build

    with open_lake(path, read_only=True) as lake:
        assert lake.rows("select * from marts.worn") == [(61.5, 2)]
        assert lake.rows("select * from marts.plans") == [("*", 77.0, 5.0)]
        [(priced, wrong)] = lake.rows(
            "select count(cost), count(*) filter (abs(cost - backup_bytes / 1e9 * 77) > 0.001)"
            " from marts.failover_episodes"
        )
    assert priced > 0
    assert wrong == 0


@pytest.mark.release
def test_own_marts_are_published_exported_and_described(own_build, tmp_path):
    _, path = own_build

    publish(path, tmp_path / "published")
    with open_lake(path, read_only=True) as lake:
        sent = export(
            lake, TARGETS["parquet"], SecretStr(str(tmp_path / "out")), ["failovers_by_router"]
        )
        [(rows,)] = lake.rows("select count(*) from marts.failovers_by_router")
    page = write_docs(path).read_text()

    with duckdb.connect(str(tmp_path / "published/fleet.duckdb"), read_only=True) as published:
        assert published.execute("select count(*) from failovers_by_router").fetchall() == [(rows,)]
    assert [outcome.sent for outcome in sent] == [rows]
    assert "How often, and for how long, each router was away" in page
    assert "sql/models/failovers_by_router.sql" in page


@pytest.mark.release
def test_an_own_incremental_mart_needs_no_unit(own_build):
    _, path = own_build

    build_marts(path, select="counted")  # the project is unchanged: the row is appended once more

    with open_lake(path, read_only=True) as lake:
        assert lake.rows("select n from marts.counted") == [(7,), (7,)]


@pytest.mark.release
def test_an_own_test_that_fails_keeps_the_last_good_marts(own_build):
    folder, path = own_build
    write(folder, "sql/tests/bad.sql", "select router_id from {{ ref('failovers_by_router') }}")
    try:
        with pytest.raises(BuildFailed, match=r"bad on failovers_by_router: \d+ bad rows"):
            build_marts(path, select="failovers_by_router")
    finally:
        (folder / "sql/tests/bad.sql").unlink()

    with open_lake(path, read_only=True) as lake:
        assert lake.rows("select count(*) > 0 from marts.failovers_by_router") == [(True,)]


@pytest.mark.release
def test_a_removed_model_is_told_by_the_build_and_by_the_next_publication(
    own_build, tmp_path, monkeypatch
):
    folder, path = own_build
    with open_lake(path) as lake:
        lake.execute("create table marts.by_hand as select 1 as n")
    monkeypatch.setenv("FLEETLAKE_LAKE", str(path))
    publish(path, tmp_path / "published")
    (folder / "sql/models/worn.sql").unlink()
    (folder / "fleetlake.toml").write_text("")  # one of its variables is used nowhere else

    built = CliRunner().invoke(app, ["build"])
    done = CliRunner().invoke(app, ["publish", "--to", str(tmp_path / "published")])

    assert "Dropped from the lake, because their models were removed: worn." in built.output
    assert "No longer published: worn." in done.output
    assert not (tmp_path / "published/worn").exists()
    assert (tmp_path / "published/by_hand").exists()
    assert (tmp_path / "published/failovers_by_router").exists()
