"""The mirror that engines read has each row of the lake once, and changes only with its rows."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from fleetlake.errors import BuildFailed, SettingsError
from fleetlake.lake import open_lake
from fleetlake.marts.build import forget_other_storages, forget_scratch
from fleetlake.marts.mirror import (
    folders,
    for_dbt,
    read_mirror,
    remove_old_parts,
    spark_type,
    write_mirror,
)
from fleetlake.marts.on_target import BuildTarget, target_of
from fleetlake.marts.plan import work_folder

pytestmark = pytest.mark.xdist_group("marts")

TABLES = frozenset({"raw.activity_logs", "raw.net_devices", "meta.loads"})
MONDAY, TUESDAY = datetime(2026, 11, 2, 12, tzinfo=UTC), datetime(2026, 11, 3, 12, tzinfo=UTC)


def log(name, at):
    return {"action_id": name, "action_type_name": "login", "action_timestamp": at}


@pytest.fixture
def mirrored(tmp_path):
    """Return a function that brings a mirror to a lake's newest snapshot."""

    def mirror(lake, changed=None):
        with open_lake(lake) as opened:
            [(newest,)] = opened.rows("select max(snapshot_id) from lake.snapshots()")
            old = read_mirror(tmp_path)
            return write_mirror(
                opened.connection, tmp_path, old, TABLES, snapshot=newest, changed=changed
            )

    return mirror


def rows_of(storage, mirror, table, columns="*"):
    """Return the rows that the manifest counts, sorted."""
    places = folders(table, mirror.tables[table]).values()
    files = [str(file) for place in places for file in (storage / place).glob("*.parquet")]
    if not files:
        return []
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return sorted(
            connection.execute(f"SELECT {columns} FROM read_parquet($1)", [files]).fetchall()
        )


def rows_in(lake, table, columns):
    with open_lake(lake, read_only=True) as opened:
        return sorted(opened.rows(f"select {columns} from {table}"))


def test_a_mirror_has_each_row_of_the_lake_once_with_its_commit(lake_path, add, mirrored, tmp_path):
    add(lake_path, "activity_logs", log("a", MONDAY), log("b", TUESDAY), log("c", TUESDAY))

    mirror = mirrored(lake_path)

    columns = "action_id, action_timestamp, snapshot_id"
    found = rows_of(tmp_path, mirror, "raw.activity_logs", columns)
    assert found == rows_in(lake_path, "raw.activity_logs", columns)
    assert set(mirror.tables["raw.activity_logs"].parts) == {"2026-11-02", "2026-11-03"}


def test_a_lake_without_rows_has_a_mirror(lake_path, mirrored, tmp_path):
    mirror = mirrored(lake_path)

    assert read_mirror(tmp_path) == mirror
    assert set(mirror.tables) == TABLES


def test_a_table_may_have_a_column_named_version(lake_path, add, mirrored, tmp_path):
    add(lake_path, "net_devices", {"id": 7, "version": "2.1"})

    assert rows_of(tmp_path, mirrored(lake_path), "raw.net_devices", "id, version") == [(7, "2.1")]


def test_only_the_days_with_new_rows_are_written_again(lake_path, add, mirrored, tmp_path):
    add(lake_path, "activity_logs", log("a", MONDAY), log("b", TUESDAY))
    first = mirrored(lake_path).tables["raw.activity_logs"].parts

    add(lake_path, "activity_logs", log("late", MONDAY))
    mirror = mirrored(lake_path)

    second = mirror.tables["raw.activity_logs"].parts
    assert second["2026-11-03"] == first["2026-11-03"]
    assert second["2026-11-02"].version > first["2026-11-02"].version
    ids = rows_of(tmp_path, mirror, "raw.activity_logs", "action_id")
    assert ids == [("a",), ("b",), ("late",)]


def test_rows_that_were_deleted_are_gone_and_their_engine_is_told(
    lake_path, add, mirrored, tmp_path
):
    add(lake_path, "activity_logs", log("a", MONDAY), log("b", TUESDAY))
    before = mirrored(lake_path)
    with open_lake(lake_path) as opened:
        opened.execute("delete from lake.raw.activity_logs where action_id = 'a'")

    mirror = mirrored(lake_path)
    remove_old_parts(tmp_path, mirror)

    assert rows_of(tmp_path, mirror, "raw.activity_logs", "action_id") == [("b",)]
    [told] = [t for t in for_dbt(tmp_path, mirror, before.version) if t["name"] == "activity_logs"]
    assert (told["gone"], told["changed"]) == (["2026-11-02"], [])
    left = {
        path.parent.name for path in tmp_path.glob("mirror/raw/activity_logs/*/mirror_version=*")
    }
    assert left == {"mirror_day=2026-11-03"}


def test_what_a_killed_process_wrote_does_not_count(lake_path, add, mirrored, tmp_path):
    add(lake_path, "activity_logs", log("a", MONDAY))
    mirrored(lake_path)
    add(lake_path, "activity_logs", log("b", MONDAY))
    manifest = tmp_path / "mirror" / "manifest.json"
    before = manifest.read_text()
    mirrored(lake_path)
    manifest.write_text(before)  # as if it had been killed before the switch
    killed = max(tmp_path.glob("mirror/raw/activity_logs/*/mirror_version=*"))
    (killed / "left.parquet").write_bytes(next(killed.glob("*.parquet")).read_bytes())

    mirror = mirrored(lake_path)

    assert rows_of(tmp_path, mirror, "raw.activity_logs", "action_id") == [("a",), ("b",)]


