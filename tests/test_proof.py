"""What an answer rests on, until when that is complete, and why it is not."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fleetlake
from fleetlake.cli import app
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import UsageError
from fleetlake.lake import open_lake
from fleetlake.lake.commit import set_watermarks
from fleetlake.lake.guard import Reads, close_off, tables_read
from fleetlake.lake.watermarks import add_intervals
from fleetlake.monitoring.proof import prove
from fleetlake.planning.intervals import BEGINNING, Interval
from fleetlake.publishing.publish import publish
from tests.support.streams import read_until

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LOADED = ("alerts", "routers", "historical_locations")


@pytest.fixture(scope="module")
def shared(module_lake):
    """Return an open lake of three streams that were loaded an hour ago, for reading."""
    with open_lake(module_lake) as opened:
        for name in LOADED:
            mark = read_until(name, NOW - HOUR)
            set_watermarks(opened, [mark])
        prove_range(opened, "alerts", Interval(BEGINNING, NOW - HOUR))
        prove_range(opened, "historical_locations", Interval(BEGINNING, NOW - HOUR), "1")
        opened.execute("create table marts.own as select 1 as n")
        yield opened


@pytest.fixture
def lake_path(shared, tmp_path, monkeypatch):
    """Return a copy of that lake."""
    monkeypatch.setenv("FLEETLAKE_LAKE", str(tmp_path / "lake"))
    return Path(shutil.copytree(shared.path, tmp_path / "lake"))


@pytest.fixture
def lake(lake_path):
    """Return the copy, open for writing."""
    with open_lake(lake_path) as opened:
        yield opened


def prove_range(lake, name, proven, partition=""):
    add_intervals(lake, "default", ENDPOINTS[name], {partition: [proven]})


def proof_of(lake, *tables):
    return prove(lake, Reads(frozenset(tables)), now=NOW)


READS = {
    "from raw.alerts": {"raw.alerts"},
    'select 1 from LAKE."RAW".Alerts, marts.own': {"raw.alerts", "marts.own"},
    "from current.routers where id in (select 1 from meta.loads)": {"current.routers"},
    "with own as (from raw.users) from own": {"raw.users"},
    "use lake.marts; from own": {"marts.own"},
    "use lake.marts; from lake.own": {"marts.own"},
    "use lake.marts; with own as (from own) from own": {"marts.own"},
    "create temp table t as from raw.alerts; from t": {"raw.alerts"},
    "pivot (from raw.alerts) on type using count(*)": {"raw.alerts"},
    "set variable n = (select count(*) from raw.alerts); select getvariable('n')": {"raw.alerts"},
    "summarize raw.alerts": {"raw.alerts"},
    "select (select count(*) from raw.alerts) union all select n from marts.own": {
        "raw.alerts",
        "marts.own",
    },
    "select 1": set(),
}


@pytest.mark.parametrize("sql", READS)
def test_the_tables_of_a_statement_are_those_that_duckdb_finds(shared, sql):
    found = tables_read(shared, sql).tables

    assert {name for name in found if not name.startswith("meta.")} == READS[sql]


@pytest.mark.parametrize(
    ("sql", "beyond"),
    [
        ("from raw.alerts at (version => 3)", {"at"}),
        ("from lake.table_changes('alerts', 1, 2)", {"table_changes"}),
        ("from read_parquet('x.parquet')", {"read_parquet"}),
        ("from 'x.parquet'", {"x.parquet"}),
        ("from query_table('raw.alerts')", {"query_table"}),
        ("from query('from raw.alerts')", {"query"}),
        ("select estimated_size from duckdb_tables()", {"duckdb_tables"}),
    ],
)
def test_what_no_table_of_now_holds_is_never_called_complete(shared, sql, beyond):
    reads = tables_read(shared, sql)

    assert {one.lower() for one in reads.beyond} == beyond
    assert not prove(shared, reads, now=NOW).is_complete


def test_an_answer_from_complete_streams_says_until_when_on_one_line(shared):
    proof = proof_of(shared, "raw.alerts", "current.routers")

    [line] = proof.lines()
    assert line == (
        f"Complete until 2026-06-15 11:00 UTC (routers, alerts; snapshot {proof.snapshot_id})"
    )
    assert (proof.is_complete, proof.partial_day) == (True, "2026-06-15")


def test_an_answer_that_rests_on_no_stream_says_nothing(shared):
    assert not [*proof_of(shared, "meta.loads").lines()]


def test_a_hole_is_told_with_its_range_and_the_command_that_fills_it(lake):
    prove_range(lake, "alerts", Interval(NOW, NOW + HOUR))

    proof = prove(lake, Reads(frozenset({"raw.alerts"})), now=NOW + 2 * HOUR)

    assert [*proof.lines()][1:] == [
        (
            "- because alerts has 1 hole between 2026-06-15 11:00 and 2026-06-15 12:00: "
            "if no load is running, run `fleetlake ingest alerts`."
        )
    ]
    assert proof_of(lake, "raw.historical_locations").is_complete


@pytest.mark.parametrize("acknowledged", ["null", "now()"])
def test_lost_records_are_told_also_once_they_are_acknowledged(lake, acknowledged):
    lake.execute(
        "insert into meta.gaps values ('default', 'alerts', '', '2026-06-01', '2026-06-02', "
        f"'not read in time', now(), {acknowledged})"
    )

    proof = proof_of(lake, "raw.alerts")

    [reason] = proof.not_complete_because
    assert reason == (
        "alerts lost records that the service deleted unread between 2026-06-01 00:00 and "
        "2026-06-02 00:00: see `fleetlake records gaps`."
    )
    assert proof.as_dict()["gaps"][0]["start_at"] == datetime(2026, 6, 1, tzinfo=UTC)


def test_a_stream_that_was_never_loaded_is_told_with_its_command(shared):
    assert proof_of(shared, "raw.failovers").not_complete_because == (
        "failovers was never loaded: run `fleetlake ingest failovers`.",
    )


def test_quarantined_records_make_an_answer_incomplete(lake):
    lake.execute(
        "insert into meta.quarantine by name select 'alerts' as endpoint, "
        "'default' as account_profile, now() as quarantined_at"
    )

    [reason] = proof_of(lake, "raw.alerts").not_complete_because

    assert reason.startswith("1 record of alerts could not be stored")


def test_a_mart_is_as_complete_as_its_streams_were_when_it_was_built(lake):
    lake.execute(
        "create table marts.pipeline_freshness as select 'default' as account_profile, "
        "'historical_locations' as endpoint, 1 as holes, "
        "'2026-06-15 09:00:00+00'::timestamptz as all_proven_until"
    )

    proof = proof_of(lake, "marts.trips")

    assert proof.complete_until == NOW - 3 * HOUR
    assert "a hole of historical_locations is filled, but not in the marts: run " in str(proof)
    assert proof.notes[0].startswith("the marts lack what was loaded since they were built")
    assert proof_of(lake, "raw.historical_locations").complete_until == NOW - HOUR


def test_what_is_said_of_every_stream_rests_on_every_stream(lake):
    lake.execute(
        "create table marts.pipeline_freshness as select 'default' as account_profile,"
        " 'alerts' as endpoint, 0 as holes,"
        " '2026-06-15 11:00:00+00'::timestamptz as all_proven_until"
    )
    prove_range(lake, "alerts", Interval(NOW, NOW + HOUR))

    proof = proof_of(lake, "marts.pipeline_freshness")

    assert not proof.is_complete
    assert "alerts has 1 hole" in str(proof.not_complete_because)


def test_a_stale_mart_and_one_without_a_model_are_not_called_complete(lake):
    lake.execute("insert into meta.stale_marts values ('trips', '2026-06-14')")

    assert any(
        "trips is stale since 2026-06-14" in r for r in proof_of(lake, "marts.trips").lines()
    )
    assert "no model says what marts.own rests on" in str(proof_of(lake, "marts.own"))


@pytest.mark.usefixtures("lake_path")
def test_query_says_its_proof_on_standard_error_below_a_table_only():
    def asked(*options):
        return CliRunner().invoke(app, ["query", "select count(*) from raw.alerts", *options])

    table, csv, off, both = (
        asked(*options.split())
        for options in ("", "--format csv", "--proof off", "--format csv --proof json")
    )

    header = asked("--format", "csv", "--proof", "header")

    assert table.stderr.startswith("Complete until 2026-06-15 11:00 UTC (alerts; snapshot ")
    assert header.stdout == f"# {table.stderr}{csv.stdout}"
    assert (header.stderr, asked("--proof", "header").exit_code) == ("", 2)
    assert (csv.stderr, off.stderr) == ("", "")
    assert table.stdout == off.stdout
    assert both.stdout == csv.stdout
    told = json.loads(both.stderr)
    assert (told["complete_until"], told["not_complete_because"]) == ("2026-06-15T11:00:00Z", [])


def test_metric_says_its_proof_below_a_table_only(lake):
    lake.execute("create table marts.failover_episodes as select now() as started_at, 1 as id")

    table, csv, header = (
        CliRunner().invoke(app, ["metric", "failovers", "--format", *output.split()])
        for output in ("table", "csv", "csv --proof header")
    )

    assert table.stderr.startswith("Not complete until 2026-06-15 11:00 UTC (")
    assert (csv.stderr, csv.exit_code) == ("", 0)
    assert header.stdout.startswith("# Not complete until 2026-06-15 11:00 UTC (")
    assert header.stdout.endswith(f"\n{csv.stdout}")


def test_a_proof_that_cannot_be_made_does_not_keep_back_the_answer(lake):
    lake.execute("drop table meta.capabilities")

    done = CliRunner().invoke(app, ["query", "select count(*) from raw.alerts"])

    assert done.exit_code == 0
    assert done.stderr.startswith("Not proven: ")


def test_the_proof_can_be_made_where_a_query_may_only_read(lake_path):
    with open_lake(lake_path, read_only=True) as opened:
        close_off(opened)

        assert prove(opened, tables_read(opened, "from raw.alerts"), now=NOW).is_complete


def test_a_frame_has_the_proof_of_its_snapshot(lake, lake_path):
    before = lake.rows("select max(snapshot_time) from lake.snapshots()")[0][0]
    prove_range(lake, "alerts", Interval(NOW - HOUR, NOW))

    with fleetlake.open(lake_path) as opened:
        now = opened.sql("select count(*) from raw.alerts where type = ?", ["x"]).proof
        past = opened.as_of(before).raw.alerts.proof

    assert (now.complete_until, past.complete_until) == (NOW, NOW - HOUR)
    assert past.snapshot_id < now.snapshot_id


def test_a_published_snapshot_refuses_a_proof(lake_path, tmp_path):
    publish(lake_path, tmp_path / "published")

    with fleetlake.open(tmp_path / "published", published=True) as opened:
        own = opened.marts.own
        with pytest.raises(UsageError):
            assert own.proof
