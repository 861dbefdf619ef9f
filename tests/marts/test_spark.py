"""The same SQL gives the same marts on Spark as on DuckDB, from an export of the raw tables.

`make test-spark` runs it.

Spark has a separate environment (FLEETLAKE_SPARK_PYTHON names its interpreter), because
its adapter and DuckDB's may need different versions of packages.
"""

import os
import subprocess
from pathlib import Path

import duckdb
import pytest
from pydantic import SecretStr

from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from fleetlake.marts.named_places import COLUMNS
from fleetlake.marts.sql_project import project_folder, ready_project
from tests.support.servers import spark_python

MARTS = sorted(p.stem for p in (project_folder() / "models" / "marts").glob("*/*.sql"))

pytestmark = pytest.mark.spark


def checksum(connection: duckdb.DuckDBPyConnection, relation: str) -> tuple[int, ...] | None:
    """Return rows and checksum; numbers have nine digits, since more depend on the machine."""
    kinds = connection.execute(
        f"select column_name, column_type from (describe select * from {relation})"
    )
    parts = [
        f"printf('%.9g', {name}::double)"
        if kind.startswith(("DOUBLE", "DECIMAL", "BIGINT", "INTEGER", "HUGEINT"))
        else (f"epoch_us({name})::varchar" if kind.startswith("TIMESTAMP") else f"{name}::varchar")
        for name, kind in sorted(kinds.fetchall())
        if name != "built_at"
    ]
    row = f"concat_ws('|', {', '.join(f'coalesce({part}, chr(0))' for part in parts)})"
    return connection.execute(
        f"select count(*), coalesce(sum(hash({row})::hugeint), 0) from {relation}"
    ).fetchone()


def name_places(lake: Path, folder: Path) -> None:
    """Make a folder a project that names where vehicles began: circles and squares in turn.

    The circles have their own working hours.
    """
    with open_lake(lake, read_only=True) as opened:
        starts = opened.rows(
            "select router_id, min_by(latitude, created_at), min_by(longitude, created_at)"
            " from raw.historical_locations group by router_id order by router_id"
        )
    lines = [",".join(COLUMNS)]
    for number, (router, lat, lon) in enumerate(starts):
        corners = ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))
        ring = ", ".join(f"{lon + 0.01 * x} {lat + 0.01 * y}" for x, y in corners)
        square = f'start {router},,,,"POLYGON (({ring}))",,,'
        lines.append(square if number % 2 else f"start {router},{lat},{lon},800,,67,9,17")
    (folder / "fleetlake.toml").touch()
    (folder / "places.csv").write_text("\n".join([*lines, ""]), "utf-8")


@pytest.fixture(scope="module")
def both(tmp_path_factory, make_lake):
    """Build a fleet's marts twice, and return the folders of the two results."""
    folder = tmp_path_factory.mktemp("spark")
    lake, work = make_lake(folder), folder / "work"
    name_places(lake, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        build_marts(lake)
        project = ready_project(project_folder(), work)
    with open_lake(lake, read_only=True) as opened:
        export(opened, TARGETS["parquet"], SecretStr(str(work / "in")), ["raw", "meta"])
    script = Path(__file__).with_name("spark_run.py")
    environment = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [spark_python(), script, project, project_folder(), work],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return lake, work / "out"


@pytest.mark.parametrize("mart", MARTS)
def test_spark_gives_the_same_rows_as_duckdb(both, mart):
    lake, out = both
    with open_lake(lake, read_only=True) as opened:
        ours = checksum(opened.connection, f"lake.marts.{mart}")
        theirs = checksum(opened.connection, f"read_parquet('{out / mart}/*.parquet')")

    assert ours == theirs


def test_the_compared_marts_have_visits_to_places_of_both_kinds(both):
    lake, _ = both
    with open_lake(lake, read_only=True) as opened:
        [(places,)] = opened.rows("select count(distinct place_name) from marts.place_visits")

    assert places >= 2
