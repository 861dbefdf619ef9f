"""A column whose type the service contradicts: `status` reports it, `columns retype` repairs it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleetlake.care.integrity.rebuild import rebuild_catalog
from fleetlake.cli.status import summary_lines
from fleetlake.decoding.records import PageReader
from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind
from fleetlake.errors import UsageError
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.attach import CATALOG
from fleetlake.lake.evolution.drift import misfits
from fleetlake.lake.evolution.promote import retype, with_promoted
from fleetlake.monitoring.status import lake_status
from tests.support.loads import commit
from tests.test_lake import load_of

DEVICES = ENDPOINTS["net_devices"]


def mtus(lake: Lake) -> list[Any]:
    return lake.rows("select id, mtu, _extra::varchar from raw.net_devices order by id")


def test_a_refused_value_is_a_finding_until_its_column_is_retyped(lake_path: Path) -> None:
    sent = [{"id": "1", "mtu": 1500.5}, {"id": "2", "mtu": 1400}, {"id": "3", "mtu": 1.2e3}]
    with open_lake(lake_path) as lake:
        commit(lake, load_of(DEVICES, *sent))
        before = mtus(lake)
        [found] = misfits(lake, DEVICES, "default")
        column, filled = retype(lake, DEVICES, "mtu")
        [wider] = with_promoted(lake, [DEVICES])
        again = commit(lake, load_of(wider, *sent))

        assert before == [(1, None, '{"mtu":1500.5}'), (2, 1400, None), (3, 1200, None)]
        assert (found.column, found.rows, found.example) == ("mtu", 1, "1500.5")
        assert found.command == "fleetlake records columns retype net_devices mtu"
        assert (column.kind, filled) == (Kind.REAL, 1)
        assert mtus(lake) == [(1, 1500.5, None), (2, 1400.0, None), (3, 1200.0, None)]
        assert misfits(lake, DEVICES, "default") == ()
        assert (again.added, again.changed) == (0, 0)


def test_status_names_the_column_and_the_command(lake_path: Path) -> None:
    now = datetime.now(UTC)
    with open_lake(lake_path) as lake:
        commit(lake, load_of(DEVICES, {"id": "1", "mtu": 1500.5}))
        found = lake_status(lake, now=now, calls_per_minute=0)

    [stream] = [one for one in found.streams if one.misfits]
    assert [stream.endpoint, stream.misfits[0].column] == ["net_devices", "mtu"]
    assert (
        "- 1 value of net_devices.mtu did not fit the type integer, e.g. 1500.5: "
        "run `fleetlake records columns retype net_devices mtu`."
    ) in list(summary_lines(found, now))


def test_a_retyped_column_takes_new_values_by_the_quick_reader(lake_path: Path) -> None:
    body = b'{"data":[{"id":"1","mtu":1500.5}],"meta":{"limit":500,"next":null}}'
    with open_lake(lake_path) as lake:
        commit(lake, load_of(DEVICES, {"id": "1", "mtu": 1500.5}))
        retype(lake, DEVICES, "mtu")
        [wider] = with_promoted(lake, [DEVICES])

    assert PageReader(wider).fast(body).values["mtu"] == (1500.5,)
    with pytest.raises(ValueError, match="int"):
        PageReader(DEVICES).fast(body)


def test_a_retyped_column_can_be_made_as_declared_again(lake_path: Path) -> None:
    sent = [{"id": "1", "mtu": "auto"}, {"id": "2", "mtu": 1400}, {"id": "3", "mtu": 2**53 + 1}]
    with open_lake(lake_path) as lake:
        commit(lake, load_of(DEVICES, *sent))
        column, _ = retype(lake, DEVICES, "mtu")
        as_text = mtus(lake)
        retype(lake, DEVICES, "mtu", Kind.INTEGER)

        assert column.kind is Kind.TEXT
        assert as_text == [(1, "auto", None), (2, "1400", None), (3, str(2**53 + 1), None)]
        assert mtus(lake) == [(1, None, '{"mtu":"auto"}'), (2, 1400, None), (3, 2**53 + 1, None)]
        assert with_promoted(lake, [DEVICES]) == [DEVICES]


def test_a_rebuilt_catalog_has_the_values_of_a_retyped_column(lake_path: Path) -> None:
    with open_lake(lake_path) as lake:
        commit(lake, load_of(DEVICES, {"id": "1", "mtu": 1.5}, {"id": "2", "mtu": 7}))
        lake.execute("call ducklake_flush_inlined_data('lake')")
        retype(lake, DEVICES, "mtu")
        lake.execute("call ducklake_flush_inlined_data('lake')")
    (lake_path / CATALOG).unlink()

    rebuild_catalog(lake_path)

    with open_lake(lake_path) as lake:
        [wider] = with_promoted(lake, [DEVICES])
        assert wider.column("mtu").kind is Kind.REAL
        assert [row[:2] for row in mtus(lake)] == [(1, 1.5), (2, 7.0)]
        assert not lake.rows("from duckdb_columns() where column_name = '_of_the_old_type'")


def test_a_whole_number_that_a_double_would_round_stays_in_extra(lake_path: Path) -> None:
    sent = [{"id": "1", "mtu": 1.5}, {"id": "2", "mtu": 2**53 + 1}]
    with open_lake(lake_path) as lake:
        commit(lake, load_of(DEVICES, *sent))
        retype(lake, DEVICES, "mtu", Kind.REAL)

        assert mtus(lake) == [(1, 1.5, None), (2, None, f'{{"mtu":{2**53 + 1}}}')]


@pytest.mark.parametrize(
    ("member", "kind"), [("id", None), ("name", None), ("mtu", Kind.TIME), ("no_such", None)]
)
def test_only_whole_numbers_can_be_retyped(lake_path: Path, member: str, kind: Kind | None) -> None:
    with open_lake(lake_path) as lake, pytest.raises(UsageError, match=r"type"):
        retype(lake, DEVICES, member, kind)
