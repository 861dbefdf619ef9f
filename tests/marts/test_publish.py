"""Published snapshots: plain files, complete, switched in one step."""

import json
import os
import shutil
from datetime import UTC, date, datetime
from errno import ENOSPC
from importlib import import_module
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset as ds
from pyarrow import parquet as pq
from typer.testing import CliRunner

import fleetlake
from fleetlake.cli import app
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError, UsageError
from fleetlake.lake import open_lake
from fleetlake.marts.catalogue import mart_dates, mart_meanings, marts
from fleetlake.publishing import publish as publish_module
from fleetlake.publishing.layout import layout_of
from fleetlake.publishing.publish import publish
from fleetlake.text.quoting import exact, literal


@pytest.fixture(scope="module")
def two_marts(empty_lake, tmp_path_factory) -> Path:
    path = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("two") / "lake"))
    with open_lake(path) as opened:
        opened.execute("create table marts.trips as select 1 as trip_id, now() as started_at")
        opened.execute("create table marts.stops (stop_id bigint)")
    return path


@pytest.fixture
def lake(two_marts, tmp_path) -> Path:
    return Path(shutil.copytree(two_marts, tmp_path / "lake"))


@pytest.fixture
def published(tmp_path) -> Path:
    return tmp_path / "data" / "published"


def add_trip(lake: Path) -> None:
    with open_lake(lake) as opened:
        opened.execute("insert into marts.trips values (2, now())")


def test_plain_duckdb_reads_the_views_without_any_extension(lake, published):
    publish(lake, published)

    with duckdb.connect(
        published / "fleet.duckdb",
        read_only=True,
        config={"autoload_known_extensions": False, "autoinstall_known_extensions": False},
    ) as reader:
        assert reader.execute("select trip_id from trips").fetchall() == [(1,)]
        assert reader.execute("select count(*) from stops").fetchall() == [(0,)]


def test_a_snapshot_moved_to_another_folder_is_read_there(lake, published, tmp_path, monkeypatch):
    publish(lake, published)
    moved = Path(shutil.copytree(published.resolve(), tmp_path / "[moved] it's"))
    shutil.rmtree(published.parent)
    monkeypatch.chdir(tmp_path)

    with fleetlake.open(moved, published=True) as fleet:
        assert fleet.sql("select trip_id from marts.trips").pl()["trip_id"].to_list() == [1]
    with duckdb.connect(moved / "fleet.duckdb", read_only=True) as reader:
        reader.execute(f"set variable fleet_folder = {literal(exact(moved))}")
        assert reader.execute("select trip_id from trips").fetchall() == [(1,)]


def test_published_views_and_files_say_what_they_hold(lake, published):
    publish(lake, published, raw=["routers"])

    with duckdb.connect(published / "fleet.duckdb", read_only=True) as reader:
        views = reader.execute("select view_name, comment from duckdb_views() where not internal")
        about = dict(views.fetchall())
        columns = reader.execute("select table_name, column_name, comment from duckdb_columns()")
        meanings = {(table, column): comment for table, column, comment in columns.fetchall()}
    metadata = pq.read_metadata(next((published / "trips").glob("*.parquet"))).metadata
    described, of_columns = mart_meanings()["trips"]
    assert about["trips"] == metadata[b"description"].decode() == described
    assert about["raw_routers"] == ENDPOINTS["routers"].about
    assert meanings["trips", "started_at"] == of_columns["started_at"]
    assert json.loads(metadata[b"columns"]) == {
        name: of_columns[name] for name in ("trip_id", "started_at")
    }
    assert "MAC address" in meanings["raw_routers", "mac"]


def test_polars_reads_the_parquet_with_times_in_utc(lake, published):
    publish(lake, published)

    trips = pl.read_parquet(published / "trips" / "*.parquet")
    assert trips["trip_id"].to_list() == [1]
    assert trips.schema["started_at"] == pl.Datetime("us", "UTC")


def test_a_reader_of_the_old_snapshot_keeps_its_rows_while_a_new_one_is_published(lake, published):
    publish(lake, published)
    with duckdb.connect(published / "fleet.duckdb", read_only=True) as reader:
        add_trip(lake)
        publish(lake, published)

        assert reader.execute("select count(*) from trips").fetchall() == [(1,)]
    assert pl.read_parquet(published / "trips" / "*.parquet").height == 2


