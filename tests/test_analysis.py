"""Reading a lake from Python: tables and queries as frames, time travel, published snapshots."""

import gc
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

import fleetlake
from fleetlake.analysis import frames, polars_scans
from fleetlake.analysis.frames import ROWS_AT_ONCE
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake import open_lake
from fleetlake.publishing.publish import publish

START = datetime(2026, 11, 1, tzinfo=UTC)
MANY = 3 * ROWS_AT_ONCE


@pytest.fixture(scope="module")
def filled(module_lake):
    """Return a lake with a mart of trips and some alerts."""
    with open_lake(module_lake) as opened:
        opened.execute(
            "create table marts.trips as select n as router_id, 'trip ' || n as trip_id,"
            " n / 4.0::double as distance_km, date '2026-11-01' + (n % 3)::int as trip_date,"
            f" '{START:%Y-%m-%d}'::timestamptz + to_minutes(n) as started_at,"
            " case when n % 2 = 0 then 'Red' end as main_carrier,"
            " (n / 10)::float as share, json_object('n', n) as info from range(10) as t(n);"
            f"create table marts.points as select n from range({MANY}) as t(n);"
            "insert into raw.alerts (created_at_timeuuid, type, info)"
            " values ('a', 'reboot', '{\"n\": 1}')"
        )
    return module_lake


@pytest.fixture
def lake(filled):
    with fleetlake.open(filled) as opened:
        yield opened


FILTERS = {
    "an integer": pl.col("router_id") > 7,
    "a number": pl.col("distance_km") <= 0.75,
    "a number of 32 bits": pl.col("share") <= 0.3,
    "a text": pl.col("main_carrier") == "Red",
    "a text with a NUL": pl.col("trip_id") > "trip 6\0",
    "JSON, which is a text in Polars": pl.col("info") >= '{"n":6',
    "null": pl.col("main_carrier").is_null(),
    "a day": pl.col("trip_date") == date(2026, 11, 2),
    "a time": pl.col("started_at") >= START + timedelta(minutes=4),
    "several": (pl.col("router_id") != 4) & (pl.col("main_carrier") == "Red"),
    "what only polars can do": pl.col("trip_id").str.ends_with("3") | (pl.col("router_id") == 1),
}


def test_a_lazy_frame_has_the_rows_that_polars_would_keep(lake):
    everything = pl.DataFrame(lake.marts.trips.arrow())

    for name, condition in FILTERS.items():
        found = lake.marts.trips.pl(lazy=True).filter(condition).collect().sort("router_id")

        assert found.equals(everything.filter(condition).sort("router_id")), name
        assert 0 < found.height < everything.height, name


def test_a_lazy_frame_reads_only_the_columns_and_rows_that_are_needed(lake, monkeypatch):
    seen = []
    kept = polars_scans.split_filter

    def split(predicate):
        seen.append(kept(predicate))
        return seen[-1]

    monkeypatch.setattr(polars_scans, "split_filter", split)
    frame = lake.marts.trips.pl(lazy=True).filter(pl.col("router_id") == 3).select("distance_km")

    assert frame.collect().rows() == [(0.75,)]
    assert [sql for sql, _ in seen] == ['"router_id" = 3']


def test_frames_of_the_same_tables_can_be_joined_and_cut(lake):
    trips = lake.marts.trips.pl(lazy=True)
    early, late = trips.filter(pl.col("router_id") < 6), trips.filter(pl.col("router_id") > 3)

    both = early.join(late, on="router_id").collect()

    assert sorted(both["router_id"]) == [4, 5]
    assert lake.marts.points.pl(lazy=True).head(3).collect().height == 3
    assert trips.sort("distance_km", descending=True).head(1).collect()["router_id"].item() == 9


def test_a_frame_has_its_rows_without_a_collect(lake):
    frame = lake.marts.trips.pl()

    assert isinstance(frame, pl.DataFrame)
    assert frame.equals(lake.marts.trips.pl(lazy=True).collect())


