"""120 questions with known answers, asked through the tools that assistants have.

A script picks what `asked_questions.csv` says: metrics, dimensions, range and grain, as an
assistant would. `make test-questions SEEDS="1 2 3"` asks them of several worlds.
"""

import csv
import os
import re
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp import Client

from fleetlake.assistants.lake_answers import Answers
from fleetlake.assistants.mcp_server import create_server
from fleetlake.endpoints import ENDPOINTS
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.ducklake import newest_snapshot
from fleetlake.lake.watermarks import forget_interval
from fleetlake.marts import build_marts
from fleetlake.marts.catalogue import marts
from fleetlake.planning.intervals import Interval
from fleetlake.text.quoting import quoted
from tests.marts.asked_truth import FIRST, AskedWorld, expected, key_of

Row = dict[str, str]
with (Path(__file__).parent / "asked_questions.csv").open(encoding="utf-8", newline="") as file:
    QUESTIONS: list[Row] = [*csv.DictReader(file, delimiter="|")]
GAP = Interval(FIRST.replace(hour=0, day=28), FIRST.replace(hour=0, day=29))
SEEDS = [int(seed) for seed in os.environ.get("QUESTION_SEEDS", "1").split()]


async def _asked(client: Client, row: Row, world: Any) -> dict[str, Any]:
    """Return the answer to a question, as a client gets it that picks what the row says."""

    async def call(tool: str, **arguments: object) -> dict[str, Any]:
        found = await client.call_tool(tool, arguments)
        assert not found.is_error, (row["question"], found.content)
        return dict(found.structured_content)

    only = dict(part.split("=") for part in row["only"].split())
    if only.get("router") == "@renamed":
        rows = (await call("find_device", text=world.old_name))["data"]["rows"]
        only["router"] = str(rows[0][0])
    if only.get("router") == "@moved":
        sql = "select router_id from raw.net_devices"
        sql += f" where valid_to is null and id = {world.moved}"
        [[only["router"]]] = (await call("query", sql=sql))["data"]["rows"]
    asked = {
        "names": row["metrics"].split(),
        "by": row["by"].split(),
        "only": only,
        "rows": 1000,
        **{name: row[name] or None for name in ("grain", "since", "until")},
    }
    answer = await call("metric", **asked)
    if row["trap"] == "travel":
        sql = answer["sql"]
        for name, value in zip(re.findall(r"\$(\w+)", sql), [row["until"]], strict=False):
            sql = sql.replace(f"${name}", f"date '{value}'")
        sql = re.sub(r'(marts\."\w+" \w+)', rf"\1 AT (VERSION => {world.snapshot})", sql)
        answer = await call("query", sql=sql, rows=1000)
    return answer | {"only": only}


def all_asked(lake: Path, world: Any, rows: list[Row] = QUESTIONS) -> dict[str, dict[str, Any]]:
    """Return the answers to questions about a lake."""

    async def run() -> dict[str, dict[str, Any]]:
        with open_lake(lake, read_only=True) as opened:
            async with Client(create_server(Answers(opened, None))) as client:
                return {row["question"]: await _asked(client, row, world) for row in rows}

    return anyio.run(run)


def wrong(row: Row, answer: dict[str, Any], world: AskedWorld) -> Iterator[str]:
    """Yield what of an answer is not what happened."""
    metrics, by = row["metrics"].split(), row["by"].split()
    at = len(answer["columns"]) - len(metrics)
    said = {key_of(values[:at]): values[at:] for values in answer["data"]["rows"]}
    if answer["is_cut"]:
        yield "it is cut"
    days = {name: date.fromisoformat(row[name]) for name in ("since", "until") if row[name]}
    then = world.then if row["trap"] == "travel" else world
    for number, metric in enumerate(metrics):
        limits = expected(then, metric, by=by, grain=row["grain"], only=answer["only"], **days)
        for key in {*limits, *said}:
            least, most = limits.get(key, (0, 0))
            value = said.get(key, [None] * len(metrics))[number]
            slack = 1e-6 * abs(least or 0)
            if value is None and not least:
                continue
            if value is None or least is None or not least - slack <= value <= most + slack:
                yield f"{metric} of {key}: {value} is not from {least} to {most}"


