"""A panel's answer and its downloads say what they rest on."""

import io
import json
from datetime import UTC, datetime

import duckdb
import pyarrow.parquet as pq
import pytest

from fleetlake.dashboard.web_app import create_dashboard
from fleetlake.endpoints import ENDPOINTS
from tests.dashboard.asking import ask
from tests.dashboard.world import World

PANEL = "/api/failover/episodes"
UNTIL = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)


@pytest.fixture
def world(tmp_path):
    """Return a snapshot all of whose streams are complete, those of failovers until 09:30."""
    made = World(tmp_path)
    made.publish(only=("failover_episodes", "device_inventory", "pipeline_freshness"), rows=3)
    told(made)
    return made


def told(world, *, holes=0, without="", **description):
    """Write what a snapshot says of its streams."""
    folder = world.published.resolve()
    rows = [
        ("default", name, holes if name == "failovers" else 0, UNTIL)
        for name in ENDPOINTS
        if name != without
    ]
    [file] = (folder / "pipeline_freshness").rglob("*.parquet")
    duckdb.connect().execute(
        "copy (select unnest($names) as account_profile, unnest($endpoints) as endpoint,"
        " unnest($holes) as holes, unnest($ends)::timestamptz as all_proven_until)"
        f" to '{file}' (format parquet)",
        dict(
            zip(
                ("names", "endpoints", "holes", "ends"),
                map(list, zip(*rows, strict=True)),
                strict=True,
            )
        ),
    )
    file = folder / "snapshot.json"
    written = json.loads(file.read_text()) | description
    written["tables"]["pipeline_freshness"]["columns"] = [
        {"name": name, "type": kind}
        for name, kind in {
            "account_profile": "VARCHAR",
            "endpoint": "VARCHAR",
            "holes": "BIGINT",
            "all_proven_until": "TIMESTAMP WITH TIME ZONE",
        }.items()
    ]
    file.write_text(json.dumps(written))


def proof_of(world, panel=PANEL):
    answer = ask(create_dashboard(world.published), panel)
    assert answer.status_code == 200, answer.text
    return answer.json()["proof"]


def test_an_answer_and_its_downloads_say_until_when_they_are_complete(world):
    whole = "Complete until 2026-11-20 09:30 UTC"
    app = create_dashboard(world.published)

    proof = ask(app, PANEL).json()["proof"]
    csv, parquet = (ask(app, f"{PANEL}.{form}") for form in ("csv", "parquet"))
    commented = ask(app, f"{PANEL}.csv", {"proof": "header"})

    assert (proof["is_complete"], proof["in_words"]) == (True, [whole])
    assert proof["complete_until"] == UNTIL.timestamp() * 1000
    assert "failovers" in proof["streams"]
    assert csv.headers["X-Fleetlake-Proof"] == whole
    assert commented.text == f"# {whole}\n{csv.text}"
    assert pq.read_schema(io.BytesIO(parquet.content)).metadata[b"proof"] == whole.encode()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"holes": 2}, "failovers has 2 holes: run `fleetlake ingest failovers`."),
        ({"without": "failovers"}, "failovers was never loaded: run `fleetlake ingest failovers`."),
        (
            {"stale_marts": [{"mart": "failover_episodes", "since_at": None}]},
            "the mart failover_episodes is stale: run `fleetlake build`, which says why.",
        ),
        (
            {
                "quarantined": [
                    {"account_profile": "default", "endpoint": "failovers", "records": 1}
                ]
            },
            "1 record of failovers could not be stored: see `fleetlake records quarantine`.",
        ),
        (
            {
                "gaps": [
                    {
                        "endpoint": "failovers",
                        "partition": "",
                        "start_at": "2026-11-18T00:00:00+00:00",
                        "end_at": "2026-11-19T00:00:00+00:00",
                    }
                ]
            },
            (
                "failovers lost records that the service deleted unread between 2026-11-18 00:00 "
                "and 2026-11-19 00:00: see `fleetlake records gaps`."
            ),
        ),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_a_panel_that_is_not_complete_says_why_and_what_to_do(world, said, reason):
    told(world, **said)

    proof = proof_of(world)

    assert (proof["is_complete"], proof["not_complete_because"]) == (False, [reason])
    assert proof["in_words"][1:] == [f"because {reason}"]


def test_a_list_that_an_account_may_not_read_is_no_loss(world):
    told(world, without="failovers", unavailable=["failovers"])

    assert proof_of(world)["is_complete"]


def test_a_snapshot_that_says_nothing_of_its_streams_is_not_called_complete(tmp_path):
    made = World(tmp_path)
    made.publish(only=("failover_episodes", "device_inventory"), rows=3)

    assert not proof_of(made)["is_complete"]