def test_two_snapshots_are_kept_and_older_ones_are_deleted(lake, published):
    for _ in range(4):
        publish(lake, published)

    folders = [p for p in (published.parent / ".published").iterdir() if p.is_dir()]
    assert len(folders) == 2
    assert published.resolve() == max(folders)


def test_an_unchanged_table_is_linked_and_a_changed_table_is_written(lake, published):
    publish(lake, published)
    add_trip(lake)
    second = publish(lake, published)

    assert second.reused == {"stops"}
    assert second.rows == {"trips": 2, "stops": 0}


def test_a_table_that_no_commit_changed_is_linked_unread(lake, published, monkeypatch):
    publish(lake, published)
    add_trip(lake)
    read = []
    monkeypatch.setattr(
        publish_module, "layout_of", lambda *a, **k: read.append(a[2]) or layout_of(*a, **k)
    )

    again = publish(lake, published)

    assert (read, again.reused) == (["trips"], {"stops"})
    assert again.rows == {"stops": 0, "trips": 2}


def test_another_lake_with_as_many_commits_is_not_taken_for_the_one_published(
    lake, two_marts, published, tmp_path
):
    other = Path(shutil.copytree(two_marts, tmp_path / "other"))
    add_trip(lake)
    with open_lake(other) as opened:
        opened.execute("insert into marts.stops values (7)")
    publish(lake, published)

    publish(other, published)

    assert pl.read_parquet(published / "trips" / "*.parquet").height == 1
    assert pl.read_parquet(published / "stops" / "*.parquet")["stop_id"].to_list() == [7]


def test_an_interrupted_publish_leaves_the_old_snapshot(lake, published, monkeypatch):
    publish(lake, published)
    before = published.resolve()

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(publish_module, "switch", stop)
    with pytest.raises(KeyboardInterrupt):
        publish(lake, published)

    assert published.resolve() == before
    monkeypatch.undo()
    publish(lake, published)
    assert len([p for p in (published.parent / ".published").iterdir() if p.is_dir()]) == 2


def test_the_description_has_rows_columns_and_the_watermark_of_each_stream(lake, published):
    with open_lake(lake) as opened:
        opened.execute(
            "insert into meta.watermarks by name select 'default' as account_profile, "
            "'alerts' as endpoint, ?::timestamptz as watermark_at, now() as updated_at",
            [datetime(2026, 11, 1, tzinfo=UTC)],
        )
    publish(lake, published)

    described = json.loads((published / "snapshot.json").read_text())
    assert described["tables"]["trips"]["rows"] == 1
    assert described["tables"]["stops"]["columns"] == [{"name": "stop_id", "type": "BIGINT"}]
    assert described["watermarks"][0]["watermark_at"] == "2026-11-01T00:00:00+00:00"


def test_the_description_lists_the_ranges_that_expired_before_they_were_read(lake, published):
    with open_lake(lake) as opened:
        opened.execute(
            "insert into meta.gaps (endpoint, partition, start_at, end_at) values "
            "('activity_logs', '', timestamptz '2026-01-01 00:00:00Z', "
            "timestamptz '2026-01-02 00:00:00Z')"
        )
    publish(lake, published)

    [gap] = json.loads((published / "snapshot.json").read_text())["gaps"]
    assert (gap["endpoint"], gap["end_at"]) == ("activity_logs", "2026-01-02T00:00:00+00:00")


def test_requested_raw_tables_are_published_sorted_by_key_with_the_marts(lake, published):
    with open_lake(lake) as opened:
        opened.execute(
            "insert into raw.alerts by name select 9 - i as created_at_timeuuid from range(10) r(i)"
        )
    publish(lake, published, raw=["alerts"])

    with duckdb.connect(published / "fleet.duckdb", read_only=True) as reader:
        found = reader.execute("select created_at_timeuuid from raw_alerts").fetchall()
    assert found == [(str(number),) for number in range(10)]
    with pytest.raises(UsageError):
        publish(lake, published, raw=["nothing"])


