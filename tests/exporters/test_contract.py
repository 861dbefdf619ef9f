"""What every export target promises, held against each of them."""

import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import adbc_driver_postgresql.dbapi
import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from fleetlake.errors import ExportFailed, FleetlakeError
from fleetlake.exporters import TARGETS, changes
from fleetlake.exporters.export import Exported, export
from fleetlake.lake import Lake, open_lake
from tests.exporters.targets import OPENERS, OpenedTarget, normal
from tests.needs import needs_postgres

TABLE = "coverage_grid"
"""A mart whose key may be null in part: a cell where no carrier was heard."""

EACH = [pytest.param(name, marks=needs_postgres if name == "postgres" else ()) for name in TARGETS]


@pytest.fixture(params=EACH)
def target(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OpenedTarget:
    return OPENERS[request.param](tmp_path / "target", monkeypatch)


@pytest.fixture(scope="module")
def empty_lake(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("mart") / "lake"))
    with open_lake(path) as opened:
        opened.execute(
            f"create table marts.{TABLE} (cell_id varchar, carrier varchar, fixes hugeint, "
            "mean_rsrp_dbm double, is_weak boolean, seen_date date, seen_at timestamptz, "
            "extra json)"
        )
    return path


@pytest.fixture
def lake(lake_path: Path) -> Iterator[Lake]:
    with open_lake(lake_path) as opened:
        yield opened


def fill(lake: Lake, rows: int = 60) -> None:
    """Put ordinary rows into the mart, one in ten without a carrier."""
    lake.execute(
        f"insert into marts.{TABLE} select 'cell ' || i, if(i % 10 = 0, null, 'Telmira'), i, "
        "-80.5, i % 2 = 0, date '2026-11-01', timestamptz '2026-11-01 12:00:00.123456+02:00', "
        f"'{{\"n\": 1}}' from range({rows}) r(i)"
    )


def send(lake: Lake, target: OpenedTarget, **options: object) -> Exported:
    """Export the mart and return what that took."""
    [done] = export(lake, TARGETS[target.name], target.address, [TABLE], **options)
    return done


def held(lake: Lake) -> list[dict[str, object]]:
    """Return the mart's rows."""
    return normal(lake.execute(f"from marts.{TABLE}").to_arrow_table().to_pylist())


def test_nulls_instants_unicode_and_json_arrive_unchanged(lake, target):
    lake.execute(
        f"insert into marts.{TABLE} values "
        "('Zürich 🚚, \"a\"\n\\b''c', '', 0, -1.5e-300, true, '1999-12-31', "
        "'2026-10-25 02:30:00.000001+02:00', '{\"é\": [1, null, \"\\u0000\"]}'), "
        "('none', null, null, null, null, null, null, null)"
    )

    send(lake, target)

    [odd, none] = sorted(normal(target.read(TABLE)), key=lambda row: row["cell_id"] == "none")
    assert odd == {
        "cell_id": 'Zürich 🚚, "a"\n\\b\'c',
        "carrier": "",
        "fixes": 0,
        "mean_rsrp_dbm": -1.5e-300,
        "is_weak": True,
        "seen_date": date(1999, 12, 31).isoformat(),
        "seen_at": datetime(2026, 10, 25, 0, 30, 0, 1, tzinfo=UTC).isoformat(),
        "extra": {"é": [1, None, "\0"]},
    }
    assert set(none.values()) == {"none", None}


def test_an_empty_table_arrives_with_its_columns(lake, target):
    done = send(lake, target)

    assert done.sent == 0
    assert target.read(TABLE) == []
    fill(lake)
    assert send(lake, target).sent == 60
    assert normal(target.read(TABLE)) == held(lake)


def test_a_second_export_sends_nothing_and_changes_nothing(lake, target):
    fill(lake)
    first = send(lake, target)
    before = normal(target.read(TABLE))
    second = send(lake, target)

    assert (first.sent, second.sent, second.removed) == (60, 0, 0)
    assert normal(target.read(TABLE)) == before == held(lake)


def test_only_changes_are_sent_including_updates_and_deletions(lake, target):
    fill(lake)
    send(lake, target)
    lake.execute(f"update marts.{TABLE} set fixes = 1000 where cell_id in ('cell 7', 'cell 10')")
    lake.execute(f"delete from marts.{TABLE} where cell_id in ('cell 8', 'cell 20', 'cell 21')")
    lake.execute(f"insert into marts.{TABLE} (cell_id) values ('new')")
    done = send(lake, target)

    assert (done.sent, done.removed, done.whole) == (3, 5, None)
    assert normal(target.read(TABLE)) == held(lake)


def test_rows_that_were_rewritten_unchanged_are_not_sent(lake, target):
    fill(lake)
    send(lake, target)
    lake.execute(f"begin; create temp table same as from marts.{TABLE}; commit")
    lake.execute(f"begin; delete from marts.{TABLE}; insert into marts.{TABLE} from same; commit")
    lake.execute("call ducklake_rewrite_data_files('lake', delete_threshold => 0)")
    done = send(lake, target)

    assert (done.sent, done.removed, done.whole) == (0, 0, None)
    assert normal(target.read(TABLE)) == held(lake)


def test_consecutive_exports_leave_the_rows_of_the_lake(lake, target):
    for day in range(5):
        lake.execute(f"delete from marts.{TABLE} where fixes % 7 = {day}")
        fill(lake, rows=20) if day == 0 else None
        lake.execute(f"update marts.{TABLE} set is_weak = null where fixes % 5 = {day}")
        lake.execute(f"insert into marts.{TABLE} (cell_id, fixes) values ('day {day}', {day})")
        send(lake, target)

        assert normal(target.read(TABLE)) == held(lake)


