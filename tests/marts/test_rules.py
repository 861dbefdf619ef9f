"""The rules of the SQL layer, shown by dbt unit tests: rows in, rows out."""

import os
import shutil

import pytest

from fleetlake.lake import open_lake
from fleetlake.marts.dbt_process import run_dbt
from fleetlake.marts.session import MEMORY_VARIABLE, SNAPSHOT_VARIABLE, TIME_VARIABLE
from fleetlake.marts.sql_project import parse_yaml, project_folder
from fleetlake.settings import BUILD_MEMORY

pytestmark = pytest.mark.xdist_group("marts")  # they share a build, which takes seconds

FILES = sorted((project_folder() / "models").rglob("*unit_tests.yml"))
RULES = [rule["name"] for file in FILES for rule in parse_yaml(file.read_text())["unit_tests"]]


@pytest.fixture(scope="module")
def shown(built, tmp_path_factory):
    lake, *_ = built
    work = shutil.copytree(lake / "dbt", tmp_path_factory.mktemp("rules") / "dbt")
    with open_lake(lake, read_only=True) as opened:
        ((snapshot,),) = opened.rows("select max(snapshot_id) from lake.snapshots()")
    run = run_dbt(
        ["test", "--select", "test_type:unit"],
        work=work,
        environment={
            "FLEETLAKE_BUILD_FILE": os.fspath(work / "build.duckdb"),
            "FLEETLAKE_LAKE": os.fspath(lake),
            SNAPSHOT_VARIABLE: str(snapshot),
            TIME_VARIABLE: "2026-06-01 00:00:00Z",
            MEMORY_VARIABLE: BUILD_MEMORY,
        },
    )
    return {rule.name: rule for rule in run.unit_tests}


@pytest.mark.proof
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_holds(shown, rule):
    assert shown[rule].status == "pass", shown[rule].message
