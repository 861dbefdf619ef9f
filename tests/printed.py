"""What the commands print about one small lake: a session of command lines, and their output.

`printed.json` has the output that was read and found right; a test holds the commands to it.
`python -m tests.printed` writes it anew after a change that is meant. What differs from run to run
(folders, the time, durations, free space) is replaced by a mark.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from fleetlake.cli import app
from fleetlake.lake import Lake, open_lake
from fleetlake.lake.audit_trail import EventKind, record_event
from fleetlake.settings import load_settings
from tests.conftest import new_sim
from tests.processes import environment

PRINTED = Path(__file__).with_name("printed.json")
LOADED = ("accounts", "users", "groups", "routers", "net_devices", "alerts", "batteries")
FORMATS = ("table", "json", "csv")
QUERY = "select id, name, account_id from raw.groups order by id limit 3"
SESSION = (
    *((*words, "--format", form)
      for words in (
          ("gaps", "list"), ("events", "list"), ("quarantine", "list"),
          ("quarantine", "show", "users"), ("columns", "list"), ("query", QUERY),
          ("ingest", "--plan", "users", "activity_logs"), ("doctor",),
      )
      for form in FORMATS),
    ("status",), ("status", "--format", "csv"), ("metrics",), ("check",),
    ("check", "--full"), ("repair", "--dry-run"), ("repair",),
    ("erase", "--router", "1000006", "--dry-run"), ("erase", "--router", "7", "--dry-run"),
    ("erase", "--dry-run"), ("columns", "promote", "routers", "colour"), ("columns",),
    ("columns", "promote", "routers", "colour"), ("columns", "promote", "routers", "name"),
    ("columns", "promote", "nonsense", "x"), ("columns", "demote", "routers", "colour"),
    ("columns", "demote", "routers", "colour"), ("query", "select nonsense"),
    ("query", "delete from raw.users"), ("verify", "nonsense"), ("ingest", "nonsense"),
    ("ingest", "alerts", "--format", "csv"), ("backup", "{folder}/copy"),
    ("restore", "{folder}/copy", "--to", "{folder}/again"), ("restore", "{folder}/nowhere"),
    ("quarantine", "retry", "users"), ("quarantine", "acknowledge", "users"),
    ("quarantine", "acknowledge"), ("gaps", "acknowledge"), ("gaps",), ("status",), ("maintain",),
    ("backfill", "alerts", "--from", "x"), ("backfill", "users", "--from", "2026-06-01"),
    ("track", "7", "--day", "2026-06-14"),
    ("build", "--select", "nonsense"), ("publish",), ("export", "nonsense"),
)  # fmt: skip
_MARKS = (
    (r"\b\d[\d,.]* (s|min|h|d|days?|hours?|weeks?|months?) (ago|left)", r"<age> \2"),
    (r"\b\d[\d,.]* (bytes|[kMG]i?B)\b", r"<size> \1"),
    (r'("(?:disk_free_bytes|[a-z_]*bytes|[a-z_]*seconds|[a-z_]*_s)": )[\d.e+-]+', r"\1<figure>"),
    (r"(?m)^(fleetlake_\w*(?:seconds|bytes)\S*) .*$", r"\1 <figure>"),
    (r"\b(fleetlake|duckdb|pyarrow|httpx|dbt-core|dbt-duckdb|DuckDB) v?\d[\w.]*", r"\1 <version>"),
    (r"\b\d{8}T\d{6}[.]\d+Z", "<backup>"),
    (r"(?<![\d,.])\d{1,3}(\.\d+)? s\b", "<figure> s"),
    (r"[\w.-]+@[\w.-]+", "<actor>"),
)
_MOMENT = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.]\d+)?)?")
_STARTED = "2026-06-15 11:40"
"""The simulator's clock, less what a load leaves to the next one."""

_EMPTY = re.compile(r"│ never|^default,\w+,0,,|\"} 0$|^[┏┡└]|^… ")
"""Streams that were never loaded, the rules of tables, and the progress of what takes long."""


def lines_of(text: str, folder: Path) -> list[str]:
    """Return the lines of an output with marks in place of what differs from run to run."""
    text = _MOMENT.sub(_as_mark, text.replace(str(folder), "<folder>"))
    for pattern, mark in _MARKS:
        text = re.sub(pattern, mark, text)
    lines = [re.sub(r"[ ━─]+", " ", line).strip() for line in text.splitlines()]
    return [line for line in lines if line and not _EMPTY.search(line)]


def _as_mark(moment: re.Match[str]) -> str:
    """Return a moment of the records as it is, and a mark for one during the session."""
    return "<now>" if moment[0].replace("T", " ") >= _STARTED else moment[0]


def fill(lake: Lake) -> None:
    """Put a gap, quarantined records, an unknown member and an event into a lake."""
    lake.execute(
        "insert into meta.gaps values ('default', 'alerts', '7', '2026-01-01 02:00:00+02', "
        "'2026-01-02 00:00:00.5Z', 'expired', '2026-01-03 00:00:00Z', null)"
    )
    lake.execute(
        "insert into meta.quarantine by name select 'default' as account_profile, unnest("
        "['routers', 'routers', 'users']) as endpoint, 'no id' as reason, '' as partition, "
        "'{\"name\": \"x\"}' as raw, timestamptz '2026-01-04 00:00:00Z' as quarantined_at"
    )
    lake.execute(
        "insert into meta.schema_drift by name select 'default' as account_profile, "
        "'routers' as endpoint, 'colour' as member, '\"red\"' as example, "
        "timestamptz '2026-01-05 00:00:00Z' as first_seen_at"
    )
    record_event(lake, EventKind.CHECK, "a test", details={"file": "x.parquet"})


def printed(folder: Path) -> dict[str, Any]:
    """Return the exit code, output and error of each command of the session, run in `folder`."""
    with patch("fleetlake.cli.screen.PLAIN_WIDTH", 400):  # no line breaks by the folder's length
        return _printed(folder)


def _printed(folder: Path) -> dict[str, Any]:
    with open_lake(folder / "lake"):
        pass
    sim = new_sim(folder)
    assert [outcome.error for outcome in sim.ingest(*LOADED)] == [None] * len(LOADED)
    with open_lake(folder / "lake") as lake:
        fill(lake)
    found = {}
    for number, words in enumerate(SESSION):
        load_settings.cache_clear()
        asked = [word.replace("{folder}", str(folder)) for word in words]
        done = CliRunner().invoke(app, asked, env={**environment(folder), "COLUMNS": "400"})
        error = done.exception if not isinstance(done.exception, SystemExit) else None
        said = [f"{type(error).__name__}: {error}", getattr(error, "remedy", "")] if error else []
        found[f"{number}. {' '.join(words)}"] = {
            "exit_code": getattr(error, "exit_code", done.exit_code),
            "output": lines_of(done.stdout, folder),
            "error": lines_of("\n".join([done.stderr, *map(str, said)]), folder),
        }
    load_settings.cache_clear()
    return found


def dump(folder: Path) -> str:
    """Return the session as JSON, one line of output per line."""
    return json.dumps(printed(folder), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PRINTED.write_text(dump(Path(folder)), encoding="utf-8")
    sys.stdout.write(f"{PRINTED.name} is written.\n")
