"""Snowflake and BigQuery, which no test can reach: the exact statements sent to their drivers.

`<target>.sql` beside this file has all statements of a first export and of one with changes.
"""

import re
from pathlib import Path

import pytest
import sqlglot

from fleetlake.errors import ExportFailed
from fleetlake.exporters import TARGETS, bigquery, postgres, snowflake
from fleetlake.exporters.contract import KINDS
from fleetlake.exporters.export import export
from fleetlake.lake import open_lake
from tests.exporters.targets import OPENERS

FROM_STAGE = {
    "snowflake": snowflake.SNOWFLAKE.from_stage,
    "bigquery": bigquery.BIGQUERY.from_stage,
}


@pytest.fixture(params=FROM_STAGE)
def target(request, tmp_path, monkeypatch):
    return OPENERS[request.param](tmp_path / "target", monkeypatch)


@pytest.fixture
def lake(lake_path):
    with open_lake(lake_path) as opened:
        opened.execute(
            "create table marts.trips as "
            "select 1 as router_id, 'a' as trip_id, now() as started_at, '{}'::json as extra"
        )
        yield opened


def test_a_warehouse_stages_rows_and_moves_them_in_one_transaction(lake, target):
    export(lake, TARGETS[target.name], target.address, ["trips"])
    lake.execute("update marts.trips set extra = '{\"n\": 1}'")
    lake.execute("alter table marts.trips add column is_short boolean")
    target.statements.append("-- then, a row changed and a column more:")
    export(lake, TARGETS[target.name], target.address, ["trips"])

    script = re.sub(r"'\{.*\}'", "'{the mark}'", "\n".join(target.statements))
    script = re.sub(r"^(COMMENT .* IS) '.*'$", r"\1 '{a description}'", script, flags=re.MULTILINE)
    assert script + "\n" == Path(__file__).with_name(f"{target.name}.sql").read_text()


MEANT = {
    "BOOLEAN": {"BOOLEAN"},
    "BIGINT": {"BIGINT"},
    "DOUBLE": {"DOUBLE"},
    "DATE": {"DATE"},
    "TIMESTAMP WITH TIME ZONE": {"TIMESTAMPTZ"},
    "VARCHAR": {"VARCHAR", "TEXT"},
    "JSON": {"JSON", "VARIANT"},
}


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("snowflake", snowflake.SNOWFLAKE),
        ("bigquery", bigquery.BIGQUERY),
        ("postgres", postgres.POSTGRES),
    ],
)
def test_each_kind_of_column_has_the_type_of_the_same_meaning(name, dialect):
    assert {*dialect.types} == {*MEANT} == {*KINDS}
    for kind, text in dialect.types.items():
        column = sqlglot.parse_one(f"create table t (c {text})", dialect=name)
        assert column.find(sqlglot.exp.DataType).this.value in MEANT[kind], text


def test_a_change_without_new_rows_stages_only_the_keys_to_delete(lake, target):
    export(lake, TARGETS[target.name], target.address, ["trips"])
    lake.execute("delete from marts.trips")
    target.statements.clear()
    export(lake, TARGETS[target.name], target.address, ["trips"])

    staged = [statement for statement in target.statements if statement.startswith("<ingest")]
    assert staged == ["<ingest replace fleetlake_stage_stale>"]
    assert target.read("trips") == []


def test_a_failed_transaction_leaves_rows_and_mark_unchanged(lake, target, monkeypatch):
    export(lake, TARGETS[target.name], target.address, ["trips"])
    before = target.read("fleetlake_exports"), target.read("trips")
    lake.execute("update marts.trips set extra = '{\"n\":2}'")
    with monkeypatch.context() as patch:
        patch.setitem(FROM_STAGE[target.name], "JSON", "no_such_function({})")
        with pytest.raises(ExportFailed, match="no_such_function"):
            export(lake, TARGETS[target.name], target.address, ["trips"])

    assert (target.read("fleetlake_exports"), target.read("trips")) == before
    export(lake, TARGETS[target.name], target.address, ["trips"])
    assert [row["extra"] for row in target.read("trips")] == ['{"n":2}']
