"""Coarse snapshots: no place more exact than 100 m, and no name of a device or a person."""

import json
import re
import shutil
from pathlib import Path

import duckdb
import pytest

from fleetlake.endpoints import ENDPOINTS
from fleetlake.endpoints.columns import Kind, Privacy
from fleetlake.lake import open_lake
from fleetlake.marts.catalogue import marts
from fleetlake.publishing.layout import revealed_in_marts
from fleetlake.publishing.publish import publish
from fleetlake.publishing.snapshot_folders import is_published_coarse

NAMES_NOBODY = frozenset(
    re.findall(
        r"\w+",
        """account_profile action_type activity_id actor_type adapter alert_type arrived_by_trip_id
    alert_id attention_id parent_id mart reason
    battery_id carrier carrier_code carriers cause_reason cause_type cell_id charge_status check_id
    health_category
    config_status connection_state device_type endpoint episode_id event_id event_type
    firmware_version fix_id flap_group_id from_carrier from_interface interface left_by_trip_id
    apn assignment_id asset_endpoint_id hardware_series interface_type licence licence_state
    interface_state modem_firmware modem_manufacturer modem_model net_device_mode port
    service_type sim_change local_time_zone
    location_method main_carrier manufacturer members_changed net_device_name object_type place_id
    product_name quality reasons risk series severity source time_zone to_carrier to_interface
    trip_id verdict actor_id object_id""",
    )
)
"""Text columns of marts that name no device and no person; a new one must be judged first."""

ARE_NAMED = (
    r"(^|_)(names?|email|mac|serial|serial_number|imei|imsi|iccid|hostname|ssid)(_address)?$"
)
OF_NOBODY = {"action_type_name", "actor_type_name", "object_type_name", "carrier_name"} | {
    "net_device_name",
    "full_product_name",
}


@pytest.fixture
def lake(empty_lake: Path, tmp_path: Path) -> Path:
    path = Path(shutil.copytree(empty_lake, tmp_path / "lake"))
    with open_lake(path) as opened:
        opened.execute(
            "create table marts.places as select 7 as router_id, 'Bus 12' as router_name, "
            "48.858370 as latitude_deg, 2.294481 as start_longitude_deg, 31.5 as speed_kmh; "
            "insert into raw.routers (id, name, serial_number, state, description, _extra) "
            "values (7, 'Bus 12', 'SN12', 'online', 'of Ana', '{\"driver\": \"Ana\"}')"
        )
    return path


def published_rows(published: Path, table: str) -> list[dict[str, object]]:
    with duckdb.connect() as connection:
        files = f"'{published}/{table}/*.parquet'"
        return connection.execute(f"from read_parquet({files})").to_arrow_table().to_pylist()


def test_a_coarse_snapshot_rounds_places_and_leaves_out_names(lake: Path, tmp_path: Path) -> None:
    publish(lake, tmp_path / "published", raw=["routers"], is_coarse=True)

    [place] = published_rows(tmp_path / "published", "places")
    [router] = published_rows(tmp_path / "published", "raw_routers")
    assert {name: float(str(value)) for name, value in place.items()} == {
        "router_id": 7,
        "latitude_deg": 48.858,
        "start_longitude_deg": 2.294,
        "speed_kmh": 31.5,
    }
    assert router["state"] == "online"
    assert not {"name", "serial_number", "description", "_extra"} & router.keys()
    held = [f.read_bytes() for f in (tmp_path / ".published").rglob("*") if f.is_file()]
    assert not any(b"Bus 12" in content or b"SN12" in content for content in held)


def test_a_coarse_snapshot_keeps_the_text_that_the_mart_attention_composes(
    lake: Path, tmp_path: Path
) -> None:
    with open_lake(lake) as opened:
        opened.execute(
            "create table marts.attention as select 7 as router_id, 'Offline.' as message;"
            "create table marts.logs as select 7 as router_id, 'Ana called.' as message"
        )

    publish(lake, tmp_path / "published", is_coarse=True)

    [row] = published_rows(tmp_path / "published", "attention")
    assert row == {"router_id": 7, "message": "Offline."}
    assert published_rows(tmp_path / "published", "logs") == [{"router_id": 7}]


def test_the_first_coarse_snapshot_removes_the_exact_one(lake: Path, tmp_path: Path) -> None:
    published = tmp_path / "published"
    publish(lake, published)
    assert not is_published_coarse(published)

    publish(lake, published, is_coarse=True)

    assert is_published_coarse(published)
    snapshots = [path for path in (tmp_path / ".published").iterdir() if path.is_dir()]
    assert snapshots == [published.resolve()]
    with duckdb.connect(published / "fleet.duckdb", read_only=True) as reader:
        names = [column for column, *_ in reader.execute("describe places").fetchall()]
    described = json.loads((published / "snapshot.json").read_text())["tables"]["places"]
    assert names == [column["name"] for column in described["columns"]]
    assert "router_name" not in names


def test_every_text_of_a_mart_is_left_out_or_known_to_name_nobody() -> None:
    texts = {
        column["name"]
        for mart in marts()
        for column in mart["columns"]
        if column["data_type"].upper() in {"VARCHAR", "JSON"} or "[]" in column["data_type"]
    }

    assert {name for name in texts if not revealed_in_marts(name)} <= NAMES_NOBODY
    assert {name for name in texts if revealed_in_marts(name)} & NAMES_NOBODY == set()


def test_every_coordinate_of_a_mart_is_rounded() -> None:
    coordinates = {
        column["name"]
        for mart in marts()
        for column in mart["columns"]
        if re.search("latitude|longitude", column["name"])
    }

    assert coordinates
    assert {revealed_in_marts(name) for name in coordinates} == {Privacy.PLACE}


def test_every_raw_coordinate_and_name_says_so_in_the_vocabulary() -> None:
    columns = [column for endpoint in ENDPOINTS.values() for column in endpoint.columns]

    untold = {
        column.name
        for column in columns
        if column.kind is Kind.TEXT and re.search(ARE_NAMED, column.name) and column.privacy is None
    }
    places = {column.privacy for column in columns if re.search("latitude|longitude", column.name)}
    assert untold == OF_NOBODY & untold
    assert places == {Privacy.PLACE}
    assert {
        c.name for c in columns if c.kind is Kind.JSON and c.privacy is not Privacy.TEXT
    } == set()