def test_times_are_in_utc(lake):
    assert lake.marts.trips.pl().schema["started_at"] == pl.Datetime("us", "UTC")
    assert lake.marts.trips.pl(lazy=True).collect_schema()["started_at"] == pl.Datetime("us", "UTC")


def test_a_raw_table_and_a_query_are_frames_too(lake):
    assert lake.raw.alerts.pl()["type"].to_list() == ["reboot"]
    query = "select count(*) as n from marts.trips where router_id < ?"
    assert lake.sql(query, [4]).pl().rows() == [(4,)]
    assert lake.sql(query, [4]).pl(lazy=True).collect().rows() == [(4,)]
    assert lake.sql(query, [4]).arrow().to_pylist() == [{"n": 4}]


@pytest.mark.pandas
def test_a_query_is_a_pandas_frame_where_pandas_is_installed(lake):
    query = "select count(*) as n from marts.trips where router_id < ?"
    assert lake.sql(query, [4]).df()["n"].tolist() == [4]


def test_without_pandas_df_says_what_to_use_instead(lake, monkeypatch):
    monkeypatch.setattr(frames, "find_spec", lambda _: None)

    with pytest.raises(UsageError, match=r"pandas is not installed.*`\.pl\(\)`"):
        lake.marts.trips.df()


def test_a_wrong_name_names_the_nearest_table(lake):
    with pytest.raises(AttributeError, match=r"no table marts\.trip\. Did you mean trips\?"):
        _ = lake.marts.trip
    with pytest.raises(AttributeError, match=r"no table marts\.zzz\. It has: points, trips"):
        _ = lake.marts.zzz
    assert not hasattr(lake.marts, "_repr_html_")


def test_schemas_list_their_tables_for_completion(lake):
    assert [*lake.marts] == dir(lake.marts) == ["points", "trips"]
    assert {"alerts", "routers"} <= set(dir(lake.raw))
    assert "marts.trips: Each trip of each vehicle" in repr(lake.marts)


def test_help_on_a_table_gives_the_meaning_and_type_of_each_column(lake):
    text = lake.marts.trips.__doc__

    assert "One row per router and trip." in text
    assert "main_carrier  VARCHAR: Carrier of most fixes of the trip" in text
    assert repr(lake.marts.trips) == text
    assert "JSON: " in lake.raw.alerts.__doc__


def test_only_one_query_is_run(lake):
    for sql in ("drop table marts.trips", "select 1; select 2", "copy (select 1) to 'x.csv'", ""):
        with pytest.raises(UsageError, match="not one query"):
            lake.sql(sql)
    with pytest.raises(UsageError, match=r"DuckDB rejected this query: .*trisp"):
        lake.sql("from marts.trisp")


def test_a_query_that_fails_on_a_late_value_says_so_however_it_is_read(lake):
    failing = lake.sql(f"select sqrt({MANY - 2} - n) as root from marts.points")

    for read in (failing.arrow, lambda: [*failing.batches(1000)], failing.pl(lazy=True).collect):
        with pytest.raises(UsageError, match="DuckDB rejected this query: Out of Range Error"):
            read()


def test_a_file_that_is_damaged_while_batches_are_read_is_an_error_of_the_lake(lake_path):
    with open_lake(lake_path) as opened:
        opened.execute(f"create table marts.points as select n from range({MANY}) as t(n)")

    with fleetlake.open(lake_path) as lake:
        batches = lake.marts.points.batches(1000)
        next(batches)
        for file in lake_path.glob("files/marts/points/*.parquet"):
            os.truncate(file, 100)

        with pytest.raises(LakeError, match="points"):
            list(batches)


