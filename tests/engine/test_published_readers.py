"""The published DuckDB file is read by the oldest DuckDB that the guides promise."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from fleetlake.lake import open_lake
from fleetlake.publishing.publish import OLDEST_READER, STORAGE_VERSION, publish
from fleetlake.publishing.snapshot_folders import DATABASE

READ = "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=True); "
READ += "print(duckdb.__version__, c.execute('select count(*), max(day) from trips').fetchall())"


@pytest.fixture
def published(lake_path: Path, tmp_path: Path) -> Path:
    """Return a published file over a mart of one file and one that is cut by day."""
    with open_lake(lake_path) as lake:
        lake.execute(
            "create table marts.trips as select i as router_id, "
            "date '2026-01-01' + (i % 2)::integer as day, now() as built_at from range(20) as t(i)"
        )
    publish(lake_path, tmp_path / "published")
    return tmp_path / "published" / DATABASE


def test_the_published_file_has_a_storage_version_that_old_readers_know(
    published: Path,
) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"attach '{published}' as fleet (read_only)")
        [(tags,)] = connection.execute(
            "select tags from duckdb_databases() where database_name = 'fleet'"
        ).fetchall()

    assert tags["storage_version"].startswith(STORAGE_VERSION)


@pytest.mark.release
def test_the_oldest_duckdb_that_is_promised_reads_the_published_file(
    published: Path, tmp_path: Path
) -> None:
    version = OLDEST_READER.removeprefix("v")
    install = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target"]
    subprocess.run([*install, tmp_path / "old", f"duckdb=={version}"], check=True)

    done = subprocess.run(
        [sys.executable, "-c", READ, published],
        env={"PYTHONPATH": str(tmp_path / "old")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.startswith(f"{version} [(20, datetime.date(2026, 1, 2)"), done.stderr
