"""Snapshots are switched under readers, and no query can do more than read one of them."""

import asyncio
import json
import threading
from shutil import rmtree

import duckdb
import pytest

from fleetlake.dashboard import web_app
from fleetlake.dashboard.open_snapshots import (
    OpenSnapshots,
    PublishedSnapshot,
    QueryRejected,
    QueryTooLong,
)
from fleetlake.dashboard.panels import dashboard_pages
from fleetlake.dashboard.report import read_report
from fleetlake.dashboard.web_app import create_dashboard
from fleetlake.publishing.layout import coarse_columns
from tests.dashboard.asking import NEEDED, answer_of, ask, rows_of
from tests.dashboard.world import World

SOME = ("device_inventory", "failover_episodes", "failover_now", "location_latest", "battery_risk")
COUNT = "select count(*) as rows from failover_episodes"
ENDLESS = "select count(*) as n from range(1000000) a, range(1000000) b"


@pytest.fixture
def own_world(tmp_path):
    return World(tmp_path)


def count(snapshot):
    return snapshot.rows(COUNT, {}).column("rows").to_pylist()


def test_a_reader_keeps_its_snapshot_and_the_next_reader_gets_the_new_one(own_world):
    own_world.publish(only=SOME, rows=5)
    snapshots = OpenSnapshots(own_world.published)

    with snapshots.lease() as before:
        own_world.publish(only=SOME, rows=7)
        with snapshots.lease() as after:
            assert count(after) == [7]
        assert count(before) == [5]

    with pytest.raises(duckdb.ConnectionException):
        count(before)
    snapshots.close()


def test_no_request_fails_while_snapshots_are_switched(own_world):
    folders = [own_world.publish(only=SOME, rows=3)]
    app = create_dashboard(own_world.published)
    answered = threading.Event()

    def publish_on():
        for rows in range(4, 8):
            # No request meets more than two new snapshots, however slow this machine is.
            answered.clear()
            assert answered.wait(60)
            folders.append(own_world.publish(only=SOME, rows=rows))
            if len(folders) > 2:
                rmtree(folders[-3])  # as `publish` does: the newest two stay

    async def read_meanwhile():
        publishing = asyncio.create_task(asyncio.to_thread(publish_on))
        codes = []
        while not publishing.done():
            given = {"last": "all", "search": str(len(codes))}  # no answer is a kept one
            asked = (answer_of(app, "/api/failover/episodes", given) for _ in range(4))
            codes += [answer.status_code for answer in await asyncio.gather(*asked)]
            answered.set()
        await publishing
        return codes

    codes = asyncio.run(read_meanwhile())

    assert set(codes) == {200}
    assert len(rows_of(ask(app, "/api/failover/episodes", {"last": "all"}))) == 7


def test_a_request_whose_snapshot_is_removed_meanwhile_is_answered_from_the_newest(
    own_world, monkeypatch
):
    folders = [own_world.publish(only=SOME, rows=3)]
    run = PublishedSnapshot.rows

    def late(self, sql, parameters, **more):
        if len(folders) == 1:
            folders.append(own_world.publish(only=SOME, rows=7))
            rmtree(folders[0])
        return run(self, sql, parameters, **more)

    monkeypatch.setattr(PublishedSnapshot, "rows", late)
    app = create_dashboard(own_world.published)
    answer = ask(app, "/api/failover/episodes", {"last": "all"})

    assert len(rows_of(answer)) == 7
    assert answer.json()["snapshot"] == folders[1].name


def test_before_the_first_snapshot_pages_say_what_to_do_and_then_fill(own_world):
    app = create_dashboard(own_world.published)

    empty = ask(app, "/api/now/summary")
    page = ask(app, "/now")
    own_world.publish(only=SOME)
    full = ask(app, "/api/now/summary")

    assert empty.status_code == 503
    assert "fleetlake publish`; an open dashboard then fills" in empty.json()["remedy"]
    assert page.status_code == full.status_code == 200


def test_a_damaged_snapshot_leaves_the_one_before(own_world):
    own_world.publish(only=SOME, rows=5)
    snapshots = OpenSnapshots(own_world.published)
    snapshots.refresh()
    damaged = own_world.publish(only=SOME, rows=7)
    (damaged / "snapshot.json").write_text("{")

    with snapshots.lease() as snapshot:
        assert count(snapshot) == [5]
    snapshots.close()


def test_a_snapshot_without_a_mart_shows_the_other_panels(own_world):
    own_world.publish(only=SOME)
    app = create_dashboard(own_world.published)

    missing = ask(app, "/api/now/attention")

    assert missing.status_code == 404
    assert "attention" in missing.json()["what"]
    assert "fleetlake build" in missing.json()["remedy"]
    assert ask(app, "/api/now/offline").status_code == 200


