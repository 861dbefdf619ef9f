"""The page of questions: every query runs on the lake and on the published snapshot."""

import re

import duckdb
import pytest

from fleetlake.analysis.metric_calls import with_metrics
from fleetlake.lake import open_lake
from fleetlake.marts.sql_project import project_folder
from fleetlake.publishing.publish import publish
from fleetlake.semantic_layer import metrics

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

    assert lake.execute(with_metrics(sql)).description, question


OF_MARTS = [(question, sql) for question, sql in QUESTIONS if "metrics." not in sql]


@pytest.mark.parametrize(("question", "sql"), OF_MARTS, ids=[q for q, _ in OF_MARTS])
def test_a_question_is_answered_by_published_files(places, question, sql):
    _, reader = places

    assert reader.execute(sql.replace("marts.", "")).description, question


def test_every_mart_answers_a_question():
    asked = set(re.findall(r"marts\.(\w+)", PAGE))
    asked |= {
        mart for name in re.findall(r"metrics\.(\w+)\(", PAGE) for mart in metrics()[name].marts
    }
    helpers = {"location_track_points", "battery_readings", "battery_daily", "battery_discharges"}
    models = (project_folder() / "models" / "marts").glob("*/*.sql")

    helpers |= {"failover_daily", "data_usage_daily", "accounts", "dates"}
    assert {m.stem for m in models} - asked <= helpers


MANY = "several figures of a row; each is a metric, and `fleetlake metric` takes several at once"
OWN_FIGURES = {
    "Which routers were on a backup during working hours?": MANY,
    "Which routers fail over again and again?": MANY,
    "What was each site's uptime, and how much of it did backups give?": MANY,
    "How long do vehicles stand at each of our places?": "visits of named places",
    "How long do batteries power their routers, and how low does the charge get?": "discharges",
    "What causes failovers?": MANY,
    "How good is the signal of a backup while it is in use?": "signal of episodes",
    "Which firmware runs where, and who is behind?": MANY,
    "Which alert types are mostly noise?": MANY,
    "Which vehicles drive outside working hours?": MANY,
    "Where do vehicles stop longest?": "a place is the mean of its stops",
    "Which modems have the worst signal?": "by modem, of the daily means",
    "What does the fleet consist of?": MANY,
    "Which devices have no valid licence?": "a condition, not a figure",
    "Did anyone try to break in?": "by address",
    "How much data did the fleet move in each month, and is the month complete?": MANY,
    "How much data did each modem move?": "by modem",
    "Which twenty modems moved the most data?": "by modem",
    "How much of the time was each modem connected, by carrier?": "time of modems",
    "How strong is each modem's signal, 4G and 5G?": "by modem, of the daily means",
    "How many signal samples does each modem have?": "by modem",
    "How many fixes does each vehicle have?": "fixes",
    "What did the availability of each device look like on complete days?": "a mean of days",
}
"""Questions whose SQL computes figures of its own, each with the reason."""


def test_a_figure_that_is_a_metric_is_asked_for_by_its_name():
    figure = re.compile(r"\b(?:sum|avg|median|count)\s*\(")

    assert {question for question, sql in QUESTIONS if figure.search(sql)} == OWN_FIGURES.keys()