def test_sums_of_integers_stay_integers_and_rows_are_sorted_by_key(lake, published):
    with open_lake(lake) as opened:
        opened.execute(
            "create table marts.data_usage_daily as select (9 - i % 10) as net_device_id, "
            "date '2026-01-01' as usage_date, sum(9007199254740993) as total_bytes "
            "from range(100) r(i) group by all"
        )
    publish(lake, published)

    usage = pl.read_parquet(published / "data_usage_daily" / "*.parquet")
    assert usage["net_device_id"].to_list() == list(range(10))
    assert usage["total_bytes"].to_list() == [90071992547409930] * 10


DAYS, ROUTERS = 4, 50


@pytest.fixture(scope="module")
def all_drives(empty_lake, tmp_path_factory) -> Path:
    """Return a lake with 50 trips a day, for reading only."""
    path = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("drives") / "lake"))
    with open_lake(path) as opened:
        opened.execute(
            "create table marts.trips as select 9007199254740993 + d as trip_id, r as router_id, "
            "date '2026-01-01' + d::int as trip_date, '  ' || r as driver, "
            "timestamptz '2026-01-01 08:00:00Z' + to_days(d::int) as started_at, "
            f"if(r % 7 = 0, null, r / 3) as speed from range({DAYS}) d(d), range({ROUTERS}) r(r)"
        )
    return path


@pytest.fixture
def drives(all_drives, tmp_path) -> Path:
    """Return a separate lake with 50 trips a day."""
    return Path(shutil.copytree(all_drives, tmp_path / "lake"))


@pytest.fixture(scope="module")
def cut_and_whole(all_drives, tmp_path_factory) -> tuple[Path, Path]:
    """Publish the same trips in both layouts, for reading only."""
    folder = tmp_path_factory.mktemp("layouts")
    cut, whole = folder / "cut", folder / "whole"
    publish(all_drives, cut, day_rows=ROUTERS)
    publish(all_drives, whole, day_rows=ROUTERS + 1)
    return cut, whole


def test_a_mart_with_enough_rows_per_day_is_partitioned_by_date_and_sorted_within(cut_and_whole):
    cut, whole = cut_and_whole

    days = sorted((cut / "trips").iterdir())
    assert [day.name for day in days] == [f"trip_date=2026-01-0{n}" for n in range(1, DAYS + 1)]
    assert [file.suffix for file in (whole / "trips").iterdir()] == [".parquet"]
    described = json.loads((cut / "snapshot.json").read_text())["tables"]["trips"]
    assert (described["partitioned_by"], described["rows"]) == ("trip_date", DAYS * ROUTERS)
    for day in days:
        routers = pl.read_parquet(day / "*.parquet", hive_partitioning=False)["router_id"]
        assert routers.to_list() == list(range(ROUTERS))


def test_the_days_of_a_large_mart_are_written_one_at_a_time(lake_path, published):
    days, rows = 200, 1_200_000  # more than DuckDB keeps open or in memory at once
    with open_lake(lake_path) as opened:
        opened.execute(
            "create table marts.trips as select i as trip_id, i // 200 as router_id, "
            f"date '2026-01-01' + (i % {days})::int as trip_date from range({rows}) r(i)"
        )

    publish(lake_path, published, day_rows=1)

    assert days <= len([*(published / "trips").glob("*/*.parquet")]) < 1.2 * days


def of_duckdb(published: Path) -> list[tuple[object, ...]]:
    with duckdb.connect(published / "fleet.duckdb", read_only=True) as reader:
        kinds = reader.execute("describe trips").fetchall()
        return [*kinds, *reader.execute("from trips order by all").fetchall()]


def of_polars(published: Path) -> pl.DataFrame:
    return pl.read_parquet(published / "trips" / "**" / "*.parquet").sort("trip_id", "router_id")


def test_both_layouts_read_the_same_in_duckdb_and_polars(cut_and_whole):
    cut, whole = cut_and_whole

    assert of_duckdb(cut) == of_duckdb(whole)
    assert of_polars(cut).equals(of_polars(whole))
    assert of_polars(cut).schema == of_polars(whole).schema
    assert of_polars(cut).height == DAYS * ROUTERS


@pytest.mark.pandas
def test_both_layouts_read_the_same_in_pandas(cut_and_whole):
    pd = import_module("pandas")

    cut, whole = (
        pd.read_parquet(published / "trips", partitioning=None).sort_values(
            ["trip_id", "router_id"], ignore_index=True
        )
        for published in cut_and_whole
    )

    pd.testing.assert_frame_equal(cut, whole)
    assert len(cut) == DAYS * ROUTERS