def test_the_lake_as_of_a_time_has_the_rows_of_then(lake_path):
    with open_lake(lake_path) as opened:
        opened.execute("create table marts.trips as select 1 as router_id")
        [(between,)] = opened.rows("select max(snapshot_time) from lake.snapshots()")
        opened.execute("insert into marts.trips values (2)")

    with fleetlake.open(lake_path) as lake:
        then = lake.as_of(between)
        assert then.marts.trips.pl(lazy=True).collect().height == 1
        assert then.sql("from marts.trips").arrow().num_rows == 1
        assert lake.marts.trips.pl(lazy=True).collect().height == 2
        with pytest.raises(UsageError, match=r"no snapshot from 1999-01-01 .* oldest one is from"):
            lake.as_of("1999-01-01")
        with pytest.raises(UsageError, match="'soon' is not a time"):
            lake.as_of("soon")


def test_a_load_commits_while_a_frame_is_being_read(lake_path):
    with open_lake(lake_path) as opened:
        opened.execute(f"create table marts.points as select n from range({MANY}) as t(n)")

    with fleetlake.open(lake_path) as lake:
        frame, batches = lake.marts.points.pl(lazy=True), lake.marts.points.batches(1000)
        first = next(batches)
        with open_lake(lake_path) as writer, writer.transaction():
            writer.execute("insert into marts.points values (-1)")
        rest = sum(batch.num_rows for batch in batches)

        assert first.num_rows + rest == MANY
        assert frame.select(pl.len()).collect().item() == MANY + 1


@pytest.mark.proof
def test_a_load_of_the_service_commits_while_a_frame_is_open_and_a_later_read_sees_it(make_sim):
    sim = make_sim(routers=3, days=1)
    sim.ingest("alerts")
    with fleetlake.open(sim.settings().lake) as lake:
        frame, batches = lake.raw.alerts.pl(lazy=True), lake.raw.alerts.batches(10)
        read = [next(batches)]
        before = frame.select(pl.len()).collect().item()
        sim.advance(86_400)

        [outcome] = sim.ingest("alerts")

        read += batches
        assert outcome.added > 0
        assert sum(batch.num_rows for batch in read) == before
        assert frame.select(pl.len()).collect().item() == before + outcome.added


def test_a_published_snapshot_is_read_by_the_same_names(filled, tmp_path):
    publish(filled, tmp_path / "published", raw=["alerts"])

    with fleetlake.open(tmp_path / "published", published=True) as snapshot:
        assert snapshot.marts.trips.pl(lazy=True).collect().height == 10
        assert snapshot.raw.alerts.arrow().num_rows == 1
        assert snapshot.sql("from marts.trips limit 2").arrow().num_rows == 2
        with pytest.raises(UsageError, match="A published snapshot is one moment"):
            snapshot.as_of("2026-11-01")


def test_without_a_lake_or_a_snapshot_an_error_says_what_to_do(tmp_path):
    with pytest.raises(LakeError, match=r"There is no lake in .*fleetlake ingest"):
        fleetlake.open(tmp_path)
    with pytest.raises(LakeError, match=r"no published snapshot in .*fleetlake publish"):
        fleetlake.open(tmp_path, published=True)


def test_a_closed_lake_says_so(filled):
    lake = fleetlake.open(filled)
    frame = lake.marts.trips
    lake.close()

    with pytest.raises(LakeError, match="closed"):
        frame.arrow()


@pytest.mark.proof
def test_a_frame_can_be_read_without_keeping_the_lake_it_came_from(filled):
    frame = fleetlake.open(filled).marts.trips.pl(lazy=True)
    then = fleetlake.open(filled).as_of(datetime.now(UTC)).sql("from marts.trips").pl(lazy=True)
    gc.collect()

    assert frame.collect().height == then.collect().height == 10


@pytest.mark.proof
def test_a_program_that_leaves_a_lake_open_ends_quietly(filled):
    script = f"import fleetlake; lake = fleetlake.open({str(filled)!r}); lake.marts.trips.pl()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == done.stderr == ""