def test_a_new_column_is_added_at_the_target(lake, target):
    fill(lake)
    send(lake, target)
    lake.execute(f"alter table marts.{TABLE} add column note varchar")
    lake.execute(f"insert into marts.{TABLE} (cell_id, note) values ('new', 'é')")
    done = send(lake, target)

    assert (done.sent, done.whole) == (1, None)
    assert normal(target.read(TABLE)) == held(lake)


def test_a_table_whose_columns_changed_is_sent_in_full(lake, target):
    fill(lake)
    send(lake, target)
    lake.execute(f"alter table marts.{TABLE} drop column is_weak")
    lake.execute(f"alter table marts.{TABLE} drop column seen_date")
    lake.execute(f"alter table marts.{TABLE} add column is_strong boolean")
    done = send(lake, target)

    assert done.whole == "its columns or key changed"
    assert normal(target.read(TABLE)) == held(lake)


def test_a_table_that_was_created_again_is_sent_in_full(lake, target):
    fill(lake)
    send(lake, target)
    lake.execute(f"create or replace table marts.{TABLE} as from marts.{TABLE} limit 10")
    done = send(lake, target)

    assert done.sent == 10
    assert normal(target.read(TABLE)) == held(lake)


def test_a_lake_without_the_snapshot_of_the_last_export_sends_everything(lake, target):
    fill(lake)
    send(lake, target)
    lake.execute(f"delete from marts.{TABLE} where fixes > 30")
    lake.execute("call ducklake_expire_snapshots('lake', older_than => now())")
    done = send(lake, target)

    assert (done.sent, done.whole is None) == (31, False)
    assert normal(target.read(TABLE)) == held(lake)


def test_full_sends_everything_again(lake, target):
    fill(lake)
    send(lake, target)
    done = send(lake, target, is_full=True)

    assert done.sent == 60
    assert normal(target.read(TABLE)) == held(lake)


def stop_after(batches: int):
    """Return what stops an export once so many batches were taken."""
    seen = 0

    def on_rows(_table: str, _rows: int) -> None:
        nonlocal seen
        seen += 1
        if seen > batches:
            raise RuntimeError("stopped")

    return on_rows


def test_a_first_export_that_is_stopped_has_not_happened(lake, target, monkeypatch):
    monkeypatch.setattr(changes, "BATCH_ROWS", 2048)
    fill(lake, rows=9000)
    with pytest.raises(FleetlakeError):
        send(lake, target, on_rows=stop_after(2))
    done = send(lake, target)

    assert done.sent == 9000
    assert normal(target.read(TABLE)) == held(lake)


def test_changes_that_are_stopped_midway_have_not_happened(lake, target, monkeypatch):
    monkeypatch.setattr(changes, "BATCH_ROWS", 2048)
    fill(lake, rows=9000)
    send(lake, target)
    before = held(lake)
    lake.execute(f"update marts.{TABLE} set fixes = -fixes where fixes > 0")
    with pytest.raises(FleetlakeError):
        send(lake, target, on_rows=stop_after(2))

    assert normal(target.read(TABLE)) == before
    done = send(lake, target)
    assert (done.sent, done.removed, done.whole) == (8999, 8999, None)
    assert normal(target.read(TABLE)) == held(lake)


def test_a_table_without_a_key_is_sent_in_full_when_it_changes(lake, target):
    def send_gaps() -> Exported:
        [done] = export(lake, TARGETS[target.name], target.address, ["meta.gaps"])
        return done

    lake.execute("insert into meta.gaps (endpoint) values ('alerts'), ('alerts')")
    first = send_gaps()
    fill(lake)
    second = send_gaps()
    lake.execute("insert into meta.gaps (endpoint) values ('failovers')")
    third = send_gaps()

    assert [done.sent for done in (first, second, third)] == [2, 0, 3]
    names = [row["endpoint"] for row in target.read("meta_gaps")]
    assert sorted(names) == ["alerts", "alerts", "failovers"]


STRANGERS = "fixes"
"""A column of a table that somebody else made at the target."""


def make_stranger(target: OpenedTarget, folder: Path) -> None:
    """Make a table of the mart's name at the target, by other means than an export."""
    rows = pa.table({STRANGERS: [42]})
    create = f'CREATE TABLE "{TABLE}" AS SELECT 42 AS {STRANGERS}'
    if target.name == "delta":
        write_deltalake(str(folder / TABLE), rows)
    elif target.name == "iceberg":
        folder.mkdir()
        uri = f"sqlite:///{folder / 'catalog.db'}"
        catalog = SqlCatalog("fleetlake", uri=uri, warehouse=folder.as_uri())
        catalog.create_namespace("fleet")
        catalog.create_table(f"fleet.{TABLE}", rows.schema).append(rows)
        catalog.close()
    elif target.name == "postgres":
        with (
            adbc_driver_postgresql.dbapi.connect(
                target.address.get_secret_value(), autocommit=True
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(create)
    else:
        with duckdb.connect(folder.with_suffix(".duckdb")) as connection:
            connection.execute(create)


@pytest.mark.parametrize(
    "target", [p for p in EACH if p.values[0] not in ("parquet", "csv", "jsonl")], indirect=True
)
@pytest.mark.parametrize("is_full", [False, True])
def test_a_table_that_no_export_created_is_not_touched(lake, target, tmp_path, is_full):
    fill(lake)
    make_stranger(target, tmp_path / "target")

    for _ in range(2):
        with pytest.raises(ExportFailed, match=f"already has a table {TABLE} that"):
            send(lake, target, is_full=is_full)

    assert [{k: int(v) for k, v in row.items()} for row in target.read(TABLE)] == [{STRANGERS: 42}]