@pytest.fixture(scope="module", params=SEEDS)
def world(request, tmp_path_factory) -> AskedWorld:
    """Return a world at its end."""
    folder = tmp_path_factory.mktemp("asked")
    found = AskedWorld(folder, request.param)
    found.live()
    found.then = AskedWorld(folder, request.param)
    found.then.polls = found.polls
    return found


@pytest.fixture(scope="module")
def answers(world):
    return all_asked(world.sim.settings().lake, world)


@pytest.fixture(scope="module")
def holed(world, tmp_path_factory):
    """Return the answers of the same lake without a day of alerts, and of usage samples."""
    lake = tmp_path_factory.mktemp("holed") / "lake"
    shutil.copytree(world.sim.settings().lake, lake)
    with open_lake(lake) as opened:
        make_gap(opened, "alerts", "detected_at")
        make_hole(opened, "net_device_usage_samples")
    build_marts(lake)
    return all_asked(lake, world)


def make_gap(lake: Lake, endpoint: str, at: str) -> None:
    """Take a day of records away, as if the service had deleted them unread."""
    lake.execute(f"delete from raw.{endpoint} where {at} >= ? and {at} < ?", [GAP.start, GAP.end])
    lake.execute(
        "insert into meta.gaps values ('default', ?, '', ?, ?, 'not read in time', now(), null)",
        [endpoint, GAP.start, GAP.end],
    )


def make_hole(lake: Lake, endpoint: str) -> None:
    """Take a day of records away, as if it had not been read."""
    lake.execute(
        f"delete from raw.{endpoint} where created_at >= ? and created_at < ?", [GAP.start, GAP.end]
    )
    forget_interval(lake, "default", ENDPOINTS[endpoint], GAP)


@pytest.fixture(scope="module")
def blank(module_lake):
    """Return a lake of empty marts, with a record of each endpoint that could not be stored."""
    with open_lake(module_lake) as lake:
        for mart in marts():
            columns = (f"{quoted(c['name'])} {c['data_type']}" for c in mart["columns"])
            lake.execute(f"create table marts.{quoted(mart['name'])} ({', '.join(columns)})")
        lake.execute(
            "insert into raw.routers by name select 7 as id, 'Depot' as name, now() as valid_from;"
            "insert into raw.net_devices by name select 70 as id, 7 as router_id,"
            " now() as valid_from;"
            "insert into marts.device_inventory by name select 7 as router_id;"
            "insert into meta.quarantine by name select unnest(?) as endpoint,"
            " 'default' as account_profile, now() as quarantined_at",
            [[*ENDPOINTS]],
        )
        return module_lake, newest_snapshot(lake)


def test_questions_can_be_asked_and_no_answer_hides_that_records_are_missing(blank):
    lake, snapshot = blank
    world = SimpleNamespace(old_name="depot", moved=70, snapshot=snapshot)

    answers = all_asked(lake, world, QUESTIONS[::5])

    assert len(QUESTIONS) == 120
    assert [q for q, answer in answers.items() if answer["proof"]["is_complete"]] == []


@pytest.mark.release
@pytest.mark.xdist_group("asked questions")
@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row["question"])
def test_the_answer_of_a_tool_is_what_happened(row, answers, world):
    answer = answers[row["question"]]

    assert [*wrong(row, answer, world)] == []
    assert answer["proof"]["is_complete"] == (row["trap"] != "travel")


@pytest.mark.release
@pytest.mark.xdist_group("asked questions")
@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row["question"])
def test_no_answer_gives_a_number_over_a_hole_without_saying_so(row, answers, holed):
    whole, answer = answers[row["question"]], holed[row["question"]]
    proof = answer["proof"]

    assert not proof["is_complete"] or answer["data"] == whole["data"]
    if row["trap"] == "gap":
        assert "2026-06-28 00:00" in " ".join(proof["not_complete_because"])
