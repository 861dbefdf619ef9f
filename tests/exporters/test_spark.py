"""Spark reads the Delta and the Iceberg export, and finds the lake's rows in them.

Spark's own connectors are jar files that Python's package index does not carry. So each format's
log is asked which data files count, and Spark reads those. FLEETLAKE_SPARK_PYTHON names the
interpreter of an environment that has pyspark.
"""

import json
import os
import subprocess
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from pydantic import SecretStr
from pyiceberg.catalog.sql import SqlCatalog

from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake

PYTHON = os.environ.get("FLEETLAKE_SPARK_PYTHON")

# Spark wants Java and half a gigabyte of its own; `make test-spark` installs it apart.
NO_SPARK = "needs Spark in an environment of its own: make test-spark"
pytestmark = pytest.mark.skipif(PYTHON is None, reason=NO_SPARK)


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
    """Return the count of rows and a sum over every value of them."""
    texts = ", ".join(f'coalesce("{name}"::varchar, chr(0))' for name in names)
    return connection.execute(
        f"select count(*), sum(hash(concat_ws('|', {texts}))::hugeint) from {rows}"
    ).fetchone()


@pytest.mark.parametrize("kind", FILES)
def test_spark_counts_and_sums_what_the_lake_does(make_sim, tmp_path, kind):
    sim = make_sim()
    sim.ingest()
    target = SecretStr(str(tmp_path / kind))
    with open_lake(sim.settings().lake, read_only=True) as lake:
        export(lake, TARGETS[kind], target, ["raw"])
    sim.advance(6 * 3600)
    sim.ingest()
    with open_lake(sim.settings().lake, read_only=True) as lake:
        done = export(lake, TARGETS[kind], target, ["raw"])
        files = {one.table: FILES[kind](tmp_path / kind, one.table) for one in done}
        filled = {name: listed for name, listed in files.items() if listed}
        (tmp_path / "lists.json").write_text(json.dumps(filled))
        script = Path(__file__).with_name("spark_read.py")
        subprocess.run([PYTHON, script, tmp_path / "lists.json", tmp_path / "out"], check=True)
        assert len(filled) > 20
        for name in filled:
            ours = f"raw.{name.removeprefix('raw_')}"
            columns = [n for (n,) in lake.rows(f"select column_name from (describe {ours})")]
            theirs = f"read_parquet('{tmp_path}/out/{name}/*.parquet')"
            assert checksum(lake.connection, theirs, columns) == checksum(
                lake.connection, ours, columns
            ), name
