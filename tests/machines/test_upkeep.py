"""Checking, repairing and erasing in a lake whose catalog is in PostgreSQL."""

from pathlib import Path
from typing import Any

import pytest

from fleetlake.care.integrity.check import check_lake
from fleetlake.care.integrity.damage import DamageKind
from fleetlake.care.integrity.rebuild import rebuild_catalog
from fleetlake.endpoints import ENDPOINTS
from fleetlake.errors import LakeError
from fleetlake.lake import open_lake
from fleetlake.lake.audit_trail import read_events
from fleetlake.lake_address import SharedLake
from fleetlake.loading.repair import plan_repair, read_again, repair
from fleetlake.privacy.erase import erase
from tests.support.leaks import scan
from tests.support.sim import Sim
from tests.test_damage import LOADED, SAMPLES, flip
from tests.test_erase import FLEET, ids_of, texts_of, wanted
from tests.test_erase import LOADED as ERASED_FROM
from tests.test_load import flaws

DAMAGES = {
    "deleted": (Path.unlink, DamageKind.MISSING),
    "truncated": (lambda file: file.write_bytes(file.read_bytes()[:-99]), DamageKind.SIZE),
    "flipped": (lambda file: flip(file, 0.5), DamageKind.CONTENT),
}


@pytest.fixture
def loaded(make_sim, shared) -> Sim:
    """Return a service with some endpoints loaded into a shared lake."""
    return load_into(make_sim(), shared, LOADED)


def load_into(sim: Sim, shared: SharedLake, names: tuple[str, ...]) -> Sim:
    settings = sim.settings(lake=shared)
    sim.settings = lambda **_: settings
    outcomes = sim.ingest(*names)
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return sim


@pytest.mark.usefixtures("loaded")
def test_a_check_of_a_whole_shared_lake_finds_nothing(shared):
    report = check_lake(shared, is_full=True)

    assert report.damages == ()
    assert report.files > 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_of_a_damaged_file_of_a_shared_lake_are_read_again(loaded, shared, damage):
    destroy, kind = DAMAGES[damage]
    destroy(min(Path(shared.files, SAMPLES).glob("*.parquet")))

    found = check_lake(shared, is_full=True).damages
    plan = plan_repair(shared)
    repair(shared, plan)
    outcomes = read_again(loaded.settings(), plan, transport=loaded.transport)

    assert [(one.kind, one.table) for one in found] == [(kind, "raw.router_state_samples")]
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    assert flaws(loaded, [ENDPOINTS[name] for name in LOADED]) == {}
    assert check_lake(shared, is_full=True).damages == ()
    with open_lake(shared, read_only=True) as lake:
        assert [event.kind for event in read_events(lake)] == ["repair"]


@pytest.mark.usefixtures("loaded")
def test_the_catalog_of_a_shared_lake_is_never_built_anew(shared):
    with pytest.raises(LakeError, match="PostgreSQL") as refused:
        rebuild_catalog(shared)

    assert "pg_restore" in refused.value.remedy


def test_neither_files_nor_database_hold_what_was_erased_from_a_shared_lake(make_sim, shared):
    sim = load_into(make_sim(**FLEET), shared, ERASED_FROM)
    texts, ids = texts_of(sim), ids_of(sim)
    assert scan([Path(shared.files)], texts=texts, ids=ids).leaks
    assert in_database(shared, texts)

    receipt = erase(sim.settings(), wanted(sim))
    sim.advance(30 * 3600)
    sim.ingest(*ERASED_FROM)

    assert receipt.things["router"] == receipt.things["user"] == 1
    assert scan([Path(shared.files)], texts=texts, ids=ids).leaks == []
    assert in_database(shared, texts) == set()
    assert check_lake(shared, is_full=True).damages == ()


def in_database(shared: SharedLake, texts: set[str]) -> set[str]:
    """Return the texts that a row or a statistic of the catalog holds, as text or as bytes."""
    held: list[Any] = []
    with shared.connect() as connection, connection.cursor() as cursor:
        cursor.execute("select tablename from pg_tables where schemaname = current_schema()")
        for (table,) in cursor.fetchall():
            cursor.execute(f'select t::text from "{table}" t')
            held += cursor.fetchall()
        cursor.execute("select most_common_vals::text, histogram_bounds::text from pg_stats")
        held += cursor.fetchall()
    content = str(held).lower()
    return {t for t in texts if t.lower() in content or t.encode().hex() in content}
