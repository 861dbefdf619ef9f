"""Spark finds the lake's rows in the Delta and Iceberg exports and in the published snapshot.

Spark's own connectors are jar files that are not on Python's package index. So each format's
log names the current data files, and Spark reads those. FLEETLAKE_SPARK_PYTHON names the
interpreter of an environment that has pyspark.
"""

import json
import subprocess
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from pydantic import SecretStr
from pyiceberg.catalog.sql import SqlCatalog

from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import Lake, open_lake
from fleetlake.publishing.publish import publish
from tests.support.servers import spark_python

pytestmark = pytest.mark.spark


def files_of_delta(folder: Path, table: str) -> list[str]:
    return DeltaTable(str(folder / table)).file_uris()


def files_of_iceberg(folder: Path, table: str) -> list[str]:
    catalog = SqlCatalog("fleetlake", uri=f"sqlite:///{folder / 'catalog.db'}")
    try:
        tasks = list(catalog.load_table(f"fleet.{table}").scan().plan_files())
    finally:
        catalog.close()
    assert not any(task.delete_files for task in tasks)
    return [task.file.file_path for task in tasks]


FILES = {"delta": files_of_delta, "iceberg": files_of_iceberg}


def checksum(connection: duckdb.DuckDBPyConnection, rows: str, names: list[str]) -> object:
    """Return the number of rows and a sum over all their values."""
    texts = ", ".join(f'coalesce("{name}"::varchar, chr(0))' for name in names)
    return connection.execute(
        f"select count(*), sum(hash(concat_ws('|', {texts}))::hugeint) from {rows}"
    ).fetchone()


def spark_reads(sources: dict[str, list[str]], folder: Path) -> Path:
    """Let Spark read the files or folders of each table; return where it wrote the result."""
    (folder / "lists.json").write_text(json.dumps(sources))
    script = Path(__file__).with_name("spark_read.py")
    subprocess.run([spark_python(), script, folder / "lists.json", folder / "out"], check=True)
    return folder / "out"


def assert_same_rows(lake: Lake, theirs: Path, ours: str) -> None:
    """Compare what Spark wrote with a table of the lake."""
    columns = [n for (n,) in lake.rows(f"select column_name from (describe {ours})")]
    read = checksum(lake.connection, f"read_parquet('{theirs}/*.parquet')", columns)
    assert read == checksum(lake.connection, ours, columns), ours


@pytest.mark.parametrize("kind", FILES)
def test_spark_counts_and_sums_the_same_as_the_lake(make_sim, tmp_path, kind):
    sim = make_sim()
    sim.ingest()
    place = SecretStr(str(tmp_path / kind))
    with open_lake(sim.settings().lake, read_only=True) as lake:
        export(lake, TARGETS[kind], place, ["raw"])
    sim.advance(6 * 3600)
    sim.ingest()
    with open_lake(sim.settings().lake, read_only=True) as lake:
        done = export(lake, TARGETS[kind], place, ["raw"])
        files = {one.table: FILES[kind](tmp_path / kind, one.table) for one in done}
        filled = {name: listed for name, listed in files.items() if listed}
        out = spark_reads(filled, tmp_path)
        assert len(filled) > 20
        for name in filled:
            assert_same_rows(lake, out / name, f"raw.{name.removeprefix('raw_')}")


@pytest.mark.parametrize("day_rows", [1, 0])
def test_spark_reads_a_published_mart_from_its_folder_partitioned_or_not(tmp_path, day_rows):
    place, published = tmp_path / "lake", tmp_path / "published"
    with open_lake(place) as lake:
        lake.execute(
            "create table marts.trips as select i as trip_id, date '2026-01-01' + (i % 3)::int "
            "as trip_date, timestamptz '2026-01-01 08:00:00Z' as started_at from range(99) r(i)"
        )
        publish(place, published, day_rows=day_rows)
        assert len([*(published / "trips").iterdir()]) == (3 if day_rows else 1)
        out = spark_reads({"trips": [str(published / "trips")]}, tmp_path)
        assert_same_rows(lake, out / "trips", "marts.trips")
