"""The contract of export targets, tested against each of them."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from fleetlake.errors import ExportFailed, FleetlakeError
from fleetlake.exporters import TARGETS, changes
from fleetlake.exporters.export import Exported, export, open_exporter
from fleetlake.lake import Lake, open_lake
from fleetlake.marts import catalogue
from fleetlake.marts.catalogue import mart_meanings
from tests.exporters.targets import OPENERS, OpenedTarget, listed, normal

TABLE = "coverage_grid"
"""A mart whose key can contain a null: a cell without a known carrier."""


def target(name: str, *marks: pytest.MarkDecorator) -> Any:
    """Return a target as a parameter of a test."""
    needed = [pytest.mark.postgres] if name == "postgres" else []
    return pytest.param(name, marks=[*marks, *needed])


# The file formats share one module: `make test` runs the whole contract against Parquet,
# `make proofs` also against each other module. What differs by format is tested for each.
ONE_OF_EACH_MODULE = [
    target(name, *([] if name == "parquet" else [pytest.mark.proof]))
    for name in TARGETS
    if name not in {"csv", "jsonl", "geoparquet"}
]
IN_PROOFS = {"csv", "jsonl", "geoparquet", "bigquery"}
every_target = pytest.mark.parametrize(
    "place",
    [target(name, *([pytest.mark.proof] if name in IN_PROOFS else [])) for name in TARGETS],
    indirect=True,
)
# Why a table is sent whole does not depend on the target.
one_target = pytest.mark.parametrize("place", ["parquet"], indirect=True)


@pytest.fixture(params=ONE_OF_EACH_MODULE)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OpenedTarget:
    return OPENERS[request.param](tmp_path / "target", monkeypatch)


@pytest.fixture(scope="module")
def opened(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Open one lake for all tests; each test recreates its mart."""
    copy = shutil.copytree(empty_lake, tmp_path_factory.mktemp("mart") / "lake")
    with open_lake(Path(copy)) as lake:
        yield lake


@pytest.fixture
def lake(opened: Lake) -> Lake:
    opened.execute(
        f"create or replace table marts.{TABLE} (cell_id varchar, carrier varchar, fixes hugeint, "
        "mean_rsrp_dbm double, is_weak boolean, seen_date date, seen_at timestamptz, extra json)"
    )
    opened.execute("delete from meta.gaps")
    return opened


def fill(lake: Lake, rows: int = 60) -> None:
    """Put ordinary rows into the mart, one in ten without a carrier."""
    lake.execute(
        f"insert into marts.{TABLE} select 'cell ' || i, if(i % 10 = 0, null, 'Telmira'), i, "
        "-80.5, i % 2 = 0, date '2026-11-01', timestamptz '2026-11-01 12:00:00.123456+02:00', "
        f"'{{\"n\": 1}}' from range({rows}) r(i)"
    )


def send(lake: Lake, place: OpenedTarget, **options: object) -> Exported:
    """Export the mart and return the result."""
    [done] = export(lake, TARGETS[place.name], place.address, [TABLE], **options)
    return done


def held(lake: Lake) -> list[dict[str, object]]:
    """Return the mart's rows."""
    return normal(lake.execute(f"from marts.{TABLE}").to_arrow_table().to_pylist())


@every_target
@pytest.mark.usefixtures("abroad")
def test_nulls_times_unicode_and_json_arrive_unchanged(lake, place):
    lake.execute(
        f"insert into marts.{TABLE} values "
        "('Zürich 🚚, \"a\"\n\\b''c', '', 0, -1.5e-300, true, '1999-12-31', "
        "'2026-10-25 02:30:00.000001+02:00', '{\"é\": [1, null, \"\\u0000\"]}'), "
        "('none', null, null, null, null, null, null, null)"
    )

    send(lake, place)

    [odd, none] = sorted(normal(place.read(TABLE)), key=lambda row: row["cell_id"] == "none")
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


