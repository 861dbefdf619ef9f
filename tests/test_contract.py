"""The data contract: valid by the standard, measured, and broken only where the changelog says so.

`odcs-3.1.0.json` is the JSON schema of the Open Data Contract Standard, unchanged: `schema/` of
github.com/bitol-io/open-data-contract-standard, Apache License 2.0.
"""

import json
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from fleetlake.analysis.data_contract import measured_contract, released_contract
from fleetlake.cli import app
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError
from fleetlake.lake import open_lake
from fleetlake.lake.commit import set_watermarks
from fleetlake.lake.watermarks import add_intervals
from fleetlake.marts import sql_project
from fleetlake.planning.intervals import Interval
from fleetlake.publishing.publish import publish
from fleetlake.settings import Settings
from tests.support.streams import read_until
from tests.test_source_commit import git
from tools import contract_changes
from tools.contract_changes import breaking, released, unnamed, users
from tools.reference import contract_text

SCHEMA = json.loads((Path(__file__).parent / "odcs-3.1.0.json").read_text())
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def settings(module_lake, tmp_path_factory):
    """Return the settings of a lake that has published two marts and a raw table.

    Alerts are complete until two hours ago, but for a day that was not read.
    """
    now = datetime.now(UTC)
    with open_lake(module_lake) as lake:
        mark = read_until("alerts", now - 2 * HOUR)
        set_watermarks(lake, [mark])
        proven = [Interval(now - 9 * DAY, now - 5 * DAY), Interval(now - 4 * DAY, now - 2 * HOUR)]
        add_intervals(lake, "default", ENDPOINTS["alerts"], {"": proven})
        lake.execute(
            "create table marts.alert_volume as select 'x' as alert_type, 1::bigint as router_id, "
            "2::bigint as account_id, date '2026-01-01' as alert_date, now() as built_at;"
            "create table marts.own as select 1 as n, 2.5::double as distance_km, [1] as list"
        )
    folder = tmp_path_factory.mktemp("published") / "marts"
    publish(module_lake, folder, raw=["alerts"])
    return Settings(
        lake=module_lake, published=folder, exports={"postgres": "host=db dbname=f password=s3cret"}
    )


@pytest.fixture
def measured(settings, monkeypatch):
    """Return the contract of that snapshot."""
    monkeypatch.setenv("FLEETLAKE_LAKE", str(settings.lake))
    return measured_contract(settings)


def columns_of(contract, table):
    [found] = [one for one in contract["schema"] if one["name"] == table]
    return {column["name"]: column for column in found["properties"]}


def test_contracts_are_as_the_standard_requires(measured):
    jsonschema.Draft201909Validator.check_schema(SCHEMA)
    for contract in (released_contract(), measured):
        jsonschema.validate(contract, SCHEMA, jsonschema.Draft201909Validator)

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**measured, "kind": "x"}, SCHEMA, jsonschema.Draft201909Validator)


def test_it_has_types_keys_meanings_units_and_required_columns():
    trips = columns_of(released_contract(), "trips")

    assert trips["trip_id"]["primaryKeyPosition"] == 2
    assert trips["trip_id"]["required"]
    assert "required" not in trips["end_place_name"]
    assert (trips["is_open"]["logicalType"], trips["fixes"]["physicalType"]) == (
        "boolean",
        "bigint",
    )
    assert trips["started_at"]["logicalTypeOptions"] == {"timezone": True}
    assert trips["distance_km"]["customProperties"] == [{"property": "unit", "value": "km"}]
    assert all(column["description"] for column in trips.values())


def test_a_key_with_columns_that_may_be_empty_is_a_rule_and_no_primary_key():
    [volume] = [one for one in released_contract()["schema"] if one["name"] == "alert_volume"]

    assert volume["quality"][0]["arguments"]["properties"] == [
        "alert_type",
        "router_id",
        "account_id",
        "alert_date",
    ]
    assert not any("primaryKey" in column for column in volume["properties"])


def test_a_published_snapshot_has_its_own_tables_and_addresses(measured, settings):
    assert [one["name"] for one in measured["schema"]] == ["alert_volume", "own", "raw_alerts"]
    own = columns_of(measured, "own")
    assert [own[name]["logicalType"] for name in own] == ["integer", "number", "array"]
    local, postgres = measured["servers"]
    assert local["path"] == f"{settings.published}/{{model}}/**/*.parquet"
    assert [*Path(local["path"].format(model="own").partition("*")[0]).glob("**/*.parquet")]
    assert (postgres["host"], postgres["port"], postgres["database"]) == ("db", 5432, "f")
    assert "s3cret" not in str(measured)


