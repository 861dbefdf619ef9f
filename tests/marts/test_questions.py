"""The page of questions: every query runs on the lake and on the published snapshot."""

import re

import duckdb
import pytest

from fleetlake.lake import open_lake
from fleetlake.marts.sql_project import project_folder
from fleetlake.publishing.publish import publish

pytestmark = pytest.mark.xdist_group("marts")  # they share a build, which takes seconds

PAGE = (project_folder() / "QUESTIONS.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"### (.*?)\n\n```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def places(built, tmp_path_factory):
    lake, *_ = built
    published = tmp_path_factory.mktemp("questions") / "published"
    publish(lake, published)
    with (
        open_lake(lake, read_only=True) as opened,
        duckdb.connect(published / "fleet.duckdb", read_only=True) as reader,
    ):
        yield opened, reader


@pytest.mark.parametrize(("question", "sql"), QUESTIONS, ids=[q for q, _ in QUESTIONS])
def test_a_question_is_answered_by_its_query(places, question, sql):
    lake, _ = places

    assert lake.execute(sql).description, question


@pytest.mark.parametrize(("question", "sql"), QUESTIONS, ids=[q for q, _ in QUESTIONS])
def test_a_question_is_answered_by_published_files(places, question, sql):
    _, reader = places

    assert reader.execute(sql.replace("marts.", "")).description, question


def test_every_mart_answers_a_question():
    asked = set(re.findall(r"marts\.(\w+)", PAGE))
    helpers = {"location_track_points", "battery_readings", "battery_daily", "battery_discharges"}
    models = (project_folder() / "models" / "marts").glob("*/*.sql")

    assert {m.stem for m in models} - asked <= helpers | {"failover_daily", "data_usage_daily"}
