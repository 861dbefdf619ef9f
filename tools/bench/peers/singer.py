"""Singer's published REST tap piped into its JSONL target, for alerts.

The columns are declared, as the tap would infer them from the first 50 records and drop members
that only later records have. The tap cuts declared times to whole seconds, and would repeat the
newest second on each run; so the time it continues from is declared as text.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.bench.cases import SINGER_TAP, SINGER_TARGET
from tools.bench.peers import KEYS

NESTED = ("info",)
COLUMNS = (
    *("account", "created_at", "created_at_timeuuid", "detected_at", "friendly_info"),
    *("info", "router", "type"),
)


def tap_of(url: str, resource: str) -> dict[str, Any]:
    """Return the list as a stream that requests only records newer than its newest one."""
    text = {"type": ["string", "null"]}
    stream = {
        "name": resource,
        "path": f"/api/v2/{resource}/",
        "records_path": "$.data[*]",
        "params": {"limit": 500},
        "headers": dict.fromkeys(KEYS, "bench"),
        "primary_keys": ["created_at_timeuuid"],
        "replication_key": "created_at",
        "source_search_field": "created_at__gt",
        "source_search_query": "$last_run_date",
        "except_keys": NESTED,
        "schema": {"properties": dict.fromkeys(COLUMNS, text)},
    }
    return {
        "api_url": url,
        "pagination_request_style": "jsonpath_paginator",
        "pagination_response_style": "hateoas_body",
        "next_page_token_path": "$.meta.next",
        "streams": [stream],
    }


def pipe(folder: Path) -> bytes:
    """Run the tap into the target; return the target's last state.

    Raises: SystemExit if one of them fails.
    """
    words = [SINGER_TAP, "--config", folder / "tap.json"]
    if (state := folder / "state.json").exists():
        words += ["--state", state]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as tap:
        target = subprocess.run(
            [SINGER_TARGET, "--config", folder / "target.json"],
            stdin=tap.stdout,
            stdout=subprocess.PIPE,
            check=True,
        )
    if tap.returncode:
        raise SystemExit(f"The tap ended with {tap.returncode}.")
    return target.stdout.splitlines()[-1]


def take(url: str, resource: str, folder: Path) -> int:
    """Append what is new to a file; return the number of its lines."""
    files = folder / "files"
    (folder / "tap.json").write_text(json.dumps(tap_of(url, resource)))
    settings = {"destination_path": str(files), "do_timestamp_file": False}
    (folder / "target.json").write_text(json.dumps(settings))
    (folder / "state.json").write_bytes(pipe(folder))
    with (files / f"{resource}.jsonl").open("rb") as lines:
        return sum(1 for _ in lines)


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"rows": take(*sys.argv[1:3], Path(sys.argv[3]))}))
