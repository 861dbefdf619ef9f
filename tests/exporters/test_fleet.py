"""A fleet's export to PostgreSQL, end to end, twice, with a day between."""

import sys

import adbc_driver_postgresql.dbapi
import pytest
from pydantic import SecretStr

from fleetlake.exporters import TARGETS
from fleetlake.exporters.export import Exported, export
from fleetlake.lake import open_lake
from fleetlake.marts import build_marts
from tests.exporters.targets import OPENERS, normal

pytestmark = [pytest.mark.postgres, pytest.mark.xdist_group("processes")]


def export_all(settings, address: SecretStr) -> list[Exported]:
    with open_lake(settings.lake, read_only=True) as lake:
        return export(lake, TARGETS["postgres"], address, ["marts", "raw"])


def unequal_tables(settings, address: SecretStr, names: list[str]) -> dict[str, tuple[int, int]]:
    """Return for each table the rows that only the lake has, and those that only the target has."""
    found = {}
    with (
        open_lake(settings.lake, read_only=True) as lake,
        adbc_driver_postgresql.dbapi.connect(address.get_secret_value()) as there,
        there.cursor() as cursor,
    ):
        for name in names:
            cursor.execute(f'SELECT * FROM "{name}"')
            theirs = cursor.fetch_arrow_table()
            ours = name.replace("raw_", "raw.", 1) if name.startswith("raw_") else f"marts.{name}"
            kinds = ", ".join(
                f"{column}::{kind}::varchar as {column}"
                for column, kind in lake.rows(
                    f"select column_name, column_type from (describe {ours})"
                )
            )
            with lake.view("theirs", theirs):
                found[name] = tuple(
                    lake.rows(f"select count(*) from (select {kinds} from {a} "
                              f"except all select {kinds} from {b})")[0][0]
                    for a, b in ((ours, "theirs"), ("theirs", ours))
                )  # fmt: skip
    return {name: counts for name, counts in found.items() if counts != (0, 0)}


def test_a_day_later_only_what_changed_is_sent_and_all_tables_are_equal(
    make_sim, tmp_path, monkeypatch
):
    sim = make_sim(routers=12, days=4)
    target = OPENERS["postgres"](tmp_path, monkeypatch)
    sim.ingest()
    build_marts(sim.settings().lake)
    first = export_all(sim.settings(), target.address)
    sim.advance(86_400)
    sim.ingest()
    build_marts(sim.settings().lake)
    second = export_all(sim.settings(), target.address)
    third = export_all(sim.settings(), target.address)
    for word, done in (("first", first), ("a day later", second), ("again", third)):
        sent, removed = sum(o.sent for o in done), sum(o.removed for o in done)
        seconds = sum(o.seconds for o in done)
        sys.stdout.write(f"{word}: {sent:,} rows sent, {removed:,} removed, {seconds:.1f} s\n")

    assert unequal_tables(sim.settings(), target.address, [o.table for o in second]) == {}
    assert 0 < sum(o.sent for o in second) < sum(o.sent for o in first) * 0.7
    assert {o.full_reason for o in second} == {None}
    assert sum(o.sent for o in third) == 0


def test_a_table_in_another_schema_of_the_search_path_is_left_alone(
    lake_path, tmp_path, monkeypatch
):
    target, other = (OPENERS["postgres"](tmp_path, monkeypatch) for _ in range(2))
    theirs = other.address.get_secret_value().rpartition("%3D")[2]
    both = SecretStr(f"{target.address.get_secret_value()},{theirs}")
    with (
        adbc_driver_postgresql.dbapi.connect(
            other.address.get_secret_value(), autocommit=True
        ) as there,
        there.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE trips AS SELECT 42 AS mine")
    with open_lake(lake_path) as lake:
        lake.execute("create table marts.trips as select 7 as router_id, 'a' as trip_id")
        export(lake, TARGETS["postgres"], both, ["trips"])

    assert other.read("trips") == [{"mine": 42}]
    assert normal(target.read("trips")) == [{"router_id": 7, "trip_id": "a"}]
