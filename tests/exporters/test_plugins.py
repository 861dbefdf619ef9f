"""Export targets of other packages: the example of the guide, and plug-ins that cannot be used."""

import re
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import SecretStr

from fleetlake.errors import SettingsError
from fleetlake.exporters import ENTRY_POINTS, TARGETS, plugged_in
from fleetlake.exporters.export import export, target_named
from fleetlake.lake import open_lake
from fleetlake.privacy.copies import renew_exports
from fleetlake.settings import Settings

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "outlets.md"
BLOCKS = re.compile(
    r"## Add a target of your own.*?```python\n(.*?)```.*?```toml\n(.*?)```", re.DOTALL
)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return what installs a package of one module with one entry point."""
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")

    def package(point: str, module: str, source: str) -> None:
        monkeypatch.delitem(sys.modules, module, raising=False)
        about = tmp_path / "site" / f"{module}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{point}\n")
        (tmp_path / "site" / f"{module}.py").write_text(source)

    return package


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
    names = ("router_id", "trip_id", "note", "km")
    assert {tuple(row[n] for n in names) for row in rows} == {*lake.rows("from marts.trips")}
    assert len(rows) == 29
    assert (first.sent, second.sent) == (30, 2)


def test_an_erasure_reaches_a_plugin_and_reports_one_that_cannot_be_used(install, lake, tmp_path):
    source, toml = BLOCKS.search(GUIDE.read_text()).groups()
    install(toml.splitlines()[1].replace('"', ""), "fleet_arrow", source)
    install("odd = odd:TARGET", "odd", "raise OSError('no driver')")
    address = SecretStr(str(tmp_path / "out"))
    export(lake, target_named("arrow"), address, ["trips"])
    lake.execute("delete from marts.trips where trip_id = 7")
    settings = Settings(lake=tmp_path / "lake", exports={"arrow": address})

    receipts = {one.outlet: one for one in renew_exports(settings, lambda _: None)}

    rows = pa.ipc.open_file(tmp_path / "out" / "trips.arrow").read_all()
    assert set(rows["trip_id"].to_pylist()) == {*range(30)} - {7}
    assert receipts["export to arrow"].done == "1 table rewritten"
    assert receipts["export to odd"].is_failed


@pytest.mark.parametrize(
    ("point", "source", "said"),
    [
        ("odd = odd:TARGET", "raise OSError('no driver')", "odd cannot be imported: no driver"),
        ("odd = odd:TARGET", "TARGET = 1", "odd names odd:TARGET, which is not a Target"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named_and_stops_no_other_export(
    install, point, source, said
):
    install(point, "odd", source)

    with pytest.raises(SettingsError, match=said):
        plugged_in("odd")
    assert target_named("csv") is TARGETS["csv"]


def test_two_packages_with_one_target_are_named_and_ours_take_precedence(install):
    install("odd = one:TARGET", "one", "")
    install("odd = other:TARGET\ncsv = other:TARGET", "other", "")

    with pytest.raises(SettingsError, match="odd is in two packages"):
        target_named("odd")
    assert target_named("csv") is TARGETS["csv"]