def test_a_coarse_snapshot_shows_ids_where_it_has_no_names(own_world):
    folder = own_world.publish(only=SOME)
    file = folder / "snapshot.json"
    description = json.loads(file.read_text())
    for table in description["tables"].values():
        table["columns"] = [c for c in table["columns"] if c["name"] != "router_name"]
    file.write_text(json.dumps({**description, "is_coarse": True}))
    app = create_dashboard(own_world.published)

    rows = rows_of(ask(app, "/api/map/map"))

    assert {row["router_name"] for row in rows} == {None}
    assert all(row["router_id"] for row in rows)
    assert ask(app, "/api/status").json()["is_coarse"] is True


def test_every_panel_and_the_report_work_without_the_columns_that_a_coarse_snapshot_lacks(
    own_world,
):
    folder = own_world.publish(rows=20)
    file = folder / "snapshot.json"
    description = json.loads(file.read_text())
    for name, table in description["tables"].items():
        shown = [(c["name"], c["type"]) for c in table["columns"]]
        kept = {column for column, _ in coarse_columns("marts", name, shown)}
        table["columns"] = [c for c in table["columns"] if c["name"] in kept]
    file.write_text(json.dumps({**description, "is_coarse": True}))
    app = create_dashboard(own_world.published)
    panels = [panel for page in dashboard_pages().values() for panel in page.panels.values()]

    answers = {p.path: ask(app, p.path, {**NEEDED, "last": "all"}) for p in panels}

    assert {path for path, answer in answers.items() if answer.status_code != 200} == set()
    texts = read_report(own_world.published).html + "".join(a.text for a in answers.values())
    assert "V700-Denver-00001" not in texts
    assert "router_name" in texts


def test_a_query_that_takes_too_long_is_stopped(own_world):
    own_world.publish(only=SOME, rows=1)
    snapshots = OpenSnapshots(own_world.published)

    with snapshots.lease() as snapshot:
        with pytest.raises(QueryTooLong):
            snapshot.rows(ENDLESS, {}, seconds=0.05)
        assert count(snapshot) == [1]
    snapshots.close()


def test_an_export_that_takes_too_long_is_stopped_while_its_rows_are_read(own_world):
    own_world.publish(only=SOME, rows=1)
    snapshots = OpenSnapshots(own_world.published)

    with snapshots.lease() as snapshot:
        with (
            pytest.raises(QueryTooLong),
            snapshot.batches("select range from range(1000000000000)", {}, seconds=0.05) as rows,
        ):
            assert sum(batch.num_rows for batch in rows)
        assert count(snapshot) == [1]
    snapshots.close()


@pytest.mark.parametrize(
    "statement",
    [
        "select * from read_csv('/etc/hostname')",
        "copy (select 1) to '/tmp/written.csv'",
        "attach '/tmp/other.duckdb'",
        "set enable_external_access = true",
        "install spatial",
    ],
)
def test_no_statement_leaves_the_snapshot(own_world, statement):
    own_world.publish(only=SOME, rows=1)
    snapshots = OpenSnapshots(own_world.published)

    with snapshots.lease() as snapshot, pytest.raises(QueryRejected):
        snapshot.rows(statement, {})
    snapshots.close()


def test_readers_hear_of_a_new_snapshot(own_world, monkeypatch):
    monkeypatch.setattr(web_app, "CHECK_SECONDS", 0.01)
    first = own_world.publish(only=SOME, rows=1).name
    app = create_dashboard(own_world.published)

    async def listen():
        async with app.state.dashboard.lifespan(app):
            news = (await app.state.dashboard.events(None)).body_iterator
            told = [await anext(news)]
            own_world.publish(only=SOME, rows=2)
            told.append(await asyncio.wait_for(anext(news), 120))
            app.state.dashboard.stop()
            told += [line async for line in news]
            return told

    told = asyncio.run(listen())

    assert told[0] == f"event: snapshot\ndata: {first}\n\n"
    assert told[1] == f"event: snapshot\ndata: {own_world.published.resolve().name}\n\n"
    assert len(told) == 2


def test_an_answer_is_kept_only_as_long_as_its_snapshot(own_world):
    own_world.publish(only=SOME, seed=1)
    app = create_dashboard(own_world.published)

    first = ask(app, "/api/now/offline").json()
    again = ask(app, "/api/now/offline").json()
    own_world.publish(only=SOME, seed=2)
    other = ask(app, "/api/now/offline").json()

    assert first == again
    assert first["values"] != other["values"]
