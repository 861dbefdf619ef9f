"""Exports as files: which are written, which stay, and an object store as the target."""

import csv
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs
from pydantic import SecretStr
from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.errors import ExportFailed
from fleetlake.exporters import TARGETS, files
from fleetlake.exporters.contract import SYNCED_AT
from fleetlake.exporters.export import export
from fleetlake.lake import Lake, open_lake
from tests.exporters.targets import listed


@pytest.fixture(scope="module")
def opened(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Open one lake for all tests; each makes its table anew."""
    copy = shutil.copytree(empty_lake, tmp_path_factory.mktemp("files") / "lake")
    with open_lake(Path(copy)) as lake:
        yield lake


@pytest.fixture
def lake(opened: Lake) -> Lake:
    opened.execute(
        "create or replace table marts.trips as "
        "select i % 5 as router_id, 'trip ' || i as trip_id, i as length_m "
        "from range(1000) r(i)"
    )
    return opened


def send(lake: Lake, to: object, kind: str = "parquet") -> int:
    [done] = export(lake, TARGETS[kind], SecretStr(str(to)), ["trips"])
    return done.sent


def names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "trips").iterdir()}


def test_new_rows_go_to_a_new_file_and_existing_files_stay_untouched(lake, tmp_path):
    send(lake, tmp_path / "out")
    before = names(tmp_path / "out")
    lake.execute("insert into marts.trips values (1, 'new', 5)")
    send(lake, tmp_path / "out")

    assert before < names(tmp_path / "out")
    assert len(names(tmp_path / "out") - before) == 1
    assert pl.read_parquet(listed(tmp_path / "out" / "trips")).height == 1001


def test_rows_that_come_and_go_between_two_exports_write_no_file(lake, tmp_path):
    send(lake, tmp_path / "out")
    before = names(tmp_path / "out")
    lake.execute("insert into marts.trips values (1, 'new', 5)")
    lake.execute("delete from marts.trips where trip_id = 'new'")
    send(lake, tmp_path / "out")

    assert names(tmp_path / "out") == before


@pytest.mark.parametrize("may_write", [True, False], ids=["its owner", "a reader"])
def test_the_command_says_which_rows_it_sent(lake_path, tmp_path, monkeypatch, may_write):
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.trips as select range as length_m from range(1200)")
    monkeypatch.setenv("FLEETLAKE_LAKE", str(lake_path))
    monkeypatch.setattr("fleetlake.lake.catalog.is_writable", lambda _: may_write)
    done = CliRunner().invoke(app, ["export", "parquet", "--to", str(tmp_path / "out")])

    assert done.exit_code == 0, done.output
    assert re.search(r"trips\W+1,200\W+0\W", done.output)
    said = " ".join(done.output.split())
    assert re.search(rf"1,200 rows sent to parquet \({tmp_path}/out\) in \d+\.\d s\.$", said)
    with open_lake(lake_path, read_only=True) as lake:
        assert bool(lake.rows("select 1 from meta.exports limit 1")) is may_write


@pytest.mark.proof
def test_small_files_do_not_accumulate(lake, tmp_path):
    send(lake, tmp_path / "out")
    for number in range(5):
        lake.execute(f"insert into marts.trips values (1, 'new {number}', 5)")
        send(lake, tmp_path / "out")

    assert len(names(tmp_path / "out")) <= 4
    assert pl.read_parquet(tmp_path / "out" / "trips" / "*.parquet").height == 1005


def test_the_next_export_removes_what_a_stopped_export_left_behind(lake, tmp_path, monkeypatch):
    send(lake, tmp_path / "out")
    before = names(tmp_path / "out")
    lake.execute("insert into marts.trips values (1, 'new', 5)")

    def stop(*_):
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(files.FileExporter, "_write_manifest", stop)
        with pytest.raises(ExportFailed, match="stopped"):
            send(lake, tmp_path / "out")
    assert len(names(tmp_path / "out") - before) == 1
    lake.execute("delete from marts.trips where trip_id = 'new'")
    send(lake, tmp_path / "out")

    assert names(tmp_path / "out") == before


DAMAGED = [{"mark": "{}"}, {"mark": None}, {"files": [{}]}, {"files": 1}, "", "[1]", "[" * 9999]


def test_an_unreadable_file_list_is_treated_as_missing(lake, tmp_path):
    send(lake, tmp_path / "out")
    place = tmp_path / "out" / "trips" / files.MANIFEST
    for damaged in DAMAGED:
        reported = json.loads(place.read_text())
        place.write_text(damaged if isinstance(damaged, str) else json.dumps(reported | damaged))

        assert send(lake, tmp_path / "out") == 1000, damaged
    assert pl.read_parquet(tmp_path / "out" / "trips" / "*.parquet").height == 1000


def test_no_file_is_left_in_the_temporary_folder(lake, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    send(lake, tmp_path / "out")

    assert list((tmp_path / "temp").iterdir()) == []


def test_a_csv_table_has_one_file_whose_other_name_stays_and_is_repaired(
    lake, tmp_path, monkeypatch
):
    name = tmp_path / "out" / "trips.csv"

    def rows() -> int:
        with name.open(newline="") as file:
            return sum(1 for _ in csv.DictReader(file))

    send(lake, tmp_path / "out", "csv")
    first, again = rows(), send(lake, tmp_path / "out", "csv")
    lake.execute("insert into marts.trips values (1, 'new', 5)")
    with monkeypatch.context() as patch:  # between the manifest and the name
        steps = iter([0])  # the first call checks the name, before the export
        patch.setattr(files.FileExporter, "_move_name", lambda *_: next(steps))
        with pytest.raises(ExportFailed):
            send(lake, tmp_path / "out", "csv")
        assert rows() == 1000
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: os.link("", ""))  # none on this disk
    repaired = send(lake, tmp_path / "out", "csv")
    [only] = (path for path in (tmp_path / "out" / "trips").iterdir() if path.suffix == ".csv")

    assert (first, again, repaired, rows()) == (1000, 0, 0, 1001)
    assert name.read_bytes() == only.read_bytes()


def test_a_csv_file_that_no_export_made_keeps_its_name(lake, tmp_path):
    name = tmp_path / "out" / "trips.csv"
    name.parent.mkdir()
    name.write_text("mine")
    for _ in range(2):
        with pytest.raises(ExportFailed, match=r"already has a table trips\.csv"):
            send(lake, tmp_path / "out", "csv")

    assert name.read_text() == "mine"


def test_a_csv_table_whose_file_was_deleted_is_sent_whole(lake, tmp_path):
    send(lake, tmp_path / "out", "csv")
    shutil.rmtree(tmp_path / "out" / "trips")

    with pytest.raises(ExportFailed, match="already has"):  # its manifest is gone, too
        send(lake, tmp_path / "out", "csv")
    (tmp_path / "out" / "trips.csv").unlink()
    assert send(lake, tmp_path / "out", "csv") == 1000
    for file in listed(tmp_path / "out" / "trips"):
        Path(file).unlink()

    assert send(lake, tmp_path / "out", "csv") == 1000


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """Return the address of an object store on this machine."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"endpoint_override={host}:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    server.stop()


@pytest.mark.parametrize(
    "kind", ["parquet", *(pytest.param(kind, marks=pytest.mark.proof) for kind in ("csv", "jsonl"))]
)
def test_an_object_store_holds_the_same_files_as_a_folder(lake, tmp_path, store, kind, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    address = f"s3://fleet-{kind}/exports?{store}"
    first = send(lake, address, kind)
    lake.execute("update marts.trips set length_m = -1 where trip_id = 'trip 7'")
    lake.execute("delete from marts.trips where trip_id = 'trip 8'")
    lake.execute("insert into marts.trips values (1, 'new', 5)")
    second = send(lake, address, kind)

    system, root = fs.FileSystem.from_uri(address)
    fs.copy_files(root, str(tmp_path / "fetched"), source_filesystem=system)
    read = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_ndjson"}[kind]
    fetched = f"{read}('{tmp_path}/fetched/trips/*.{kind}')"
    there = duckdb.sql(f"select * exclude ({SYNCED_AT}) from {fetched} order by all")
    ours = lake.rows("from marts.trips order by all")
    assert (first, second) == (1000, 2)
    assert there.fetchall() == ours
    assert kind != "csv" or (tmp_path / "fetched/trips.csv").read_bytes().count(b"\n") == 1001
    shutil.rmtree(tmp_path / "fetched")


FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "'=1", "plain", "'", ""]


def read_csv(folder: Path) -> list[str]:
    """Return the texts of an export as a spreadsheet would read them."""
    found = []
    for path in sorted((folder / "trips").glob("*.csv")):
        with path.open(newline="") as file:
            found += [row["trip_id"] for row in csv.DictReader(file)]
    return sorted(found)


def test_guarded_csv_contains_no_formula_and_applies_changes_exactly(lake, tmp_path):
    guarded = replace(TARGETS["csv"], option="csv guarded")
    address = SecretStr(str(tmp_path / "out"))
    columns = "(router_id bigint, trip_id varchar, n bigint)"
    lake.execute(f"create or replace table marts.trips {columns}")
    for text in FORMULAS:
        lake.execute("insert into marts.trips values (1, ?, -5)", [text])

    export(lake, TARGETS["csv"], address, ["trips"])
    as_they_are = read_csv(tmp_path / "out")
    export(lake, guarded, address, ["trips"])
    first = read_csv(tmp_path / "out")
    lake.execute("delete from marts.trips where trip_id in (?, ?)", ["-1", "'=1"])
    export(lake, guarded, address, ["trips"])

    marked = [*(f"'{text}" for text in FORMULAS[:7]), "plain", "'", ""]
    assert as_they_are == sorted(FORMULAS)
    assert first == sorted(marked)
    assert read_csv(tmp_path / "out") == sorted(set(marked) - {"'-1", "''=1"})
    texts = "".join(path.read_text() for path in (tmp_path / "out" / "trips").glob("*.csv"))
    assert '"-5"' in texts
