"""The lake: commits are atomic, each record is stored once, and every version is kept."""

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock, Timeout

from fleetlake.decoding.arrow import read_page, schema_of
from fleetlake.decoding.records import RejectedRecord
from fleetlake.decoding.timeuuid import smallest_at
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.model import Endpoint, Mode
from fleetlake.errors import CommitUnknown, LakeError, StreamBusy
from fleetlake.lake import Lake, attach, catalog, durable, open_lake
from fleetlake.lake import commit as commits
from fleetlake.lake.attach import CATALOG, UNCHECKED, attach_statements
from fleetlake.lake.connection import stoppable
from fleetlake.lake.ducklake import METADATA, add_statistics
from fleetlake.lake.durable import flush_files
from fleetlake.lake.loads import Committed, Whole
from fleetlake.lake.locks import commit_lock, stream_lock
from fleetlake.lake.tables import ROW_GROUP_ROWS, raw_columns
from fleetlake.lake.watermarks import WHOLE_STREAM, proven_intervals, stream_marks
from fleetlake.planning.intervals import BEGINNING, Interval
from tests.support.cases import every_sort, every_table
from tests.support.loads import NOON, Load, commit, load_of_rows

HOUR = timedelta(hours=1)
ALERTS = ENDPOINTS["alerts"]  # append
FAILOVERS = ENDPOINTS["failovers"]  # upsert
GROUPS = ENDPOINTS["groups"]  # history
NET_DEVICES = ENDPOINTS["net_devices"]  # history with columns that are not tracked