BY_DAY = ds.partitioning(pa.schema([("trip_date", pa.date32())]), flavor="hive")


def test_a_day_of_a_partitioned_mart_is_one_file_to_duckdb_polars_and_arrow(one_day):
    cut, day = one_day

    with duckdb.connect(cut / "fleet.duckdb", read_only=True) as reader:
        found = reader.execute("select count(*) from trips where trip_date = ?", [day])
        assert found.fetchone() == (ROUTERS,)
    lazy = pl.scan_parquet(cut / "trips", hive_partitioning=True)
    assert lazy.filter(pl.col("trip_date") == day).collect().height == ROUTERS
    files = ds.dataset(cut / "trips", partitioning=BY_DAY)
    assert files.count_rows(filter=ds.field("trip_date") == day) == ROUTERS


@pytest.mark.pandas
def test_a_day_of_a_partitioned_mart_is_one_file_to_pandas(one_day):
    pd = import_module("pandas")

    cut, day = one_day
    only = [("trip_date", "=", day)]
    assert len(pd.read_parquet(cut / "trips", partitioning=BY_DAY, filters=only)) == ROUTERS


@pytest.fixture
def one_day(all_drives, tmp_path):
    """Return a partitioned snapshot of which only the files of one day can be read, and the day."""
    cut = tmp_path / "cut"
    publish(all_drives, cut, day_rows=ROUTERS)
    spoil(cut, keep="2026-01-01")
    return cut, date(2026, 1, 1)


def spoil(published: Path, *, keep: str) -> None:
    """Make every file but one day's unreadable."""
    for file in (published / "trips").glob("*/*.parquet"):
        if keep not in file.parent.name:
            file.write_bytes(b"spoilt")


@pytest.mark.proof
def test_a_mart_is_partitioned_once_its_days_have_grown_and_linked_if_unchanged(drives, published):
    publish(drives, published, day_rows=ROUTERS + 1)
    with open_lake(drives) as opened:
        opened.execute("insert into marts.trips from marts.trips")
    grown = publish(drives, published, day_rows=ROUTERS + 1)
    again = publish(drives, published, day_rows=ROUTERS + 1)

    assert (grown.reused, again.reused) == (frozenset(), {"trips"})
    assert len([*(published / "trips").glob("trip_date=*/*.parquet")]) == DAYS
    assert len(of_duckdb(published)) == 2 * DAYS * ROUTERS + 6


def test_a_mart_is_rewritten_if_only_the_setting_has_changed(drives, published):
    publish(drives, published, day_rows=ROUTERS)

    whole = publish(drives, published, day_rows=0)

    assert whole.reused == frozenset()
    assert [file.suffix for file in (published / "trips").iterdir()] == [".parquet"]


@pytest.mark.parametrize(
    ("change", "day_rows"),
    [("update marts.trips set trip_date = null where router_id = 1", 1), ("select 1", 0)],
)
def test_a_mart_without_a_day_or_with_partitioning_off_is_not_partitioned(
    drives, published, change, day_rows
):
    with open_lake(drives) as opened:
        opened.execute(change)
    publish(drives, published, day_rows=day_rows)

    assert [file.suffix for file in (published / "trips").iterdir()] == [".parquet"]


@pytest.mark.proof
@pytest.mark.parametrize("day_rows", [ROUTERS, ROUTERS + 1], ids=["cut", "whole"])
def test_a_parent_folder_that_looks_like_a_partition_adds_no_column(drives, tmp_path, day_rows):
    publish(drives, tmp_path / "plain", day_rows=day_rows)
    publish(drives, tmp_path / "env=prod" / "published", day_rows=day_rows)

    assert of_duckdb(tmp_path / "env=prod" / "published") == of_duckdb(tmp_path / "plain")


@pytest.mark.parametrize(("day_rows", "days"), [(ROUTERS, DAYS), (ROUTERS + 1, 0)])
def test_the_command_partitions_by_date_as_the_setting_says(
    drives, published, monkeypatch, day_rows, days
):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(drives))
    monkeypatch.setenv("FLEETLAKE_PUBLISHED_DAY_ROWS", str(day_rows))

    done = CliRunner().invoke(app, ["publish", "--to", str(published)])

    assert done.exit_code == 0, done.output
    assert len([*(published / "trips").glob("trip_date=*")]) == days


