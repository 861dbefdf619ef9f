"""Erasing a device or a person: nothing of it stays in any file, and nothing brings it back."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from fleetlake.care.backups.backup import back_up
from fleetlake.care.integrity.rebuild import rebuild_catalog
from fleetlake.care.maintenance import maintain
from fleetlake.cli import app
from fleetlake.dashboard.report import NEWEST
from fleetlake.decoding.arrow import schema_of
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.relations import Thing, naming_columns
from fleetlake.errors import StreamBusy
from fleetlake.exporters import Target
from fleetlake.lake import open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.audit_trail import read_events
from fleetlake.lake.ducklake import METADATA
from fleetlake.lake.erasure import commit_tombstones
from fleetlake.lake.erasure_plan import plan_erasure
from fleetlake.lake.locks import commit_lock, stream_lock
from fleetlake.lake.suppression import read_suppression
from fleetlake.lake.tombstones import add_tombstones
from fleetlake.loading.ingest import backfill
from fleetlake.loading.quarantine import retry_quarantined
from fleetlake.loading.verify import verify
from fleetlake.marts.plan import work_folder
from fleetlake.planning.intervals import BEGINNING, Interval
from fleetlake.privacy.copies import renew_exports
from fleetlake.privacy.erase import erase, purge_files
from fleetlake.privacy.receipt import Receipt
from fleetlake.settings import Settings
from fleetlake.text.word_windows import ERASED
from tests.support.leaks import scan
from tests.support.sim import NOW, Sim, copied, loaded_sim

pytestmark = pytest.mark.xdist_group("erase")  # they share a lake, which takes seconds

LOADED = (
    "accounts",
    "users",
    "routers",
    "net_devices",
    "net_device_metrics",
    "router_lans",
    "alerts",
    "activity_logs",
    "failovers",
    "historical_locations",
    "asset_endpoints",
    "users_v3",
)
OF_ONE = ("users", "routers", "net_devices", "alerts", "failovers", "historical_locations")
"""Endpoints whose rows belong to one device or person, which they name by an id."""

FLEET = {"routers": 4, "days": 2}
IN_TEXTS = ("serial", "serial_number", "mac", "imei", "imsi", "iccid", "mdn", "email", "name")


@dataclass(frozen=True)
class World:
    """A service, its lake before the erasure, and what the erasure said it did."""

    before: Sim
    after: Sim
    receipt: Receipt
    backed_up: str


@pytest.fixture(scope="module")
def world(empty_lake: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Load a fleet, mention the victims elsewhere, back it up, and erase them from a copy."""
    folder = tmp_path_factory.mktemp("world")
    before = loaded_sim(folder, empty_lake, *LOADED, **FLEET)
    mention(before)
    stamp = back_up(before.settings().lake, str(folder / "backups")).manifest.stamp
    (folder / "after").mkdir()
    after = copied(before, folder / "after", **FLEET)
    after.settings().reports.mkdir()
    (after.settings().reports / NEWEST).write_text(victims(after)[0]["name"])
    note_storage(after, folder / "unmounted")
    receipt = erase(after.settings(), wanted(after), backups=[str(folder / "backups")])
    return World(before, after, receipt, stamp)


@pytest.fixture
def loaded(world: World, tmp_path: Path) -> Sim:
    """Return the service with a copy of the lake before the erasure."""
    return copied(world.before, tmp_path, **FLEET)


@pytest.fixture
def erased(world: World, tmp_path: Path) -> Sim:
    """Return the service with a copy of the lake after the erasure."""
    return copied(world.after, tmp_path, **FLEET)


def note_storage(sim: Sim, storage: Path) -> None:
    """Leave a note of builds on another engine, as one leaves it there."""
    file = work_folder(sim.settings().lake) / "on-spark" / "storages"
    file.parent.mkdir(parents=True)
    file.write_text(str(storage))