@pytest.fixture(scope="module")
def shared(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Return one lake for tests that each use a different table."""
    path = tmp_path_factory.mktemp("shared") / "lake"
    with open_lake(Path(shutil.copytree(empty_lake, path))) as opened:
        yield opened


@pytest.fixture
def lake(lake_path: Path) -> Iterator[Lake]:
    with open_lake(lake_path) as opened:
        yield opened


def rows_of(endpoint: Endpoint, records: list[dict[str, Any]]) -> pa.Table:
    """Return each list of records as one batch, like a page."""
    is_v2 = endpoint.path.endswith("/")
    rest = {"meta": {"limit": 1, "next": None}} if is_v2 else {"links": {}}
    pages = [read_page(endpoint, json.dumps({"data": [r], **rest}).encode()) for r in records]
    return pa.Table.from_batches([page.rows for page in pages], schema=schema_of(endpoint))


def load_of(endpoint: Endpoint, *records: dict[str, Any], **changes: Any) -> Load:
    return load_of_rows(endpoint, rows_of(endpoint, list(records)), **changes)


def alert(minute: int, **members: Any) -> dict[str, Any]:
    moment = NOON + timedelta(minutes=minute)
    return {
        "created_at": moment.isoformat(),
        "created_at_timeuuid": smallest_at(moment),
        **members,
    }


def failover(uuid: str, **members: Any) -> dict[str, Any]:
    return {"uuid": uuid, "started_at": NOON.isoformat(), **members}


def count(lake: Lake, table: str) -> int:
    return lake.rows(f"select count(*) from {table}")[0][0]


def everything(lake: Lake) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that a commit of alerts could change, and the lake's own count of changes."""
    tables = ["raw.alerts", *(f"meta.{name}" for name in ("loads", "intervals", "quarantine"))]
    content = {table: lake.rows(f"select * from {table} order by all") for table in tables}
    return {**content, "changes": lake.rows("select max(snapshot_id) from lake.snapshots()")}


def versions(lake: Lake, endpoint: Endpoint, *columns: str) -> list[tuple[Any, ...]]:
    listed = ", ".join([*columns, "valid_from", "valid_to"])
    return lake.rows(f"select {listed} from raw.{endpoint.name} order by id, valid_from")


# --- tables ---------------------------------------------------------------------------------


@every_table
def test_every_endpoint_has_its_raw_table_with_its_columns_and_types(shared, endpoint):
    found = shared.rows(f"describe raw.{endpoint.name}")

    assert {name: kind for name, kind, *_ in found} == raw_columns(endpoint)
    assert ("valid_from" in raw_columns(endpoint)) == (endpoint.mode is Mode.HISTORY)


CATALOG_TABLES = f"{METADATA}.ducklake"


def statistics_of(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    """Return what the catalog says about a table of `raw` and each of its columns."""
    return lake.rows(
        f"select t.* exclude table_id, c.* exclude (table_id, column_id), o.column_name "
        f"from {CATALOG_TABLES}_table_stats t join {CATALOG_TABLES}_table_column_stats c using "
        f"(table_id) join {CATALOG_TABLES}_column o using (table_id, column_id) "
        f"join {CATALOG_TABLES}_table n using (table_id) where table_name = ? order by column_name",
        [table],
    )


def test_an_empty_table_has_the_statistics_that_ducklake_leaves_when_its_rows_are_gone(lake):
    lake.execute("create table raw.emptied as from raw.net_device_signal_samples limit 0")
    with lake.transaction():
        lake.execute("insert into raw.emptied default values; delete from raw.emptied")

    left = statistics_of(lake, "emptied")

    assert len(left) == len(raw_columns(ENDPOINTS["net_device_signal_samples"]))
    assert statistics_of(lake, "net_device_signal_samples") == left


def test_tables_of_users_get_no_statistics_because_another_process_may_be_filling_them(lake):
    lake.execute("create schema mine; create table mine.own (n integer)")

    add_statistics(lake)

    assert statistics_of(lake, "own") == []


def test_opening_again_changes_nothing(lake_path):
    with open_lake(lake_path) as lake:
        before = lake.rows("select max(snapshot_id) from lake.snapshots()")
    with open_lake(lake_path) as lake:
        assert lake.rows("select max(snapshot_id) from lake.snapshots()") == before


def test_a_column_added_to_the_table_later_is_created_and_rows_stay(lake_path):
    with open_lake(lake_path) as lake:
        commit(lake, load_of(ALERTS, alert(0, type="t", friendly_info="gone")))
        lake.execute("alter table raw.alerts drop column friendly_info")
        lake.execute("alter table meta.calls drop column finished_at")
    with open_lake(lake_path) as lake:
        commit(lake, load_of(ALERTS, alert(1, type="t", friendly_info="back")))

        infos = lake.rows("select friendly_info from raw.alerts order by created_at")
        assert infos == [(None,), ("back",)]
        assert count(lake, "meta.calls where finished_at is null") == 0


def test_a_size_of_row_groups_that_a_user_has_set_is_kept(lake_path):
    row_groups = "from lake.options() where option_name = 'parquet_row_group_size'"
    with open_lake(lake_path) as lake:
        assert lake.rows(f"select value {row_groups}") == [(str(ROW_GROUP_ROWS),)]
        lake.execute("call lake.set_option('parquet_row_group_size', 20480)")
        lake.execute("drop table meta.calls")
    with open_lake(lake_path) as lake:
        assert lake.rows(f"select value {row_groups}") == [("20480",)]
        assert count(lake, "meta.calls") == 0


def test_a_file_is_written_in_row_groups_of_the_size_of_the_lake(lake_path):
    rows = f"range({ROW_GROUP_ROWS + 1}) t(i)"
    with open_lake(lake_path, threads=1) as lake:
        lake.execute(f"insert into raw.alerts (info) select i from {rows}")

    [written] = (lake_path / "files" / "raw" / "alerts").glob("*.parquet")
    groups = pq.ParquetFile(written).metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [
        ROW_GROUP_ROWS,
        1,
    ]


def test_a_column_added_by_a_user_is_kept(lake_path):
    with open_lake(lake_path) as lake:
        lake.execute("alter table raw.alerts add column note varchar")
        commit(lake, load_of(ALERTS, alert(0)))

        assert lake.rows("select note from raw.alerts") == [(None,)]


@pytest.mark.usefixtures("abroad")
def test_times_are_utc_in_any_time_zone_of_the_machine(lake_path):
    with open_lake(lake_path) as lake:
        commit(lake, load_of(ALERTS, alert(0)))
        [(text,)] = lake.rows("select created_at::varchar from raw.alerts")

    assert text == "2026-06-15 12:00:00+00"


# --- opening --------------------------------------------------------------------------------


def test_reading_does_not_create_a_missing_lake(tmp_path):
    path = tmp_path / "none"

    with pytest.raises(LakeError, match="no lake") as failure, open_lake(path, read_only=True):
        pass

    assert "fleetlake ingest" in failure.value.remedy
    assert not path.exists()


@pytest.mark.parametrize("has_schemas", [False, True])
def test_a_reader_of_a_lake_that_is_just_being_created_is_told_so(tmp_path, has_schemas):
    (tmp_path / "files").mkdir()
    (tmp_path / CATALOG).touch()
    if has_schemas:
        with duckdb.connect(config=UNCHECKED) as creating:
            creating.execute(attach_statements(tmp_path))

    with (
        pytest.raises(LakeError, match="has no tables yet") as failure,
        open_lake(tmp_path, read_only=True) as lake,
    ):
        lake.rows("from meta.loads")

    assert "run again in a moment" in failure.value.remedy


@pytest.mark.parametrize("read_only", [True, False])
def test_a_corrupt_catalog_is_a_clear_error(lake_path, read_only):
    for file in lake_path.glob(f"{CATALOG}*"):
        file.unlink()
    (lake_path / CATALOG).write_bytes(b"garbage " * 1000)

    with (
        pytest.raises(LakeError, match="not a database") as failure,
        open_lake(lake_path, read_only=read_only),
    ):
        pass

    assert "fleetlake check" in failure.value.remedy


@pytest.mark.parametrize("name", ["it's a lake", 'a "b"; c[d]#e%20f* ü'])
def test_a_lake_folder_may_have_any_name(empty_lake, tmp_path, name):
    path = Path(shutil.copytree(empty_lake, tmp_path / name))
    with open_lake(path) as lake:
        commit(lake, load_of(ALERTS, *(alert(minute) for minute in range(50))))
    with open_lake(path, read_only=True) as lake:
        assert count(lake, "raw.alerts") == 50

    assert [child.name for child in tmp_path.iterdir()] == [name]


def test_a_lake_may_be_moved(empty_lake, tmp_path):
    old = Path(shutil.copytree(empty_lake, tmp_path / "old"))
    with open_lake(old) as lake:
        commit(lake, load_of(ALERTS, *(alert(minute) for minute in range(50))))
    new = old.rename(tmp_path / "new")

    with open_lake(new) as lake:
        commit(lake, load_of(ALERTS, alert(100)))

        assert count(lake, "raw.alerts") == 51
    assert not old.exists()


def test_a_reader_cannot_write(lake_path):
    with open_lake(lake_path, read_only=True) as lake, pytest.raises((LakeError, duckdb.Error)):
        lake.execute("delete from meta.loads")


def test_a_reader_sees_what_was_committed_while_it_was_open(lake_path):
    with open_lake(lake_path) as writer, open_lake(lake_path, read_only=True) as reader:
        assert count(reader, "raw.alerts") == 0
        commit(writer, load_of(ALERTS, alert(0)))

        assert count(reader, "raw.alerts") == 1


def test_no_progress_bar_is_drawn_even_where_duckdb_would_draw_one(lake_path):
    with closing(duckdb.connect(config=UNCHECKED)) as connection:
        # Its default in a notebook and with `python -c`.
        connection.execute("set enable_progress_bar = true")
        lake = Lake(lake_path, connection)
        lake.attach(read_only=True)

        assert lake.rows("select current_setting('enable_progress_bar')") == [(False,)]


def test_a_lake_opened_with_few_threads_returns_memory_to_the_system_early(lake_path):
    said = "select current_setting('threads'), current_setting('allocator_flush_threshold')"
    with open_lake(lake_path, threads=2) as few, open_lake(lake_path) as usual:
        [(threads, early)], [(_, late)] = few.rows(said), usual.rows(said)

    assert threads == 2
    assert (early, late) == ("7.6 MiB", "128.0 MiB")


def test_more_rows_get_more_threads_up_to_one_per_core(lake, monkeypatch):
    said = "select current_setting('threads')"
    [(cores,)] = duckdb.connect().execute(said).fetchall()
    commit(lake, load_of(ALERTS, *map(alert, range(10))))
    for rows_of_a_thread, threads in ((6, 1), (5, 2), (1, 10)):
        monkeypatch.setattr(attach, "_ROWS_OF_A_THREAD", rows_of_a_thread)

        with open_lake(lake.path, read_only=True) as opened:
            assert opened.rows(said) == [(min(cores, threads),)]


@pytest.mark.parametrize("times", [1, 300], ids=["few rows", "many rows"])
def test_sql_reads_an_arrow_table_unchanged(lake, times):
    moment = datetime(2026, 6, 15, 12, 0, 0, 1, tzinfo=UTC)
    documents = ['{"b":1,"a":[]}', '"x"', "0", None]
    odd = ["", "null", "a'b\0c\U0001f600", None]
    table = pa.table(
        {
            "text": pa.array(odd * times, pa.string()),
            "id": pa.array([-(2**63), 2**63 - 1, 0, None] * times, pa.int64()),
            "real": pa.array([5e-324, -1.5, 0.1, None] * times, pa.float64()),
            "flag": pa.array([True, False, None, None] * times, pa.bool_()),
            "none": pa.array([None] * 4 * times, pa.string()),
            "at": pa.array([BEGINNING, moment, moment, None] * times, pa.timestamp("us", tz="UTC")),
            "json": pa.ExtensionArray.from_storage(
                pa.json_(), pa.array(documents * times, pa.string())
            ),
        }
    )

    with lake.view("given", table):
        found = lake.rows("select * from given")
        [types] = lake.rows("select typeof(columns(*)) from given limit 1")

    assert found == list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert types == (
        "VARCHAR",
        "BIGINT",
        "DOUBLE",
        "BOOLEAN",
        "VARCHAR",
        "TIMESTAMP WITH TIME ZONE",
        "JSON",
    )
    with pytest.raises(LakeError, match="given"):
        lake.rows("select * from given")


ALONE = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0).execute("pragma journal_mode = delete")
except sqlite3.OperationalError:
    sys.exit("locked")
"""


def gets_catalog_alone(lake_path: Path) -> bool:
    """Return whether a process can lock all others out, as the last to close the catalog does."""
    run = [sys.executable, "-c", ALONE, lake_path / CATALOG]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.stderr in {"", "locked\n"}
    return done.returncode == 0


def test_readers_can_always_open_the_catalog_while_the_lake_is_open(lake_path):
    with ExitStack() as open_until_here:
        with open_lake(lake_path) as writer:
            writer.execute("create table marts.trips as select 1 as trip_id")
            assert not gets_catalog_alone(lake_path)
            reader = open_until_here.enter_context(open_lake(lake_path, read_only=True))
        assert reader.rows("from marts.trips") == [(1,)]
        assert not gets_catalog_alone(lake_path)
    assert gets_catalog_alone(lake_path)


def test_one_process_at_a_time_opens_or_closes_a_catalog(lake_path, monkeypatch):
    held_lock = FileLock(lake_path / "locks" / "door.lock", timeout=0)

    def attach(lake: Lake, *, read_only: bool) -> None:
        with pytest.raises(Timeout):
            held_lock.acquire()
        own(lake, read_only=read_only)

    own = Lake.attach
    monkeypatch.setattr(Lake, "attach", attach)
    with open_lake(lake_path, read_only=True) as lake:
        with held_lock:
            assert lake.rows("select count(*) from meta.loads")
        held = []
        monkeypatch.setattr(
            catalog,
            "open_lock",
            lambda path: closing(SimpleNamespace(close=lambda: held.append(path))),
        )
    assert held == [lake_path]


def test_a_user_without_write_access_to_the_folder_can_read_the_lake(lake_path):
    held_lock = lake_path / "locks" / "door.lock"
    held_lock.unlink(missing_ok=True)
    held_lock.mkdir()  # nobody, not even root, can open it as a file

    with open_lake(lake_path, read_only=True) as lake:
        assert lake.rows("select count(*) from meta.loads") == [(0,)]


def test_a_catalog_restored_without_its_log_can_be_read_at_once(lake_path):
    assert gets_catalog_alone(lake_path)  # and has no log from now on

    with open_lake(lake_path, read_only=True) as lake:
        assert lake.rows("select count(*) from raw.alerts") == [(0,)]


def test_several_processes_can_open_a_new_lake_at_once(tmp_path):
    failures: list[BaseException] = []
    together = threading.Barrier(3)

    def make() -> None:
        together.wait()
        try:
            with open_lake(tmp_path / "lake") as lake:
                count(lake, "meta.loads")
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


# --- commits --------------------------------------------------------------------------------


def full_load(**changes: Any) -> Load:
    hour = Interval(NOON, NOON + HOUR)
    changes = {
        "proven": {WHOLE_STREAM: [hour]},
        "rejects": [RejectedRecord("odd", "{}")],
        **changes,
    }
    return load_of(ALERTS, alert(0), alert(1), **changes)


def test_a_commit_writes_rows_misfits_ranges_watermark_and_load_record_together(lake):
    load = full_load()

    committed = commit(lake, load)

    assert committed == Committed(added=2, changed=0, quarantined=1)
    assert lake.rows("select account_profile, _load_id from raw.alerts") == 2 * [
        ("default", load.attempt.load_id)
    ]
    assert lake.rows("select endpoint, reason, raw, load_id from meta.quarantine") == [
        ("alerts", "odd", "{}", load.attempt.load_id)
    ]
    assert proven_intervals(lake, "default", ALERTS) == {
        WHOLE_STREAM: [Interval(NOON, NOON + HOUR)]
    }
    assert stream_marks(lake)["default"]["alerts"].newest == NOON + timedelta(minutes=1)
    assert lake.rows(
        "select load_id, run_id, endpoint, records, rows_added, rows_changed, quarantined "
        "from meta.loads"
    ) == [(load.attempt.load_id, "run", "alerts", 3, 2, 0, 1)]


class Crash(BaseException):
    """An error that no code expects."""


def test_rows_are_on_the_disk_before_the_catalog_names_their_file(lake, monkeypatch):
    seen = []

    def look(lake_path: Path) -> None:
        with open_lake(lake_path, read_only=True) as reader:
            [(visible,)] = reader.rows("select count(*) from raw.alerts")
        files = list((lake_path / "files" / "raw" / "alerts").rglob("*.parquet"))
        seen.append((len(files), visible))
        flush_files(lake_path)

    monkeypatch.setattr("fleetlake.lake.connection.flush_files", look)

    commit(lake, load_of(ALERTS, *(alert(number) for number in range(500))))

    assert seen == [(1, 0)]


def test_a_failed_disk_flush_fails_the_commit(lake, monkeypatch):
    def refuse(descriptor: int) -> int:
        assert os.fstat(descriptor).st_ino == lake.path.stat().st_ino
        ctypes.set_errno(errno.EIO)
        return -1

    before = everything(lake)
    monkeypatch.setattr(durable, "_libc", SimpleNamespace(syncfs=refuse))

    with pytest.raises(LakeError, match="could not be written to its disk: Input/output error"):
        commit(lake, full_load())

    assert everything(lake) == before


@pytest.mark.parametrize(
    ("step", "error"),
    [
        pytest.param("write_rows", ValueError("a bug"), marks=pytest.mark.proof),
        pytest.param("add_intervals", Crash("now"), marks=pytest.mark.proof),
        ("set_watermarks", LakeError("the disk is full")),
    ],
)
def test_a_commit_that_fails_midway_leaves_nothing_behind(lake, monkeypatch, step, error):
    commit(lake, full_load())
    before = everything(lake)

    def fail(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(commits, step, fail)
        with pytest.raises(type(error)):
            commit(
                lake,
                load_of(
                    ALERTS,
                    alert(7),
                    rejects=[RejectedRecord("new", "[]")],
                    proven={WHOLE_STREAM: [Interval(NOON + 5 * HOUR, NOON + 6 * HOUR)]},
                ),
            )

    assert everything(lake) == before
    assert commit(lake, load_of(ALERTS, alert(7))).added == 1


def test_a_load_requested_twice_is_committed_once(lake):
    load = full_load()
    first = commit(lake, load)
    before = everything(lake)

    assert commit(lake, load) == first
    assert everything(lake) == before


@contextmanager
def losing_the_answer(lake: Lake, *, answers_after: bool) -> Iterator[None]:
    """Let a lake commit and then report a failure."""
    execute, rows = lake.execute, lake.rows
    has_failed = False

    def failing_execute(sql: str, parameters: object = None) -> Any:
        nonlocal has_failed
        done = execute(sql, parameters)
        if sql == "commit":
            has_failed = True
            raise LakeError("the connection was lost")
        return done

    def failing_rows(sql: str, parameters: object = None) -> Any:
        if has_failed and not answers_after:
            raise LakeError("the catalog does not answer")
        return rows(sql, parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lake, "execute", failing_execute)
        patch.setattr(lake, "rows", failing_rows)
        yield


def test_a_commit_that_succeeded_despite_an_error_counts_as_done(lake):
    with losing_the_answer(lake, answers_after=True):
        committed = commit(lake, full_load())

    assert committed == Committed(2, 0, 1)
    assert count(lake, "raw.alerts") == 2


def test_a_commit_with_an_unknown_outcome_raises_and_a_retry_settles_it(lake):
    load = full_load()

    with losing_the_answer(lake, answers_after=False), pytest.raises(CommitUnknown) as unknown:
        commit(lake, load)

    assert load.attempt.load_id in unknown.value.what
    assert commit(lake, load) == Committed(2, 0, 1)
    assert count(lake, "raw.alerts") == 2
    assert count(lake, "meta.loads") == 1


def test_an_empty_load_moves_no_watermark_back(lake):
    commit(lake, full_load())

    commit(lake, load_of(ALERTS))
    commit(lake, load_of(ALERTS, alert(-500)))

    assert stream_marks(lake)["default"]["alerts"].newest == NOON + timedelta(minutes=1)
    assert count(lake, "meta.watermarks") == 1


def test_proven_ranges_join_by_partition_and_by_profile(lake):
    def prove(partition: str, start: int, end: int, profile: str = "default") -> None:
        proven = {partition: [Interval(NOON + start * HOUR, NOON + end * HOUR)]}
        commit(lake, load_of(ALERTS, proven=proven, profile=profile))

    prove("1", 0, 1)
    prove("2", 0, 1)
    prove("1", 3, 4)
    prove("1", 1, 2)
    prove("1", 9, 10, profile="other")

    assert proven_intervals(lake, "default", ALERTS) == {
        "1": [Interval(NOON, NOON + 2 * HOUR), Interval(NOON + 3 * HOUR, NOON + 4 * HOUR)],
        "2": [Interval(NOON, NOON + HOUR)],
    }
    assert list(proven_intervals(lake, "other", ALERTS)) == ["1"]


def test_a_range_from_the_beginning_is_read_back_unchanged(lake):
    commit(lake, load_of(ALERTS, proven={"": [Interval(BEGINNING, NOON)]}))

    [interval] = proven_intervals(lake, "default", ALERTS)[""]
    assert interval.is_open


def test_a_misfit_is_stored_once_however_often_it_is_received(lake):
    twice = [
        RejectedRecord("odd", '{"a":1}'),
        RejectedRecord("odd", '{"a":1}'),
        RejectedRecord("odd", '{"a":2}'),
    ]

    first = commit(lake, load_of(ALERTS, rejects=twice))
    again = commit(lake, load_of(ALERTS, rejects=twice))
    elsewhere = commit(lake, load_of(FAILOVERS, rejects=twice[:1]))

    assert (first.quarantined, again.quarantined, elsewhere.quarantined) == (2, 0, 1)
    assert count(lake, "meta.quarantine") == 3


def test_misfits_of_a_stream_that_differ_only_by_time_are_two_and_by_host_are_one(lake):
    raws = [
        f'{{"url":"https://{host}/x/1/","at":"2026-01-0{day}T00:00:00Z"}}'
        for host, day in (("a.test", 1), ("b.test", 1), ("a.test", 2))
    ]

    for raw in raws:
        commit(lake, load_of(ALERTS, rejects=[RejectedRecord("odd", raw)]))

    found = lake.rows("select raw, times_seen from meta.quarantine order by raw")
    assert found == [(raws[0], 2), (raws[2], 1)]


# --- append ---------------------------------------------------------------------------------


def test_a_record_received_twice_in_one_or_two_batches_is_stored_once(lake):
    first = commit(lake, load_of(ALERTS, alert(0), alert(1), alert(0)))
    again = commit(lake, load_of(ALERTS, alert(1), alert(2), alert(2)))

    assert (first.added, again.added) == (2, 1)
    assert count(lake, "raw.alerts") == 3


def test_records_of_one_instant_are_distinguished_by_key(lake):
    same = alert(0)
    other = {**same, "created_at_timeuuid": same["created_at_timeuuid"][:-1] + "1"}

    assert commit(lake, load_of(ALERTS, same, other)).added == 2


def test_both_columns_of_a_composite_key_count(lake):
    endpoint = ENDPOINTS["net_device_usage_samples"]
    samples = [{**alert(0), "net_device": f"/net_devices/{number}/"} for number in (1, 2, 1)]

    assert commit(lake, load_of(endpoint, *samples)).added == 2
    assert commit(lake, load_of(endpoint, *samples)).added == 0


# --- upsert ---------------------------------------------------------------------------------


def test_a_changed_record_is_overwritten_and_an_unchanged_one_is_left_alone(lake):
    commit(lake, load_of(FAILOVERS, failover("a"), failover("b", elapsed_time=1)))
    end = (NOON + HOUR).isoformat()

    done = commit(
        lake, load_of(FAILOVERS, failover("a", ended_at=end), failover("b", elapsed_time=1))
    )

    assert (done.added, done.changed) == (0, 1)
    assert lake.rows("select uuid, ended_at from raw.failovers order by 1") == [
        ("a", NOON + HOUR),
        ("b", None),
    ]


@pytest.mark.parametrize("is_known", [True, False])
def test_the_last_of_two_readings_in_one_batch_counts(lake, is_known):
    if is_known:
        commit(lake, load_of(FAILOVERS, failover("a", elapsed_time=0)))
    readings = [failover("a", elapsed_time=number) for number in range(1, 40)]

    done = commit(lake, load_of(FAILOVERS, *readings))

    assert lake.rows("select elapsed_time from raw.failovers") == [(39.0,)]
    assert (done.added, done.changed) == ((0, 1) if is_known else (1, 0))


def test_an_unknown_member_alone_is_a_change(lake):
    commit(lake, load_of(FAILOVERS, failover("a")))

    assert commit(lake, load_of(FAILOVERS, failover("a", new_member=1))).changed == 1
    assert lake.rows("select _extra->>'new_member' from raw.failovers") == [("1",)]


# --- history --------------------------------------------------------------------------------


@pytest.fixture
def snapshot(lake: Lake) -> Callable[..., Committed]:
    """Return a function that commits a whole list an hour after the previous one."""
    hours = iter(range(100))

    def commit_list(endpoint: Endpoint, *records: dict[str, Any], **changes: Any) -> Committed:
        changes = {"seen_at": NOON + next(hours) * HOUR, "whole": Whole(), **changes}
        return commit(lake, load_of(endpoint, *records, **changes))

    return commit_list


def test_a_change_closes_a_version_and_opens_another(lake, snapshot):
    snapshot(GROUPS, {"id": "1", "name": "old"}, {"id": "2", "name": "same"})

    done = snapshot(GROUPS, {"id": "1", "name": "new"}, {"id": "2", "name": "same"})

    assert (done.added, done.changed) == (1, 1)
    assert versions(lake, GROUPS, "id", "name") == [
        (1, "old", NOON, NOON + HOUR),
        (1, "new", NOON + HOUR, None),
        (2, "same", NOON, None),
    ]


def test_a_change_to_or_from_null_is_a_change(lake, snapshot):
    snapshot(GROUPS, {"id": "1", "name": "a"})
    snapshot(GROUPS, {"id": "1", "name": None})
    snapshot(GROUPS, {"id": "1", "name": "a"})

    assert [row[0] for row in versions(lake, GROUPS, "name")] == ["a", None, "a"]


@pytest.mark.parametrize("member", ["configuration", "unknown"])
def test_reordered_members_are_not_a_change_but_reordered_list_items_are(lake, snapshot, member):
    def load(value: Any) -> Committed:
        return snapshot(GROUPS, {"id": "1", "name": "a", member: value}, {"id": "2"})

    load([{"z": 1, "a": {"y": 1, "x": [1, 2]}}])
    before = lake.rows("select * from raw.groups order by id")

    assert load([{"a": {"x": [1, 2], "y": 1}, "z": 1}]) == Committed(0, 0, 0)
    assert lake.rows("select * from raw.groups order by id") == before
    assert load([{"a": {"x": [2, 1], "y": 1}, "z": 1}]) == Committed(1, 1, 0)


def test_reordered_members_do_not_change_an_overwritten_record(lake):
    done = [
        commit(lake, load_of(FAILOVERS, failover("a", new=new)))
        for new in ({"z": 1, "a": 2}, {"a": 2, "z": 1}, {"a": 3, "z": 1})
    ]

    assert [(one.added, one.changed) for one in done] == [(1, 0), (0, 0), (0, 1)]


@pytest.mark.parametrize(
    ("endpoint", "members"),
    [
        (GROUPS, {"configuration": [{"a": {"self": "https://HOST/api/v2/groups/1/"}}, []]}),
        (GROUPS, {"unknown": {"more": ["https://HOST/api/v3/beta/things/1?page=2"]}}),
        (ENDPOINTS["firmwares"], {"url": "https://HOST/api/v2/firmwares/1/file"}),
        (ENDPOINTS["asset_endpoints"], {"links": {"self": "https://HOST/api/v3/beta/a/1"}}),
        (ENDPOINTS["asset_endpoints"], {"links": {"related": "https://HOST/api/v3/beta/a/1"}}),
    ],
    ids=["nested", "unknown member", "text", "own address in v3", "other address in v3"],
)
def test_another_host_in_the_urls_of_the_service_is_not_a_change_but_another_path_is(
    lake, snapshot, endpoint, members
):
    def load(host: str, path: str = "api") -> Committed:
        sent = json.loads(json.dumps(members).replace("HOST", host).replace("/api/", f"/{path}/"))
        return snapshot(endpoint, {"id": "1", **sent}, {"id": "2"})

    load("us0.svc.example")
    before = lake.rows(f"select * from raw.{endpoint.name} order by id")

    assert load("eu4.svc.example:8443") == Committed(0, 0, 0)
    assert lake.rows(f"select * from raw.{endpoint.name} order by id") == before
    if "self" not in members.get("links", {}):  # an address alone is not content
        assert load("us0.svc.example", path="app") == Committed(1, 1, 0)


def test_another_host_in_an_overwritten_record_is_not_a_change(lake):
    done = [
        commit(lake, load_of(FAILOVERS, failover("a", link=f"https://{host}/api/v2/x/{n}/")))
        for host, n in (("us0.svc.example", 1), ("svc.example", 1), ("svc.example", 2))
    ]

    assert [(one.added, one.changed) for one in done] == [(1, 0), (0, 0), (0, 1)]


@pytest.mark.parametrize("path", ["push", "api/v2/alerts/"])
def test_another_host_of_a_push_destination_is_a_change(snapshot, path):
    endpoint = ENDPOINTS["alert_push_destinations"]
    one = {"destination_config_id": smallest_at(NOON)}
    snapshot(endpoint, {**one, "endpoint": {"url": f"https://a.example/{path}"}})

    done = snapshot(endpoint, {**one, "endpoint": {"url": f"https://b.example/{path}"}})

    assert (done.added, done.changed) == (1, 1)


SITE = "https://us0.svc.example/api"
MANAGER = {"configuration_manager": f"{SITE}/v2/routers/1/configuration_manager/"}
BINDING = {"overlay_network_binding": f"{SITE}/v2/overlay_network_bindings/5/"}
LINKS = {"links": {"self": f"{SITE}/v3/beta/asset_endpoints/1"}}


@pytest.mark.parametrize(
    ("endpoint", "members", "emptied", "dropped"),
    [
        (ENDPOINTS["routers"], MANAGER, "configuration_manager_id", None),
        (ENDPOINTS["routers"], BINDING, None, "overlay_network_binding"),
        (ENDPOINTS["asset_endpoints"], LINKS, None, "links.self"),
    ],
    ids=["relation", "new relation", "own address"],
)
def test_urls_that_an_earlier_release_kept_as_unknown_members_start_no_versions(
    lake_path, endpoint, members, emptied, dropped
):
    table = f"raw.{endpoint.name}"
    with open_lake(lake_path) as lake:
        commit(lake, load_of(endpoint, {"id": "1", **members}, whole=Whole()))
        [after] = lake.rows(f"select * exclude (_loaded_at) from {table}")
        lake.execute(f"update {table} set _extra = ?", [json.dumps(members)])
        lake.execute(
            "insert into meta.schema_drift by name select 'default' as account_profile, "
            "? as endpoint, ? as member",
            [endpoint.name, *members],
        )
        if emptied:
            lake.execute(f"update {table} set {emptied} = null")
        for column in [c for c in endpoint.columns if c.field == dropped]:
            lake.execute(f"alter table {table} drop column {column.name}")
            lake.execute("delete from meta.columns where member = ?", [dropped])

    with open_lake(lake_path) as lake:
        later = {"whole": Whole(), "run_id": "later", "seen_at": NOON + HOUR}
        done = commit(lake, load_of(endpoint, {"id": "1", **members}, **later))

        assert (done.added, done.changed) == (0, 0)
        names = ", ".join(f'"{name}"' for name in raw_columns(endpoint) if name != "_loaded_at")
        assert lake.rows(f"select {names} from {table}") == [after]


def test_a_change_in_untracked_columns_alone_makes_no_version(lake, snapshot):
    device = {"id": "1", "name": "modem", "uptime": 1, "updated_at": NOON.isoformat()}
    snapshot(NET_DEVICES, device)
    later = {**device, "uptime": 3601, "updated_at": (NOON + HOUR).isoformat()}

    assert snapshot(NET_DEVICES, later) == Committed(0, 0, 0)
    assert snapshot(NET_DEVICES, {**later, "name": "renamed"}) == Committed(1, 1, 0)
    assert [row[:2] for row in versions(lake, NET_DEVICES, "name", "uptime")] == [
        ("modem", 1),
        ("renamed", 3601),
    ]


@pytest.mark.parametrize(
    ("endpoint", "spellings"),
    [
        (NET_DEVICES, [{"updated_at": at} for at in (1781524800, None, NOON.isoformat(), "soon")]),
        (NET_DEVICES, [{"uptime": sent} for sent in ("3 h", "4 h", 14400, {"h": 4})]),
        (ENDPOINTS["routers"], [{"configuration_manager": sent} for sent in ("own", "none", {})]),
    ],
    ids=["epochs", "texts", "relations"],
)
def test_a_value_that_an_untracked_column_cannot_hold_makes_no_version(
    lake, snapshot, endpoint, spellings
):
    first, *later, last = ({"id": "1", **sent} for sent in spellings)
    snapshot(endpoint, {**first, "unknown": {"z": 1, "a": "https://a.example/api/v2/x/1/"}})
    for sent in later:
        moved = {**sent, "unknown": {"a": "https://b.example/api/v2/x/1/", "z": 1}}
        assert snapshot(endpoint, moved) == Committed(0, 0, 0)

    changed = snapshot(endpoint, {**last, "unknown": {"z": 2}})

    assert (changed.added, changed.changed) == (1, 1)
    assert len(versions(lake, endpoint, "id")) == 2


def test_a_changed_record_has_the_value_sent_last_that_an_untracked_column_cannot_hold(
    lake, snapshot
):
    snapshot(NET_DEVICES, {"id": "1", "name": "modem", "updated_at": 1781524800})
    snapshot(NET_DEVICES, {"id": "1", "name": "renamed", "updated_at": 1781528400})

    assert [row[:2] for row in versions(lake, NET_DEVICES, "name", "_extra")] == [
        ("modem", '{"updated_at":1781524800}'),
        ("renamed", '{"updated_at":1781528400}'),
    ]


def test_a_missing_record_is_closed_and_a_reappearing_one_opens_a_new_version(lake, snapshot):
    snapshot(GROUPS, {"id": "1", "name": "a"}, {"id": "2"})
    gone = snapshot(GROUPS, {"id": "2"})
    back = snapshot(GROUPS, {"id": "1", "name": "a"}, {"id": "2"})

    assert (gone.changed, back.added) == (1, 1)
    assert versions(lake, GROUPS, "id")[:2] == [
        (1, NOON, NOON + HOUR),
        (1, NOON + 2 * HOUR, None),
    ]


def test_an_empty_list_closes_every_version(lake, snapshot):
    snapshot(GROUPS, {"id": "1"}, {"id": "2"})

    assert snapshot(GROUPS).changed == 2
    assert count(lake, "raw.groups where valid_to is null") == 0


def test_an_incomplete_list_closes_no_missing_records(lake, snapshot):
    snapshot(GROUPS, {"id": "1"}, {"id": "2"})

    snapshot(GROUPS, {"id": "2"}, whole=None)

    assert count(lake, "raw.groups where valid_to is null") == 2


def test_records_read_with_other_keys_are_not_closed(lake, snapshot):
    snapshot(GROUPS, {"id": "1"}, profile="one")

    snapshot(GROUPS, {"id": "2"}, profile="another")

    assert count(lake, "raw.groups where valid_to is null") == 2


def groups_of_two_accounts(snapshot: Callable[..., Committed]) -> tuple[Committed, Committed]:
    """Load a group that one account sees with its settings, and another without."""
    first = snapshot(GROUPS, {"id": "1", "name": "a", "configuration": {"x": 1}}, profile="one")
    return first, snapshot(GROUPS, {"id": "1", "name": "a"}, profile="another")


def test_a_record_that_two_accounts_see_differently_is_stored_as_the_first_sees_it(lake, snapshot):
    loads = [done for _ in range(3) for done in groups_of_two_accounts(snapshot)]
    snapshot(GROUPS, {"id": "1", "name": "b", "configuration": {"x": 1}}, profile="one")

    assert loads == [Committed(1, 0, 0)] + [Committed(0, 0, 0)] * 5
    assert versions(lake, GROUPS, "name", "account_profile", "configuration") == [
        ("a", "one", '{"x":1}', NOON, NOON + 6 * HOUR),
        ("b", "one", '{"x":1}', NOON + 6 * HOUR, None),
    ]


def last_read(lake: Lake, ago: timedelta) -> None:
    """Set when the first account last read its records; it has just read another table."""
    commit(lake, load_of(ALERTS, alert(0), profile="one"))
    lake.execute(
        "update meta.watermarks set updated_at = now() - ?::interval "
        "where account_profile = 'one' and endpoint <> 'alerts'",
        [ago],
    )


@pytest.mark.parametrize(
    ("happens", "owner"),
    [
        pytest.param(
            lambda _, snapshot: snapshot(GROUPS, profile="one"), "another", id="no longer sees it"
        ),
        pytest.param(
            lambda lake, _: last_read(lake, timedelta(days=2)), "another", id="no longer reads"
        ),
        pytest.param(
            lambda lake, _: last_read(lake, timedelta(days=1, hours=23)), "one", id="rests"
        ),
    ],
)
def test_another_account_takes_over_a_record_once_its_own(lake, snapshot, happens, owner):
    groups_of_two_accounts(snapshot)
    happens(lake, snapshot)
    snapshot(GROUPS, {"id": "1", "name": "b"}, profile="another")

    current = "select name, account_profile from raw.groups where valid_to is null"
    assert lake.rows(current) == [({"one": "a", "another": "b"}[owner], owner)]


def test_another_account_takes_over_an_overwritten_record_once_its_own_stops_reading(lake):
    commit(lake, load_of(FAILOVERS, failover("a", elapsed_time=1), profile="one"))
    last_read(lake, timedelta(days=2))

    commit(lake, load_of(FAILOVERS, failover("a", elapsed_time=2), profile="another"))

    assert lake.rows("select elapsed_time, account_profile from raw.failovers") == [
        (2.0, "another")
    ]


def test_an_overwritten_record_that_two_accounts_see_differently_is_stored_as_the_first_sees_it(
    lake,
):
    def load(profile: str, **members: Any) -> int:
        return commit(lake, load_of(FAILOVERS, failover("a", **members), profile=profile)).changed

    load("one", elapsed_time=1)

    assert [load("another"), load("one", elapsed_time=1), load("one", elapsed_time=2)] == [0, 0, 1]
    assert lake.rows("select elapsed_time, account_profile from raw.failovers") == [(2.0, "one")]


def test_a_record_read_twice_in_one_list_has_one_version(lake, snapshot):
    snapshot(GROUPS, {"id": "1", "name": "first"}, {"id": "1", "name": "last"})

    assert versions(lake, GROUPS, "name") == [("last", NOON, None)]


@every_sort
def test_loading_the_same_records_again_changes_nothing_for_any_kind_of_endpoint(shared, endpoint):
    record: dict[str, Any] = {}
    for column in endpoint.columns:
        inner = record
        for parent in column.path[:-1]:
            inner = inner.setdefault(parent, {})
        inner[column.path[-1]] = {
            "TIMESTAMP WITH TIME ZONE": NOON.isoformat(),
            "BIGINT": 7,
            "DOUBLE": 7.5,
            "BOOLEAN": True,
            "JSON": {"b": [1.0, None], "a": "é"},
        }.get(column.sql_type, smallest_at(NOON))
    whole = Whole() if endpoint.is_snapshot else None
    load = load_of(endpoint, record, whole=whole)
    again = load_of(endpoint, record, whole=whole, seen_at=NOON + HOUR)

    assert commit(shared, load).added == 1
    assert commit(shared, again) == Committed(0, 0, 0)
    assert count(shared, f"raw.{endpoint.name}") == 1


# --- locks ----------------------------------------------------------------------------------


def test_only_one_process_at_a_time_loads_a_stream(tmp_path):
    with stream_lock(tmp_path, "alerts"):
        with pytest.raises(StreamBusy, match="alerts"), stream_lock(tmp_path, "alerts"):
            pass
        with stream_lock(tmp_path, "routers"):
            pass

    with stream_lock(tmp_path, "alerts"):
        pass


def test_waiting_for_the_catalog_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr("fleetlake.lake.locks.COMMIT_LOCK_SECONDS", 0)

    with (
        commit_lock(tmp_path),
        pytest.raises(LakeError, match="held the catalog"),
        commit_lock(tmp_path),
    ):
        pass


def test_an_exception_from_a_signal_handler_during_a_query_reaches_the_caller(lake):
    class Told(BaseException):
        """Like Prefect's handler for SIGTERM."""

    def tell(*_: object) -> None:
        raise Told

    before = signal.signal(signal.SIGUSR1, tell)
    timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGUSR1])
    timer.start()
    try:
        with pytest.raises(Told):
            lake.rows("select sum(hash(i)) from range(100000000000) as t (i)")  # for a minute
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)
    assert lake.rows("select 1") == [(1,)]


@pytest.mark.parametrize(("cause", "stops"), [(KeyboardInterrupt(), 1), (ValueError(), 0)])
def test_stopping_the_caller_of_a_query_stops_the_query_in_duckdb_too(cause, stops):
    stopped = []
    connection = SimpleNamespace(interrupt=lambda: stopped.append("query"))

    with pytest.raises(type(cause) if stops else RuntimeError), stoppable(connection):
        raise RuntimeError("Query interrupted") from cause

    assert len(stopped) == stops


def test_concurrent_writers_lose_and_duplicate_nothing(lake_path):
    failures: list[BaseException] = []

    def write(start: int) -> None:
        try:
            with open_lake(lake_path) as lake:
                for minute in range(start, start + 6):
                    commit(lake, load_of(ALERTS, alert(minute), alert(minute + 1)))
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            failures.append(error)

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    with open_lake(lake_path, read_only=True) as lake:
        assert count(lake, "raw.alerts") == 10
        assert count(lake, "(select distinct created_at_timeuuid from raw.alerts)") == 10
        assert count(lake, "meta.loads") == 12