def test_the_partition_column_of_a_mart_is_one_of_its_columns_and_a_date():
    kinds = {m["name"]: {c["name"]: c["data_type"] for c in m["columns"]} for m in marts()}

    assert mart_dates()
    assert {kinds[mart][column] for mart, column in mart_dates().items()} == {"date"}


def test_a_lake_without_marts_says_what_to_do(lake_path, published):
    with pytest.raises(LakeError, match="fleetlake build"):
        publish(lake_path, published)


def test_a_folder_that_fleetlake_did_not_publish_is_not_touched(lake, published):
    published.mkdir(parents=True)
    (published / "mine.txt").write_text("mine")

    with pytest.raises(LakeError, match="already exists"):
        publish(lake, published)

    assert (published / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["afile/published", "/proc/published"])
def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(lake, tmp_path, name):
    (tmp_path / "afile").touch()

    with pytest.raises(LakeError, match="Cannot write to") as refused:
        publish(lake, tmp_path / name)

    assert str(tmp_path / name) in refused.value.what
    assert "FLEETLAKE_PUBLISHED or --to" in refused.value.remedy
    assert refused.value.exit_code == 7


def test_a_disk_that_is_full_is_an_error_and_the_old_snapshot_stays(lake, published, monkeypatch):
    publish(lake, published)
    before = published.resolve()

    def full(*_: object, **__: object) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(LakeError, match="No space left") as refused:
        publish(lake, published)

    assert "Free some space" in refused.value.remedy
    assert published.resolve() == before


RANGES = [  # stream, device, proven from, until, in hours of November
    ("logs", "1", 0, 72),
    ("logs", "2", 0, 30),
    ("logs", "2", 36, 72),
    ("fixes", "", 12, 60),
]


def test_the_description_says_of_each_stream_and_day_how_complete_it_is(lake, published):
    start = "timestamptz '2026-11-01 00:00:00Z' + to_hours(?)"
    with open_lake(lake) as opened:
        for stream, device, since, until in RANGES:
            opened.execute(
                "insert into meta.intervals (account_profile, endpoint, partition, start_at, "
                f"end_at) values ('default', ?, ?, {start}, {start})",
                [stream, device, since, until],
            )
        opened.execute(
            "insert into meta.gaps (account_profile, endpoint, partition, start_at, end_at) "
            "values ('default', 'logs', '1', timestamptz '2026-11-03 01:00:00Z', "
            "timestamptz '2026-11-03 02:30:00Z')"
        )
    publish(lake, published)

    told = json.loads((published / "snapshot.json").read_text())["completeness"]
    shown = {
        (row["endpoint"], row["complete_date"]): (
            row["state"],
            row["proven_pct"],
            row["hole_s"],
            row["lost_s"],
        )
        for row in told
    }
    assert shown == {
        ("logs", "2026-11-01"): ("proven", 100, 0, 0),
        ("logs", "2026-11-02"): ("hole", 87.5, 6 * 3600, 0),
        ("logs", "2026-11-03"): ("lost", 100, 0, 1.5 * 3600),
        ("fixes", "2026-11-01"): ("in part", 50, 0, 0),
        ("fixes", "2026-11-02"): ("proven", 100, 0, 0),
        ("fixes", "2026-11-03"): ("in part", 50, 0, 0),
    }


def test_the_description_counts_the_calls_of_each_stream_and_day(lake, published):
    with open_lake(lake) as opened:
        for run, calls, hour in (("a", 3, 1), ("b", 4, 23), ("c", 5, 25)):
            opened.execute(
                "insert into meta.calls (run_id, account_profile, endpoint, calls, started_at, "
                "refusals, retries) values (?, 'default', 'logs', ?, "
                "timestamptz '2026-11-01 00:00:00Z' + to_hours(?), 1, 0)",
                [run, calls, hour],
            )
    publish(lake, published, budgets={"west": 0, "default": 500})

    told = json.loads((published / "snapshot.json").read_text())
    assert [(row["call_date"], row["calls"], row["refusals"]) for row in told["calls"]] == [
        ("2026-11-01", 7, 2),
        ("2026-11-02", 5, 1),
    ]
    assert told["budgets"] == [
        {"account_profile": "default", "calls_per_day": 500},
        {"account_profile": "west", "calls_per_day": 0},
    ]