def mention(sim: Sim) -> None:
    """Add a record of another device that mentions the victims."""
    router, user, _ = victims(sim)
    with open_lake(sim.settings().lake) as lake:
        lake.execute(
            "insert into raw.alerts (created_at_timeuuid, created_at, friendly_info, info, _extra) "
            "values ('x', now(), ?, ?, ?)",
            [
                f"Lost sight of {router['name'].upper()} (SN {router['serial_number']}).",
                json.dumps({"peer": router["mac"], "seen": ["a", user["email"]], "n": 7}),
                json.dumps({"beside": {"router": {"id": int(router["id"])}}, "other": {"id": 5}}),
            ],
        )
        lake.execute(
            "insert into meta.schema_drift (endpoint, member, example) values ('groups', 'm', ?)",
            [json.dumps(user["email"])],
        )
        lake.execute(
            "insert into meta.quarantine (account_profile, endpoint, reason, raw, partition, "
            "quarantined_at) values ('default', 'routers', 'odd', ?, '', now())",
            [json.dumps(router)],
        )


def id_of(address: str | None) -> int | None:
    return int(address.rstrip("/").rpartition("/")[2]) if address else None


def victims(sim: Sim) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """Return a router that moves, a person, and the router's interfaces."""
    active = {one["actor"]["id"] for one in sim.truth("activity_logs")}
    [user, *_] = [one for one in sim.truth("users") if one["id"] in active]
    fixes = [one["_device"] for one in sim.truth("historical_locations")]
    router = next(one for one in sim.truth("routers") if one["id"] in fixes)
    interfaces = sim.truth("net_devices")
    return router, user, [n for n in interfaces if id_of(n["router"]) == int(router["id"])]


def texts_of(sim: Sim) -> set[str]:
    """Return what tells the victims from all others: names of interfaces are not among it."""
    router, user, interfaces = victims(sim)
    parts = [{k: v for k, v in n.items() if k != "name"} for n in interfaces]
    found = {str(one[k]) for one in (router, user, *parts) for k in IN_TEXTS if one.get(k)}
    return found | {text.replace(":", "") for text in found}


def ids_of(sim: Sim) -> set[str]:
    router, user, interfaces = victims(sim)
    return {one["id"] for one in (router, user, *interfaces)}


def wanted(sim: Sim) -> list[tuple[Thing, int]]:
    router, user, _ = victims(sim)
    return [(Thing.ROUTER, int(router["id"])), (Thing.USER, int(user["id"]))]


def rows_of_others(sim: Sim, endpoints: Sequence[str]) -> dict[str, set[Any]]:
    """Return the keys of each endpoint's rows that name neither victim."""
    ids = tuple(int(one) for one in ids_of(sim))
    found = {}
    with open_lake(sim.settings().lake, read_only=True) as lake:
        for name in endpoints:
            columns = [c for thing in Thing for c in naming_columns(ENDPOINTS[name], thing)]
            clean = " and ".join(f"coalesce({c} not in {ids}, true)" for c in columns) or "true"
            key = ", ".join(ENDPOINTS[name].key)
            found[name] = set(lake.rows(f"select {key} from raw.{name} where {clean}"))
    return found


@pytest.mark.proof
def test_no_file_holds_anything_of_what_was_erased(world: World) -> None:
    texts, ids = texts_of(world.before), ids_of(world.before)

    found = scan([world.after.settings().lake], texts=texts, ids=ids)

    assert scan([world.before.settings().lake], texts=texts, ids=ids).leaks
    assert found.leaks == []
    assert found.files > 0


@pytest.mark.proof
def test_rows_of_all_others_are_as_before(world: World) -> None:
    assert rows_of_others(world.after, OF_ONE) == rows_of_others(world.before, OF_ONE)


