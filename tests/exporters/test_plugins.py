"""Export targets of other packages: the example of the guide, and plug-ins that cannot be used."""

import re
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import SecretStr

from fleetlake.errors import SettingsError
from fleetlake.exporters import ENTRY_POINTS, TARGETS, all_targets
from fleetlake.exporters.export import export, target_named
from fleetlake.lake import open_lake

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "outlets.md"
BLOCKS = re.compile(
    r"## Add a target of your own.*?```python\n(.*?)```.*?```toml\n(.*?)```", re.DOTALL
)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return what installs a package of one module with one entry point."""
    all_targets.cache_clear()
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")

    def package(point: str, module: str, source: str) -> None:
        monkeypatch.delitem(sys.modules, module, raising=False)
        about = tmp_path / "site" / f"{module}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{point}\n")
        (tmp_path / "site" / f"{module}.py").write_text(source)

    yield package
    all_targets.cache_clear()


@pytest.fixture
def lake(empty_lake, tmp_path):
    with open_lake(Path(shutil.copytree(empty_lake, tmp_path / "lake"))) as lake:
        lake.execute(
            "create or replace table marts.trips (router_id bigint, trip_id bigint, note varchar)"
        )
        lake.execute("insert into marts.trips select 1, i, 'a' from range(30) r(i)")
        yield lake


def test_the_target_of_the_guide_takes_rows_changes_and_new_columns(install, lake, tmp_path):
    source, toml = BLOCKS.search(GUIDE.read_text()).groups()
    install(toml.splitlines()[1].replace('"', ""), "fleet_arrow", source)
    arrow, address = target_named("arrow"), SecretStr(str(tmp_path / "out"))

    [first] = export(lake, arrow, address, ["trips"])
    lake.execute("alter table marts.trips add column km double")
    lake.execute("update marts.trips set note = 'b', km = 1.5 where trip_id < 2")
    lake.execute("delete from marts.trips where trip_id = 7")
    [second] = export(lake, arrow, address, ["trips"])

    rows = pa.ipc.open_file(tmp_path / "out" / "trips.arrow").read_all().to_pylist()
    assert {tuple(row.values()) for row in rows} == {*lake.rows("from marts.trips")}
    assert len(rows) == 29
    assert (first.sent, second.sent) == (30, 2)


@pytest.mark.parametrize(
    ("point", "source", "said"),
    [
        ("odd = odd:TARGET", "raise OSError('no driver')", "odd cannot be imported: no driver"),
        ("odd = odd:TARGET", "TARGET = 1", "odd names odd:TARGET, which is not a Target"),
        (
            "csv = odd:TARGET",
            "from fleetlake.exporters import *; TARGET = Target(name='csv', about='', module='')",
            "csv has the name of another target",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_and_stops_no_other_export(
    install, point, source, said
):
    install(point, "odd", source)

    with pytest.raises(SettingsError, match=said):
        all_targets()
    assert target_named("csv") is TARGETS["csv"]
