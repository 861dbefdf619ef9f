"""Airbyte's published declarative source (`source-declarative-manifest`), for alerts.

Its messages go to a file as they are. That is in its favour: Airbyte's destinations are container
images, and what one would cost is not measured. Its state is stored for the next run.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.bench.cases import AIRBYTE_SOURCE
from tools.bench.peers import KEYS

TIME = "%Y-%m-%dT%H:%M:%S.%f%z"
ALL = "2020-01-01T00:00:00.000000+0000"


def retriever(url: str, resource: str) -> dict[str, Any]:
    """Return how the source walks the list: 500 records a page, then the link to the next page."""
    following = "response['meta']['next']"
    return {
        "type": "SimpleRetriever",
        "record_selector": {
            "type": "RecordSelector",
            "extractor": {"type": "DpathExtractor", "field_path": ["data"]},
        },
        "requester": {
            "type": "HttpRequester",
            "url_base": f"{url}/api/v2/",
            "path": f"{resource}/",
            "request_headers": dict.fromkeys(KEYS, "bench"),
            "request_parameters": {"limit": "500"},
        },
        "paginator": {
            "type": "DefaultPaginator",
            "page_token_option": {"type": "RequestPath"},
            "pagination_strategy": {
                "type": "CursorPagination",
                "cursor_value": f"{{{{ {following} }}}}",
                "stop_condition": f"{{{{ not {following} }}}}",
            },
        },
    }


def manifest(url: str, resource: str) -> dict[str, Any]:
    """Return the list as a source that requests only records newer than its newest one."""
    schema = {"type": "object", "additionalProperties": True}
    stream = {
        "type": "DeclarativeStream",
        "name": resource,
        "schema_loader": {"type": "InlineSchemaLoader", "schema": schema},
        "incremental_sync": {
            "type": "DatetimeBasedCursor",
            "cursor_field": "created_at",
            "cursor_datetime_formats": [TIME],
            "datetime_format": TIME,
            "start_datetime": {"type": "MinMaxDatetime", "datetime": ALL, "datetime_format": TIME},
            "start_time_option": {
                "type": "RequestOption",
                "inject_into": "request_parameter",
                "field_name": "created_at__gt",
            },
        },
        "retriever": retriever(url, resource),
    }
    return {
        "version": "7.0.0",
        "type": "DeclarativeSource",
        "check": {"type": "CheckStream", "stream_names": [resource]},
        "streams": [stream],
        "spec": {"type": "Spec", "connection_specification": {"type": "object"}},
    }


def catalog(resource: str) -> dict[str, Any]:
    """Return Airbyte's request to append what is new."""
    modes = {"supported_sync_modes": ["full_refresh", "incremental"]}
    stream = {"name": resource, "json_schema": {}} | modes
    how = {"sync_mode": "incremental", "destination_sync_mode": "append"}
    return {"streams": [{"stream": stream} | how]}


def read(folder: Path, into: Path) -> None:
    """Let the source write its messages into a file, from its last state if there is one."""
    words = [AIRBYTE_SOURCE, "read"]
    for name in ("config", "catalog", "state"):
        if (file := folder / f"{name}.json").exists():
            words += [f"--{name}", file]
    with into.open("wb") as messages:
        subprocess.run(words, stdout=messages, check=True)


def take(url: str, resource: str, folder: Path) -> int:
    """Add a file of messages; return the number of records in all files."""
    declared = {"__injected_declarative_manifest": manifest(url, resource)}
    (folder / "config.json").write_text(json.dumps(declared))
    (folder / "catalog.json").write_text(json.dumps(catalog(resource)))
    earlier = len(list(folder.glob("*.jsonl")))
    read(folder, folder / f"{earlier}.jsonl")
    rows, state = 0, b""
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.open("rb"):
            rows += line.startswith(b'{"type":"RECORD"')
            state = line if line.startswith(b'{"type":"STATE"') else state
    last = json.loads(state)["state"]
    (folder / "state.json").write_text(json.dumps([{k: last[k] for k in ("type", "stream")}]))
    return rows


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"rows": take(*sys.argv[1:3], Path(sys.argv[3]))}))