def test_the_receipt_says_what_was_deleted(world: World) -> None:
    deleted = {one.table: one.deleted for one in world.receipt.tables}
    router = wanted(world.before)[0][1]
    fixes = [x for x in world.before.truth("historical_locations") if x["_device"] == str(router)]

    assert deleted["raw.historical_locations"] == len(fixes)
    assert [deleted[f"raw.{name}"] for name in ("users", "users_v3", "asset_endpoints")] == [1] * 3
    assert deleted["meta.quarantine"] == 1
    assert sum(one.files_rewritten for one in world.receipt.tables) > 0
    interfaces = len(victims(world.before)[2])
    assert world.receipt.things == {"router": 1, "user": 1, "net_device": interfaces}


def test_the_receipt_names_a_storage_of_builds_that_is_not_mounted(world: World) -> None:
    [found] = [one for one in world.receipt.outlets if "unmounted" in one.outlet]

    assert found.done == "not found"
    assert "delete its folders mirror and tables" in str(found.left_to_do)


def test_a_dry_run_counts_what_the_erasure_then_deletes_and_changes_nothing(world: World) -> None:
    settings = world.before.settings()

    planned = erase(settings, wanted(world.before), is_dry_run=True)

    done = {t.table: t.deleted for t in world.receipt.tables if t.table.startswith("raw.")}
    assert {t.table: t.deleted for t in planned.tables} == {t: n for t, n in done.items() if n}
    with open_lake(settings.lake, read_only=True) as lake:
        assert lake.rows("select * from meta.tombstones") == []


def test_the_event_and_the_tombstones_name_nobody(world: World) -> None:
    with open_lake(world.after.settings().lake, read_only=True) as lake:
        [event] = read_events(lake)
        kept = json.dumps(lake.rows("select kind, digest from meta.tombstones"))
    assert event.kind == "erasure"
    assert event.rows
    told = f"{event.summary} {dict(event.details)} {kept}"
    assert not any(id_ in told for id_ in ids_of(world.before))


def test_what_an_erased_person_did_to_others_stays_without_the_person(world: World) -> None:
    _, user, _ = victims(world.before)
    ids = ids_of(world.before)
    of_user = [x for x in world.before.truth("activity_logs") if x["actor"]["id"] == user["id"]]
    to_others = {x["action"]["id"] for x in of_user if x["object"]["id"] not in ids}

    with open_lake(world.after.settings().lake, read_only=True) as lake:
        found = lake.rows("select action_id, actor_id, actor_email from raw.activity_logs")

    assert to_others
    assert to_others <= {action for action, *_ in found}
    assert {(a, e) for action, a, e in found if action in to_others} == {(None, None)}


def test_mentions_in_texts_and_json_of_other_records_are_replaced(world: World) -> None:
    with open_lake(world.after.settings().lake, read_only=True) as lake:
        [(text, info, extra)] = lake.rows(
            "select friendly_info, info, _extra from raw.alerts where created_at_timeuuid = 'x'"
        )
        examples = lake.rows("select example from meta.schema_drift where member = 'm'")
    assert text == f"Lost sight of {ERASED} (SN {ERASED})."
    assert json.loads(info) == {"peer": ERASED, "seen": ["a"], "n": 7}
    assert json.loads(extra) == {"beside": {"router": {"id": ERASED}}, "other": {"id": 5}}
    assert examples == [(None,)]


def test_earlier_backups_are_named_and_the_next_one_holds_nothing(
    world: World, tmp_path: Path
) -> None:
    back_up(world.after.settings().lake, str(tmp_path))

    [told] = [one for one in world.receipt.outlets if one.outlet.startswith("backups")]
    assert world.backed_up in told.done
    texts, ids = texts_of(world.before), ids_of(world.before)
    assert scan([tmp_path], texts=texts, ids=ids).leaks == []


def test_reports_are_removed_too(world: World) -> None:
    [told] = [one for one in world.receipt.outlets if one.outlet.startswith("reports in")]

    assert told.done.startswith("1 report removed")
    assert list(world.after.settings().reports.iterdir()) == []