@pytest.mark.parametrize("removed", ["mirror", "mirror/raw/activity_logs"])
def test_what_was_removed_from_a_storage_is_written_and_shown_again(
    lake_path, add, mirrored, tmp_path, removed
):
    add(lake_path, "activity_logs", log("a", MONDAY))
    before = mirrored(lake_path)
    shutil.rmtree(tmp_path / removed)

    mirror = mirrored(lake_path, changed=frozenset())

    assert rows_of(tmp_path, mirror, "raw.activity_logs", "action_id") == [("a",)]
    [told] = [t for t in for_dbt(tmp_path, mirror, before.version) if t["name"] == "activity_logs"]
    assert told["is_other"]


def test_a_table_with_another_column_is_written_again(lake_path, add, mirrored, tmp_path):
    add(lake_path, "activity_logs", log("a", MONDAY))
    before = mirrored(lake_path)
    with open_lake(lake_path) as opened:
        opened.execute("alter table lake.raw.activity_logs add column colour varchar")

    mirror = mirrored(lake_path)

    [told] = [t for t in for_dbt(tmp_path, mirror, before.version) if t["name"] == "activity_logs"]
    assert told["is_other"]
    assert "`colour` string" in told["columns"]
    assert rows_of(tmp_path, mirror, "raw.activity_logs", "action_id, colour") == [("a", None)]


def test_an_engine_is_told_only_of_what_changed_since_it_was_told(
    lake_path, add, mirrored, tmp_path
):
    add(lake_path, "activity_logs", log("a", MONDAY))
    mirror = mirrored(lake_path)

    assert all(not table["changed"] for table in for_dbt(tmp_path, mirror, mirror.version))


def test_each_type_of_the_lake_has_a_type_in_spark(lake_path):
    with open_lake(lake_path, read_only=True) as opened:
        kinds = opened.rows(
            "select distinct data_type from duckdb_columns() where schema_name = 'raw'"
        )

    assert all(spark_type(kind) for (kind,) in kinds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1}',
        '{"snapshot": 1, "made_at": "", "version": 1, "tables": {"raw.users": 7}}',
    ],
)
def test_a_manifest_that_others_wrote_is_no_mirror(lake_path, add, mirrored, tmp_path, text):
    add(lake_path, "activity_logs", log("a", MONDAY))
    mirrored(lake_path)
    (tmp_path / "mirror" / "manifest.json").write_text(text)

    mirror = mirrored(lake_path)

    assert rows_of(tmp_path, mirror, "raw.activity_logs", "action_id") == [("a",)]


def test_a_day_that_a_manifest_makes_up_is_left_out(lake_path, add, mirrored, tmp_path):
    add(lake_path, "activity_logs", log("a", MONDAY))
    mirrored(lake_path)
    manifest = tmp_path / "mirror" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("2026-11-02", "') drop table x; --"))

    told = [table["parts"] for table in for_dbt(tmp_path, read_mirror(tmp_path), 0)]

    assert "drop" not in str(told)


@pytest.mark.parametrize(
    ("storage", "what"), [(None, "need storage"), ("it's", 'has "\'"'), ("a=1", "has '='")]
)
def test_a_target_needs_a_storage_that_sql_can_name(storage, what):
    with pytest.raises(SettingsError, match=what):
        target_of("spark", storage and Path(storage))


def test_without_a_name_this_machine_builds():
    assert target_of("", None) is None


@pytest.fixture
def used(lake_path, tmp_path):
    """Return two storages that builds of a lake have used, with what they left there."""
    storages = [tmp_path / "one", tmp_path / "two"]
    for storage in storages:
        for folder in ("mirror", "tables", "of others"):
            (storage / folder).mkdir(parents=True)
    work = work_folder(lake_path) / "on-spark"
    work.mkdir(parents=True)
    (work / "storages").write_text("\n".join([*map(str, storages), str(tmp_path / "unmounted")]))
    return storages


def left(storage):
    return sorted(folder.name for folder in storage.iterdir())


def test_what_builds_left_in_a_storage_goes_with_their_scratch_files(lake_path, used, tmp_path):
    shutil.rmtree(used[0] / "mirror")

    absent = forget_scratch(lake_path)

    assert [left(storage) for storage in used] == [["of others"]] * 2
    assert absent == [tmp_path / "unmounted"]


def test_after_retention_only_the_storage_that_builds_use_keeps_its_tables(lake_path, used):
    forget_other_storages(lake_path, BuildTarget("spark", used[1]))

    assert left(used[0]) == ["of others"]
    assert left(used[1]) == ["mirror", "of others", "tables"]


def test_what_cannot_be_removed_from_a_storage_is_an_error_that_names_it(lake_path, used):
    shutil.rmtree(used[1] / "tables")
    (used[1] / "tables").write_text("a file is no folder")

    with pytest.raises(BuildFailed, match="two/tables still holds rows"):
        forget_scratch(lake_path)


@pytest.mark.usefixtures("used")
def test_what_cannot_be_removed_of_builds_here_is_an_error_too(lake_path):
    (work_folder(lake_path) / "spill").write_text("a file is no folder")

    with pytest.raises(BuildFailed, match="spill still holds rows"):
        forget_scratch(lake_path)
