"""Publishing removes only what it created itself, wherever the folders are."""

import importlib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import duckdb
import pytest

from fleetlake.errors import LakeError, UsageError
from fleetlake.exporters import TARGETS
from fleetlake.exporters.contract import ExportMark
from fleetlake.exporters.files import open_target
from fleetlake.lake import open_lake
from fleetlake.machine.file_locks import file_lock
from fleetlake.publishing.layout import read_call
from fleetlake.publishing.publish import publish
from fleetlake.publishing.snapshot_folders import NEXT_LINK

up = importlib.import_module("fleetlake.cli.prefect.up")  # the package has a command of that name


@pytest.fixture(scope="module")
def one_mart(empty_lake, tmp_path_factory) -> Path:
    path = Path(shutil.copytree(empty_lake, tmp_path_factory.mktemp("one") / "lake"))
    with open_lake(path) as opened:
        opened.execute("create table marts.trips as select 1 as trip_id")
    return path


@pytest.fixture
def lake(one_mart, tmp_path) -> Path:
    return Path(shutil.copytree(one_mart, tmp_path / "lake"))


def test_other_folders_beside_the_snapshots_are_left_alone(lake, tmp_path):
    published, store, outside = tmp_path / "p", tmp_path / ".p", tmp_path / "outside"
    publish(lake, published)
    for folder in (store / "mine", store / "20260101T000000.000000Z", outside):
        folder.mkdir()
        (folder / "note.txt").write_text("keep")
    (outside / ".fleetlake").touch()  # it looks like ours, but is reached only through a link
    (store / "20260102T000000.000000Z").symlink_to(outside)
    half = store / "20260103T000000.000000Z"
    half.mkdir()
    (half / ".fleetlake").touch()

    publish(lake, published)
    publish(lake, published)

    assert (store / "mine" / "note.txt").exists()
    assert (store / "20260101T000000.000000Z" / "note.txt").exists()
    assert (store / "20260102T000000.000000Z" / "note.txt").exists()
    assert not half.exists()  # ours, never finished
    assert len([p for p in store.iterdir() if (p / "snapshot.json").is_file()]) == 2


def test_a_link_that_a_killed_publish_left_is_replaced(lake, tmp_path):
    (tmp_path / ".p").mkdir()
    (tmp_path / ".p" / NEXT_LINK).symlink_to("20260103T000000.000000Z")

    publish(lake, tmp_path / "p")

    assert (tmp_path / "p" / "snapshot.json").is_file()
    assert not (tmp_path / ".p" / NEXT_LINK).is_symlink()


def test_a_publish_waits_for_another_that_is_under_way(lake, tmp_path):
    publish(lake, tmp_path / "p")
    with ThreadPoolExecutor(1) as pool:
        with file_lock(tmp_path / ".p" / "publish.lock", seconds=0):  # as the other holds it
            second = pool.submit(publish, lake, tmp_path / "p")
            assert not wait([second], timeout=1).done

        assert second.result(60).rows == {"trips": 1}


@pytest.mark.proof
@pytest.mark.parametrize("damaged", ["", "[1]", '{"tables": {"trips": 3}}'])
def test_a_description_damaged_by_a_power_cut_does_not_stop_the_next_publish(
    lake, tmp_path, damaged
):
    published = tmp_path / "p"
    publish(lake, published)
    (published / "snapshot.json").write_text(damaged)

    publish(lake, published)

    description = json.loads((published / "snapshot.json").read_text())
    assert description["tables"]["trips"]["rows"] == 1
    assert not description["tables"]["trips"]["is_reused"]


def test_a_snapshot_is_flushed_to_the_disk_before_the_link_leads_to_it(lake, tmp_path, monkeypatch):
    published, at_flush = tmp_path / "p", []

    def look(store):
        names = {path.name for path in store.rglob("*") if path.is_file()}
        at_flush.append((published.exists(), {"snapshot.json", "fleet.duckdb"} <= names))

    monkeypatch.setattr("fleetlake.publishing.publish.flush_files", look)
    publish(lake, published)

    assert at_flush == [(False, True)]


@pytest.mark.parametrize("target", ["other", "nowhere"])
def test_a_foreign_link_is_neither_followed_nor_replaced(lake, tmp_path, target):
    other = tmp_path / "other"
    other.mkdir()
    (other / "snapshot.json").write_text(json.dumps({"tables": {}}))
    published = tmp_path / "p"
    published.symlink_to(tmp_path / target)

    with pytest.raises(LakeError, match="already exists"):
        publish(lake, published)

    assert published.readlink() == tmp_path / target


def test_wildcards_in_a_folder_name_match_only_themselves(tmp_path):
    for name in ("[ab]*", "a1"):
        (tmp_path / name).mkdir()
        place = tmp_path / name / "x.parquet"
        with duckdb.connect() as writer:
            writer.execute(f"COPY (SELECT '{name}' AS folder) TO '{place}' (FORMAT parquet)")

    found = duckdb.sql(f"SELECT folder FROM {read_call(tmp_path / '[ab]*', None)}").fetchall()

    assert found == [("[ab]*",)]


def test_an_export_removes_its_own_left_over_files_and_no_others(tmp_path):
    assert "parquet" in TARGETS
    table = tmp_path / "trips"
    table.mkdir()
    own = table / "000000001-0a1b2c3d-0.parquet"
    others = [table / name for name in ("mine.parquet", "notes.txt", "1-0a1b2c3d-0.parquet")]
    for file in (own, *others):
        file.write_text("x")

    exporter = open_target(str(tmp_path), "parquet")
    found: ExportMark | None = exporter.mark("trips")
    exporter.close()

    assert found is None
    assert not own.exists()
    assert all(file.exists() for file in others)


@pytest.mark.parametrize("is_link", [True, False])
def test_a_folder_that_up_did_not_make_is_not_emptied(tmp_path, monkeypatch, is_link):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "note.txt").write_text("keep")
    folder = tmp_path / "link" if is_link else mine
    if is_link:
        (mine / up.MARK).touch()
        folder.symlink_to(mine)
    monkeypatch.setattr(up, "FOLDER", folder)

    with pytest.raises(UsageError, match="did not create it"):
        up._create_empty(up.FOLDER)  # noqa: SLF001 - without a server and a worker

    assert (mine / "note.txt").exists()


def test_a_folder_that_an_older_up_made_without_a_mark_is_emptied(tmp_path):
    folder = tmp_path / "up"
    (folder / "prefect").mkdir(parents=True)
    for name in ("server.log", "simulator.log"):
        (folder / name).touch()

    up._create_empty(folder)  # noqa: SLF001

    assert [path.name for path in folder.iterdir()] == [up.MARK]


@pytest.mark.parametrize("log", ["server.log", "simulator.log"])
def test_a_folder_with_a_log_of_another_program_is_not_emptied(tmp_path, log):
    (tmp_path / log).touch()

    with pytest.raises(UsageError, match="did not create it"):
        up._create_empty(tmp_path)  # noqa: SLF001

    assert (tmp_path / log).exists()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_file_with_the_name_of_the_temporary_link_is_a_clear_error(lake, tmp_path, kind):
    publish(lake, tmp_path / "p")
    there = tmp_path / ".p" / "next"
    there.mkdir() if kind == "folder" else there.write_text("keep")

    with pytest.raises(LakeError, match=r"\.p/next already exists"):
        publish(lake, tmp_path / "p")

    assert there.exists()
    assert (tmp_path / "p" / "snapshot.json").is_file()