@pytest.mark.proof
def test_no_load_backfill_or_retry_brings_it_back_and_verify_does_not_miss_it(erased: Sim) -> None:
    settings, texts, ids = erased.settings(), texts_of(erased), ids_of(erased)
    mention(erased)  # its quarantined record
    erased.advance(30 * 3600)

    erased.ingest(*LOADED)
    past = Interval(NOW - timedelta(days=3), NOW)
    backfill(settings, "historical_locations", past, transport=erased.transport)
    with open_lake(settings.lake) as lake:
        retry_quarantined(lake)
        found = {
            (name, column): lake.rows(
                f"select count(*) from raw.{name} where {column} in ({', '.join(ids)})"
            )
            for name in LOADED
            for thing in (Thing.ROUTER, Thing.NET_DEVICE, Thing.USER)
            for column in naming_columns(ENDPOINTS[name], thing)
            if name != "users_v3"
        }
        by = lake.rows("select distinct actor_email from raw.activity_logs")
        people = {email for (email,) in lake.rows("select email from raw.users_v3")}
    compared = verify(settings, "alerts", start=BEGINNING, transport=erased.transport)

    assert set(map(str, found.values())) == {"[(0,)]"}
    assert not texts & ({email for (email,) in by} | people)
    assert people
    assert compared.missing == frozenset()
    assert compared.served > 0


def test_an_account_takes_its_users_and_routers_with_it(loaded: Sim) -> None:
    account = id_of(loaded.truth("routers")[0]["account"])
    assert account
    routers = {
        int(one["id"]) for one in loaded.truth("routers") if id_of(one["account"]) == account
    }
    people = {int(one["id"]) for one in loaded.truth("users") if id_of(one["account"]) == account}

    with open_lake(loaded.settings().lake, read_only=True) as lake:
        plan = plan_erasure(lake, [(Thing.ACCOUNT, account)])

    assert plan.things[Thing.ROUTER] == routers
    assert plan.things[Thing.USER] == people
    assert plan.things[Thing.ACCOUNT] == {account}


def test_nothing_is_erased_while_a_stream_loads(loaded: Sim) -> None:
    settings = loaded.settings().model_copy(update={"busy_wait": 0})

    with stream_lock(settings.lake, "alerts"), pytest.raises(StreamBusy):
        erase(settings, wanted(loaded))


Stop = Callable[[pytest.MonkeyPatch], None]


def stop_after_tombstones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fleetlake.privacy.erase.erase_rows", _stopped)


def stop_after_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fleetlake.privacy.erase.purge_files", _stopped)


