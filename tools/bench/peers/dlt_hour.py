"""An hour as users of dlt would load it: its REST source into a DuckDB file, for dbt to build from.

    python -m tools.bench.peers.dlt_hour URL FOLDER

It takes twelve of the service's lists: inventory whole, events and samples from the newest one on.
dlt resolves the ids of devices one by one, and keeps one cursor for all of them. The service sends
raw control characters inside texts, which dlt's decoder refuses, so they become spaces. The file
has the format that dbt's older DuckDB reads.
"""

import re
import sys
from pathlib import Path
from typing import Any

import dlt
import duckdb
from dlt.sources.rest_api import rest_api_source

from tools.bench.peers import KEYS
from tools.bench.peers.dlt_pipeline import pipeline

FORMAT = "v1.4.0"
SINCE = "2026-06-13T00:00:00+00:00"
SERVICE_KEYS = ("portal-id", "portal-key", "admin-id", "admin-key")
WHOLE = ("accounts", "groups", "products", "routers", "net_devices", "locations")
PER_DEVICE = {
    "router_logs": ("router", "routers"),
    "historical_locations": ("router", "routers"),
    "net_device_usage_samples": ("net_device__in", "net_devices"),
    "net_device_signal_samples": ("net_device__in", "net_devices"),
}


def endpoint(name: str, time: str = "", operator: str = "gt", **asked: str) -> dict[str, Any]:
    """Return a list as an endpoint; with a time, of which only newer records are requested."""
    found: dict[str, Any] = {"path": f"{name}/", "params": {"limit": 500, **asked}}
    if time:
        found["incremental"] = {
            "cursor_path": time,
            "start_param": f"{time}__{operator}",
            "initial_value": SINCE,
        }
    return found


def resources() -> list[dict[str, Any]]:
    """Return the lists as dlt's REST source takes them."""
    found: list[dict[str, Any]] = [
        {"name": name, "write_disposition": "replace", "endpoint": endpoint(name)} for name in WHOLE
    ]
    found.append({"name": "alerts", "endpoint": endpoint("alerts", "created_at")})
    failovers = endpoint("failovers", "started_at", "gte")
    changing = {"primary_key": "uuid", "write_disposition": "merge"}
    found.append({"name": "failovers", "endpoint": failovers, **changing})
    for name, (parameter, source) in PER_DEVICE.items():
        asked = {parameter: f"{{resources.{source}.id}}"}
        found.append({"name": name, "endpoint": endpoint(name, "created_at", **asked)})
    return found


def without_control_characters(response: Any, *_: Any, **__: Any) -> Any:
    """Return a response whose JSON dlt can decode."""
    response._content = re.sub(rb"[\x00-\x1f]", b" ", response.content)  # noqa: SLF001 - no setter
    return response


def take(url: str, folder: Path) -> None:
    """Load what is new."""
    client = {
        "base_url": f"{url}/api/v2/",
        "headers": dict(zip(KEYS, SERVICE_KEYS, strict=True)),
        "paginator": {"type": "json_link", "next_url_path": "meta.next"},
    }
    defaults = {
        "write_disposition": "append",
        "endpoint": {"data_selector": "data", "response_actions": [without_control_characters]},
    }
    source = rest_api_source(
        {"client": client, "resource_defaults": defaults, "resources": resources()},
        max_table_nesting=0,
    )
    options = {"storage_compatibility_version": FORMAT}
    with duckdb.connect(folder / "bench.duckdb", config=options) as file:
        pipeline(folder, dlt.destinations.duckdb(file)).run(source, loader_file_format="parquet")


if __name__ == "__main__":
    take(sys.argv[1], Path(sys.argv[2]))