def test_an_empty_table_arrives_with_its_columns(lake, place):
    done = send(lake, place)

    assert done.sent == 0
    assert place.read(TABLE) == []
    fill(lake)
    assert send(lake, place).sent == 60
    assert normal(place.read(TABLE)) == held(lake)


@every_target
@pytest.mark.usefixtures("abroad")
def test_changes_and_new_columns_are_applied_together_or_not_at_all(lake, place):
    fill(lake)
    send(lake, place)
    before = normal(place.read(TABLE))
    lake.execute(f"update marts.{TABLE} set fixes = 1000 where cell_id in ('cell 7', 'cell 10')")
    lake.execute(f"delete from marts.{TABLE} where cell_id in ('cell 8', 'cell 20', 'cell 21')")
    with pytest.raises(FleetlakeError):
        send(lake, place, on_rows=stop_after(0))
    stopped = normal(place.read(TABLE))
    lake.execute(f"alter table marts.{TABLE} add column note varchar")
    lake.execute(f"insert into marts.{TABLE} (cell_id, note) values ('new', 'é')")
    done, again = send(lake, place), send(lake, place)

    assert stopped == before
    assert (done.sent, done.removed, done.full_reason) == (3, 5, None)
    assert (again.sent, again.removed) == (0, 0)
    assert normal(place.read(TABLE)) == held(lake)


def test_rows_rewritten_without_a_change_are_not_sent(lake, place):
    fill(lake)
    send(lake, place)
    lake.execute(f"begin; create or replace temp table same as from marts.{TABLE}; commit")
    lake.execute(f"begin; delete from marts.{TABLE}; insert into marts.{TABLE} from same; commit")
    lake.execute("call ducklake_rewrite_data_files('lake', delete_threshold => 0)")
    done = send(lake, place)

    assert (done.sent, done.removed, done.full_reason) == (0, 0, None)
    assert normal(place.read(TABLE)) == held(lake)


def test_several_exports_in_sequence_leave_the_rows_of_the_lake(lake, place):
    for day in range(3):
        lake.execute(f"delete from marts.{TABLE} where fixes % 7 = {day}")
        fill(lake, rows=20) if day == 0 else None
        lake.execute(f"update marts.{TABLE} set is_weak = null where fixes % 5 = {day}")
        lake.execute(f"insert into marts.{TABLE} (cell_id, fixes) values ('day {day}', {day})")
        send(lake, place)

        assert normal(place.read(TABLE)) == held(lake)


def test_a_table_with_different_columns_is_sent_whole(lake, place):
    fill(lake)
    send(lake, place)
    lake.execute(f"alter table marts.{TABLE} drop column is_weak")
    lake.execute(f"alter table marts.{TABLE} drop column seen_date")
    lake.execute(f"alter table marts.{TABLE} add column is_strong boolean")
    done = send(lake, place)

    assert done.full_reason == "its columns or key changed"
    assert normal(place.read(TABLE)) == held(lake)


@one_target
def test_a_recreated_table_is_sent_whole(lake, place):
    fill(lake)
    send(lake, place)
    lake.execute(f"create or replace table marts.{TABLE} as from marts.{TABLE} limit 10")
    done = send(lake, place)

    assert done.sent == 10
    assert normal(place.read(TABLE)) == held(lake)


@one_target
def test_everything_is_sent_if_the_snapshot_of_the_last_export_has_expired(lake, place):
    fill(lake)
    send(lake, place)
    lake.execute(f"delete from marts.{TABLE} where fixes > 30")
    lake.execute("call ducklake_expire_snapshots('lake', older_than => now())")
    done = send(lake, place)

    assert (done.sent, done.full_reason is None) == (31, False)
    assert normal(place.read(TABLE)) == held(lake)


def test_a_full_export_sends_everything_again(lake, place):
    fill(lake)
    send(lake, place)
    done = send(lake, place, is_full=True)

    assert done.sent == 60
    assert normal(place.read(TABLE)) == held(lake)