def stop_before_the_catalog(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fleetlake.privacy.erase.purge_catalog", _stopped)


def _stopped(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.release
@pytest.mark.parametrize("stop", [stop_after_tombstones, stop_after_rows, stop_before_the_catalog])
def test_a_stopped_erasure_lets_nothing_back_and_the_next_one_finishes(
    loaded: Sim, monkeypatch: pytest.MonkeyPatch, stop: Stop
) -> None:
    texts, ids = texts_of(loaded), ids_of(loaded)
    with monkeypatch.context() as patch:
        stop(patch)
        with pytest.raises(KeyboardInterrupt):
            erase(loaded.settings(), wanted(loaded))
    loaded.advance(3600)
    loaded.ingest("routers", "users", "alerts", "historical_locations")

    erase(loaded.settings(), wanted(loaded))

    assert scan([loaded.settings().lake], texts=texts, ids=ids).leaks == []


@pytest.mark.release
@pytest.mark.parametrize("stop", [stop_after_tombstones, stop_after_rows])
def test_a_catalog_built_anew_after_a_stopped_erasure_shows_nothing_of_what_was_erased(
    loaded: Sim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: Stop
) -> None:
    path, texts, ids = loaded.settings().lake, texts_of(loaded), ids_of(loaded)
    with open_lake(path) as lake:
        maintain(lake)  # so that files hold all rows
    before = rows_of_others(loaded, OF_ONE)
    with monkeypatch.context() as patch:
        stop(patch)
        with pytest.raises(KeyboardInterrupt):
            erase(loaded.settings(), wanted(loaded))
    for file in path.glob(f"{CATALOG}*"):
        file.unlink()

    rebuilt = rebuild_catalog(path)

    shown = copy_of_shown(path, tmp_path / "shown")
    assert scan([shown], texts=texts, ids=ids).leaks == []
    assert rows_of_others(loaded, OF_ONE) == before
    with open_lake(path, read_only=True) as lake:
        [(fixes,)] = lake.rows("select count(*) from raw.historical_locations")
    assert rebuilt.rows["historical_locations"] == fixes > 0
    erase(loaded.settings(), wanted(loaded))
    assert scan([path], texts=texts, ids=ids).leaks == []


def copy_of_shown(path: Path, folder: Path) -> Path:
    """Write all rows that a lake shows in `raw` and `meta` to a folder."""
    folder.mkdir()
    with open_lake(path, read_only=True) as lake:
        for schema, table in lake.rows(
            "select schema_name, table_name from duckdb_tables() where database_name = 'lake'"
        ):
            file = folder / f"{schema}.{table}.parquet"
            lake.execute(f"copy {schema}.{table} to '{file}' (format parquet)")
    return folder


@pytest.mark.proof
def test_an_interface_of_an_erased_router_that_appears_later_is_withheld_too(loaded: Sim) -> None:
    router, _, _ = victims(loaded)
    new = 9_999_999
    with open_lake(loaded.settings().lake) as lake, commit_lock(lake.path):
        commit_tombstones(lake, plan_erasure(lake, [(Thing.ROUTER, int(router["id"]))]))
        lake.execute("delete from raw.net_devices")
        lake.execute("insert into raw.net_device_metrics (id, net_device_id) values (1, ?)", [new])
        lake.execute("delete from meta.tombstones where kind = 'net_device'")

    loaded.ingest("net_devices")

    with open_lake(loaded.settings().lake, read_only=True) as lake:
        of_router = lake.rows(
            "select count(*) from raw.net_devices where router_id = ?", [int(router["id"])]
        )
        buried = lake.rows("select count(*) from meta.tombstones where kind = 'net_device'")
    assert of_router == [(0,)]
    assert buried == [(len(victims(loaded)[2]),)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [("n\n", "Nothing was erased."), pytest.param("", "--yes", marks=pytest.mark.proof)],
)
def test_the_command_shows_what_it_would_delete_and_asks(
    loaded: Sim, monkeypatch: pytest.MonkeyPatch, answer: str, said: str
) -> None:
    monkeypatch.setattr("fleetlake.settings.load_settings", loaded.settings)
    router = wanted(loaded)[0][1]

    done = CliRunner().invoke(app, ["erase", "--router", str(router)], input=answer)

    assert "raw.historical_locations" in done.output
    assert "Would be erased: 1 router" in done.output
    assert said in f"{done.output} {getattr(done.exception, 'remedy', '')}"
    assert rows_of_others(loaded, ["routers"])
    with open_lake(loaded.settings().lake, read_only=True) as lake:
        assert lake.rows("select count(*) from raw.routers where id = ?", [router]) == [(1,)]


KEPT_AND_ERASED = {
    "varchar": ("a", "b"),
    "tinyint": (1, 9),
    "smallint": (1, 9),
    "integer": (1, 9),
    "bigint": (1, 9),
    "hugeint": (1, 9),
    "float": (0.5, 9.5),
    "double": (0.5, 9.5),
    "boolean": (False, True),
    "date": ("2020-01-01", "2029-09-09"),
    "timestamp": ("2020-01-01 00:00:00", "2029-09-09 00:00:00"),
    "timestamptz": ("2020-01-01 00:00:00+00", "2029-09-09 00:00:00+00"),
}


def test_the_catalog_keeps_no_bound_of_a_deleted_row_in_a_column_of_any_type(
    lake_path: Path,
) -> None:
    columns = ", ".join(f'"{kind}" {kind}' for kind in KEPT_AND_ERASED)
    kept = [value for value, _ in KEPT_AND_ERASED.values()]
    stats = f"{METADATA}.ducklake_table_column_stats"
    of_kinds = (
        f"table_id = (select table_id from {METADATA}.ducklake_table where table_name = 'kinds')"
    )
    with open_lake(lake_path) as lake:
        lake.execute(f"create table marts.kinds ({columns})")
        lake.execute(f"insert into marts.kinds values ({', '.join('?' * len(kept))})", kept)
        lake.execute("call ducklake_flush_inlined_data('lake')")
        for number, (_, erased) in enumerate(KEPT_AND_ERASED.values(), 1):
            lake.execute(  # as DuckLake leaves it
                f"update {stats} set max_value = ? where {of_kinds} and column_id = {number}",
                [str(erased).lower()],
            )

        purge_files(lake)

        bounds = lake.rows(f"select column_id, min_value, max_value from {stats} where {of_kinds}")
    assert len(bounds) == len(KEPT_AND_ERASED)
    assert [number for number, least, greatest in bounds if least != greatest] == []


def test_a_new_record_that_mentions_what_was_erased_is_stored_without_it(lake_path: Path) -> None:
    endpoint = ENDPOINTS["alerts"]
    rows = pa.table(
        {
            "created_at_timeuuid": ["a", "b"],
            "friendly_info": ["Bus 12 is near", "Bus 13 is near"],
            "info": ['{"email": "ana@fleet.example"}', '{"router": "9"}'],
            "router_id": [5, 5],
        }
    )
    with open_lake(lake_path) as lake, lake.transaction():
        add_tombstones(lake, [(Thing.ROUTER, 9)], ["bus 12", "ana fleet example", "router 9"])
        suppression = read_suppression(lake, endpoint)
    empty = pa.table({f.name: pa.nulls(2, f.type) for f in schema_of(endpoint)})
    for name in rows.column_names:
        index = empty.schema.get_field_index(name)
        field = empty.schema.field(index)
        storage = getattr(field.type, "storage_type", field.type)
        values = rows[name].combine_chunks().cast(storage)
        if storage is not field.type:
            values = pa.ExtensionArray.from_storage(field.type, values)
        empty = empty.set_column(index, field, values)

    stored = suppression.redacted(suppression.admitted(empty))

    assert stored["friendly_info"].to_pylist() == [f"{ERASED} is near", "Bus 13 is near"]
    assert [json.loads(text) for text in stored["info"].to_pylist()] == [
        {"email": ERASED},
        {"router": ERASED},
    ]


def test_an_erasure_rewrites_exports_wherever_they_are_and_makes_none(
    lake_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/exports/jsonl").mkdir(parents=True)  # the default folder of that target
    (tmp_path / "csv").mkdir()
    options: dict[str, str | None] = {}

    def rewrite(_lake: object, target: Target, _address: SecretStr) -> list[str]:
        options[target.name] = target.option
        return ["trips"]

    monkeypatch.setattr("fleetlake.privacy.copies.renew", rewrite)
    addresses = {
        "parquet": "s3://bucket/fleet",
        "csv": str(tmp_path / "csv"),
        "delta": str(tmp_path / "gone"),
        "snowflake": "snowflake://fleet",
    }
    settings = Settings(
        lake=lake_path,
        exports={name: SecretStr(address) for name, address in addresses.items()},
        csv_guard=True,
    )

    receipts = {
        receipt.outlet.removeprefix("export to "): receipt
        for receipt in renew_exports(settings, lambda _: None)
    }

    assert [*receipts] == ["parquet", "csv", "jsonl", "snowflake", "exports to other addresses"]
    assert {receipts[name].done for name in options} == {"1 table rewritten"}
    assert options["csv"] == "csv guarded"
    assert receipts["parquet"].left_to_do.startswith("If the bucket keeps versions")
    assert receipts["snowflake"].left_to_do.startswith("Snowflake keeps deleted rows")
    assert receipts["csv"].left_to_do == receipts["jsonl"].left_to_do == ""