def test_the_owner_is_that_of_the_project_s_first_exposure(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    text = "exposures: [{name: bi, owner: {email: bi@example.org}, depends_on: []}]"
    (tmp_path / "models" / "exposures.yml").write_text(text)
    assert released_contract()["team"]["name"] == "Fleet analytics"
    monkeypatch.setattr(sql_project, "own_sql", lambda: tmp_path)

    assert released_contract()["support"][0]["url"] == "mailto:bi@example.org"


def test_freshness_and_completeness_are_as_measured(measured):
    levels = {(one["property"], one["element"]): one for one in measured["slaProperties"]}

    assert 1.9 < levels["latency", "raw_alerts"]["value"] < 3  # hours; a busy machine adds minutes
    complete = levels["completeness", "raw_alerts"]
    assert 60 < complete["value"] < 100  # one or two days of ten have the hole
    assert "alerts has 1 hole" in complete["description"]
    assert ("completeness", "own") not in levels  # no model says what it rests on


def test_the_command_writes_it_and_says_what_to_do_before_anything_is_published(
    settings, monkeypatch, tmp_path
):
    monkeypatch.setenv("FLEETLAKE_LAKE", str(settings.lake))
    monkeypatch.setenv("FLEETLAKE_PUBLISHED", str(settings.published))

    done = CliRunner().invoke(app, ["contract"])
    CliRunner().invoke(app, ["contract", "--to", str(tmp_path / "fleet.odcs.yaml")])

    assert done.exit_code == 0
    assert done.stdout == (tmp_path / "fleet.odcs.yaml").read_text()
    with pytest.raises(LakeError, match="no published snapshot"):
        measured_contract(settings.model_copy(update={"published": tmp_path}))


def test_the_committed_contract_is_that_of_the_marts():
    assert contract_text() == contract_changes.CONTRACT.read_text("utf-8"), "run `make reference`"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("trips", "is removed"),
        ("trips.distance_km", "is removed"),
        ("trips.fixes", "is text instead of bigint"),
        ("trips.router_id", "may be empty"),
        ("trips", "has the key ['router_id'] instead of ['router_id', 'trip_id']"),
        ("alert_volume", "has the key ['alert_type'] instead of "),
    ],
)
def test_a_mart_that_changes_under_its_readers_is_named_with_them(path, what):
    before, after = released_contract(), deepcopy(released_contract())
    mart, _, column = path.partition(".")
    [table] = [one for one in after["schema"] if one["name"] == mart]
    columns = columns_of(after, mart)
    if what == "is removed":
        (table["properties"] if column else after["schema"]).remove(
            columns[column] if column else table
        )
    elif "text" in what:
        columns[column]["physicalType"] = "text"
    elif "empty" in what:
        del columns[column]["required"]
    elif mart == "trips":
        del columns["trip_id"]["primaryKey"]
    else:
        table["quality"][0]["arguments"]["properties"] = ["alert_type"]

    [found] = breaking(before, after)
    [line] = unnamed(breaking(before, after), "## [Unreleased]\n\n## [0.2.0] - x\n`trips`\n")

    assert found[0] == path
    assert found[1].startswith(what)
    assert line.endswith("; used by published_snapshot, dashboard")
    assert unnamed(breaking(before, after), f"## [Unreleased]\n- `{path}` is gone.\n") == []


def test_new_marts_and_columns_break_nothing():
    before, after = released_contract(), released_contract()
    del before["schema"][0]
    del before["schema"][0]["properties"][-1]

    assert [*breaking(before, after)] == []


def test_each_mart_is_used_and_the_check_says_so(monkeypatch):
    assert all(users(one["name"]) for one in released_contract()["schema"])
    empty = {"schema": []}
    monkeypatch.setattr(contract_changes, "released_contract", lambda: empty)

    with pytest.raises(SystemExit, match="trips is removed; used by published_snapshot, dashboard"):
        contract_changes.main()


def test_the_contract_of_the_newest_release_counts_and_before_it_the_first_one(tmp_path):
    file = tmp_path / contract_changes.CONTRACT.relative_to(contract_changes.ROOT)
    file.parent.mkdir(parents=True)
    git(tmp_path, "init", "--quiet")
    found = []
    for number, tag in enumerate(["", "", "v0.3.0", ""]):
        file.write_text(f"version: {number}")
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", "a change")
        if tag:
            git(tmp_path, "tag", tag)
        found.append(released(tmp_path)[1]["version"])

    assert found == [0, 0, 2, 2]