def stop_after(batches: int):
    """Return a hook that stops an export after this many batches."""
    seen = 0

    def on_rows(_table: str, _rows: int) -> None:
        nonlocal seen
        seen += 1
        if seen > batches:
            raise RuntimeError("stopped")

    return on_rows


def test_a_first_export_that_is_stopped_leaves_no_trace(lake, place, monkeypatch):
    monkeypatch.setattr(changes, "BATCH_ROWS", 2048)
    fill(lake, rows=7000)
    with pytest.raises(FleetlakeError):
        send(lake, place, on_rows=stop_after(2))
    done = send(lake, place)

    assert done.sent == 7000
    assert normal(place.read(TABLE)) == held(lake)


def test_an_export_of_changes_that_is_stopped_midway_changes_nothing(lake, place, monkeypatch):
    monkeypatch.setattr(changes, "BATCH_ROWS", 2048)
    fill(lake, rows=7000)
    send(lake, place)
    before = held(lake)
    lake.execute(f"update marts.{TABLE} set fixes = -fixes where fixes > 0")
    with pytest.raises(FleetlakeError):
        send(lake, place, on_rows=stop_after(2))

    assert normal(place.read(TABLE)) == before
    done = send(lake, place)
    assert (done.sent, done.removed, done.full_reason) == (6999, 6999, None)
    assert normal(place.read(TABLE)) == held(lake)


def test_a_table_without_a_key_is_sent_whole_after_a_change(lake, place):
    def send_gaps() -> Exported:
        [done] = export(lake, TARGETS[place.name], place.address, ["meta.gaps"])
        return done

    lake.execute("insert into meta.gaps (endpoint) values ('alerts'), ('alerts')")
    first = send_gaps()
    fill(lake)
    second = send_gaps()
    lake.execute("insert into meta.gaps (endpoint) values ('failovers')")
    third = send_gaps()

    assert [done.sent for done in (first, second, third)] == [2, 0, 3]
    names = [row["endpoint"] for row in place.read("meta_gaps")]
    assert sorted(names) == ["alerts", "alerts", "failovers"]


STRANGERS = "fixes"
"""A column of a table at the target that no export created."""


