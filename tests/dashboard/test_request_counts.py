"""What the dashboard tells of itself: whether it is well, and what it counted."""

import json
import re
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from fleetlake.dashboard.web_app import create_dashboard
from tests.dashboard.asking import ask
from tests.dashboard.test_access import ANYWHERE, TOKEN
from tests.dashboard.world import NAMES, NOW, World

BEARER = {"authorization": f"Bearer {TOKEN}"}


def guarded(world):
    return create_dashboard(world.published, token=SecretStr(TOKEN))


def metrics_of(app):
    """Return the samples of the metrics, by name and labels."""
    answer = ask(app, "/metrics", base=ANYWHERE, headers=BEARER)
    assert answer.status_code == 200
    return {
        (sample.name.removeprefix("fleetlake_dashboard_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_health_is_told_without_the_token_and_tells_nothing_of_the_fleet(world, tmp_path):
    well = ask(guarded(world), "/healthz", base=ANYWHERE)
    empty = ask(guarded(World(tmp_path)), "/healthz", base=ANYWHERE)

    assert (well.status_code, well.text) == (200, "ok\n")
    assert (empty.status_code, empty.text) == (503, "There is no snapshot.\n")


@pytest.mark.parametrize("path", ["/metrics", "/healthz.txt", "/healthzz", "/loginx", "/login/x"])
def test_every_other_address_needs_the_token(world, path):
    assert ask(guarded(world), path, base=ANYWHERE).status_code == 401


def test_the_metrics_count_requests_by_page_and_status_and_time_queries(world):
    app = guarded(world)
    for path in (
        "/now",
        "/api/failover/episodes",
        "/api/failover/nothing",
        "/api/alerts/single.csv",
    ):
        ask(app, path, headers=BEARER)
    ask(app, "/api/failover/episodes")  # without the token
    ask(app, f"/{NAMES[0]}", headers=BEARER)

    found = metrics_of(app)

    assert {key[1:]: count for key, count in found.items() if key[0] == "requests_total"} == {
        ("now", "200"): 1,
        ("failover", "200"): 1,
        ("failover", "404"): 1,
        ("failover", "401"): 1,
        ("alerts", "200"): 1,
        ("other", "404"): 1,
    }
    assert found["query_seconds_count",] == 2
    assert found["query_seconds_sum",] > 0


def test_the_metrics_say_how_old_and_large_the_snapshot_is_and_name_no_device(world, tmp_path):
    app = guarded(world)
    text = ask(app, "/metrics", base=ANYWHERE, headers=BEARER).text

    found = metrics_of(app)
    tables = json.loads((world.published / "snapshot.json").read_text())["tables"]

    assert found["snapshot_rows",] == sum(table["rows"] for table in tables.values())
    assert found["data_age_seconds",] - found["snapshot_age_seconds",] == pytest.approx(300, abs=1)
    assert found["snapshot_age_seconds",] == pytest.approx(time.time() - NOW.timestamp(), abs=60)
    assert not re.search("Denver|Account", text)
    assert ("snapshot_rows",) not in metrics_of(guarded(World(tmp_path)))