def make_stranger(place: OpenedTarget, folder: Path) -> None:
    """Create a table with the mart's name at the target, without an export."""
    rows = pa.table({STRANGERS: [42]})
    create = f'CREATE TABLE "{TABLE}" AS SELECT 42 AS {STRANGERS}'
    if place.name == "delta":
        write_deltalake(str(folder / TABLE), rows)
    elif place.name == "iceberg":
        folder.mkdir()
        uri = f"sqlite:///{folder / 'catalog.db'}"
        catalog = SqlCatalog("fleetlake", uri=uri, warehouse=folder.as_uri())
        catalog.create_namespace("fleet")
        catalog.create_table(f"fleet.{TABLE}", rows.schema).append(rows)
        catalog.close()
    elif place.name == "postgres":
        with (
            adbc_driver_postgresql.dbapi.connect(
                place.address.get_secret_value(), autocommit=True
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(create)
    else:
        with duckdb.connect(folder.with_suffix(".duckdb")) as connection:
            connection.execute(create)


@pytest.mark.proof
@pytest.mark.parametrize("place", [target("postgres")], indirect=True)
def test_postgres_keeps_nothing_of_deleted_rows_after_a_purge(lake, place):
    """Neither in the table's file nor in the statistics, which quote common values."""
    address = place.address.get_secret_value()

    def ask(sql: str) -> list[Any]:
        with (
            adbc_driver_postgresql.dbapi.connect(address, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(sql)
            return cursor.fetchall() if sql.startswith("select") else []

    quoted = (
        "select pg_relation_size(to_regclass(tablename)), most_common_vals::text, "
        f"histogram_bounds::text from pg_stats where tablename = '{TABLE}' "
        "and schemaname = current_schema()"  # other tests have this table in their own schemas
    )
    fill(lake, rows=2000)
    send(lake, place)
    lake.execute(f"delete from marts.{TABLE} where carrier is not null")
    ask(f"analyze {TABLE}")
    before = ask(quoted)
    send(lake, place)

    exporter = open_exporter(TARGETS["postgres"], place.address)
    exporter.purge(TABLE)
    exporter.close()

    after = ask(quoted)
    assert "Telmira" in str(before)
    assert "Telmira" not in str(after)
    assert after[0][0] < before[0][0] / 2


@pytest.mark.parametrize(
    "place",
    [target(n) for n in TARGETS if n not in {"parquet", "geoparquet", "csv", "jsonl"}],
    indirect=True,
)
def test_a_table_of_the_same_name_that_no_export_created_is_left_unchanged(lake, place, tmp_path):
    fill(lake)
    make_stranger(place, tmp_path / "target")

    for is_full in (False, False, True, True):
        with pytest.raises(ExportFailed, match=f"already has a table {TABLE} that"):
            send(lake, place, is_full=is_full)

    assert [{k: int(v) for k, v in row.items()} for row in place.read(TABLE)] == [{STRANGERS: 42}]


_POSTGRES_COMMENTS = f"""
SELECT obj_description(attrelid), attname, col_description(attrelid, attnum) FROM pg_attribute
WHERE attrelid = '{TABLE}'::regclass AND attnum > 0 AND NOT attisdropped
"""


def _comments_of(place: OpenedTarget) -> tuple[str, dict[str, str]]:
    """Return the description of the table and of its columns, as the target's own tools give it."""
    folder = Path(place.address.get_secret_value())
    if place.name == "delta":
        held = DeltaTable(str(folder / TABLE))
        columns = {f.name: f.metadata.get("comment") for f in held.schema().fields}
        return held.metadata().description, columns
    if place.name == "iceberg":
        catalog = SqlCatalog("fleetlake", uri=f"sqlite:///{folder / 'catalog.db'}")
        loaded = catalog.load_table(f"fleet.{TABLE}")
        catalog.close()
        return loaded.properties["comment"], {f.name: f.doc for f in loaded.schema().fields}
    if place.name == "postgres":
        address = place.address.get_secret_value()
        with adbc_driver_postgresql.dbapi.connect(address) as server, server.cursor() as cursor:
            cursor.execute(_POSTGRES_COMMENTS)
            found = cursor.fetchall()
        return found[0][0], {name: comment for _, name, comment in found}
    metadata = pq.read_metadata(listed(folder / TABLE)[0]).metadata
    return metadata[b"description"].decode(), json.loads(metadata[b"columns"])


@pytest.mark.parametrize("has_stale_rows", [False, True])
@pytest.mark.parametrize(
    "place",
    [target(name) for name in ("parquet", "geoparquet", "delta", "iceberg", "postgres")],
    indirect=True,
)
def test_a_table_and_its_columns_are_described_at_the_target(
    lake, place, monkeypatch, has_stale_rows
):
    fill(lake)
    with monkeypatch.context() as earlier:  # an export by a release that described nothing
        earlier.setattr(catalogue, "mart_meanings", dict)
        send(lake, place)
    lake.execute(f"alter table marts.{TABLE} add column max_rsrp_dbm double")
    lake.execute(f"insert into marts.{TABLE} (cell_id) values ('cell 99')")
    if has_stale_rows:
        lake.execute(f"update marts.{TABLE} set fixes = 1000 where cell_id = 'cell 7'")

    send(lake, place)

    about, meanings = mart_meanings()[TABLE]
    described, columns = _comments_of(place)
    named = ("cell_id", "carrier", "mean_rsrp_dbm", "max_rsrp_dbm")
    assert described == about
    assert {n: columns[n] for n in named} == {n: meanings[n] for n in named}
    assert normal(place.read(TABLE)) == held(lake)
